"""A report says of each field what it was read from, and for which reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragbench import evaluate
from ragbench.views.document import markdown
from ragbench.views.run_document import run_document
from tests.cli.runs import Ragbench, lines, report

TEXT = "The help desk is open from 8 to 17."
ANSWERED: dict[str, Any] = {
    "query": "When is the help desk open?",
    "answer": "from 8 to 17",
    "response": "At eight.",
    "docs": [TEXT],
}
AZURE = {
    "question": "When is the help desk open?",
    "truth": "from 8 to 17",
    "answer": "At eight.",
    "context": f"desk.md: {TEXT}",
}


def by_field(roles: list[dict[str, str]]) -> dict[str, tuple[str, str]]:
    """What each field was read from, with the reason; a form by its name."""
    sources = {}
    for role in roles:
        reason = role["form"] or role["reason"]
        sources[role["field"]] = (role["source"], reason)
    return sources


def roles_of_run() -> dict[str, tuple[str, str]]:
    manifest = report()["manifest"]
    return by_field(manifest["roles"])


def test_names_and_fields_of_the_user_are_told_apart(ragbench: Ragbench) -> None:
    path = lines("said.jsonl", [ANSWERED])

    ragbench("eval", path, "--field", "retrieved_contexts=docs", "-o", "run").ok()

    assert roles_of_run() == {
        "query": ("query", "name"),
        "reference": ("answer", "name"),
        "response": ("response", "name"),
        "retrieved_contexts": ("docs", "field"),
    }


def test_a_form_is_named_with_the_fields_that_the_tool_writes(ragbench: Ragbench) -> None:
    ragbench("eval", lines("results.jsonl", [AZURE]), "-o", "run").ok()

    assert roles_of_run() == {
        "query": ("question", "azure-results"),
        "reference": ("truth", "azure-results"),
        "response": ("answer", "azure-results"),
        "retrieved_contexts": ("context", "azure-results"),
        "retrieved_context_ids": ("context", "azure-results"),
    }


def test_a_rerankers_results_are_named_beside_their_documents(ragbench: Ragbench) -> None:
    results = [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.1}]
    row = {"query": "When?", "documents": ["Towels.", TEXT], "results": results}

    ragbench("eval", lines("reranked.jsonl", [row]), "-o", "run").ok()

    roles = roles_of_run()
    assert roles["query"] == ("query", "name")
    assert roles["retrieved_contexts"] == ("documents, results", "reranker")


def test_the_page_and_report_md_have_a_row_for_each_field(ragbench: Ragbench) -> None:
    path = lines("said.jsonl", [ANSWERED])

    ragbench("eval", path, "--field", "retrieved_contexts=docs", "-o", "run").ok()

    text = Path("run/report.md").read_text("utf-8")
    page = Path("run/report.html").read_text("utf-8")
    assert "| reference | answer | ragbench's name |" in text
    assert "| retrieved\\_contexts | docs | --field |" in text
    assert "Read as follows" in page
    assert page.count("ragbench&#39;s name") == 3


def test_joined_outputs_are_named_beside_the_dataset(ragbench: Ragbench) -> None:
    cases = lines("cases.jsonl", [{"id": "c1", "query": "When?", "answer": "from 8 to 17"}])
    outputs = lines("out.jsonl", [{"id": "c1", "answer": "At eight.", "docs": [TEXT]}])
    field = "outputs.retrieved_contexts=docs"

    ragbench("eval", cases, "--outputs", outputs, "--field", field, "-o", "run").ok()

    rows = []
    for role in report()["manifest"]["roles"]:
        rows.append((role["path"], role["field"], role["source"], role["reason"]))
    assert rows == [
        ("cases.jsonl", "id", "id", "name"),
        ("cases.jsonl", "query", "query", "name"),
        ("cases.jsonl", "reference", "answer", "name"),
        ("out.jsonl", "id", "id", "name"),
        ("out.jsonl", "response", "answer", "name"),
        ("out.jsonl", "retrieved_contexts", "docs", "field"),
    ]
    assert "| out.jsonl |" in Path("run/report.md").read_text("utf-8")


def test_recorded_fields_that_are_asked_again_are_not_listed(ragbench: Ragbench) -> None:
    path = lines("said.jsonl", [ANSWERED])

    ragbench("eval", path, "--rag", "rags.py:Plain", "--ask-again", "-o", "run").ok()

    assert list(roles_of_run()) == ["query", "reference"]


def test_chunks_of_a_known_form_are_named_by_it(ragbench: Ragbench) -> None:
    chunk = {"page_content": TEXT, "metadata": {"source": "desk.md"}}
    path = lines("said.jsonl", [{"query": "When?", "contexts": [chunk]}])

    ragbench("eval", path, "-o", "run")

    roles = roles_of_run()
    assert roles["retrieved_contexts"] == ("contexts", "name")
    assert roles["chunk_text"] == ("contexts[].page_content", "langchain")


def test_a_run_of_records_from_no_file_has_no_such_section(tmp_path: Path) -> None:
    made = evaluate([{"query": "When?", "response": "At eight."}], out=tmp_path / "run")

    document = run_document(made)

    assert made.manifest["roles"] == []
    assert "Read as follows" not in markdown(document)


@pytest.mark.parametrize(
    ("record", "fields", "expected"),
    [
        (
            {"query": "When?", "chunks": [{"id": "a", "text": TEXT}]},
            (),
            {"retrieved_contexts": ("chunks", "name"), "chunk_text": ("text", "name")},
        ),
        (
            {"query": "When?", "mine": [{"id": "a", "text": TEXT}]},
            ("--field", "chunks=mine"),
            {"retrieved_contexts": ("mine", "field"), "chunk_text": ("text", "name")},
        ),
        (
            {
                "query": "When?",
                "hits": {"hits": [{"_id": "a", "_score": 2, "_source": {"text": TEXT}}]},
            },
            (),
            {"retrieved_contexts": ("", "elasticsearch"), "query": ("query", "name")},
        ),
        (
            AZURE,
            (),
            {"retrieved_contexts": ("context", "azure-results")},
        ),
    ],
    ids=["names", "user", "store", "tool"],
)
def test_validate_says_the_same(
    ragbench: Ragbench,
    record: dict[str, Any],
    fields: tuple[str, ...],
    expected: dict[str, tuple[str, str]],
) -> None:
    dump = lines("dump.jsonl", [record])
    command = ("validate", dump, *fields, "--out", "verdicts.jsonl", "--html", "page.html")

    ragbench(*command).ok()

    summary = json.loads(Path("verdicts.summary.json").read_text("utf-8"))
    roles = by_field(summary["roles"])
    for name, source in expected.items():
        assert roles[name] == source
    assert "Read as follows" in Path("page.html").read_text("utf-8")
