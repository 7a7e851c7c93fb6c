"""Everything in the README and in the pages of Start and How-to runs and prints what they show.

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
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest

from ragbench_cli.main import main

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
SAMPLED = [
    README,
    ROOT / "docs" / "tutorial.md",
    ROOT / "docs" / "tutorial_gate.md",
    ROOT / "docs" / "choose_metrics.md",
    ROOT / "docs" / "how_many_questions.md",
    ROOT / "docs" / "troubleshooting.md",
    ROOT / "docs" / "scores.md",
]
"""Pages whose samples are executed and pasted."""
BLOCK = re.compile(
    r"(?:`(?P<file>[\w./-]+)`:\n\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S
)
TIMES = re.compile(r" *[\d,.]+ (us|ms|s)\b")
# What runs elsewhere: test_packaging.py installs, test_ci_files.py commits.
ELSEWHERE = ("pip ", "git ", "python -m venv ", "source ")
SHOW_EXIT_CODE = "echo $?"


class Block(NamedTuple):
    """A block of code; ``file`` is the name that the line above gives it."""

    file: str | None
    language: str
    text: str


class Command(NamedTuple):
    """A line that is typed, and the output that the page shows for it."""

    line: str
    shown: str


def blocks(text: str) -> list[Block]:
    """The blocks of code of a page."""
    return [Block(*match.group("file", "language", "text")) for match in BLOCK.finditer(text)]


def commands(block: str) -> Iterator[Command]:
    """The commands of a console block."""
    _, *parts = re.split(r"^\$ ", block, flags=re.M)
    for part in parts:
        line, _, shown = part.partition("\n")
        yield Command(line, shown)


def prepare(folder: Path) -> dict[str, str]:
    """Makes the folder a clone with an installed ragbench; the environment of commands in it."""
    folder.mkdir()
    shutil.copytree(ROOT / "datasets", folder / "datasets")
    environment = dict(os.environ)
    for name in os.environ:
        if name.startswith("RAGBENCH_"):
            del environment[name]
    environment["COLUMNS"] = "80"
    return environment


def run(line: str, folder: Path, environment: dict[str, str]) -> tuple[str, int]:
    """Runs a command in this process: its output and its exit code."""
    program, *arguments = shlex.split(line)
    raw = io.BytesIO()
    printed = io.TextIOWrapper(raw, encoding="utf-8", write_through=True)
    with (
        as_in_new_process(folder, environment),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
    ):
        if program == "ragbench":
            code = main(arguments)
        else:
            (script,) = arguments
            runpy.run_path(script)
            code = 0
    return raw.getvalue().decode(), code


@contextlib.contextmanager
def as_in_new_process(folder: Path, environment: dict[str, str]) -> Generator[None]:
    """Working folder, environment and modules of a process that is started in a folder."""
    folder_before = Path.cwd()
    environment_before = dict(os.environ)
    path_before = [*sys.path]
    own = [path.stem for path in folder.glob("*.py")]  # other tests have modules of these names
    try:
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        sys.path.insert(0, str(folder))
        forget_modules(own)
        yield
    finally:
        os.chdir(folder_before)
        os.environ.clear()
        os.environ.update(environment_before)
        sys.path[:] = path_before
        forget_modules(own)


def forget_modules(names: list[str]) -> None:
    for name in names:
        sys.modules.pop(name, None)


def without_times(text: str) -> str:
    """Wall times differ from run to run, and with them the widths of their columns."""
    lines = []
    for line in text.splitlines():
        line_without_times = TIMES.sub(" TIME", line)
        lines.append(re.sub(r" +", " ", line_without_times))
    return "\n".join(lines)


def beginning(printed: str, shown: str) -> str:
    """As much of an output as a page shows, which may end it with "..."."""
    if not shown.endswith("...\n"):
        return printed
    length = len(shown.splitlines()) - 1
    lines = printed.splitlines(keepends=True)[:length]
    return "".join([*lines, "...\n"])


@dataclass
class Session:
    """A terminal: where it is, and what was printed by command."""

    folder: Path
    environment: dict[str, str]
    printed: dict[str, str] = field(default_factory=dict)

    def done(self, block: str) -> str:
        """The block with what its commands really print, where it shows that."""
        pasted = ""
        code = 0
        for line, shown in commands(block):
            pasted += f"$ {line}\n"
            if line == SHOW_EXIT_CODE:
                pasted += f"{code}\n"
                code = 0
                continue
            assert code == 0, f"{pasted}: exit code {code}"
            if line.startswith("cd "):
                self.folder /= line.removeprefix("cd ")
            elif line.startswith(ELSEWHERE):
                pasted += shown
            else:
                printed, code = run(line, self.folder, self.environment)
                self.printed[line] = printed
                if shown:
                    pasted += beginning(printed, shown)
        assert code == 0, f"{pasted}: exit code {code}"
        return pasted


def rendered(page: str, folder: Path) -> tuple[str, dict[str, str]]:
    """The page with what its commands really print, and all that was printed by command.

    A command may fail if the page prints its exit code next. Files are there from the beginning,
    those in a folder from their place on.
    """
    session = Session(folder, prepare(folder))
    all_blocks = blocks(page)
    for file, _, text in reversed(all_blocks):
        if file is not None and "/" not in file:
            (folder / file).write_text(text, "utf-8")
    for file, language, text in all_blocks:
        if file is not None:
            (folder / file).write_text(text, "utf-8")
        elif language == "python":
            (folder / "block.py").write_text(text, "utf-8")
            session.done("$ python block.py\n")
        elif language == "console":
            really = session.done(text)
            page = page.replace(f"```console\n{text}```", f"```console\n{really}```")
    return page, session.printed


def check_scores(printed: dict[str, str]) -> None:
    """What a newcomer pastes shows the tool at work: scores above zero, and causes."""
    for line, output in printed.items():
        is_shown = line.startswith("ragbench eval") and not line.endswith(" --quiet")
        if not is_shown or output.startswith("Error: "):
            continue
        assert "what became of the cases" in output, line
        scores = re.findall(r"^(?:recall@\d|answer_correct) +([\d.]+) ", output, re.M)
        assert scores, line
        for score in scores:
            assert float(score) > 0, output


@pytest.mark.parametrize("page", SAMPLED, ids=lambda page: page.name)
def test_everything_on_a_page_runs_and_prints_what_it_shows(page: Path, tmp_path: Path) -> None:
    text = page.read_text("utf-8")
    for file, language, _ in blocks(text):
        assert file is not None or language in ("console", "python")

    expected, printed = rendered(text, tmp_path / "my-project")

    assert without_times(text) == without_times(expected), "run python tests/unit/test_readme.py"
    check_scores(printed)
    if page == README:
        output = printed["python block.py"]
        values = re.findall(r"^\S+ ([\d.]+) \d+ of \d+$", output, re.M)
        assert len(values) == 3
        for value in values:
            assert float(value) > 0
        assert re.search(r"^right \d+$", output, re.M)


def test_numbers_in_the_text_of_the_tutorial_are_those_that_its_commands_print() -> None:
    page = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
    printed = "".join(block.text for block in blocks(page) if block.language == "console")
    text = BLOCK.sub("", page)

    scores = re.findall(r"\b[01]\.\d{3}\b", text)
    assert scores
    for score in scores:
        assert score in printed
    # The two counts of right cases that the decision rests on.
    right = re.findall(r"^  right +(\d+) ", printed, re.MULTILINE)
    decision = f"{right[-1]} of 11 cases are right instead of {right[0]}"
    assert decision in " ".join(text.split())


def test_the_first_screen_has_the_readers_own_score_and_cause() -> None:
    lines = README.read_text("utf-8").splitlines()
    first_screen = lines[:40]

    assert len(lines) <= 150
    assert any(line.startswith("recall@5") for line in first_screen)
    assert any("not retrieved" in line for line in first_screen)


def test_what_is_said_of_the_dataset_is_so() -> None:
    folder = ROOT / "datasets" / "pellorin"
    pages = (folder / "corpus.jsonl").read_text("utf-8").splitlines()
    lines = (folder / "cases.jsonl").read_text("utf-8").splitlines()
    cases = [json.loads(line) for line in lines]
    languages = {case["language"] for case in cases}
    unanswerable = sum(not case["answerable"] for case in cases)

    text = " ".join(README.read_text("utf-8").split())
    assert f"{len(pages)} pages of an invented company and {len(cases)} questions" in text
    assert f"in three languages, {unanswerable} of them without an answer" in text
    assert len(languages) == 3


def test_the_page_on_installing_lists_every_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    page = (ROOT / "docs" / "install.md").read_text("utf-8")
    listed = set(re.findall(r"^\| `([\w-]+)` \|", page, re.M))
    assert listed == set(project["optional-dependencies"])


if __name__ == "__main__":
    for sampled in filter(Path.exists, SAMPLED):
        with TemporaryDirectory() as place:
            text = sampled.read_text("utf-8")
            new_text, _ = rendered(text, Path(place, "my-project"))
            sampled.write_text(new_text, "utf-8")
