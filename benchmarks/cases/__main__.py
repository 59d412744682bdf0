"""``python -m benchmarks.cases CASE`` measures a case of those that are not in the wheel."""

from __future__ import annotations

import sys

from benchmarks.cases.run import command

if __name__ == "__main__":
    sys.exit(command(sys.argv[1:]))
