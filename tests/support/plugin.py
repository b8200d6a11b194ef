"""A user's own components, as a file for ABLAB_PLUGINS."""

from __future__ import annotations

import os
import sys

import torch
from torch import Tensor, nn

import ablab


@ablab.register("norm", "scaled")
class Scaled(nn.Module):
    """Divide by the largest magnitude."""

    def __init__(self, d_model: int, *, floor: float = 1e-3, gain: bool = True) -> None:
        super().__init__()
        self.floor = floor
        if gain:
            self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            from hydra.core.hydra_config import HydraConfig

            print(f"job {HydraConfig.get().job.num}.")
        y = x / x.abs().amax(-1, keepdim=True).clamp(min=self.floor)
        return y * self.weight if hasattr(self, "weight") else y


class Fragile(Scaled):
    """Works until it is trained."""

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.fall()
        return 2 * super().forward(x)

    def fall(self) -> None:
        """What goes wrong."""


@ablab.register("norm", "raises")
class Raises(Fragile):
    def fall(self) -> None:
        raise ArithmeticError("this norm gave up")


@ablab.register("norm", "quits")
class Quits(Fragile):
    def fall(self) -> None:
        sys.exit(0)


@ablab.register("norm", "vanishes")
class Vanishes(Fragile):
    def fall(self) -> None:
        os._exit(0)


@ablab.register("norm", "broken")
class Broken(Scaled):
    def forward(self, x: Tensor) -> Tensor:
        raise ArithmeticError("this norm never works")


@ablab.register("norm", "unbuildable")
class Unbuildable(nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()
        raise ValueError("this norm cannot be made")


@ablab.register("norm", "deadly")
class Deadly(Scaled):
    def forward(self, x: Tensor) -> Tensor:
        os._exit(0)


@ablab.register("norm", "fatal")
class Fatal(nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()
        os._exit(0)
