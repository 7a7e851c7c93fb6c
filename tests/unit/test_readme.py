"""Everything in the README runs, and what it shows is what is printed.

After a change of the output, from the root of the project::

    python tests/unit/test_readme.py
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import runpy
import shlex
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest

from ragbench_cli.main import main

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
BLOCK = re.compile(
    r"(?:`(?P<file>[\w.]+)`:\n\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S
)
TIMES = re.compile(r" *[\d,.]+ (us|ms|s)\b")
# What runs elsewhere: test_packaging.py installs, and `make eval` is the command below.
ELSEWHERE = ("pip install ",)
UNDERLYING = {"make eval": "ragbench eval datasets/pellorin"}


class Block(NamedTuple):
    """A block of code; ``file`` is the name that the line above gives it."""

    file: str | None
    language: str
    text: str


class Command(NamedTuple):
    """A command with what the README shows of its output."""

    line: str
    shown: str


def blocks(text: str) -> list[Block]:
    return [Block(*match.group("file", "language", "text")) for match in BLOCK.finditer(text)]


def commands(block: str) -> Iterator[Command]:
    for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
        line, _, shown = part.partition("\n")
        yield Command(line, shown)


def prepare(folder: Path) -> dict[str, str]:
    """Makes the folder a clone with an installed ragbench; the environment of commands in it."""
    shutil.copytree(ROOT / "datasets", folder / "datasets")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAGBENCH_")}
    return kept | {"COLUMNS": "80"}


def run(line: str, folder: Path, environment: dict[str, str]) -> str:
    """What a command prints on both streams; it must succeed."""
    program, *arguments = shlex.split(line)
    before = (Path.cwd(), dict(os.environ), [*sys.path])
    own = [path.stem for path in folder.glob("*.py")]  # other tests have modules of these names
    raw = io.BytesIO()
    printed = io.TextIOWrapper(raw, encoding="utf-8", write_through=True)
    try:
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        sys.path.insert(0, str(folder))
        for name in own:
            sys.modules.pop(name, None)
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            code = main(arguments) if program == "ragbench" else _python(arguments)
    finally:
        os.chdir(before[0])
        os.environ.clear()
        os.environ.update(before[1])
        sys.path[:] = before[2]
        for name in own:
            sys.modules.pop(name, None)
    text = raw.getvalue().decode()
    assert code == 0, f"{line}\n{text}"
    return text


def _python(arguments: list[str]) -> int:
    (script,) = arguments
    runpy.run_path(script)
    return 0


def without_times(text: str) -> str:
    """Wall times differ from run to run, and with them the widths of their columns."""
    lines = text.splitlines()
    return "\n".join(re.sub(r" +", " ", TIMES.sub(" TIME", line)) for line in lines)


def rendered(readme: str, folder: Path) -> tuple[str, dict[str, str]]:
    """The README with what its commands really print, and all that was printed by command."""
    environment = prepare(folder)
    printed: dict[str, str] = {}
    for file, language, text in blocks(readme):
        if file is not None:
            (folder / file).write_text(text, "utf-8")
        elif language == "python":
            (folder / "block.py").write_text(text, "utf-8")
            printed["python"] = run("python block.py", folder, environment)
        elif language == "console":
            for line, shown in commands(text):
                if line.startswith(ELSEWHERE):
                    continue
                printed[line] = run(UNDERLYING.get(line, line), folder, environment)
                if shown or line in UNDERLYING:
                    before = f"$ {line}\n{shown}"
                    readme = readme.replace(before, f"$ {line}\n{printed[line]}")
    return readme, printed


def check_scores(printed: dict[str, str]) -> None:
    """What a newcomer pastes shows the tool at work: scores above zero, and causes."""
    evals = [line for line in printed if line.startswith("ragbench eval")]
    assert len(evals) >= 4
    for line in evals:
        assert "what became of the cases" in printed[line], line
        scores = dict(re.findall(r"^(recall@\d|token_f1) +([\d.]+) ", printed[line], re.M))
        assert scores, line
        assert all(float(score) > 0 for score in scores.values()), printed[line]
    values = re.findall(r"^\S+ ([\d.]+) \d+ of \d+$", printed["python"], re.M)
    assert len(values) == 3
    assert all(float(value) > 0 for value in values)
    assert re.search(r"^right \d+$", printed["python"], re.M)


@pytest.mark.extra("onnx")
def test_everything_in_the_readme_runs_and_prints_what_it_shows(tmp_path: Path) -> None:
    readme = README.read_text("utf-8")
    expected, printed = rendered(readme, tmp_path)
    assert without_times(readme) == without_times(expected), "run python tests/unit/test_readme.py"
    check_scores(printed)


def test_every_block_is_of_a_kind_that_is_checked() -> None:
    found = blocks(README.read_text("utf-8"))
    assert len(found) >= 8
    for file, language, _ in found:
        assert file is not None or language in ("console", "python")


def test_the_first_screen_has_the_command_and_its_output() -> None:
    first = README.read_text("utf-8").splitlines()[:40]
    assert "$ make eval" in first
    assert any(line.startswith("recall@5") or "recall@5" in line for line in first)


def test_make_eval_runs_the_command_that_is_tested_here() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert "\t$(BIN)/ragbench eval $(DATASET) $(ARGS)\n" in makefile
    assert [path.parent.name for path in (ROOT / "datasets").glob("*/README.md")] == ["pellorin"]


def test_what_is_said_of_the_dataset_is_so() -> None:
    folder = ROOT / "datasets" / "pellorin"
    pages = (folder / "corpus.jsonl").read_text("utf-8").splitlines()
    cases = [json.loads(line) for line in (folder / "cases.jsonl").read_text("utf-8").splitlines()]
    languages = {case["language"] for case in cases}
    unanswerable = sum(not case["answerable"] for case in cases)
    text = " ".join(README.read_text("utf-8").split())
    assert f"{len(pages)} pages of an invented company and {len(cases)} questions" in text
    assert f"in three languages, {unanswerable} of them without an answer" in text
    assert len(languages) == 3


def test_extras_that_are_named_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = set(re.findall(r"'\.\[(\w+)\]'", README.read_text("utf-8")))
    assert named
    assert named <= set(project["optional-dependencies"])


@pytest.mark.parametrize("code", [0, 1, 2, 3, 130])
def test_exit_codes_are_those_of_the_help(code: int) -> None:
    meaning = re.search(rf"^\| {code} \| (.+) \|$", README.read_text("utf-8"), re.M)
    page = (ROOT / "docs" / "cli.md").read_text("utf-8")
    assert meaning is not None
    assert re.search(rf"^{code} +{re.escape(meaning[1])}$", page, re.M)


if __name__ == "__main__":
    with TemporaryDirectory() as place:
        README.write_text(rendered(README.read_text("utf-8"), Path(place))[0], encoding="utf-8")
