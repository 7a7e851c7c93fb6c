from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

GUIDE = Path(__file__).parents[3] / "docs" / "statistics.md"


def test_the_example_of_the_guide_prints_what_the_guide_says() -> None:
    block = re.search(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    *program, promised = block[1].strip().splitlines()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec("\n".join(program), {})
    assert f"# {printed.getvalue().strip()}" == promised
