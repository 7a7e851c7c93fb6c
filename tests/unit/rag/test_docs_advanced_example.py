"""docs/advanced_example.md runs, returns every field, and is typed."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def test_it_runs_and_gives_what_it_says(document: Callable[[str], Any]) -> None:
    page = document("advanced_example.md")
    example, usage = page.blocks()
    names = page.run(example)
    page.run(usage, names)

    rag = names["NotesRAG"]()
    found = rag.retrieve_with_metadata("How far do bees fly?")
    for field in ("context_ids", "scores", "context_metadata", "metadata"):
        assert getattr(found, field) is not None
    answer = rag.generate_with_metadata("How far do bees fly?", found.contexts)
    for field in ("multi_responses", "confidence", "abstained", "metadata"):
        assert getattr(answer, field) is not None


@pytest.mark.extra("dev", package="mypy")
@pytest.mark.nightly
def test_it_is_typed_and_metadata_of_another_type_is_refused(
    document: Callable[[str], Any], tmp_path: Path
) -> None:
    root = Path(__file__).parents[3]
    wrong = 'GenerationResult[Took]("a", metadata={"secs": 1.0})\n'
    (tmp_path / "notes.py").write_text(document("advanced_example.md").blocks()[0] + wrong)
    (tmp_path / "mypy.ini").write_text(
        f"[mypy]\nstrict = True\nmypy_path = {root}\ncache_dir = {root / '.mypy_cache' / 'typed'}\n"
        "[mypy-ragbench.*]\nfollow_imports = silent\n"
    )
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "notes.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    (error,) = re.findall(r"error: (.*)", run.stdout)
    assert '"secs"' in error or '"metadata"' in error
