"""Does it pay to train all seeds, or all learning rates, of one small variant as one batched model?

    python benchmarks/seeds_together.py --size demo --replicas 4
    python benchmarks/seeds_together.py --size demo --replicas 8 --device cuda

The parameters of the replicas are stacked, and one pass of `torch.func.vmap` computes the loss and gradient of each on
its own batch; each is clipped by its own norm and steps at its own rate. The comparison is with Ablab's own runs, one
after another in this process. Both start from the same weights and see the same batches; printed are the largest
difference of their losses and weights after the steps, and seconds per step for all replicas, taking turns.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, stack_module_state, vmap

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

from peers.ablab_run import AblabRun  # noqa: E402
from peers.sizes import ADAMW, CLIP, SIZES, Setting  # noqa: E402

from ablab.training import loop  # noqa: E402
from ablab.training.schedule import Schedule  # noqa: E402


class Loss(nn.Module):
    """A model whose forward pass is its mean loss, as `functional_call` needs it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.model.loss(x, y)[0] / y.numel()  # type: ignore[operator]


class Together:
    """S models of one variant in training, as one. Every parameter has a leading axis of S.

    Args:
        models: equal but for their weights.
        rates: peak learning rate of each.
        schedule: turns a step (0-based) into the share of the peak, as in `ablab.training`.
    """

    def __init__(self, models: Sequence[nn.Module], rates: Sequence[float], schedule: Schedule) -> None:
        self.losses = [Loss(model) for model in models]
        parameters, buffers = stack_module_state(self.losses)  # type: ignore[arg-type]
        if buffers:
            raise ValueError("a variant with buffers cannot be trained together")
        self.parameters = {name: p.detach() for name, p in parameters.items()}
        self.rates = torch.tensor(rates, dtype=torch.float32, device=next(iter(self.parameters.values())).device)
        self.schedule, self.steps = schedule, 0
        self.first = {name: torch.zeros_like(p) for name, p in self.parameters.items()}
        self.second = {name: torch.zeros_like(p) for name, p in self.parameters.items()}
        self._pass = vmap(grad_and_value(lambda p, x, y: functional_call(self.losses[0], p, (x, y))))

    @torch.no_grad()
    def step(self, x: Tensor, y: Tensor) -> Tensor:
        """One step of every replica on its own batch, (S, B, T) each; returns their losses, (S,)."""
        gradients, losses = self._pass(self.parameters, x, y)
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in gradients.values()]).norm(dim=0)
        shrink = (CLIP / (norms + 1e-6)).clamp(max=1.0)
        self.steps += 1
        (b1, b2), eps = ADAMW["betas"], ADAMW["eps"]  # type: ignore[misc]
        rates = self.rates * self.schedule.scale(self.steps - 1)
        for name, p in self.parameters.items():
            along = (-1, *([1] * (p.dim() - 1)))
            g, rate = gradients[name] * shrink.view(along), rates.view(along)
            if p.dim() > 2:  # with the axis of the replicas: matrices decay, gains and biases do not
                p.mul_(1 - rate * ADAMW["weight_decay"])
            m, v = self.first[name].lerp_(g, 1 - b1), self.second[name].mul_(b2).addcmul_(g, g, value=1 - b2)
            p.sub_(rate / (1 - b1**self.steps) * m / ((v / (1 - b2**self.steps)).sqrt_().add_(eps)))
        return losses


class Apart:
    """The same replicas as runs of Ablab's own, one after another."""

    def __init__(self, setting: Setting, replicas: int, rates: Sequence[float]) -> None:
        self.runs = [
            AblabRun(setting, (f"seed={seed}", f"optimizer.lr={rate}", "schedule.warmup_steps=0"))
            for seed, rate in zip(range(replicas), rates, strict=True)
        ]

    def batch(self) -> tuple[Tensor, Tensor]:
        """What the runs will train on next, (S, B, T) each."""
        taken = []
        for one in self.runs:
            state = one.run.state
            step = one.run.feed.take(state.step, state.batch_hash)
            one.run.feed.prepare(state.step, state.batch_hash)
            taken.append((step.x[0], step.y[0]))
        return torch.stack([x for x, _ in taken]), torch.stack([y for _, y in taken])

    def step(self) -> list[float]:
        """One step of every run; returns their losses."""
        for one in self.runs:
            loop.take_step(one.run)
        return [one.loss() for one in self.runs]

    def close(self) -> None:
        """Let go of the runs."""
        for one in self.runs:
            one.close()


def compare(setting: Setting, replicas: int, steps: int, grid: bool) -> dict[str, float]:
    """Both ways, taking turns on the same batches: seconds per step, and how far apart they end."""
    rates = [ADAMW["lr"] * (2.0 ** (i - replicas // 2) if grid else 1.0) for i in range(replicas)]  # type: ignore[operator]
    apart = Apart(setting, replicas, rates)
    try:
        first = apart.runs[0].run
        together = Together([one.run.model for one in apart.runs], rates, first.schedule)
        seconds: dict[str, list[float]] = {"together": [], "apart": []}
        wait = torch.cuda.synchronize if setting.device == "cuda" else lambda: None
        most = 0.0
        for number in range(steps + 1):
            x, y = apart.batch()
            start = time.perf_counter()
            losses = together.step(x, y)
            wait()
            middle = time.perf_counter()
            own = apart.step()
            wait()
            if number:  # the first one warms up
                seconds["together"].append(middle - start)
                seconds["apart"].append(time.perf_counter() - middle)
            most = max(most, *(abs(a - b) for a, b in zip(losses.tolist(), own, strict=True)))
        weights = max(
            float((together.parameters[f"model.{name}"][i] - p.detach()).abs().max())
            for i, one in enumerate(apart.runs)
            for name, p in one.run.model.named_parameters()
        )
        return {
            "together": statistics.median(seconds["together"]),
            "apart": statistics.median(seconds["apart"]),
            "loss": most,
            "weights": weights,
        }
    finally:
        apart.close()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="demo", choices=SIZES)
    parser.add_argument("--replicas", default="2,4")
    parser.add_argument("--threads", default="1,2", help="CPU threads")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--grid", action="store_true", help="replicas differ in their learning rate, too")
    asked = parser.parse_args(arguments)
    print("| size | replicas | threads | together s | apart s | apart ÷ together | loss differs by | weights by |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for threads in map(int, asked.threads.split(",")):
        for replicas in map(int, asked.replicas.split(",")):
            setting = Setting(SIZES[asked.size], threads=threads, device=asked.device)
            found = compare(setting, replicas, asked.steps, asked.grid)
            print(
                f"| {asked.size} | {replicas} | {threads} | {found['together']:.3f} | {found['apart']:.3f} | "
                f"{found['apart'] / found['together']:.3f} | {found['loss']:.1e} | {found['weights']:.1e} |",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
