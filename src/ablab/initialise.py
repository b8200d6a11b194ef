"""The first weights of a model: every matrix from a stream of its own, named after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from .components.embedding import TiedHead
from .components.init import Kind, stream_seed

if TYPE_CHECKING:
    from .model import DecoderLM


def matrices(model: DecoderLM) -> dict[str, tuple[nn.Parameter, Kind]]:
    """Every matrix of the model and what it does: all parameters of two axes or more outside the norms.

    The writer to the residual stream of a part is the one its class names in `residual_projection`, and
    without that its last Linear with d_model rows.
    """
    kinds: dict[str, Kind] = {"token_embeddings.weight": "embedding", "lm_head.weight": "head"}
    if isinstance(model.lm_head, TiedHead):
        kinds["token_embeddings.weight"] = "tied"
    for i, layer in enumerate(model.layers):
        for part in ("attn", "ffn"):
            writer = _residual_projection(getattr(layer, part), model.token_embeddings.embedding_dim)
            kinds[f"layers.{i}.{part}.{writer}.weight"] = "residual"
    norms = tuple(
        f"{name}." for name, _ in model.named_modules() if name.rsplit(".", 1)[-1] in ("ln1", "ln2", "ln_final")
    )
    return {
        name: (parameter, kinds.get(name, "inner"))
        for name, parameter in model.named_parameters()
        if parameter.dim() > 1 and not name.startswith(norms)
    }


def _residual_projection(part: nn.Module, d_model: int) -> str | None:
    named = getattr(part, "residual_projection", None)
    if named is not None:
        return named
    writers = [n for n, m in part.named_modules() if isinstance(m, nn.Linear) and m.out_features == d_model]
    return writers[-1] if writers else None


@torch.no_grad()
def initialise(model: DecoderLM, init: Any, seed: int, salt: int) -> None:
    """Fill every matrix by `init` from (seed, salt, its name), and set biases to 0; in place."""
    for name, (parameter, kind) in matrices(model).items():
        if parameter.is_meta:
            continue
        # Drawn in float32 on the CPU: the same numbers on every device and in every dtype.
        draw = torch.empty(parameter.shape, dtype=torch.float32, device="cpu")
        init.fill(draw, kind, torch.Generator().manual_seed(stream_seed(seed, salt, name)))
        parameter.copy_(draw)
    for module in model.modules():
        if isinstance(module, nn.Linear) and module.bias is not None and not module.bias.is_meta:
            module.bias.zero_()
