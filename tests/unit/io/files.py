"""Files that the tests of readers write and read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path


def lines(path: Path, rows: Iterable[object]) -> Path:
    """JSON Lines."""
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return path
