"""``python -m ragbench_cli``."""

from __future__ import annotations

from ragbench_cli.main import run

if __name__ == "__main__":
    run()
