"""A small dataset, some RAGs, and the command line called in this process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ragbench_cli.main import main
from tests.cli.runs import Done, Ragbench, lines

DOCUMENTS = [
    {"id": "leave", "text": "Everyone has 27 days of paid leave."},
    {"id": "desk", "text": "The help desk is open from 8 to 17."},
    {"id": "badge", "text": "A lost badge is reported at the gate."},
]
CASES = [
    {
        "id": "c1",
        "query": "How many days of paid leave are there?",
        "reference": "27 days",
        "reference_context_ids": ["leave"],
        "reference_contexts": ["Everyone has 27 days of paid leave."],
    },
    {
        "id": "c2",
        "query": "When is the help desk open?",
        "reference": "from 8 to 17",
        "reference_context_ids": ["desk"],
        "reference_contexts": ["The help desk is open from 8 to 17."],
    },
    {"id": "c3", "query": "Who won the cup?", "answerable": False},
]
RAGS = '''
import os, signal
from ragbench import AsyncRAGInterface, RAGInterface


class Plain(RAGInterface):
    """Written against the old interface."""

    def retrieve(self, query, top_k=None):
        with open("calls.log", "a") as log:
            log.write(f"{query}\\n")
        return ["Everyone has 27 days of paid leave."][:top_k]

    def generate(self, query, contexts):
        return "27 days"


class Failing(Plain):
    """Cannot answer about the help desk, and says so with what rich would take for markup."""

    def generate(self, query, contexts):
        if "desk" in query and not os.path.exists("mended"):
            raise ValueError("no [bold]desk[/nothing] here")
        return "27 days"


class Broken(RAGInterface):
    def retrieve(self, query, top_k=None):
        raise ConnectionError("the index is gone: http://bob:secret@index/")

    def generate(self, query, contexts):
        return "never asked"


class Impatient(Plain):
    """Ctrl-C twice."""

    def generate(self, query, contexts):
        if "desk" in query:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
        return "27 days"


class Coroutines(AsyncRAGInterface):
    async def retrieve(self, query, top_k=None):
        return ["Everyone has 27 days of paid leave."]

    async def generate(self, query, contexts):
        return "27 days"


class Unbuilt(Plain):
    def __init__(self, config=None):
        raise RuntimeError(f"cannot log in with {os.environ.get('MY_API_KEY')}")
'''


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory: an empty folder with a dataset and a module of RAGs."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith(("RAGBENCH_", "OPENAI_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "80")
    # doctor imports every extra in a process of its own, which takes ten seconds.
    monkeypatch.setattr("ragbench_cli.checks.import_problem", lambda _: "")
    for command in ("VALIDATE", "CALIBRATE"):  # a reader takes half a second a query
        monkeypatch.setenv(f"RAGBENCH_{command}_VALIDATOR", "lexical")
    data = tmp_path / "office"
    data.mkdir()
    lines(data / "cases.jsonl", CASES)
    lines(data / "corpus.jsonl", DOCUMENTS)
    (tmp_path / "rags.py").write_text(RAGS, encoding="utf-8")
    ignored = '[tool.ragbench]\nignore = ["mended"]\n'
    (tmp_path / "pyproject.toml").write_text(ignored, encoding="utf-8")
    return tmp_path


@pytest.fixture
def ragbench(capsys: pytest.CaptureFixture[str]) -> Ragbench:
    """Calls a command; its arguments are those of the command line."""

    def call(*arguments: str) -> Done:
        capsys.readouterr()
        code = main(arguments)
        printed = capsys.readouterr()
        return Done(code, printed.out, printed.err)

    return call
