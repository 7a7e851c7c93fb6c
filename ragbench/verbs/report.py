"""A stored run to its report."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import orjson

from ragbench.core.attribution import Attribution
from ragbench.core.biography import Biography
from ragbench.core.case_table import clusters_note
from ragbench.core.matched import GoldCause, Matched, MatchedBy
from ragbench.core.metric import Metric, Need
from ragbench.core.outcome import Cell, Failure, verdict_reason
from ragbench.core.record import replace
from ragbench.core.report import (
    JUDGED_RIGHT,
    WORDS_RIGHT,
    CaseRow,
    IndexedCase,
    Report,
    Summary,
)
from ragbench.core.story import CaseStory
from ragbench.core.trace import RunCase, Trace
from ragbench.errors import RunMismatchError
from ragbench.io.people import ANY, HumanLabel, LabelBook, key_of, value_of
from ragbench.ledger.folder import (
    Manifest,
    RunFolder,
    metrics_of,
    path_of,
    read_manifest,
    repeat_folders,
)
from ragbench.ledger.journal import Journal
from ragbench.masking import hidden_bytes
from ragbench.metrics.matching import Matching
from ragbench.metrics.summary import SummaryBuilder
from ragbench.stages.attribution import attribute, matches_of
from ragbench.stages.biography import BiographyTally, biography_of
from ragbench.stages.corpus_gold import CORPUS_GOLD, read_corpus_gold
from ragbench.stages.repeated import RepeatCells, Repeated, averaged
from ragbench.stages.run_tally import CauseTally, RunTally, failures_of
from ragbench.stages.stored import StoredTraces
from ragbench.stages.story import story_of

if TYPE_CHECKING:
    from ragbench.stages.judge_tally import JudgeTally

_UNSCORED = Cell.skipped("not scored yet: the run was interrupted")
"""The cell of a metric that the journal has no score of."""


def open_traces(path: str | Path, *, with_texts: bool = True) -> Iterator[RunCase]:
    """Reads the cases of a stored run with their outcomes, in order.

    Args:
        with_texts: whether the texts of contexts are read, too; else they are empty.
    """
    return RunCases.of(path_of(path)).traces(with_texts=with_texts)


def report_of(path: str | Path) -> Report:
    """The report of a stored run, from its journal.

    A run that was interrupted, and one that was asked repeatedly, is counted from its cases.

    Args:
        path: the run's folder.

    Raises:
        RunMismatchError: there is no run in the folder.
    """
    cases = RunCases.of(path_of(path))
    stored: Report | None = None
    with cases.journal() as journal:
        body = journal.runs.report()
    if body is not None:
        # `len` stands for the functions, which are not kept: formulas, and what reads the cases.
        # Any function does: the reader gets the real ones from `RunCases.report`.
        decoder = msgspec.json.Decoder(Report, dec_hook=lambda kind, value: len)
        # What another version kept is counted again.
        with journal.reading, suppress(msgspec.ValidationError):
            stored = cases.report(decoder.decode(body))
        # A report of an earlier version did not count the answers.
        is_counted = stored is not None and stored.answers is not None
        # Of repeats the stored report has the first time alone.
        if stored is not None and is_counted and not repeat_folders(cases.path):
            return stored
    concurrency = "1"
    # How many calls were in flight is known from the stored report alone.
    if stored is not None and stored.latencies:
        concurrency = stored.latencies[0].concurrency
    builder = ReportBuilder(cases, concurrency=concurrency)
    for case in cases.traces():
        builder.add(case, cases.matching)
    # Opened anew: the cases were read through a connection of their own.
    with cases.journal() as journal:
        report = builder.report(journal)
    if stored is None:
        return report
    # A figure that a user's function makes is that of the first time; it may not be at hand here.
    summaries: list[Summary] = []
    for summary, stored_summary in zip(report.summaries, stored.summaries, strict=True):
        if stored_summary.metric.definition.aggregate:
            summaries.append(stored_summary)
        else:
            summaries.append(summary)
    return replace(report, summaries=tuple(summaries))


class RunCases:
    """A run's folder as cases: read from its journal, each with what became of it.

    Labels of people are in no journal: with a book of them, what they decide is found anew.
    """

    def __init__(
        self,
        path: Path,
        manifest: Manifest,
        metrics: tuple[Metric, ...],
        book: LabelBook | None = None,
    ) -> None:
        """Takes a run's folder with its manifest and metrics, which `of` reads from the folder.

        Args:
            book: labels of people, which decide about the answers that they are of.
        """
        self.path = path
        """The run's folder."""
        self.book = book
        """Labels of people; None where only stored causes count."""
        self.manifest = manifest
        self.metrics = metrics
        # Which gold no document holds, where the corpus was searched; None where it was not.
        self._corpus = None
        # Read once: the causes of all cases depend on it.
        if (path / CORPUS_GOLD).is_file():
            self._corpus = read_corpus_gold(path, manifest.fingerprints)
        self._correctness: int | None = None
        """Position of the metric that says whether an answer is right."""
        names = [metric.name for metric in metrics]
        # Of several metrics of right answers, the first of the list decides.
        for name in JUDGED_RIGHT:
            if name in names:
                self._correctness = names.index(name)
                break

    @classmethod
    def of(cls, path: Path, book: LabelBook | None = None) -> RunCases:
        """The run of a folder, read from its manifest, with the metrics that it was scored by.

        Args:
            book: people's labels, which decide about the answers that they are of.
        """
        manifest = read_manifest(RunFolder(path=path).manifest)
        return cls(path, manifest, metrics_of(manifest), book)

    @property
    def matching(self) -> Matching:
        """How the run matched gold with chunks: its cases are counted again in the same way."""
        return Matching(self.manifest.settings["matching"])

    def journal(self) -> Journal:
        """The run's journal (the database of its outcomes), which the caller opens and closes.

        A folder without a run is an error.
        """
        return Journal(RunFolder(path=self.path).kept_journal)

    def traces(
        self, ids: Sequence[str] | None = None, *, with_texts: bool = True
    ) -> Iterator[RunCase]:
        """The run's cases with their outcomes, all in order, or those with some ids in that order.

        Args:
            with_texts: whether the texts of contexts are read, too; else they are empty.
        """
        with self.journal() as journal:
            yield from StoredTraces(
                journal=journal,
                manifest=self.manifest,
                metrics=self.metrics,
                with_texts=with_texts,
                ids=ids,
            )

    def cause(self, case: RunCase, matching: Matching, biography: Biography | None) -> Attribution:
        """The cause of a case, computed anew: why its answer is right, or which stage lost it.

        A label of people decides about the answer before a judge's value does.
        """
        correctness = None
        judge_reason = ""
        if self._correctness is not None:
            correctness = case.cells[self._correctness]
            # Without judgements, as of stored cells of another version, there is no reason to show.
            if case.judgements:
                judge_reason = verdict_reason(case.judgements[self._correctness])
        return attribute(
            case.trace,
            matches=case.matches or matches_of(case.trace, matching),
            biography=biography,
            corpus=self._corpus,
            label=self._label(case.trace),
            correctness=correctness,
            judge_reason=judge_reason,
        )

    def stored_cause(
        self, case: RunCase, matching: Matching, biography: Biography | None
    ) -> Attribution:
        """The cause of a case from the journal: why its answer is right, or which stage lost it.

        Computed anew where the journal has none, or where people's label of the answer decides.
        """
        # A stored cause knows nothing of labels.
        if case.attribution is None or self._label(case.trace) is not None:
            return self.cause(case, matching, biography)
        return case.attribution

    def attributed(self) -> Iterator[tuple[RunCase, Attribution]]:
        """All cases of the run in order, each with its cause: the stage that lost its answer.

        With people's labels these causes differ from the stored ones.
        """
        matching = self.matching
        for case in self.traces():
            biography = None
            if case.trace.post_retrieval is not None:
                biography = biography_of(case.trace, matching)
            yield case, self.stored_cause(case, matching, biography)

    def _label(self, trace: Trace) -> float | None:
        """People's label of an answer, from 0 (wrong) to 1 (right); None without a label.

        Any run that gave the same answer has it, whatever contexts people were shown.
        """
        answer = trace.generation.value
        if self.book is None or answer is None:
            return None
        return right_by_people(self.book, trace.case.query, answer.response)

    def report(self, stored: Report) -> Report:
        """The report that a journal keeps, completed with what other files and objects hold.

        Canaries, metrics and the functions that read cases are not stored with it.
        """
        # Canaries are in a file of their own, which a later command may have written.
        judging = stored.judging
        if judging is not None:
            from ragbench.stages.canaries import read_canaries

            canaries = read_canaries(self.path, self.manifest.fingerprints)
            judging = replace(judging, canaries=canaries)
        summaries: list[Summary] = []
        # Metrics are stored without their functions; the run's own take their place, by position.
        for summary, metric in zip(stored.summaries, self.metrics, strict=True):
            summaries.append(replace(summary, metric=metric))
        return replace(
            stored,
            manifest=orjson.loads(msgspec.json.encode(self.manifest)),
            metrics=self.metrics,
            summaries=tuple(summaries),
            judging=judging,
            rows=self.rows,
            find=self.rows,
            index=self.index,
            folder=str(self.path),
        )

    def rows(self, ids: Sequence[str] | None = None) -> Iterator[CaseRow]:
        """The rows of the report's table of cases: all in order, or those with some ids.

        Only the latter have their stories, which take the texts of contexts.
        """
        with_texts = True
        if ids is None and self.book is None:
            # What operators and an interrupted run's causes rest on are texts.
            # With a finished report, causes are stored; only operators' moves need texts then.
            stages = {*self.manifest.rag.stages, *self.manifest.absent}
            with self.journal() as journal:
                with_texts = journal.runs.report() is None or "post_retrieve" in stages
        repeated = _repeats_of_run(self)
        matching = self.matching
        for case in self.traces(ids, with_texts=with_texts):
            biography = biography_of(case.trace, matching)
            attribution = self.stored_cause(case, matching, biography)
            cells = tuple(cell or _UNSCORED for cell in case.cells)
            failures = failures_of(case.trace, cells)
            # Made only when a reader opens the case: a story takes much more time than a row.
            tell = None if ids is None else partial(story_of, case, matching, self.metrics)
            row = case_row(case, cells, biography, failures, attribution, tell)
            if repeated is not None:
                repeats = repeated.cells(case.case.id, case.digest, cells)
                if repeats:
                    # The mean is shown in the row, and the values of all repeats beside it.
                    mean_cells = averaged(cells, repeats)
                    row = dataclasses.replace(row, cells=mean_cells, repeats=repeats)
            yield row

    def index(self, metric: int | None, tag: str | None) -> Iterator[IndexedCase]:
        """Each case's id, cause and value by one metric, for lists: far less than the whole rows.

        Args:
            metric: the metric's position; None for no value.
            tag: only cases with this tag.
        """
        with self.journal() as journal:
            # The journal knows what was scored, but not what people decide, nor means of repeats.
            # A report is kept only of a complete run: before that, causes may lack.
            is_stored = journal.runs.report() is not None and self.book is None
            if is_stored and not repeat_folders(self.path):
                yield from journal.index(metric, tag)
                return
        for row in self.rows():
            if tag is not None and tag not in row.tags:
                continue
            score = None
            if metric is not None:
                score = row.cells[metric].value
            yield IndexedCase(row.id, row.attribution.cause, score)


