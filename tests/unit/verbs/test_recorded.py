"""Outcomes that the source recorded are scored; what is missing is asked, or skipped and said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ragbench.core.case import Case
from ragbench.core.outcome import Failure, Known, Outcome, Status
from ragbench.core.report import Report
from ragbench.core.result import GenerationResult, RetrievalResult
from ragbench.core.trace import Entry
from ragbench.errors import ConfigError
from ragbench.metrics.registry import parse_metrics
from ragbench.rag.interface import RAGInterface
from ragbench.verbs.evaluate import evaluate
from ragbench.verbs.report import open_traces, report_of
from tests.unit.verbs.rags import NotingRAG, run

METRICS = parse_metrics("recall@5, token_f1")


def entry(
    name: str, response: str | None = "Paris", *found: str, seconds: float | None = None
) -> Entry:
    recorded: dict[str, Outcome[Any]] = {}
    if response is not None:
        recorded["generate"] = Outcome(
            status=Status.MEASURED, value=GenerationResult(response), seconds=seconds
        )
    if found:
        value = RetrievalResult([f"text of {id}" for id in found], context_ids=list(found))
        recorded["retrieve"] = Outcome(status=Status.MEASURED, value=value)
    case = Case(
        id=name, query=f"capital of {name}?", reference="Paris", reference_context_ids=("a", "b")
    )
    return Entry(case=case, recorded=recorded)


def scored(entries: list[Entry], out: Path, rag: Any = None, **options: Any) -> Report:
    return evaluate(entries, rag, out=out, metrics=METRICS, **options)


def figures(report: Report) -> dict[str, tuple[float | None, int]]:
    return {s.metric.name: (s.score, s.measured) for s in report.summaries}


def test_recorded_answers_are_scored_without_a_rag(tmp_path: Path) -> None:
    report = scored([entry("x", "Paris", "a", "b"), entry("y", "Lyon", "c")], tmp_path / "run")
    assert figures(report) == {"recall@5": (0.5, 2), "token_f1": (0.5, 2)}
    assert [(s.stage, s.recorded, s.reused) for s in report.stages] == [
        ("retrieve", 2, 0),
        ("generate", 2, 0),
    ]
    assert report.latencies == ()  # of a recorded answer nothing is known but what the file says
    assert report_of(tmp_path / "run").summaries == report.summaries


def test_what_is_missing_is_skipped_and_never_a_zero(tmp_path: Path) -> None:
    report = scored([entry("x", None, "a"), entry("y", "Paris")], tmp_path / "run")
    assert figures(report) == {"recall@5": (0.5, 1), "token_f1": (1.0, 1)}
    reasons = {s.metric.name: s.reasons for s in report.summaries}
    assert reasons["token_f1"] == (("not recorded", 1),)
    assert reasons["recall@5"] == (("not recorded", 1),)


def test_a_recorded_latency_is_that_of_the_file(tmp_path: Path) -> None:
    report = scored([entry("x", "Paris", seconds=2.5)], tmp_path / "run")
    assert [(line.stage, line.mean) for line in report.latencies] == [("generate", 2.5)]


def test_a_recorded_failure_is_a_failure(tmp_path: Path) -> None:
    failure = Failure(type="Timeout", message="after 30 s", stage="generate")
    bad = Entry(
        case=entry("x").case, recorded={"generate": Outcome(status=Status.FAILED, failure=failure)}
    )
    report = scored([bad, entry("y")], tmp_path / "run")
    assert figures(report)["token_f1"] == (1.0, 1)
    assert [(group.type, group.count) for group in report.failures] == [("Timeout", 1)]


def test_with_a_rag_only_what_is_missing_is_asked(tmp_path: Path) -> None:
    rag = NotingRAG()
    entries = [entry("x", "Paris", "a"), entry("y", None, "a"), entry("z", "Paris")]
    scored(entries, tmp_path / "run", rag)
    assert rag.retrieved == ["capital of z?"]
    assert rag.generated == ["capital of y?"]
    known = {
        case.trace.case.id: (case.trace.retrieval.known, case.trace.generation.known)
        for case in open_traces(tmp_path / "run")
    }
    assert known == {
        "x": (Known.RECORDED, Known.RECORDED),
        "y": (Known.RECORDED, Known.ASKED),
        "z": (Known.ASKED, Known.RECORDED),
    }


def test_a_changed_record_is_scored_anew(tmp_path: Path) -> None:
    scored([entry("x", "Paris", "a")], tmp_path / "run")
    assert figures(scored([entry("x", "Lyon", "a")], tmp_path / "run"))["token_f1"] == (0.0, 1)
    assert figures(scored([entry("x", "Lyon", "a", "b")], tmp_path / "run"))["recall@5"] == (1.0, 1)


def test_a_record_that_went_is_not_shown_any_more(tmp_path: Path) -> None:
    scored([entry("x", "Paris", "a"), entry("y")], tmp_path / "run")
    report = scored([entry("x", None, "a"), entry("y")], tmp_path / "run")
    assert figures(report)["token_f1"] == (1.0, 1)


class OnlyGenerates(RAGInterface, families=("generation",)):
    asked: list[tuple[str, list[str]]]

    def __init__(self) -> None:
        super().__init__()
        self.asked = []

    def generate(self, query: str, contexts: list[str]) -> str:
        self.asked.append((query, contexts))
        return "Paris"


def test_a_generator_is_given_the_recorded_contexts_and_nothing_made_up(tmp_path: Path) -> None:
    rag = OnlyGenerates()
    report = scored([entry("x", None, "a"), entry("y", None)], tmp_path / "run", rag)
    assert rag.asked == [("capital of x?", ["text of a"])]
    assert figures(report)["token_f1"] == (1.0, 1)
    reasons = {s.metric.name: s.reasons for s in report.summaries}
    assert reasons["token_f1"] == (("not recorded", 1),)


def test_nothing_recorded_and_nobody_to_ask_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing to score in said\.jsonl"):
        scored([entry("x", None)], tmp_path / "run", source="said.jsonl")
    assert not (tmp_path / "run").exists()


def test_an_asked_run_can_be_scored_from_its_records(tmp_path: Path) -> None:
    """A run's own outcomes, given as records, come to the same figures."""
    cases = [Case(id=str(n), query=f"q{n}", reference=f"answer to q{n}") for n in range(5)]
    report = run(cases, NotingRAG(), tmp_path / "asked")
    entries = [
        Entry(
            case=case.trace.case,
            recorded={"retrieve": case.trace.retrieval, "generate": case.trace.generation},
        )
        for case in open_traces(tmp_path / "asked")
    ]
    again = run(entries, None, tmp_path / "recorded")
    assert [s.score for s in again.summaries] == [s.score for s in report.summaries]
