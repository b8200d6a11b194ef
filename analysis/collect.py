"""Gather the curves of runs into one tidy table: `python analysis/collect.py PATH [PATH ...] --out curves.csv`."""

import sys

from ablab.analysis.collect import main

if __name__ == "__main__":
    sys.exit(main())
