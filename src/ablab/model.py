"""The decoder: puts the chosen parts together.

ids (B, T) -> embedding (B, T, D) -> L blocks -> final norm, where there is one -> head -> logits (B, T, V).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from omegaconf import DictConfig
from torch import Tensor, nn

from . import matching, registry
from .components.context import Cache, Context, attention_mask
from .components.init import seeded
from .components.loss import IGNORE, summed_loss
from .components.position import Position
from .errors import UsageError
from .initialise import initialise
from .matching import as_config, options_of


class DecoderLM(nn.Module):
    """A decoder-only language model, token ids (B, T) to logits (B, T, V).

    Raises:
        UsageError: an id outside the vocabulary (on the CPU), or more tokens than `context_length`.
    """

    def __init__(
        self,
        embedding: Any,
        position: Position,
        layers: Sequence[nn.Module],
        final_norm: Any,
        context_length: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.context_length, self.dropout = context_length, dropout
        self.token_embeddings = embedding.table
        self.position = position
        self.layers = nn.ModuleList(layers)
        self.ln_final = final_norm
        self.lm_head = embedding.head

    @property
    def vocab_size(self) -> int:
        return self.lm_head.weight.shape[0]

    def hidden(self, ids: Tensor, mask: Tensor | None = None, cache: Sequence[Cache] | None = None) -> Tensor:
        """What the head sees, (B, T, D). For the arguments see `forward`."""
        past = cache[0].length if cache else 0
        length = ids.shape[1]
        if past + length > self.context_length:
            raise UsageError(f"{past + length} tokens are more than model.context_length={self.context_length}")
        if mask is None:
            positions = torch.arange(past, past + length, device=ids.device)
        else:
            positions = (mask.long().cumsum(-1) - 1).clamp(min=0)[:, past:]
        dropout = self.dropout if self.training else 0.0
        see = attention_mask(length, past, mask, ids.device)
        context = Context(self.position, self.position.tables(positions), see, dropout)
        x = self.position.embed(self.token_embeddings(ids), positions)
        x = nn.functional.dropout(x, dropout)
        for i, layer in enumerate(self.layers):
            x = layer(x, context, None if cache is None else cache[i])
        return x if self.ln_final is None else self.ln_final(x)

    def forward(self, ids: Tensor, mask: Tensor | None = None, cache: Sequence[Cache] | None = None) -> Tensor:
        """Logits (B, T, V) of the token after each of `ids` (B, T).

        Args:
            mask: (B, S) boolean, True = a real token, over cached tokens and `ids`; padding is on the left.
            cache: one per layer, see `new_cache`; `ids` then continue what it holds, and it grows.
        """
        return self.lm_head(self.hidden(ids, mask, cache))

    def loss(self, ids: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Sum of the cross-entropies in nats (float32 or wider) and the number of targets, both without axes.

        `ids` and `targets` are (B, T); targets of -100 do not count.
        """
        flat = targets.flatten()
        return summed_loss(self.hidden(ids).flatten(0, 1), self.lm_head, flat), (flat != IGNORE).sum()

    def new_cache(self) -> list[Cache]:
        """An empty key-value cache, one part per layer."""
        return [Cache(self.context_length) for _ in self.layers]


def build_model(cfg: DictConfig | Mapping[str, Any], vocab_size: int) -> DecoderLM:
    """The model that a config describes, initialised from `seeds.init` and `seeds.salt`.

    The weights depend on nothing but the config and `vocab_size`; PyTorch's random state is left alone.

    Raises:
        UsageError: an unknown option, or sizes that do not fit together.
    """
    cfg = as_config(cfg)
    sizes = cfg.model
    for key in ("d_model", "n_layers", "n_heads", "context_length"):
        if sizes[key] < 1:
            raise UsageError(f"model.{key} must be at least 1, not {sizes[key]}")
    if not 0 <= sizes.dropout < 1:
        raise UsageError(f"model.dropout must lie in [0, 1), not {sizes.dropout}")
    if vocab_size < 1:
        raise UsageError(f"the vocabulary must have at least one token, not {vocab_size}")
    width, heads = sizes.d_model, sizes.n_heads
    seed, salt = cfg.seeds.init, cfg.seeds.salt

    def make(slot: str, *arguments: Any, name: str = "", **options: Any) -> Any:
        # Parts that draw in their constructor draw from a stream of their own, too.
        with seeded(seed, salt, name or slot):
            return registry.get(slot, cfg.choices[slot])(*arguments, **(options_of(cfg, slot) | options))

    ffn_options = matching.ffn_options(cfg, vocab_size)
    layers = []
    for i in range(sizes.n_layers):
        attn = make("attention", width, heads, name=f"layers.{i}.attn")
        ffn = make("ffn", width, name=f"layers.{i}.ffn", **ffn_options)
        layers.append(make("block", width, attn, ffn, lambda: make("norm", width), name=f"layers.{i}"))
    position = make("position", width, heads, sizes.context_length)
    final = layers[0].final_norm if sizes.final_norm is None else sizes.final_norm
    model = DecoderLM(
        make("embedding", vocab_size, width),
        position,
        layers,
        make("norm", width) if final else None,
        sizes.context_length,
        sizes.dropout,
    )
    initialise(model, make("init", sizes.n_layers, width), seed, salt)
    return model
