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
    data = ROOT / "datasets" / "pellorin"
    out = tmp_path_factory.mktemp("docs") / "run"
    rag = BaselineRAG.from_corpus(data)
    evaluate(read_cases(data), rag, out=out, settings=EvalSettings(selection=Selection(limit=20)))
    return out


def rows(folder: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"file:{folder / 'journal.sqlite'}?mode=ro", uri=True)) as run:
        return run.execute(query).fetchall()


def test_the_page_shows_three_queries_and_seven_views() -> None:
    """Else the tests of them would test nothing."""
    assert len(QUERIES) == 3
    assert len(VIEWS) == 7


def test_the_query_of_scores_gives_those_of_the_report(folder: Path) -> None:
    expected: list[tuple[object, ...]] = []
    for summary in report_of(folder).summaries:
        score = summary.score
        if score is not None:
            score = round(score, 3)
        expected.append((summary.metric.name, score, summary.measured, summary.total))

    scores: list[tuple[object, ...]] = []
    for name, score, _low, _high, measured, total in rows(folder, QUERIES[0]):
        scores.append((name, score, measured, total))

    assert scores == expected


def test_the_query_of_the_slowest_answers_gives_rows(folder: Path) -> None:
    assert len(rows(folder, QUERIES[1])) == 3


def test_the_last_query_gives_rows(folder: Path) -> None:
    assert rows(folder, QUERIES[2])


@pytest.mark.parametrize(("view", "columns"), VIEWS)
def test_a_view_has_the_columns_that_the_page_names(folder: Path, view: str, columns: str) -> None:
    with closing(sqlite3.connect(folder / "journal.sqlite")) as run:
        description = run.execute(f"SELECT * FROM {view}").description

    names = [column[0] for column in description]
    assert names == re.findall(r"`(\w+)`", columns)


def test_the_view_of_causes_has_the_causes_of_the_report(folder: Path) -> None:
    expected: list[tuple[object, ...]] = []
    for row in report_of(folder).rows():
        cause = row.attribution
        assert cause is not None
        expected.append((row.id, cause.cause, cause.stage, cause.answer, cause.basis, cause.detail))

    causes = rows(folder, "SELECT case_id, cause, stage, answer, basis, detail FROM causes_by_case")

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
    assert asked_again_sentence(Reuse(False, False, "prompts.py changed")) in REUSE_PAGE


@pytest.fixture(name="search")
def search_with_versions() -> Any:
    return run_code(VERSIONED_RAG)["Search"]


def origin_of(search: Any, stage: str) -> Any:
    rag = search()
    return stage_origin(rag, stage, Project([rag]), describe_rag(rag, "search.py:Search"))


@pytest.mark.parametrize("stage", ["retrieve", "generate"])
def test_outcomes_of_a_stage_with_a_version_may_be_reused(search: Any, stage: str) -> None:
    assert may_reuse(origin_of(search, stage), ()).allowed


def test_a_new_version_of_the_prompt_changes_generation(search: Any) -> None:
    before = origin_of(search, "generate")

    search.prompt = "v8"

    (change,) = differences(before, origin_of(search, "generate"))
    assert change.sentence == 'stage_identity.named.0.prompt: "v7" -> "v8"'


def test_a_new_version_of_the_prompt_leaves_retrieval_as_it_was(search: Any) -> None:
    before = origin_of(search, "retrieve")

    search.prompt = "v8"

    assert origin_of(search, "retrieve") == before


@contextmanager
def served(handler: Any) -> Generator[str]:
    """The address of a server that answers by a handler."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
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
