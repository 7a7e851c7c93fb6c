"""Outcomes that the source recorded are scored; what is missing is asked, or skipped and said."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ragbench import (
    Case,
    Entry,
    EvalSettings,
    GenerationResult,
    Known,
    Outcome,
    Report,
    RetrievalResult,
    Status,
    evaluate,
    open_source,
    open_traces,
    parse_metrics,
    report_of,
)
from ragbench.errors import DataError, InterruptedRunError, RunMismatchError
from ragbench.io.entries import EntrySource, SourceInfo
from ragbench.stages.stored import entries
from ragbench.verbs.evaluate import RunRequest, run_evaluation
from tests.behaviour.eval.test_resume import written
from tests.behaviour.rags import NotingRAG, OnlyGenerates, cases, run
from tests.unit.metrics.builders import generated, retrieved

METRICS = parse_metrics("recall@5, token_f1")


def entry(
    name: str, response: str | None = "Paris", *found: str, seconds: float | None = None
) -> Entry:
    recorded: dict[str, Outcome[Any]] = {}
    if response is not None:
        recorded["generate"] = generated(response, seconds=seconds)
    if found:
        recorded["retrieve"] = retrieved(*found)
    case = Case(
        id=name, query=f"capital of {name}?", reference="Paris", reference_context_ids=("a", "b")
    )
    return Entry(case=case, recorded=recorded)


def scored(entries: list[Entry], out: Path, rag: Any = None, **options: Any) -> Report:
    return evaluate(entries, rag, out=out, metrics=METRICS, **options)


def figures(report: Report) -> dict[str, tuple[float | None, int]]:
    return {s.metric.name: (s.score, s.measured) for s in report.summaries}


def test_a_recorded_latency_is_that_of_the_file(tmp_path: Path) -> None:
    report = scored([entry("x", "Paris", seconds=2.5)], tmp_path / "run")
    assert [(line.stage, line.mean) for line in report.latencies] == [("generate", 2.5)]


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
    gone = [entry("x", None, "a"), entry("y")]
    assert figures(scored(gone, tmp_path / "run"))["token_f1"] == (1.0, 1)


def test_a_record_stays_with_its_case_in_another_order(tmp_path: Path) -> None:
    given = [entry("x", "Paris", "a"), entry("y", "Lyon", "b"), entry("z", "Rome")]
    for some in (given[:2], given[::-1]):
        rows = scored(some, tmp_path / "run").rows()
        answers = [one.recorded["generate"].value for one in some]
        assert [row.response for row in rows] == [one.response for one in answers if one]


def test_a_generator_is_given_the_recorded_contexts_and_nothing_made_up(tmp_path: Path) -> None:
    rag = OnlyGenerates(answer="Paris")
    report = scored([entry("x", None, "a"), entry("y", None)], tmp_path / "run", rag)
    assert rag.asked == [("capital of x?", ["text of a"])]
    assert figures(report)["token_f1"] == (1.0, 1)
    reasons = {s.metric.name: s.reasons for s in report.summaries}
    assert reasons["token_f1"] == (("not recorded", 1),)


def answered(id_: str, response: str | GenerationResult, **said: Any) -> Entry:
    value = GenerationResult(response) if isinstance(response, str) else response
    outcome: Outcome[Any] = Outcome(status=Status.MEASURED, value=value)
    return Entry(case=Case(id=id_, query="q", **said), recorded={"generate": outcome})


def notes_of(data: list[Entry], folder: Path, metrics: str, about: str) -> tuple[Report, list[str]]:
    report = evaluate(data, out=folder, metrics=parse_metrics(metrics))
    return report, [note for note in report.notes if about in note]


def test_how_declined_answers_are_known_is_reported(tmp_path: Path) -> None:
    data = [
        answered("a", "I do not have specific information.", reference="27"),
        answered("b", "The text does not say. It was in May.", reference="in May"),
        answered("c", "27", reference="27"),
        answered("d", GenerationResult("pass", abstained=True), reference="27"),
    ]
    report, notes = notes_of(data, tmp_path, "token_f1", "declin")
    assert report.stages[-1].abstained == 2
    assert notes == [
        "1 answer counts as declined by how it reads: where the RAG says `abstained` itself, that "
        "counts instead.",
        "1 answer declines in one sentence and goes on in others: counted as answered.",
    ]


def test_a_case_whose_reference_declines_is_unanswerable(tmp_path: Path) -> None:
    silent = "The documents do not say."
    data = [
        answered("a", "I don't know.", reference=silent),
        answered("b", "Paris", reference=silent),
        answered("c", "I don't know.", reference=silent, answerable=True),
        answered("d", "I don't know.", reference=silent, alternative_references=("Paris",)),
    ]
    report, notes = notes_of(data, tmp_path, "abstention_accuracy", "unanswerable")
    cells = {row.id: row.cells[0].value for row in report.rows()}
    # a declines rightly, b answers though there is nothing, c declines what has an answer
    assert cells == {"a": 1.0, "b": 0.0, "c": 0.0, "d": None}
    assert notes == [
        "2 cases are taken as unanswerable: the reference says that there is no answer. "
        "`answerable` in the dataset overrides that."
    ]


def test_citation_marks_that_count_as_words_are_noted(tmp_path: Path) -> None:
    """Of "27 [1]." the words are 27 and 1: half of them are right, and no answer equals "27"."""
    data = [
        answered("a", "27 [1].", reference="27"),
        answered("b", "27\u30103:0\u2020source\u3011", reference="27"),
        answered("c", "27", reference="27"),
        answered("d", "[1, 2]", reference="[1, 2]"),  # what was asked for is a list
        answered("e", "27 [1]"),  # nothing to compare with
    ]
    report, (note,) = notes_of(data, tmp_path, "token_f1,exact_match", "citation")
    assert note.startswith("2 answers hold citation marks such as [1], the references none: ")
    assert "token_f1, exact_match count them as words" in note
    cells = {row.id: row.cells[1].value for row in report.rows()}
    assert cells == {"a": 0.0, "b": 0.0, "c": 1.0, "d": 1.0, "e": None}


@pytest.mark.parametrize("sign", [1, -1])
def test_scores_that_rise_as_distances_do_are_noted(tmp_path: Path, sign: int) -> None:
    value = RetrievalResult(["x", "y"], context_ids=["a", "c"], scores=[sign * 0.2, sign * 0.9])
    retrieved = {"retrieve": Outcome(status=Status.MEASURED, value=value)}
    data = [Entry(case=Case(id="1", query="?", reference_context_ids=("a",)), recorded=retrieved)]
    report, notes = notes_of(data, tmp_path, "MRR", "as distances do")
    assert len(notes) == (1 if sign == 1 else 0)
    assert report.summaries[0].score == 1.0  # the list's order is what counts


def test_answers_that_were_cut_off_are_noted(tmp_path: Path) -> None:
    said = [{"finish_reason": "length"}, {"stop_reason": "max_tokens"}, {"done_reason": "stop"}]
    data = [
        answered(str(at), GenerationResult("The answer is", metadata=shown), reference="27")
        for at, shown in enumerate([*said, {"finish_reason": "MAX_TOKENS"}, {}])
    ]
    _, (note,) = notes_of(data, tmp_path, "exact_match", "cut off")
    assert note.startswith("3 answers were cut off at a limit of tokens")
    assert note.endswith("Raise max_tokens.")


def test_gold_that_cannot_be_compared_has_the_same_causes_in_the_next_run(tmp_path: Path) -> None:
    """What was compared before it was known that nothing can be does not count."""
    found = [scored([entry("x", "Paris", "elsewhere")], tmp_path / "run") for _ in range(2)]
    assert not found[0].is_comparable
    assert found[0].causes == found[1].causes


# --- a stored run as the source of another evaluation


def at_once(entries: Iterable[Entry], out: Path, stop: Callable[[], bool] = lambda: False) -> None:
    """A run of a source whose first entries have recorded retrievals and answers."""
    info = SourceInfo(path="x", form="x", mapping={}, recorded={"retrieve": 1, "generate": 1})
    found, settings = EntrySource(info=info, read=lambda: iter(entries)), EvalSettings(source="x")
    request = RunRequest(out=out, metrics=METRICS, settings=settings, stopped=stop)
    run_evaluation(found, request)


def golden(number: int, gold: str, *found: str, **more: Any) -> Entry:
    one = entry(f"c{number}", f"It is {number % 7}.", *found)
    known = {"reference": f"It is {number}.", "reference_context_ids": (gold,), **more}
    return replace(one, case=replace(one.case, **known))


SKIPPED: Outcome[Any] = Outcome(status=Status.SKIPPED, reason="nothing to judge")


@pytest.mark.parametrize(
    "given",
    [
        [golden(n, f"d{n}", f"d{n % 3}", "d1") for n in range(600)],
        # Of so many a sample is checked, which depends on how many there are.
        [golden(n, "a", "a", reference_contexts=(f"the long text of d{n}",)) for n in range(1100)],
        # What was retrieved is the gold of cases far behind it.
        [golden(n, f"d{n}", f"d{n + 600}") for n in range(1200)],
        [golden(1, "a", "a"), Entry(case=golden(2, "a").case, recorded={"validate": SKIPPED})],
    ],
    ids=["ids", "texts", "shifted", "a stage that only the last case has"],
)
def test_a_first_run_is_as_if_all_cases_had_been_read_before(
    tmp_path: Path, given: list[Entry]
) -> None:
    settings, out, other = EvalSettings(source="x"), tmp_path / "run", tmp_path / "read before"
    at_once(given, out)
    first = written(out)
    for place in (other, other, out):
        scored(given, place, settings=settings)
        assert written(place) == first


def test_a_first_run_keeps_all_cases_or_none(tmp_path: Path) -> None:
    for given, stop, error in (
        ([golden(1, "a", "a")] * 2, lambda: False, DataError),
        ([golden(1, "a", "a")], lambda: True, InterruptedRunError),
    ):
        with pytest.raises(error):
            at_once(given, tmp_path / "run", stop)
        assert list(tmp_path.iterdir()) == []


GIVEN = [golden(n, f"d{n}", f"d{n % 3}", "d1") for n in range(1100)]


@pytest.mark.parametrize("after", [515, 1030, 1100])
def test_a_first_run_that_is_stopped_keeps_what_is_scored(tmp_path: Path, after: int) -> None:
    asked = count(1)
    with pytest.raises(InterruptedRunError, match="the same command continues"):
        at_once(GIVEN, tmp_path / "run", lambda: next(asked) > after)
    assert {s.measured for s in report_of(tmp_path / "run").summaries} <= {512, 1024}
    for name in ("run", "whole"):
        at_once(GIVEN, tmp_path / name)
    assert written(tmp_path / "run") == written(tmp_path / "whole")


def test_what_a_run_that_died_has_scored_is_not_shown_of_other_cases(tmp_path: Path) -> None:
    out, asked = tmp_path / "run", count(1)
    out.mkdir()
    with pytest.raises(ZeroDivisionError):
        at_once((golden(n, "a", "a") if n < 1024 else GIVEN[1 // 0] for n in count()), out)
    with pytest.raises(RunMismatchError, match="the command that began it continues"):
        report_of(out)
    with pytest.raises(InterruptedRunError):
        at_once(GIVEN, out, lambda: next(asked) > 1104)
    with sqlite3.connect(out / "journal.sqlite") as db:
        assert db.execute("SELECT count(DISTINCT case_id) FROM scores").fetchone() == (512,)


def test_what_was_not_asked_yet_is_not_recorded(tmp_path: Path) -> None:
    rag = NotingRAG()
    with pytest.raises(InterruptedRunError):
        run(cases("a", "b"), rag, tmp_path, stopped=lambda: bool(rag.generated))
    found = list(entries(tmp_path))
    assert [sorted(entry.recorded) for entry in found] == [["generate", "retrieve"], ["retrieve"]]
    took = next(open_traces(tmp_path)).trace.generation.seconds
    assert took and found[0].recorded["generate"].seconds == took


def test_a_folder_without_a_run(tmp_path: Path) -> None:
    with pytest.raises(RunMismatchError, match="not a run folder"):
        list(entries(tmp_path))
    (tmp_path / "journal.sqlite").write_bytes(b"no journal")
    (tmp_path / "manifest.json").write_text("{}", "utf-8")
    with open_source(tmp_path) as source, pytest.raises(DataError, match="not a manifest"):
        list(source)
