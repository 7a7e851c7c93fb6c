"""What the tests of commands write, and what they look up in a run."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from importlib.resources import files
from pathlib import Path
from textwrap import indent
from typing import Any, NamedTuple

import msgspec

from ragbench import report_of
from ragbench.views.report import case_object

ROOT = Path(__file__).parents[2]
PELLORIN = ROOT / "datasets" / "pellorin"


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def json_lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def flat(self) -> str:
        """Standard output as one line, wherever it was broken."""
        return " ".join(self.out.split())

    def ends(self, code: int, *shown: str) -> Done:
        """This exit code, and these parts on standard output."""
        assert self.code == code, self.err
        assert all(part in self.out for part in shown), self.out
        return self

    def ok(self, *shown: str) -> Done:
        return self.ends(0, *shown)

    def told(self, *said: str) -> Done:
        """These parts on standard error."""
        assert all(part in self.err for part in said), self.err
        return self

    def refused(self, *said: str) -> Done:
        """Exit code 2, and these parts in an error that the user can mend."""
        assert "This is a bug" not in self.err
        return self.ends(2).told(*said)


Ragbench = Callable[..., Done]


def lines(name: str | Path, rows: Iterable[object]) -> str:
    """Writes a file of JSON lines; its name."""
    text = "".join(f"{json.dumps(row)}\n" for row in rows)
    Path(name).write_text(text, "utf-8")
    return str(name)


def read_lines(name: str | Path) -> list[Any]:
    """The rows of a file of JSON lines."""
    text = Path(name).read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def row_where(rows: Iterable[Any], **fields: str) -> Any:
    """The only one of these objects of JSON that has these values."""
    (row,) = [row for row in rows if row.items() >= fields.items()]
    return row


def own_rag(generate: str, retrieve: str = "return ['a text']") -> str:
    """Writes a RAG of two methods, given as their code, and gives what `--rag` names it by."""
    Path("own.py").write_text(
        "from ragbench import RAGInterface\n\n\nclass Own(RAGInterface):\n"
        f"    def retrieve(self, query, top_k=None):\n{indent(retrieve, ' ' * 8)}\n\n"
        f"    def generate(self, query, contexts):\n{indent(generate, ' ' * 8)}\n",
        "utf-8",
    )
    return "own.py:Own"


def environment(**variables: str) -> dict[str, str]:
    """Of a process that imports ragbench from the checkout, with these variables on top."""
    inherited = dict(os.environ)
    inherited.pop("NO_COLOR", None)
    python_path = f"{ROOT}{os.pathsep}{ROOT / 'cli'}"
    return {**inherited, "PYTHONPATH": python_path, **variables}


def in_python(code: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment(**variables),
    )
    assert done.returncode == 0, done.stderr
    return done


def sent_to(terminal: int) -> bytes:
    """What a pseudo-terminal is sent until the other side is closed; it is closed then, too."""
    sent = b""
    try:
        while block := os.read(terminal, 65_536):
            sent += block
    except OSError:  # how Linux says that the other side is closed
        pass
    os.close(terminal)
    return sent


def program(path: Path, script: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    path.chmod(0o755)


def on_a_forge(
    script: str, place: Path, tools: Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs the script of a step as a forge does, where these tools are the first to be found."""
    of_the_forge = {
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(sys.path),
        "GITHUB_REPOSITORY": "me/mine",
    }
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        cwd=place,
        env={**os.environ, **of_the_forge, **variables},
    )


def fenced(page: str, language: str) -> list[str]:
    """The blocks of code of a page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.DOTALL | re.MULTILINE)


def printed_by(*programs: str) -> str:
    """What these programs in Python print."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        for program in programs:
            exec(program, {})
    return printed.getvalue()


def report(folder: str = "run") -> Any:
    return json.loads(Path(folder, "report.json").read_bytes())


def cases_of(folder: str | Path = "run") -> list[dict[str, Any]]:
    """The cases of a run, as its report holds them in JSON."""
    made = report_of(Path(folder))
    rows = [case_object(row, made.metrics) for row in made.rows()]
    in_json = msgspec.json.encode(rows)
    cases: list[dict[str, Any]] = msgspec.json.decode(in_json)
    return cases


def checks(done: Done) -> dict[str, tuple[str, str]]:
    """State and detail of what doctor looked at, by name."""
    by_name = {}
    for check in json.loads(done.out):
        by_name[check["name"]] = (check["state"], check["detail"])
    return by_name


def schema(name: str) -> dict[str, Any]:
    file = files("ragbench.views").joinpath(f"{name}.schema.json")
    return dict(json.loads(file.read_bytes()))


def score(metric: str, folder: str = "run") -> Any:
    """The score of a metric, and the number of cases that it was measured on."""
    summaries = {summary["metric"]: summary for summary in report(folder)["summaries"]}
    summary = summaries[metric]
    return summary["score"], summary["measured"]


def calls() -> int:
    """How often a RAG of rags.py was asked to retrieve."""
    path = Path("calls.log")
    return len(path.read_text("utf-8").splitlines()) if path.exists() else 0