def right_by_people(book: LabelBook, query: str, response: str) -> float | None:
    """People's label of whether an answer is right, from 0 to 1; None without any such label.

    A label for any metric of correctness counts: people are asked the same question for each.

    Raises:
        ConfigError: a label is not on this scale, such as 4 of 5 stars.
    """
    question, answer, _ = key_of(query, response, None)
    key = question, answer, ANY  # whatever contexts it was shown with
    labels: list[HumanLabel] = []
    for metric in (*JUDGED_RIGHT, WORDS_RIGHT):
        for label in book.of(metric, key):
            label.check_scale(metric, 0.0, 1.0)
            labels.append(label)
    return value_of(labels)


class ReportBuilder:
    """Counts the cases of a run as they come, and makes its report: nothing is read back."""

    def __init__(
        self,
        cases: RunCases,
        collect_row: Callable[[CaseRow], None] | None = None,
        *,
        concurrency: str = "1",
    ) -> None:
        """Begins to count a run's cases; counts only what the run has, such as judges and repeats.

        Args:
            concurrency: how many calls of the system were in flight in the run; see `Latency`.
        """
        self.cases = cases
        """The run as cases: its manifest and metrics, and why each case ended as it did."""
        self._concurrency = concurrency
        """How many calls were in flight, noted with the times."""
        self._collect_row = collect_row
        """Given each case's row, for a caller that writes rows while cases go by; None without."""
        self._summaries = SummaryBuilder(cases.metrics)
        """The figures of the metrics."""
        self._tally = RunTally()
        """Endings, failures and times of the stages."""
        self._causes = CauseTally()
        self._biographies: BiographyTally | None = None
        """What operators did to chunks, of a run with post-retrieval; None of any other."""
        self._judged: JudgeTally | None = None
        """What judges gave; None where none judged."""
        judge = cases.manifest.judge
        if judge is not None:
            # Only for a judged run: others need not load it.
            from ragbench.stages.judge_tally import JudgeTally

            self._judged = JudgeTally(cases.metrics, judge)
        self._repeated = _repeats_of_run(cases)
        """Cells and seconds of the repeats after the first; None where each case was asked once."""
        self._is_by_document = False
        """Whether some chunk counted as relevant because of its document alone."""

    def add(self, run_case: RunCase, matching: Matching, journal: Journal | None = None) -> None:
        """Counts a case that is through all stages, for every part of the report.

        The case's cause is stored in the journal, and its row is handed to the caller that collects
        rows.
        """
        case = run_case.case
        biography = None
        if run_case.trace.post_retrieval is not None:
            biography = biography_of(run_case.trace, matching)
            if self._biographies is None:
                self._biographies = BiographyTally()
            self._biographies.add(case.id, biography)
        # Anew, not from the journal: the cells were just computed.
        attribution = self.cases.cause(run_case, matching, biography)
        self._causes.add(case.id, attribution)
        cells = tuple(cell or _UNSCORED for cell in run_case.cells)
        if self._repeated is not None:
            # From here on cells are means; judgements and failures stay those of the first time.
            cells = self._repeated.add(case.id, run_case.digest, cells)
        self._summaries.add(case, cells)
        self._is_by_document |= any(map(_has_document_match, run_case.matches.values()))
        failures = failures_of(run_case.trace, cells)
        self._tally.add(run_case, failures)
        if self._judged is not None and any(run_case.judgements):
            self._judged.add(run_case.judgements)
        if self._collect_row is not None:
            tell = partial(story_of, run_case, matching, self.cases.metrics)
            row = case_row(run_case, cells, biography, failures, attribution, tell)
            self._collect_row(row)
        # Without a journal nothing is stored, as when a stored run is counted once more.
        if journal is not None:
            journal.scores.record(run_case.number, cause=attribution)

    def report(
        self, journal: Journal, finished_under: bytes | None = None, *, has_files: bool = False
    ) -> Report:
        """The report of all cases that were counted; the journal keeps it if the run is complete.

        Args:
            finished_under: a digest of the request, with which the journal keeps the report: the
                run is complete then. None keeps nothing; empty is a run that no request finds.
            has_files: whether the caller writes files of the report, which complete the run.
        """
        tally = self._tally
        summaries = self._summaries.summaries()
        if self._is_by_document:
            summaries = _summaries_by_document(summaries)
        clusters = self._summaries.clusters
        stages, latencies = tally.stages()
        latencies = tuple(replace(latency, concurrency=self._concurrency) for latency in latencies)
        notes = tally.notes(summaries)
        if clusters:
            note = clusters_note(clusters)
            if note:
                notes.append(note)
        repeat_notes: Sequence[str] = ()
        if self._repeated is not None:
            # The first time's seconds, to see whether a cache has answered the later ones.
            repeat_notes = tuple(self._repeated.notes(tally.seconds))
        reused_from: str | None = None
        if any(stage.reused for stage in stages):
            # The last run is this one; what is reused was made at the latest by the one before it.
            starts = [start for _, start in sorted(journal.runs.started().items())]
            if len(starts) > 1:
                reused_from = starts[-2]
        gold: dict[GoldCause, int] = {}
        for cause in GoldCause:  # in the order of a search's steps, not of the cases
            if tally.gold[cause]:
                gold[cause] = tally.gold[cause]
        # Empty places are filled by `RunCases.report`, which also completes a stored report.
        report = Report(
            manifest={},
            metrics=(),
            summaries=summaries,
            stages=stages,
            failures=tally.failures() if tally.counts else (),
            latencies=latencies,
            reused_from=reused_from,
            notes=(*self.cases.manifest.notes, *repeat_notes, *notes),
            judging=None if self._judged is None else self._judged.report(),
            validation=None if tally.validation is None else tally.validation.table(),
            operators=None if self._biographies is None else self._biographies.table(),
            causes=self._causes.causes(),
            answers=self._causes.answers(),
            rows=self.cases.rows,
            gold=gold,
        )
        if finished_under is not None:
            body = msgspec.json.encode(report, enc_hook=lambda _: None)  # functions are not kept
            # Before the report: a journal that keeps a report has all cells that it is made of.
            journal.flush()
            journal.runs.complete(hidden_bytes(body), finished_under, has_files=has_files)
        return self.cases.report(report)


