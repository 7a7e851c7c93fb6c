"""docs/run_folder.md and docs/reuse.md: their queries, columns and programs work."""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Generator
from contextlib import closing, contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ragbench import BaselineRAG, EvalSettings, Selection, evaluate, read_cases, report_of
from ragbench.ledger.origin import Reuse, asked_again_sentence, differences, may_reuse
from ragbench.ledger.project import Project
from ragbench.rag.load import describe_rag, stage_origin

ROOT = Path(__file__).parents[3]

# --- docs/run_folder.md


RUN_FOLDER_PAGE = (ROOT / "docs" / "run_folder.md").read_text("utf-8")
QUERIES = re.findall(r"```sql\n(.*?)```", RUN_FOLDER_PAGE, re.DOTALL)

# Lines of the table of views: a name, then its columns.
VIEWS = re.findall(r"^\| `(\w+)` \| (`\w+`(?:, `\w+`)+) \|$", RUN_FOLDER_PAGE, re.MULTILINE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of twenty cases."""
    data = ROOT / "datasets" / "pellorin"
    out = tmp_path_factory.mktemp("docs") / "run"
    rag = BaselineRAG.from_corpus(data)
    twenty_cases = EvalSettings(selection=Selection(limit=20))
    evaluate(read_cases(data), rag, out=out, settings=twenty_cases)
    return out


def rows(folder: Path, query: str) -> list[tuple[Any, ...]]:
    """What a query finds in the journal of a run, which it only reads."""
    journal = f"file:{folder / 'journal.sqlite'}?mode=ro"
    with closing(sqlite3.connect(journal, uri=True)) as database:
        return database.execute(query).fetchall()


def test_the_page_shows_three_queries_and_seven_views() -> None:
    """Else the tests of them would test nothing."""
    assert len(QUERIES) == 3
    assert len(VIEWS) == 7


def test_the_query_of_scores_gives_those_of_the_report(folder: Path) -> None:
    query_of_scores = QUERIES[0]
    scores: list[tuple[object, ...]] = []
    for name, score, _low, _high, measured, total in rows(folder, query_of_scores):
        scores.append((name, score, measured, total))

    expected: list[tuple[object, ...]] = []
    for summary in report_of(folder).summaries:
        score = summary.score
        if score is not None:
            score = round(score, 3)
        expected.append((summary.metric.name, score, summary.measured, summary.total))
    assert scores == expected


def test_the_query_of_the_slowest_answers_gives_rows(folder: Path) -> None:
    slowest = rows(folder, QUERIES[1])

    assert len(slowest) == 3


def test_the_last_query_gives_rows(folder: Path) -> None:
    assert rows(folder, QUERIES[2])


@pytest.mark.parametrize(("view", "columns"), VIEWS)
def test_a_view_has_the_columns_that_the_page_names(folder: Path, view: str, columns: str) -> None:
    with closing(sqlite3.connect(folder / "journal.sqlite")) as database:
        description = database.execute(f"SELECT * FROM {view}").description

    names = [column[0] for column in description]
    assert names == re.findall(r"`(\w+)`", columns)


def test_the_view_of_causes_has_the_causes_of_the_report(folder: Path) -> None:
    query = "SELECT case_id, cause, stage, answer, basis, detail FROM causes_by_case"

    causes = rows(folder, query)

    expected: list[tuple[object, ...]] = []
    for row in report_of(folder).rows():
        cause = row.attribution
        assert cause is not None
        expected.append((row.id, cause.cause, cause.stage, cause.answer, cause.basis, cause.detail))
    assert sorted(causes) == sorted(expected)


def test_the_python_code_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", RUN_FOLDER_PAGE, re.DOTALL)
    monkeypatch.chdir(folder.parent)

    exec(compile(code, "run_folder.md", "exec"), {})

    assert "recall@5" in capsys.readouterr().out


# --- docs/reuse.md


REUSE_PAGE = (ROOT / "docs" / "reuse.md").read_text("utf-8")
VERSIONED_RAG, VERSIONED_SERVER = re.findall(r"^```python\n(.*?)^```$", REUSE_PAGE, re.M | re.S)


def run_code(code: str) -> dict[str, Any]:
    """The names that a program of the page defines."""
    namespace: dict[str, Any] = {"__name__": "docs"}
    exec(code, namespace)
    return namespace


def test_the_note_is_that_of_the_report() -> None:
    not_reused = Reuse(False, False, "prompts.py changed")

    assert asked_again_sentence(not_reused) in REUSE_PAGE


@pytest.fixture(name="search")
def search_with_versions() -> Any:
    return run_code(VERSIONED_RAG)["Search"]


def origin_of(search: Any, stage: str) -> Any:
    """What the outcomes of a stage come from."""
    rag = search()
    description = describe_rag(rag, "search.py:Search")
    return stage_origin(rag, stage, Project([rag]), description)


@pytest.mark.parametrize("stage", ["retrieve", "generate"])
def test_outcomes_of_a_stage_with_a_version_may_be_reused(search: Any, stage: str) -> None:
    reuse = may_reuse(origin_of(search, stage), ())

    assert reuse.allowed


def test_a_new_version_of_the_prompt_changes_generation(search: Any) -> None:
    before = origin_of(search, "generate")

    search.prompt = "v8"

    after = origin_of(search, "generate")
    (change,) = differences(before, after)
    assert change.sentence == 'stage_identity.named.0.prompt: "v7" -> "v8"'


def test_a_new_version_of_the_prompt_leaves_retrieval_as_it_was(search: Any) -> None:
    before = origin_of(search, "retrieve")

    search.prompt = "v8"

    assert origin_of(search, "retrieve") == before


@contextmanager
def served(handler: Any) -> Generator[str]:
    """The address of a server that answers by a handler."""
    any_free_port = ("127.0.0.1", 0)
    with ThreadingHTTPServer(any_free_port, handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_server_names_its_version() -> None:
    pytest.importorskip("httpx", reason="pip install 'ragbench[http]'")
    from ragbench.rag.load import http_rag

    names = run_code(VERSIONED_SERVER)
    silent_handler = type("Handler", (names["Versioned"],), {"log_message": lambda *_: None})

    with served(silent_handler) as address:
        rag: Any = http_rag(address)
        identity = rag.stage_identity("retrieve")
        rag.close()

    assert identity[0]["version"] == names["VERSION"]
