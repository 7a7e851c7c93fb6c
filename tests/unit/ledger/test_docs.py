"""docs/run_folder.md and docs/reuse.md: what they say is so."""

from __future__ import annotations

import re
import sqlite3
import threading
from contextlib import closing
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ragbench import BaselineRAG, EvalSettings, Selection, evaluate, read_cases, report_of
from ragbench.ledger.origin import Reuse, asked_again_sentence, differences, may_reuse
from ragbench.ledger.project import Project
from ragbench.rag.load import describe_rag, stage_origin

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "run_folder.md").read_text("utf-8")


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


def test_every_query_gives_rows(folder: Path) -> None:
    queries = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
    assert len(queries) == 3
    found = [rows(folder, query) for query in queries]
    assert all(found)
    assert [row[:2] + row[4:] for row in found[0]] == [
        (one.metric.name, one.score and round(one.score, 3), one.measured, one.total)
        for one in report_of(folder).summaries
    ]
    assert len(found[1]) == 3


def test_the_views_have_the_columns_that_the_page_names(folder: Path) -> None:
    views = re.findall(r"^\| `(\w+)` \| (`\w+`(?:, `\w+`)+) \|$", PAGE, re.MULTILINE)
    assert len(views) == 7
    with closing(sqlite3.connect(folder / "journal.sqlite")) as run:
        for view, columns in views:
            found = [column[0] for column in run.execute(f"SELECT * FROM {view}").description]
            assert found == re.findall(r"`(\w+)`", columns)


def test_the_cause_of_every_case_stands_beside_its_cells(folder: Path) -> None:
    names, report = ("cause", "stage", "answer", "basis", "detail"), report_of(folder)
    stored = rows(folder, f"SELECT case_id, {', '.join(names)} FROM causes_by_case")
    found = {row.id: row.attribution for row in report.rows()}
    assert {row[0]: row[1:] for row in stored} == {
        id: tuple(getattr(one, name) for name in names) for id, one in found.items()
    }


def test_the_python_code_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder.parent)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(code, "run_folder.md", "exec"), {})
    assert "recall@5" in capsys.readouterr().out


REUSE = (Path(__file__).parents[3] / "docs" / "reuse.md").read_text("utf-8")
VOUCHED, SERVER = re.findall(r"^```python\n(.*?)^```$", REUSE, re.M | re.S)


def run(code: str) -> dict[str, Any]:
    space: dict[str, Any] = {"__name__": "docs"}
    exec(code, space)
    return space


def test_the_note_is_the_one_that_the_report_holds() -> None:
    assert asked_again_sentence(Reuse(False, False, "prompts.py changed")) in REUSE


def test_a_version_replaces_everything_for_its_stage() -> None:
    search = run(VOUCHED)["Search"]

    def origin(stage: str) -> Any:
        rag = search()
        return stage_origin(rag, stage, Project([rag]), describe_rag(rag, "search.py:Search"))

    before = {stage: origin(stage) for stage in ("retrieve", "generate")}
    assert all(may_reuse(found, ()).allowed for found in before.values())
    search.prompt = "v8"
    assert origin("retrieve") == before["retrieve"]
    (change,) = differences(before["generate"], origin("generate"))
    assert change.sentence == 'stage_identity.named.0.prompt: "v7" -> "v8"'


def test_a_server_names_its_version() -> None:
    pytest.importorskip("httpx", reason="pip install 'ragbench[http]'")
    from ragbench.rag.load import http_rag

    space = run(SERVER)

    handler: Any = type("Handler", (space["Versioned"],), {"log_message": lambda *_: None})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        rag: Any = http_rag(f"http://127.0.0.1:{server.server_port}")
        found: Any = rag.stage_identity("retrieve")
        rag.close()
        server.shutdown()
        thread.join()
    assert found[0]["version"] == space["VERSION"]
