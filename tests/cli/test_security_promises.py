"""Each promise of docs/security.md has a test: here, or where `ELSEWHERE` says.

Keys are made at run time of parts, so that no scanner takes this file for a leak.
"""

from __future__ import annotations

import ast
import json
import os
import re
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from tests.cli.runs import ROOT, Ragbench, lines
from tests.unit.test_issuers import KEYS

PAGE = ROOT / "docs" / "security.md"
ELSEWHERE = {
    "A file of data runs no code, even if its tags ask for it.": (
        "tests/unit/io/test_yaml_cases.py::test_a_tag_that_runs_code_is_refused"
    ),
    "Assertions and programs that a configuration of another tool names are not run.": (
        "tests/unit/io/test_yaml_cases.py::"
        "test_tests_of_a_program_are_refused_with_the_command_to_run"
    ),
    "A compressed file that unpacks to too much is refused before it fills the memory.": (
        "tests/unit/io/test_limits.py::test_a_gzip_bomb_is_a_problem"
    ),
    "A text moves no cursor of your terminal.": (
        "tests/cli/test_hostile_texts.py::"
        "test_no_text_acts_on_a_terminal_and_no_credential_is_shown_or_written"
    ),
    "A spreadsheet runs no cell of a table, and ragbench reads each cell back as it was.": (
        "tests/unit/io/test_csv_cells.py::test_a_text_is_read_back_as_it_was"
    ),
    "Instructions in a chunk or a reply change no verdict without a quote that is really there.": (
        "tests/unit/validators/test_llm.py::test_instructions_in_a_chunk_are_data"
    ),
    "An HTTP system that redirects to another host is not followed.": (
        "tests/unit/rag/test_http.py::test_a_redirect_that_leads_nowhere_is_not_followed"
    ),
    "No key of your environment is printed or stored.": (
        "tests/cli/test_hostile_texts.py::"
        "test_no_text_acts_on_a_terminal_and_no_credential_is_shown_or_written"
    ),
    "An id keeps its form, so that cases are joined by it.": (
        "tests/unit/test_issuers.py::test_an_id_keeps_its_form"
    ),
    "A dry run sends nothing to a judge.": (
        "tests/cli/test_judging.py::test_a_dry_run_shows_calls_and_price_and_judges_nothing"
    ),
    "Your key goes to the address that you named, and nothing else holds it.": (
        "tests/unit/llm/test_providers.py::test_the_key_is_sent_and_nothing_else_holds_it"
    ),
    "Your key of a provider goes to that provider's address alone.": (
        "tests/unit/llm/test_settings.py::test_which_key_is_used"
    ),
    "No package that ragbench imports sends usage data to its makers, unless you have turned it "
    "on.": "tests/unit/test_telemetry.py::test_usage_data_are_off_before_a_package_is_imported",
}
"""Promise to the test of it."""
HERE: dict[str, str] = {}
"""Promise to the name of its test in this file."""

Test = Callable[..., None]


def promise(sentence: str) -> Callable[[Test], Test]:
    """Marks a test as that of a sentence of the page."""

    def marked(test: Test) -> Test:
        HERE[sentence] = test.__name__
        return test

    return marked


def test_each_promise_of_the_page_has_a_test() -> None:
    page = PAGE.read_text("utf-8")
    bullets = re.findall(r"^- (.+?)(?=\n- |\n\n|\Z)", page, re.M | re.S)
    promises = {" ".join(bullet.split()) for bullet in bullets}
    assert promises == {*HERE, *ELSEWHERE}


@pytest.mark.parametrize("place", sorted(set(ELSEWHERE.values())))
def test_a_test_that_is_elsewhere_is_there(place: str) -> None:
    path, _, name = place.partition("::")
    module = ast.parse((ROOT / path).read_text("utf-8"))
    functions = {node.name for node in ast.walk(module) if isinstance(node, ast.FunctionDef)}
    assert name in functions


# --- what is not trusted


@promise(
    "A text runs nothing on the page: its policy allows the page's own script, and no connection."
)
def test_the_page_allows_its_own_script_alone(ragbench: Ragbench, tmp_path: Path) -> None:
    attack = "<script>alert(1)</script><img src=x onerror=alert(1)>"
    source = lines("a.jsonl", [{"id": "a", "query": attack, "response": attack}])

    assert ragbench("eval", source, "--out", "run").code == 0

    page = (tmp_path / "run" / "report.html").read_text("utf-8")
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    parts = policy[1].split("; ")
    directives = dict(part.split(maxsplit=1) for part in parts)
    assert directives["default-src"] == "'none'"
    assert directives["script-src"].startswith(("'sha256-", "&#39;sha256-"))
    assert "connect-src" not in directives
    assert "<script>alert" not in page
    assert "<img src=x" not in page


# --- what is stored, and who can read it

CASES = [
    {
        "id": "a",
        "query": "Who flies?",
        "reference": "Bees",
        "retrieved_contexts": ["Bees fly."],
        "response": "Bees",
    }
]


@pytest.fixture
def usual_umask() -> Iterator[None]:
    earlier = os.umask(0o022)
    yield
    os.umask(earlier)


def rights(path: Path) -> int:
    return path.stat().st_mode & 0o777


