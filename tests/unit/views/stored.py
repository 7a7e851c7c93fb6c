"""Reports of stored runs, with data that means harm."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from ragbench import Case, GenerationResult, RetrievalResult, report_of
from ragbench.core.report import Report
from ragbench.views.write import write_reports
from tests.behaviour.rags import NotingRAG, run

HOSTILE = [
    "plain",
    "=cmd|' /C calc'!A0",
    "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1",
    "a | b | c",
    "`code` *bold* _under_ ~~gone~~ [link](http://x) ![i](x)",
    "<script>alert(1)</script> <!-- & -->",
    "# title\n\n- list\n| --- |",
    "nul \x00 and escape \x1b[31m and \u202eturned",
    'quote " and \\" and \\',
    "名前 🜚 é",
    "",
]  # fmt: skip


class HostileRAG(NotingRAG):
    """Gives back what it is asked, in every field; fails with it for every third question."""

    def retrieve_with_metadata(self, query: str, top_k: int | None = None) -> RetrievalResult:
        return RetrievalResult([query, "x"], context_ids=[query, f"{query} 2"])

    def generate_with_metadata(self, query: str, contexts: list[str]) -> GenerationResult:
        if len(query) % 3 == 0:
            raise ValueError(query)
        return GenerationResult(query, multi_responses=[query], confidence=0.5)


def hostile_cases() -> list[Case]:
    return [
        Case(
            id=f"{number} {text}",
            query=text,
            reference=text,
            reference_context_ids=(text,),
            cluster=text,
            tags=(text, "shared"),
            language=text,
        )
        for number, text in enumerate(HOSTILE)
    ]


def hostile_report(folder: Path, **options: Any) -> Report:
    name = "<b>data|set`</b>\x1b"
    return run(
        hostile_cases(),
        HostileRAG(),
        folder,
        metrics=None,
        name=name,
        source=f"{name}.jsonl",
        rag_name="R|A|G <img>",
        **options,
    )


def written(folder: Path) -> dict[str, bytes]:
    """Renders a stored run and reads the files."""
    return {path.name: path.read_bytes() for path in write_reports(report_of(folder), folder)}


def table_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "cases.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def json_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "report.json").read_bytes())
    return found
