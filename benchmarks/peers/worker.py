"""One contestant in a process of its own. Reads a line, works, answers with a line of JSON.

Words: `steps N` -> {"seconds": [of each step], "busy": processor seconds per step, "loss": ..}; `evaluate N` -> {"seconds": .., "sequences": N};
`memory` -> {"peak": bytes, "before": bytes in use before the model was built}; `matmul N` -> {"flops": per second}.
Called as `python -m peers.worker NAME SIZE PRECISION MODE THREADS DEVICE`.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

MODULES = {
    "ablab": "ablab_run",
    "bare": "bare",
    "transformers": "hf_llama",
    "litgpt": "lit_gpt",
    "x-transformers": "x_transformer",
}


def main(words: list[str]) -> None:
    name, size, precision, mode, threads, device = words
    started = time.perf_counter()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a library prints is no answer
    import torch
    from peers.sizes import SIZES, Setting

    torch.set_num_threads(int(threads))
    setting = Setting(SIZES[size], precision, mode == "compiled", int(threads), device)
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    trainer: Any = None
    before = 0
    if name != "matmul":
        try:
            module = importlib.import_module(f"peers.{MODULES[name]}")
        except ImportError as error:
            print(json.dumps({"absent": f"{type(error).__name__}: {error}"}), file=answers)
            return
        before = memory(torch, device)
        trainer = module.make(setting)
        trainer.step()
        wait()
    facts = {"parameters": trainer.parameters if trainer else 0, "first_step": time.perf_counter() - started}
    print(json.dumps(facts), file=answers)
    for line in sys.stdin:
        verb, count = line.split()
        answer: dict[str, Any] = {}
        if verb == "steps":
            busy = time.process_time()
            answer = {"seconds": timed(trainer.step, int(count), wait)}
            answer |= {"busy": (time.process_time() - busy) / int(count), "loss": trainer.loss()}
        elif verb == "evaluate":
            answer = {"seconds": timed(lambda n=int(count): trainer.evaluate(n), 1, wait)[0], "sequences": int(count)}
        elif verb == "memory":
            answer = {"peak": memory(torch, device, peak=True), "before": before}
        elif verb == "matmul":
            answer = {"flops": matmul(torch, precision, device, int(count), wait)}
        print(json.dumps(answer), file=answers)


def timed(work: Any, times: int, wait: Any) -> list[float]:
    """Seconds of each call; on a GPU the mean of all, since waiting for each would be no way to train."""
    if wait.__name__ == "synchronize":
        wait()
        start = time.perf_counter()
        for _ in range(times):
            work()
        wait()
        return [(time.perf_counter() - start) / times] * times
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return seconds


def memory(torch: Any, device: str, peak: bool = False) -> int:
    """Bytes of the device on CUDA, of the process elsewhere."""
    if device == "cuda":
        return int(torch.cuda.max_memory_allocated() if peak else torch.cuda.memory_allocated())
    if peak or not Path("/proc/self/statm").exists():
        import resource

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def matmul(torch: Any, precision: str, device: str, width: int, wait: Any) -> float:
    """Best rate of three square products, in FLOP/s."""
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    a, b = (torch.randn(width, width, device=device).to(dtype) for _ in range(2))
    a @ b
    return max(2 * width**3 / timed(lambda: a @ b, 1, wait)[0] for _ in range(3))


if __name__ == "__main__":
    main(sys.argv[1:])