@promise(
    "Only you can read a run folder and each file in it, even in a folder that others can read."
)
@pytest.mark.skipif(sys.platform == "win32", reason="files have no such rights")
@pytest.mark.usefixtures("usual_umask")
def test_a_run_folder_is_private(ragbench: Ragbench, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir(mode=0o755)  # by its user, and so it stays as it is

    lines("a.jsonl", CASES)

    assert ragbench("eval", "a.jsonl", "--out", "run").code == 0
    assert ragbench("eval", "a.jsonl", "--out", "other").code == 0

    assert rights(tmp_path / "other") == 0o700
    files = list((tmp_path / "run").iterdir())
    without_data = {".lock", "journal.sqlite-in-flight"}
    open_to_others = {path.name for path in files if rights(path) != 0o600}
    assert open_to_others <= without_data
    assert "journal.sqlite" in {path.name for path in files}


@promise("Only you can read a file that a command writes of your data, until you say otherwise.")
@pytest.mark.skipif(sys.platform == "win32", reason="files have no such rights")
@pytest.mark.usefixtures("usual_umask")
@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("export run --to jsonl --out x.jsonl", "x.jsonl"),
        ("export run --to csv --out x.csv", "x.csv"),
        ("export run --to trec --out x.run", "x.qrels"),
        ("export run --to ragas --out x.ragas", "x.ragas"),
        ("baseline set run --out baseline.json", "baseline.json"),
        ("gate run --baseline other --junit gate.xml --md gate.md", "gate.xml"),
        ("gate run --baseline other --junit gate.xml --md gate.md", "gate.md"),
        ("compare run other --html compare.html", "compare.html"),
        ("validate run --out verdicts.jsonl", "verdicts.jsonl"),
        ("cases run --out needs", "needs/cases.jsonl"),
    ],
)
def test_a_file_of_your_data_is_private(
    ragbench: Ragbench, tmp_path: Path, command: str, name: str
) -> None:
    cases = [{**CASES[0], "retrieved_context_ids": ["b"], "reference_context_ids": ["b"]}]
    for run in ("run", "other"):
        assert ragbench("eval", lines("a.jsonl", cases), "--out", run).code == 0

    done = ragbench(*command.split())

    assert (tmp_path / name).exists(), done
    assert rights(tmp_path / name) == 0o600


LEAKY = """
import logging
from ragbench import GenerationResult, RAGInterface, RetrievalResult

KEYS = {keys!r}


class Leaky(RAGInterface):
    def retrieve(self, query, top_k=None):
        print("asks with", KEYS)
        logging.error("asked with %s", KEYS)
        note = [{{"note": " ".join(KEYS)}}]
        return RetrievalResult(["\\n".join(KEYS)], context_metadata=note)

    def generate(self, query, contexts):
        if "fails" in query:
            raise ValueError("refused: " + ", ".join(KEYS))
        return GenerationResult(" ".join(KEYS), metadata={{"header": KEYS}})
"""


@promise(
    "No key is printed or stored that has the form of an issuer, wherever it comes from: an error, "
    "an answer, a chunk, a log."
)
def test_no_key_is_printed_or_stored(ragbench: Ragbench, tmp_path: Path) -> None:
    keys = list(KEYS.values())
    cases = [
        {"id": "a", "query": f"What is {keys[0]}?", "reference": " ".join(keys)},
        {"id": "b", "query": "What fails?", "reference": "b"},
    ]
    source = tmp_path / "source"
    source.mkdir()
    lines(source / "cases.jsonl", cases)
    (source / "leaky.py").write_text(LEAKY.format(keys=keys), "utf-8")

    printed = ""
    for command in (
        "eval source/cases.jsonl --rag source/leaky.py:Leaky --out run",
        "eval source/cases.jsonl --rag source/leaky.py:Leaky --out other",
        "explain run a",
        "explain run b --json",
        "cases run --json",
        "report run --json",
        "export run --to jsonl --out x.jsonl",
        "export run --to csv --out x.csv",
        "export run --to ragas --out x.ragas",
        "compare run other --html compare.html --md compare.md",
        "gate run --baseline other --junit gate.xml --md gate.md",
        "cases run --out needs",
    ):
        done = ragbench(*command.split())
        assert done.code in (0, 1), done
        printed += done.out + done.err
    contents = {"printed": printed.encode()}
    for path in tmp_path.rglob("*"):
        if path.is_file() and source not in path.parents:
            contents[str(path)] = path.read_bytes()

    for issuer, key in KEYS.items():
        for place, content in contents.items():
            assert key.encode() not in content, (issuer, place)
    assert b"***" in contents[str(tmp_path / "run" / "journal.sqlite")]


def test_an_id_that_looks_like_a_key_is_printed_as_it_is(ragbench: Ragbench) -> None:
    key = KEYS["GitHub"]
    case = {
        **CASES[0],
        "id": key,
        "retrieved_context_ids": [key],
        "reference_context_ids": [key],
    }
    lines("a.jsonl", [case])
    assert ragbench("eval", "a.jsonl", "--out", "run").code == 0

    (printed,) = ragbench("cases", "run", "--json").json["cases"]

    assert printed["id"] == key
    assert printed["retrieved_ids"] == [key]


@promise("A run writes to its own folder alone.")
def test_a_run_writes_to_its_own_folder(
    ragbench: Ragbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    lines("a.jsonl", CASES)
    before = {*tmp_path.rglob("*")}

    assert ragbench("eval", "a.jsonl", "--out", "run").code == 0

    run = tmp_path / "run"
    new = {*tmp_path.rglob("*")} - before
    for path in new - {run}:
        assert run in path.parents


# --- what leaves your machine


@promise("A recorded run without a judge opens no connection.")
def test_a_recorded_run_opens_no_connection(
    ragbench: Ragbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: socket.socket, address: object) -> NoReturn:
        raise AssertionError(f"a connection to {address}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)

    done = ragbench("eval", lines("a.jsonl", CASES), "--out", "run", "--json")

    assert done.code == 0
    assert json.loads(done.out)
