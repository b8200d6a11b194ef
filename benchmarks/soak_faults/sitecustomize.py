"""Kills cells of a sweep at random moments. Put this folder first on PYTHONPATH and set SOAK_FOLDER.

Loaded by every interpreter; acts only in the process server from which cells are forked. Each cell then meets, with
the chance SOAK_CHANCE at every optimiser step, evaluation batch and checkpoint write, SIGKILL or SIGTERM. A checkpoint
write is cut in the middle of its bytes. Every kill is noted as a file in SOAK_FOLDER.
"""

import os
import random
import signal
import sys

if os.environ.get("SOAK_FOLDER") and any("multiprocessing.forkserver" in word for word in sys.orig_argv):
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook

    FOLDER = os.environ["SOAK_FOLDER"]
    CHANCE = float(os.environ["SOAK_CHANCE"])
    LIMIT = int(os.environ["SOAK_LIMIT"])
    dice = {}

    def strike(where: str) -> bool:
        """Whether to die here; every process throws its own dice."""
        own = dice.setdefault(os.getpid(), random.Random(os.urandom(8)))
        weight = {"step": 1.0, "evaluation": 3.0, "checkpoint": 6.0}[where]  # there are more steps than checkpoints
        return own.random() < CHANCE * weight and len(os.listdir(FOLDER)) < LIMIT

    def die(where: str) -> None:
        name = dice[os.getpid()].choice(("SIGKILL", "SIGTERM"))
        open(os.path.join(FOLDER, f"{where}-{name}-{os.getpid()}-{len(os.listdir(FOLDER))}"), "w").close()
        os.kill(os.getpid(), getattr(signal, name))

    def after_step(optimizer, args, kwargs) -> None:
        if strike("step"):
            die("step")

    register_optimizer_step_post_hook(after_step)
    plain_save = torch.save

    def cut_save(content, file, *args, **kwargs):
        if strike("checkpoint"):
            import io

            whole = io.BytesIO()
            plain_save(content, whole, *args, **kwargs)
            half = whole.getvalue()[: len(whole.getvalue()) // 2]
            if hasattr(file, "write"):
                file.write(half)
                file.flush()
            else:
                with open(file, "wb") as out:
                    out.write(half)
            die("checkpoint")
        return plain_save(content, file, *args, **kwargs)

    torch.save = cut_save
    plain_mode = torch.inference_mode

    class Watched(plain_mode):
        """Evaluation runs under inference mode: die on entering it."""

        def __enter__(self):
            if strike("evaluation"):
                die("evaluation")
            return super().__enter__()

    torch.inference_mode = Watched
