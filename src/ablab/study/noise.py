"""The noise that is known at a scale: measured A/A studies, shipped as data, so that a plan can say what it can find."""

from __future__ import annotations

from typing import Any

from omegaconf import DictConfig, OmegaConf

from ..paths import shipped

#: what must agree with the measured study for its figure to be used
KEYS = ("scale", "data", "tokenizer", "steps", "batch_size", "d_model", "n_layers", "context_length")


def known(cfg: DictConfig) -> dict[str, Any] | None:
    """Standard deviation of the difference of two runs that differ in their initial weights alone, in nats per token.

    Returns `{"sd", "n", "machine", "date", ...}` of the A/A study at this config's scale, or None.
    """
    here = {
        "scale": cfg.choices.scale,
        "data": cfg.choices.data,
        "tokenizer": cfg.data.tokenizer,
        "steps": cfg.train.steps,
        "batch_size": cfg.train.batch_size * cfg.train.grad_accum,
        "d_model": cfg.model.d_model,
        "n_layers": cfg.model.n_layers,
        "context_length": cfg.model.context_length,
    }
    entries: Any = OmegaConf.to_container(OmegaConf.load(shipped("conf") / "noise.yaml"))
    return next((dict(entry) for entry in entries if all(entry[key] == here[key] for key in KEYS)), None)
