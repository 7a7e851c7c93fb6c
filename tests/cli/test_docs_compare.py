"""docs/compare.md: its commands run, and print what it says."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from tests.cli.runs import Ragbench, fenced, printed_by

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "compare.md").read_text("utf-8")


def commands(block: str) -> Iterator[list[str]]:
    for line in block.splitlines():
        program, *arguments = shlex.split(line)
        assert program == "ragbench"
        yield [str(ROOT / text) if text.startswith("datasets/") else text for text in arguments]


def test_the_commands_print_what_the_page_says(ragbench: Ragbench) -> None:
    first, *others = fenced(PAGE, "sh")
    done = [ragbench(*arguments) for arguments in commands(first)][-1]
    assert done.code == 0, done.err
    (table,) = fenced(PAGE, "text")
    assert table in done.out
    program, promised = fenced(PAGE, "python")[0].strip().rsplit("\n", 1)
    assert f"# {printed_by(program).strip()}" == promised
    for number in (1, 2, 3):
        assert ragbench("eval", "office", "--out", f"run-{number}", "-q").code == 0
    for block in others:
        for arguments in commands(block):
            assert ragbench(*arguments).code == 0
