"""A TREC run of a chunked collection gives trec_eval's figures as the report has them."""

from pathlib import Path
from typing import Any

import ir_measures
import pytest

from ragbench import Case, Entry, Known, Outcome, RetrievalResult, Status, export_run
from tests.behaviour.rags import run

CHUNKS = {
    "q1": ["far#0", "leave#2", "leave#0", "leave#1", "desk#0"],
    "q2": ["desk#1", "desk#0", "far#3", "badge#0"],
}
GRADES = {"q1": {"leave": 2, "badge": 1}, "q2": {"badge": 1, "far": 0}}


def entry(id: str, chunks: list[str]) -> Entry:
    """A case with its recorded chunks, whose scores fall from 1 in steps of a tenth."""
    texts = [f"text {chunk}" for chunk in chunks]
    scores = [1.0 - place / 10 for place in range(len(chunks))]
    result = RetrievalResult(texts, context_ids=chunks, scores=scores)
    retrieved = Outcome(status=Status.MEASURED, value=result, known=Known.RECORDED)
    case = Case(id=id, query=id, grades=GRADES[id])
    return Entry(case=case, recorded={"retrieve": retrieved})


def test_chunks_stand_for_their_documents_where_documents_are_relevant(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    entries = [entry(id, chunks) for id, chunks in CHUNKS.items()]
    report = run(entries, None, folder, metrics="nDCG@10, AP@10, P@5, MRR@10")

    run_file, qrels = export_run(folder, "trec").paths

    assert run_file.read_text("utf-8").splitlines() == [
        "q1 Q0 far#0 1 1.0 ragbench",
        "q1 Q0 leave 2 0.9 ragbench",
        "q1 Q0 desk#0 3 0.6 ragbench",
        "q2 Q0 desk#1 1 1.0 ragbench",
        "q2 Q0 far 2 0.8 ragbench",
        "q2 Q0 badge 3 0.7 ragbench",
    ]
    trec: Any = ir_measures  # untyped
    measures = [trec.parse_measure(name) for name in ("nDCG@10", "AP@10", "P@5", "RR@10")]
    judgements = list(trec.read_trec_qrels(str(qrels)))
    ranking = list(trec.read_trec_run(str(run_file)))
    figures = trec.calc_aggregate(measures, judgements, ranking)
    scores = [summary.score for summary in report.summaries]
    assert scores == [pytest.approx(figures[measure]) for measure in measures]
    assert scores[0] is not None
    assert scores[0] > 0.3  # and not the 0 of ids that never meet
