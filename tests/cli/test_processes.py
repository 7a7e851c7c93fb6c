"""What only a process of its own shows: imports, pipes, encodings, terminals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ragbench_cli.main import COMMANDS
from tests.cli.runs import cases_of, environment, in_python, lines, sent_to

HEAVY = (
    "bm25s",
    "datasets",
    "httpx",
    "ir_measures",
    "numpy",
    "pandas",
    "pyarrow",
    "qdrant_client",
    "ragas",
    "rapidfuzz",
    "rich",
    "sacrebleu",
    "scipy",
    "torch",
)
LIGHT = ("eval", "validate", "report", "gate", "compare", "export", "init", "history", "show")
NEEDS_PTY = pytest.mark.skipif(sys.platform == "win32", reason="there is no pty")


def start(*arguments: str, **variables: str) -> subprocess.Popen[bytes]:
    """The command in a process of its own, with these variables."""
    return subprocess.Popen(
        [sys.executable, "-m", "ragbench_cli", *arguments],
        env=environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def ended(process: subprocess.Popen[bytes]) -> tuple[int, str, str]:
    """The exit code of a process, and its standard output and error."""
    out, err = process.communicate()
    return process.returncode, out.decode(), err.decode()


def loaded(*commands: list[str], before: str = "pass") -> set[str]:
    """The modules that are imported once all these commands have run in one process.

    Args:
        before: a statement that the process runs first.
    """
    code = (
        f"import json, sys; from ragbench_cli.main import main; {before}; "
        "codes = [main(command) for command in json.loads(sys.argv[1])]; "
        "print(*sys.modules, file=sys.stderr); sys.exit(any(codes))"
    )
    return {*in_python(code, json.dumps(commands)).stderr.split()}


def test_nothing_heavy_is_imported() -> None:
    helped = [["--help"], *([name, "--help"] for name in COMMANDS)]
    # doctor imports every extra in a process of its own, which takes ten seconds.
    imports_no_extra = "from ragbench_cli import checks; checks.import_problem = lambda _: ''"

    modules = loaded(["show", "metrics"], ["doctor", "--json"], *helped, before=imports_no_extra)

    assert modules.isdisjoint(HEAVY)


@pytest.mark.parametrize(
    ("arguments", "commands"),
    [(["--help"], []), *([[name, "--help"], [COMMANDS[name].module]] for name in LIGHT)],
)
def test_help_imports_the_command_that_is_called_and_nothing_of_the_library(
    arguments: list[str], commands: list[str]
) -> None:
    modules = loaded(arguments)

    command_modules = [name for name in modules if "_cli.commands." in name]
    assert [name.rpartition(".")[2] for name in command_modules] == commands
    # Credentials are masked between every command and its output.
    library = {name for name in modules if name.startswith("ragbench.")}
    for_masking = ("core", "core.record", "errors", "issuers", "masking", "safe_text")
    assert library <= {f"ragbench.{name}" for name in for_masking}
    assert "pydantic" not in modules


def test_recorded_answers_load_nothing_that_asks(tmp_path: Path) -> None:
    cases = tmp_path / "cases.jsonl"
    run = str(tmp_path / "run")
    cases.write_text('{"query": "q", "reference": "a", "response": "a"}\n', encoding="utf-8")

    modules = loaded(["eval", str(cases), "-q", "-m", "token_f1", "--out", run])

    modules_that_ask = {
        "asyncio",
        "ragbench.rag.load",
        "ragbench.stages.call_stage",
        "ragbench.post.stage",
        "ragbench.llm.endpoint",
        "ragbench.workers.engines",
        "ragbench.io.dumps.read",
    }
    assert modules.isdisjoint(modules_that_ask)


def test_a_reader_that_goes_away_is_not_an_error() -> None:
    process = start("show", "metrics", "--json", PYTHONUNBUFFERED="1")
    assert process.stdout is not None
    assert process.stderr is not None

    process.stdout.close()

    with process.stderr as errors:
        assert errors.read() == b""
    assert process.wait() == 141


def test_a_terminal_that_cannot_show_a_letter_shows_its_code() -> None:
    lines("fragen.jsonl", [{"query": "错误"}])
    arguments = ("eval", "fragen.jsonl", "--rag", "rags.py:Broken", "-o", "运行")

    code, out, err = ended(start(*arguments, PYTHONIOENCODING="ascii"))

    assert code == 2
    assert r"\u9519\u8bef" in out
    assert r"\u8fd0\u884c" in err


def test_json_is_utf_8_whatever_the_terminal_is() -> None:
    lines("fragen.jsonl", [{"query": "é错"}])
    arguments = ("eval", "fragen.jsonl", "--rag", "rags.py:Plain", "-o", "run", "--json")

    code, out, _ = ended(start(*arguments, PYTHONIOENCODING="latin-1"))

    assert code == 0
    assert json.loads(out)["manifest"]["dataset"]["source"] == "fragen.jsonl"
    assert cases_of()[0]["query"] == "é错"


def on_terminal(*arguments: str, **more: str) -> str:
    """What a command shows on a terminal of 80 columns."""
    import pty

    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "ragbench_cli", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment(COLUMNS="80", **more),
    )
    os.close(theirs)
    shown = sent_to(ours)
    assert process.wait() == 0
    return shown.decode()


NOISY = """
import os, sys

class Noisy:
    def batch_retrieve(self, queries, top_k=None):
        os.write(1, b"from C;")
        os.system("echo from a program")
        print("from Python")
        print("past sys.stdout", file=sys.__stdout__)
        os.chdir("/")
        return [["one"] for _ in queries]
    def batch_generate(self, queries, contexts):
        queries.clear()
        return ["one"][: len(contexts)]
"""


def test_what_a_rag_does_to_the_process_stays_out_of_the_result(tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text(NOISY)
    rows = [
        {"id": "a", "query": "a", "reference": "one"},
        {"id": "b", "query": "b", "reference": "two"},
    ]
    lines(tmp_path / "two.jsonl", rows)
    command = ("eval", "two.jsonl", "--rag", "noisy:Noisy", "--out", "run", "--json")

    code, out, err = ended(start(*command))

    assert code == 0, err
    assert json.loads(out)["manifest"]["dataset"]["cases"] == 2
    assert (tmp_path / "run" / "report.json").read_text() == out
    for noise in ("from C", "from a program", "from Python", "past sys.stdout"):
        assert noise in err
    warning = "Warning: generate: a call for 2 cases failed (InterfaceError: Noisy.batch_generate"
    assert f"{warning} returned 1 results for 2 queries)." in err
    assert f"Warning: retrieve changed the working directory to /: it is {tmp_path} again" in err


@NEEDS_PTY
def test_a_terminal_shows_bars_and_colours_as_far_as_it_can() -> None:
    command = ("eval", "office", "--rag", "rags.py:Failing")

    coloured = on_terminal(*command, TERM="xterm-256color")
    assert "\x1b[31m" in coloured  # failures are red
    assert "3/3" in coloured
    assert "\x1b[2K" in coloured  # the bars are wiped
    start_of_report = coloured.rindex("Failing\x1b[0m on ")
    assert "━" not in coloured[start_of_report:]

    plain = on_terminal(*command, "--fresh", TERM="xterm-256color", NO_COLOR="1")
    assert "\x1b[3" not in plain
    assert "Failing\x1b[0m on " in plain  # bold is not a colour

    dumb = on_terminal(*command, "--fresh", TERM="dumb")
    assert "\x1b" not in dumb
    assert "generate  2 answered, 1 failed" in dumb
