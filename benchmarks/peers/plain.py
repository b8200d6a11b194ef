"""The loop that a user of a model library writes: AdamW, clipping, autocast, nothing else."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .sizes import ADAMW, CLIP, Setting

#: batches that a loop goes through again and again: no contestant but Ablab pays for data
BATCHES = 8


class PlainLoop:
    """Trains any model whose logits (B, T, V) `logits(model, ids)` gives."""

    def __init__(self, model: nn.Module, setting: Setting, logits: Callable[[Any, Tensor], Tensor]) -> None:
        device = torch.device(setting.device)
        self.device, self.setting, self.logits = device, setting, logits
        self.model = model.to(device).train()
        self.parameters = sum(p.numel() for p in model.parameters())
        matrices = [p for p in model.parameters() if p.dim() > 1]
        vectors = [p for p in model.parameters() if p.dim() < 2]
        groups = [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, fused=True, **ADAMW)  # type: ignore[arg-type]
        self.call: Any = torch.compile(self.model) if setting.compile else self.model
        size = setting.size
        draw = torch.Generator().manual_seed(1)
        text = torch.randint(size.vocab, (BATCHES, size.batch, size.length + 1), generator=draw).to(device)
        self.batches = [(t[:, :-1].contiguous(), t[:, 1:].contiguous()) for t in text]
        self.number = 0

    def autocast(self) -> AbstractContextManager[Any]:
        if self.setting.precision == "bf16":
            return torch.autocast(self.device.type, dtype=torch.bfloat16)
        return nullcontext()

    def step(self) -> None:
        x, y = self.batches[self.number % BATCHES]
        self.number += 1
        with self.autocast():
            loss = F.cross_entropy(self.logits(self.call, x).flatten(0, 1), y.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self._last = loss.detach()

    def evaluate(self, sequences: int) -> None:
        x, y = self.batches[0]
        self.model.eval()
        with torch.inference_mode(), self.autocast():
            for _ in range(max(1, sequences // len(x))):
                F.cross_entropy(self.logits(self.call, x).flatten(0, 1), y.flatten())
        self.model.train()

    def loss(self) -> float:
        return float(self._last)