def _has_document_match(matched: Matched) -> bool:
    """Whether some chunk of a case counts as relevant because of its document alone.

    The report then marks its figures: any chunk of a relevant document counted.
    """
    return any(chunk_match.by is MatchedBy.DOCUMENT for chunk_match in matched.matches)


def _summaries_by_document(summaries: Iterable[Summary]) -> tuple[Summary, ...]:
    """The figures of metrics, those that rest on relevant chunks marked as "by document".

    A reader must know that any chunk of a relevant document counted as relevant.
    """
    marked: list[Summary] = []
    for summary in summaries:
        if Need.JUDGEMENTS in summary.metric.definition.needs:
            summary = replace(summary, by_document=True)
        marked.append(summary)
    return tuple(marked)


def case_row(
    run_case: RunCase,
    cells: tuple[Cell, ...],
    biography: Biography | None,
    failures: tuple[Failure, ...],
    attribution: Attribution,
    tell: Callable[[], CaseStory] | None,
) -> CaseRow:
    """The row of a case: what reports and pages show of a case, from its outcomes and scores.

    Args:
        tell: makes the case's story, when a reader asks for it; None where none is made.
    """
    trace = run_case.trace
    case = run_case.case
    retrieved_ids: tuple[str, ...] | None = None
    result = trace.context.value
    if result is not None and result.context_ids is not None:
        retrieved_ids = tuple(result.context_ids)
    response: str | None = None
    confidence: float | None = None
    answer = trace.generation.value
    if answer is not None:
        response = answer.response
        confidence = answer.confidence
    verdict = None
    if trace.validation is not None and trace.validation.value is not None:
        # The verdict is stored without an id, since equal chunks share it.
        verdict = replace(trace.validation.value, query_id=case.id)
    location = None
    if trace.location is not None:
        location = trace.location.value
    return CaseRow(
        id=case.id,
        query=case.query,
        reference=case.reference,
        reference_ids=case.reference_context_ids,
        cluster=case.cluster,
        tags=case.tags,
        language=case.language,
        retrieved_ids=retrieved_ids,
        response=response,
        stages={stage: settled.outcome.status for stage, settled in run_case.settled.items()},
        failures=failures,
        cells=cells,
        judgements=run_case.judgements,
        biography=biography,
        validation=verdict,
        attribution=attribution,
        tell=tell,
        confidence=confidence,
        location=location,
        matches=run_case.matches,
    )


