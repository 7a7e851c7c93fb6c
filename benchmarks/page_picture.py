"""The picture of a report that the README shows, from the bundled dataset.

    python benchmarks/page_picture.py docs/report.png

Needs Chromium.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from ragbench_cli.main import main as ragbench

sys.path.insert(0, str(Path(__file__).parents[1]))  # tests/pages.py

from tests.pages import CHROMIUM, FLAGS

PELLORIN = Path(__file__).parents[1] / "datasets" / "pellorin"


def main() -> None:
    """Evaluates the baseline, and takes the picture."""
    if CHROMIUM is None:
        sys.exit("no Chromium: apt-get install chromium")
    target = Path(sys.argv[1]).resolve()
    with TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        code = ragbench(["eval", str(PELLORIN), "--rag", "baseline", "--out", str(run), "-q"])
        if code:
            sys.exit(code)
        look = ("--hide-scrollbars", "--window-size=1000,640", f"--user-data-dir={folder}/profile")
        page = (run / "report.html").as_uri()
        subprocess.run(
            [CHROMIUM, *FLAGS, *look, f"--screenshot={target}", page], check=True, timeout=120
        )


if __name__ == "__main__":
    main()
