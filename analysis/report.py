"""Judge a study and write its report: `python analysis/report.py PATH [PATH ...] --out report/`."""

import sys

from ablab.analysis.report import main

if __name__ == "__main__":
    sys.exit(main())