def _repeats_of_run(run: RunCases) -> Repeated | None:
    """The scores and times of the further runs of a RAG that was asked repeatedly; else None.

    The further runs have folders below the run's own; the report shows each case's mean.

    Raises:
        RunMismatchError: a repeat was scored by other metrics.
    """
    folders = repeat_folders(run.path)
    if not folders:
        return None
    names = [metric.name for metric in run.metrics]
    repeats: list[RepeatCells] = []
    seconds: dict[str, list[float]] = {}
    for folder in folders:
        repeat = RunCases.of(folder)
        # In the same order, too: cells pair with metrics by position.
        if [metric.name for metric in repeat.metrics] != names:
            raise RunMismatchError(f"{folder} was scored by other metrics: run eval again")
        cells: dict[str, tuple[bytes, tuple[Cell, ...]]] = {}
        for case in repeat.traces(with_texts=False):
            cells_of_case = tuple(cell or _UNSCORED for cell in case.cells)
            # The digest shows whether the case was the same question then.
            cells[case.case.id] = case.digest, cells_of_case
            for stage, (outcome, *_) in case.settled.items():
                if outcome.seconds is not None:
                    seconds.setdefault(stage, []).append(outcome.seconds)
        repeats.append(cells)
    return Repeated(run.metrics, repeats, seconds)
