"""The short form of the soak: cells killed at random, the same command until done, every curve bit-equal."""

from __future__ import annotations

import re
import subprocess
import sys

from support.commands import ROOT


def test_random_kills_leave_every_curve_as_it_was():
    words = ["benchmarks/soak.py", "--kills", "6", "--steps", "30", "--seeds", "1", "--chance", "0.03"]
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "DIFFERENT" not in done.stdout
    assert "every curve, hash and weight bit-equal" in done.stdout
    assert int(re.findall(r"^(\d+) kills, ", done.stdout, flags=re.M)[0]) >= 6  # two cells may die at once
