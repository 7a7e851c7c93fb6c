"""A TREC run of a chunked collection gives trec_eval's figures as the report has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ir_measures
import pytest

from ragbench import Case, RetrievalResult, export_run
from ragbench.core.outcome import Known, Outcome, Status
from ragbench.core.trace import Entry
from tests.behaviour.rags import run

CHUNKS = {
    "q1": ["far#0", "leave#2", "leave#0", "leave#1", "desk#0"],
    "q2": ["desk#1", "desk#0", "far#3", "badge#0"],
}
GRADES = {"q1": {"leave": 2, "badge": 1}, "q2": {"badge": 1, "far": 0}}


def entries() -> list[Entry]:
    return [
        Entry(
            case=Case(id=id, query=id, grades=GRADES[id]),
            recorded={
                "retrieve": Outcome(
                    status=Status.MEASURED,
                    value=RetrievalResult(
                        [f"text {chunk}" for chunk in chunks],
                        context_ids=chunks,
                        scores=[1.0 - place / 10 for place in range(len(chunks))],
                    ),
                    known=Known.RECORDED,
                )
            },
        )
        for id, chunks in CHUNKS.items()
    ]


def test_chunks_stand_for_their_documents_where_documents_are_relevant(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    report = run(entries(), None, folder, metrics="nDCG@10, AP@10, P@5, MRR@10")
    run_file, qrels = export_run(folder, "trec").paths
    assert run_file.read_text("utf-8").splitlines() == [
        "q1 Q0 far#0 1 1.0 ragbench",
        "q1 Q0 leave 2 0.9 ragbench",
        "q1 Q0 desk#0 3 0.6 ragbench",
        "q2 Q0 desk#1 1 1.0 ragbench",
        "q2 Q0 far 2 0.8 ragbench",
        "q2 Q0 badge 3 0.7 ragbench",
    ]
    read: Any = ir_measures  # untyped
    measures = [ir_measures.parse_measure(name) for name in ("nDCG@10", "AP@10", "P@5", "RR@10")]
    found = ir_measures.calc_aggregate(
        measures,
        list(read.read_trec_qrels(str(qrels))),
        list(read.read_trec_run(str(run_file))),
    )
    ours = [summary.score for summary in report.summaries]
    assert ours == [pytest.approx(found[measure]) for measure in measures]
    assert ours[0] is not None
    assert ours[0] > 0.3  # and not the 0 of ids that never meet
