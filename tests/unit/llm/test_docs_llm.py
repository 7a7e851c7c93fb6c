"""The guide: its example runs, and its table names every setting."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from ragbench.llm.settings import SETTING_NAMES
from tests.llm_server import FaultServer, Payload

GUIDE = (Path(__file__).parents[3] / "docs" / "llm.md").read_text("utf-8")


def graded(payload: Payload) -> str:
    grade = 3 if "Bees fly." in str(payload["messages"]) else 0
    return f'{{"grade": {grade}}}'


@pytest.mark.extra("llm")
def test_the_example_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    with FaultServer(say=graded) as server:
        (tmp_path / "guide.py").write_text(program.replace("http://localhost:8000/v1", server.url))
        runpy.run_path(str(tmp_path / "guide.py"), run_name="guide")
    assert capsys.readouterr().out == "['b', 'a']\nNone\n"


def test_the_table_names_every_setting() -> None:
    known = set(SETTING_NAMES)
    rows = [line.split("|")[1] for line in GUIDE.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named == known
