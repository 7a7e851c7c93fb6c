"""Outcomes that the source recorded are scored; what is missing is asked, or skipped and said."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
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
from tests.behaviour.rags import NotingRAG, OnlyGenerates, cases, report_files, run
from tests.unit.metrics.builders import generated, retrieved

METRICS = parse_metrics("recall@5, token_f1")


def entry(
    name: str, response: str | None = "Paris", *context_ids: str, seconds: float | None = None
) -> Entry:
    """A case about Paris with the gold a and b, and what is recorded of it."""
    case = Case(
        id=name, query=f"capital of {name}?", reference="Paris", reference_context_ids=("a", "b")
    )
    recorded: dict[str, Outcome[Any]] = {}
    if response is not None:
        recorded["generate"] = generated(response, seconds=seconds)
    if context_ids:
        recorded["retrieve"] = retrieved(*context_ids)
    return Entry(case=case, recorded=recorded)


def scored(entries: list[Entry], out: Path, rag: Any = None, **options: Any) -> Report:
    """The report of an evaluation by recall and token F1."""
    return evaluate(entries, rag, out=out, metrics=METRICS, **options)


def score_and_count(report: Report, metric: str) -> tuple[float | None, int]:
    """The score of a metric, and over how many cases."""
    summaries = {summary.metric.name: summary for summary in report.summaries}
    return summaries[metric].score, summaries[metric].measured


def test_a_recorded_latency_is_that_of_the_file(tmp_path: Path) -> None:
    report = scored([entry("x", "Paris", seconds=2.5)], tmp_path / "run")

    (latency,) = report.latencies
    assert latency.stage == "generate"
    assert latency.mean == 2.5


def test_with_a_rag_only_what_is_missing_is_asked(tmp_path: Path) -> None:
    rag = NotingRAG()
    whole = entry("x", "Paris", "a")
    without_answer = entry("y", None, "a")
    without_retrieval = entry("z", "Paris")

    scored([whole, without_answer, without_retrieval], tmp_path / "run", rag)

    assert rag.retrieved == ["capital of z?"]
    assert rag.generated == ["capital of y?"]


def test_a_stored_run_says_what_was_recorded_and_what_was_asked(tmp_path: Path) -> None:
    data = [
        entry("x", "Paris", "a"),
        entry("y", None, "a"),
        entry("z", "Paris"),
    ]

    scored(data, tmp_path / "run", NotingRAG())

    origins = {}
    for scored_case in open_traces(tmp_path / "run"):
        trace = scored_case.trace
        origins[trace.case.id] = (trace.retrieval.known, trace.generation.known)
    assert origins == {
        "x": (Known.RECORDED, Known.RECORDED),
        "y": (Known.RECORDED, Known.ASKED),
        "z": (Known.ASKED, Known.RECORDED),
    }


def test_a_changed_answer_is_scored_anew(tmp_path: Path) -> None:
    scored([entry("x", "Paris", "a")], tmp_path / "run")

    report = scored([entry("x", "Lyon", "a")], tmp_path / "run")

    assert score_and_count(report, "token_f1") == (0.0, 1)


def test_a_changed_retrieval_is_scored_anew(tmp_path: Path) -> None:
    scored([entry("x", "Paris", "a")], tmp_path / "run")

    report = scored([entry("x", "Paris", "a", "b")], tmp_path / "run")

    assert score_and_count(report, "recall@5") == (1.0, 1)


def test_an_answer_that_is_no_longer_recorded_is_no_longer_scored(tmp_path: Path) -> None:
    scored([entry("x", "Lyon", "a")], tmp_path / "run")

    report = scored([entry("x", None, "a"), entry("y", "Paris")], tmp_path / "run")

    assert score_and_count(report, "token_f1") == (1.0, 1)


def test_a_record_stays_with_its_case_in_another_order(tmp_path: Path) -> None:
    x = entry("x", "Paris", "a")
    y = entry("y", "Lyon", "b")
    z = entry("z", "Rome")
    scored([x, y], tmp_path / "run")

    report = scored([z, y, x], tmp_path / "run")

    responses = [(row.id, row.response) for row in report.rows()]
    assert responses == [("z", "Rome"), ("y", "Lyon"), ("x", "Paris")]


def test_a_generator_is_given_the_recorded_contexts_and_nothing_made_up(tmp_path: Path) -> None:
    rag = OnlyGenerates(answer="Paris")
    with_contexts = entry("x", None, "a")
    without_contexts = entry("y", None)

    report = scored([with_contexts, without_contexts], tmp_path / "run", rag)

    assert rag.calls == [("capital of x?", ["text of a"])]
    assert score_and_count(report, "token_f1") == (1.0, 1)
    reasons = {summary.metric.name: summary.reasons for summary in report.summaries}
    assert reasons["token_f1"] == (("not recorded", 1),)


# --- notes about recorded answers and retrievals


def answered(id_: str, response: str | GenerationResult, **fields: Any) -> Entry:
    """A case with these fields and a recorded answer."""
    case = Case(id=id_, query="q", **fields)
    result = GenerationResult(response) if isinstance(response, str) else response
    outcome: Outcome[Any] = Outcome(status=Status.MEASURED, value=result)
    return Entry(case=case, recorded={"generate": outcome})


def notes_about(report: Report, word: str) -> list[str]:
    return [note for note in report.notes if word in note]


def values_by_case(report: Report, column: int = 0) -> dict[str, float | None]:
    """The values of one metric, the first one or that of the column."""
    return {row.id: row.cells[column].value for row in report.rows()}


def test_how_declined_answers_are_known_is_reported(tmp_path: Path) -> None:
    data = [
        answered("a", "I do not have specific information.", reference="27"),
        answered("b", "The text does not say. It was in May.", reference="in May"),
        answered("c", "27", reference="27"),
        answered("d", GenerationResult("pass", abstained=True), reference="27"),
    ]

    report = evaluate(data, out=tmp_path, metrics=parse_metrics("token_f1"))

    assert report.stages[-1].abstained == 2
    assert notes_about(report, "declin") == [
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

    report = evaluate(data, out=tmp_path, metrics=parse_metrics("abstention_accuracy"))

    # a declines rightly, b answers though there is nothing, c declines what has an answer.
    assert values_by_case(report) == {"a": 1.0, "b": 0.0, "c": 0.0, "d": None}
    assert notes_about(report, "unanswerable") == [
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

    report = evaluate(data, out=tmp_path, metrics=parse_metrics("token_f1,exact_match"))

    (note,) = notes_about(report, "citation")
    assert note.startswith("2 answers hold citation marks such as [1], the references none: ")
    assert "token_f1, exact_match count them as words" in note
    exact_matches = values_by_case(report, column=1)
    assert exact_matches == {"a": 0.0, "b": 0.0, "c": 1.0, "d": 1.0, "e": None}


def report_of_scores(folder: Path, *scores: float) -> Report:
    """Of one case whose gold chunk a stands before c, with these scores."""
    case = Case(id="1", query="?", reference_context_ids=("a",))
    result = RetrievalResult(["x", "y"], context_ids=["a", "c"], scores=list(scores))
    outcome: Outcome[Any] = Outcome(status=Status.MEASURED, value=result)
    entry = Entry(case=case, recorded={"retrieve": outcome})
    return evaluate([entry], out=folder, metrics=parse_metrics("MRR"))


def test_scores_that_rise_as_distances_do_are_noted(tmp_path: Path) -> None:
    report = report_of_scores(tmp_path, 0.2, 0.9)

    assert len(notes_about(report, "as distances do")) == 1
    assert report.summaries[0].score == 1.0  # the list's order is what counts


def test_scores_that_fall_are_not_noted(tmp_path: Path) -> None:
    report = report_of_scores(tmp_path, -0.2, -0.9)

    assert notes_about(report, "as distances do") == []
    assert report.summaries[0].score == 1.0


def test_answers_that_were_cut_off_are_noted(tmp_path: Path) -> None:
    cut_off = [
        {"finish_reason": "length"},
        {"stop_reason": "max_tokens"},
        {"finish_reason": "MAX_TOKENS"},
    ]
    whole = [{"done_reason": "stop"}, {}]
    data = []
    for number, metadata in enumerate([*cut_off, *whole]):
        result = GenerationResult("The answer is", metadata=metadata)
        data.append(answered(str(number), result, reference="27"))

    report = evaluate(data, out=tmp_path, metrics=parse_metrics("exact_match"))

    (note,) = notes_about(report, "cut off")
    assert note.startswith("3 answers were cut off at a limit of tokens")
    assert note.endswith("Raise max_tokens.")


def test_gold_that_cannot_be_compared_has_the_same_causes_in_the_next_run(tmp_path: Path) -> None:
    """What was compared before it was known that nothing can be does not count."""
    data = [entry("x", "Paris", "elsewhere")]
    report = scored(data, tmp_path / "run")

    next_report = scored(data, tmp_path / "run")

    assert not report.is_comparable
    assert next_report.causes == report.causes


# --- a first run that reads and scores in one go


def never() -> bool:
    return False


def at_once(entries: Iterable[Entry], out: Path, stop: Callable[[], bool] = never) -> None:
    """A run of a source whose first entries have recorded retrievals and answers."""
    info = SourceInfo(path="x", form="x", mapping={}, recorded={"retrieve": 1, "generate": 1})
    source = EntrySource(info=info, read=lambda: iter(entries))
    settings = EvalSettings(source="x")
    request = RunRequest(out=out, metrics=METRICS, settings=settings, stopped=stop)
    run_evaluation(source, request)


def stop_after(calls: int) -> Callable[[], bool]:
    """Says from the next call on that the run is to stop."""
    numbers = count(1)

    def is_stopped() -> bool:
        return next(numbers) > calls

    return is_stopped


def golden(number: int, gold: str, *context_ids: str, **fields: Any) -> Entry:
    """A case with one gold chunk, and an answer that is right for the first seven numbers."""
    about_paris = entry(f"c{number}", f"It is {number % 7}.", *context_ids)
    case = replace(
        about_paris.case, reference=f"It is {number}.", reference_context_ids=(gold,), **fields
    )
    return replace(about_paris, case=case)


SKIPPED: Outcome[Any] = Outcome(status=Status.SKIPPED, reason="nothing to judge")


def entries_with_ids(size: int = 600) -> list[Entry]:
    """Each has a gold chunk of its own; d0, d1 and d2 alone are retrieved."""
    entries: list[Entry] = []
    for number in range(size):
        entries.append(golden(number, f"d{number}", f"d{number % 3}", "d1"))
    return entries


def entries_with_texts() -> list[Entry]:
    """Of so many a sample is checked, which depends on how many there are."""
    entries: list[Entry] = []
    for number in range(1100):
        texts = (f"the long text of d{number}",)
        entries.append(golden(number, "a", "a", reference_contexts=texts))
    return entries


def shifted_entries() -> list[Entry]:
    """What was retrieved is the gold of cases far behind it."""
    entries: list[Entry] = []
    for number in range(1200):
        entries.append(golden(number, f"d{number}", f"d{number + 600}"))
    return entries


def entries_with_a_late_stage() -> list[Entry]:
    answered_entry = golden(1, "a", "a")
    validated_entry = Entry(case=golden(2, "a").case, recorded={"validate": SKIPPED})
    return [answered_entry, validated_entry]


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param(entries_with_ids(), id="ids"),
        pytest.param(entries_with_texts(), id="texts"),
        pytest.param(shifted_entries(), id="shifted"),
        pytest.param(entries_with_a_late_stage(), id="a stage that only the last case has"),
    ],
)
def test_a_first_run_is_as_if_all_cases_had_been_read_before(
    tmp_path: Path, entries: list[Entry]
) -> None:
    settings = EvalSettings(source="x")
    at_once(entries, tmp_path / "at once")
    expected = report_files(tmp_path / "at once")

    scored(entries, tmp_path / "read before", settings=settings)
    assert report_files(tmp_path / "read before") == expected

    # And so it stays in the next run, of either kind.
    scored(entries, tmp_path / "read before", settings=settings)
    assert report_files(tmp_path / "read before") == expected
    scored(entries, tmp_path / "at once", settings=settings)
    assert report_files(tmp_path / "at once") == expected


def test_a_first_run_with_an_id_twice_leaves_nothing(tmp_path: Path) -> None:
    same = golden(1, "a", "a")

    with pytest.raises(DataError):
        at_once([same, same], tmp_path / "run")

    assert list(tmp_path.iterdir()) == []


def test_a_first_run_that_is_stopped_before_it_scored_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(InterruptedRunError):
        at_once([golden(1, "a", "a")], tmp_path / "run", stop_after(0))

    assert list(tmp_path.iterdir()) == []


# More than two blocks of 512 cases: a run stores what it has scored block by block.
THREE_BLOCKS = entries_with_ids(1100)


@pytest.fixture(name="whole_files", scope="module")
def files_of_a_first_run_that_is_not_stopped(tmp_path_factory: pytest.TempPathFactory) -> Any:
    out = tmp_path_factory.mktemp("first run") / "whole"
    at_once(THREE_BLOCKS, out)
    return report_files(out)


@pytest.mark.parametrize("calls", [515, 1030, 1100])
def test_a_first_run_that_is_stopped_keeps_what_is_scored(
    tmp_path: Path, whole_files: Any, calls: int
) -> None:
    with pytest.raises(InterruptedRunError, match="the same command continues"):
        at_once(THREE_BLOCKS, tmp_path / "run", stop_after(calls))

    for summary in report_of(tmp_path / "run").summaries:
        assert summary.measured in (512, 1024)

    at_once(THREE_BLOCKS, tmp_path / "run")

    assert report_files(tmp_path / "run") == whole_files


def test_what_a_run_that_died_has_scored_is_not_shown_of_other_cases(tmp_path: Path) -> None:
    def entries_that_end_in_an_error() -> Iterator[Entry]:
        for number in range(1024):
            yield golden(number, "a", "a")
        raise ZeroDivisionError

    out = tmp_path / "run"
    out.mkdir()
    with pytest.raises(ZeroDivisionError):
        at_once(entries_that_end_in_an_error(), out)
    with pytest.raises(RunMismatchError, match="the command that began it continues"):
        report_of(out)

    # Other cases under the same ids, stopped after the first block.
    with pytest.raises(InterruptedRunError):
        at_once(THREE_BLOCKS, out, stop_after(1104))

    with sqlite3.connect(out / "journal.sqlite") as journal:
        (scored_cases,) = journal.execute("SELECT count(DISTINCT case_id) FROM scores").fetchone()
    assert scored_cases == 512


# --- a stored run as the source of another evaluation


def interrupted_run(folder: Path) -> None:
    """A run over a and b that was stopped when a had its answer and b its retrieval."""
    rag = NotingRAG()
    with pytest.raises(InterruptedRunError):
        run(cases("a", "b"), rag, folder, stopped=lambda: bool(rag.generated))


def test_what_was_not_asked_yet_is_not_recorded(tmp_path: Path) -> None:
    interrupted_run(tmp_path)

    a, b = entries(tmp_path)

    assert sorted(a.recorded) == ["generate", "retrieve"]
    assert sorted(b.recorded) == ["retrieve"]


def test_an_entry_of_a_stored_run_has_the_time_that_was_measured(tmp_path: Path) -> None:
    interrupted_run(tmp_path)

    a, _ = entries(tmp_path)

    stored = next(open_traces(tmp_path))
    seconds = stored.trace.generation.seconds
    assert seconds
    assert a.recorded["generate"].seconds == seconds


def test_a_folder_without_a_run_has_no_entries(tmp_path: Path) -> None:
    with pytest.raises(RunMismatchError, match="not a run folder"):
        list(entries(tmp_path))


def test_a_folder_whose_manifest_says_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "journal.sqlite").write_bytes(b"no journal")
    (tmp_path / "manifest.json").write_text("{}", "utf-8")

    with open_source(tmp_path) as source, pytest.raises(DataError, match="not a manifest"):
        list(source)
