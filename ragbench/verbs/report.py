"""A stored run to its report."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec
import orjson

from ragbench.core.attribution import Attribution, Cause
from ragbench.core.biography import Biography
from ragbench.core.case_table import clusters_note
from ragbench.core.matched import GoldCause
from ragbench.core.metric import Metric
from ragbench.core.outcome import Cell, Failure
from ragbench.core.record import replace
from ragbench.core.report import JUDGED_RIGHT, CaseRow, IndexedCase, Report
from ragbench.core.story import CaseStory
from ragbench.core.trace import RunCase
from ragbench.errors import RunMismatchError
from ragbench.ledger.folder import (
    REPEATS,
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

_UNSCORED = Cell.skipped("not scored yet: the run was interrupted")


def open_traces(path: str | Path, *, with_texts: bool = True) -> Iterator[RunCase]:
    """Reads the cases of a stored run, in order."""
    return RunCases.of(path_of(path)).traces(with_texts=with_texts)


def report_of(path: str | Path) -> Report:
    """The report of a stored run, from its journal.

    A run that was interrupted, and one that was asked repeatedly, is counted from its cases.

    Args:
        path: the run's folder.

    Raises:
        RunMismatchError: there is no run in the folder.
    """
    cases, stored = RunCases.of(path_of(path)), None
    with cases.journal() as journal:
        body = journal.runs.report()
    if body is not None:
        # `len` stands for what is not kept: formulas, and what reads the cases.
        decoder = msgspec.json.Decoder(Report, dec_hook=lambda kind, value: len)
        with suppress(msgspec.ValidationError):  # kept by another version: counted again
            stored = cases.report(decoder.decode(body))
        if stored is not None and not repeat_folders(cases.path):
            return stored
    builder = ReportBuilder(cases)
    for case in cases.traces():
        builder.add(case, cases.matching)
    with cases.journal() as journal:
        report = builder.report(journal)
    if stored is None:
        return report
    # A figure that a user's function makes is that of the first time; it may not be at hand here.
    summaries = zip(report.summaries, stored.summaries, strict=True)
    return replace(
        report,
        summaries=tuple(
            first if first.metric.definition.aggregate else mean for mean, first in summaries
        ),
    )


class RunCases:
    def __init__(self, path: Path, manifest: Manifest, metrics: tuple[Metric, ...]) -> None:
        self.path, self.manifest, self.metrics = path, manifest, metrics
        there = (path / CORPUS_GOLD).is_file()
        self._corpus = read_corpus_gold(path, manifest.fingerprints) if there else None
        judged = (at for at, metric in enumerate(metrics) if metric.name in JUDGED_RIGHT)
        self._correctness = next(judged, None)

    @classmethod
    def of(cls, path: Path) -> RunCases:
        manifest = read_manifest(RunFolder(path=path).manifest)
        return cls(path, manifest, metrics_of(manifest))

    @property
    def matching(self) -> Matching:
        return Matching(self.manifest.settings["matching"])

    def journal(self) -> Journal:
        return Journal(RunFolder(path=self.path).kept_journal)

    def traces(
        self, ids: Sequence[str] | None = None, *, with_texts: bool = True
    ) -> Iterator[RunCase]:
        with self.journal() as journal:
            yield from StoredTraces(
                journal=journal,
                manifest=self.manifest,
                metrics=self.metrics,
                with_texts=with_texts,
                ids=ids,
            )

    def cause(self, case: RunCase, matching: Matching, biography: Biography | None) -> Attribution:
        return attribute(
            case.trace,
            matches=case.matches or matches_of(case.trace, matching),
            biography=biography,
            corpus=self._corpus,
            correctness=None if self._correctness is None else case.cells[self._correctness],
        )

    def report(self, kept: Report) -> Report:
        """What a journal keeps of a report, with what stands in other files."""
        judging = kept.judging
        if judging is not None:
            from ragbench.stages.canaries import read_canaries

            found = read_canaries(self.path, self.manifest.fingerprints)
            judging = replace(judging, canaries=found)
        summaries = zip(kept.summaries, self.metrics, strict=True)
        return replace(
            kept,
            manifest=orjson.loads(msgspec.json.encode(self.manifest)),
            metrics=self.metrics,
            summaries=tuple(replace(one, metric=metric) for one, metric in summaries),
            judging=judging,
            rows=self.rows,
            find=self.rows,
            index=self.index,
        )

    def rows(self, ids: Sequence[str] | None = None) -> Iterator[CaseRow]:
        """All cases in order; or those with these ids in that order, with their stories."""
        with_texts = True
        if ids is None:
            # What operators and an interrupted run's causes rest on are texts.
            stages = {*self.manifest.rag.stages, *self.manifest.absent}
            with self.journal() as journal:
                with_texts = journal.runs.report() is None or "post_retrieve" in stages
        folders = repeat_folders(self.path)
        repeated = _repeated(folders, self.metrics) if folders else None
        matching = self.matching
        for case in self.traces(ids, with_texts=with_texts):
            biography = biography_of(case.trace, matching)
            attribution = case.attribution or self.cause(case, matching, biography)
            cells = tuple(cell or _UNSCORED for cell in case.cells)
            asked = () if repeated is None else repeated.cells(case.case.id, case.digest, cells)
            tell = None if ids is None else partial(story_of, case, matching, self.metrics)
            failures = failures_of(case.trace, cells)
            row = case_row(case, cells, biography, failures, attribution, tell)
            yield (
                dataclasses.replace(row, cells=averaged(cells, asked), repeats=asked)
                if asked
                else row
            )

    def index(self, metric: int | None, tag: str | None) -> Iterator[IndexedCase]:
        with self.journal() as journal:
            if journal.runs.report() is not None and not repeat_folders(self.path):
                for id, cause, value in journal.index(metric, tag):
                    yield IndexedCase(id, Cause(cause), value)
                return
        for row in (one for one in self.rows() if tag is None or tag in one.tags):
            score = None if metric is None else row.cells[metric].value
            yield IndexedCase(row.id, row.attribution.cause, score)


class ReportBuilder:
    """Counts the cases of a run as they come, and makes its report: nothing is read back."""

    def __init__(self, cases: RunCases, told: Callable[[CaseRow], None] | None = None) -> None:
        self.cases, self._told = cases, told
        self._summaries = SummaryBuilder(cases.metrics)
        self._tally = RunTally()
        self._judged = None
        if (judge := cases.manifest.judge) is not None:
            from ragbench.stages.judge_tally import JudgeTally

            self._judged = JudgeTally(cases.metrics, judge)
        self._biographies: BiographyTally | None = None
        self._causes = CauseTally()
        folders = repeat_folders(cases.path) if (cases.path / REPEATS).is_dir() else ()
        self._repeated = _repeated(folders, cases.metrics) if folders else None

    def add(self, case: RunCase, matching: Matching, journal: Journal | None = None) -> None:
        """Counts a case that is through all stages; what became of it is stored in the journal."""
        known, biography, cells = case.case, None, case.cells
        if case.trace.post_retrieval is not None:
            biography = biography_of(case.trace, matching)
            self._biographies = self._biographies or BiographyTally()
            self._biographies.add(known.id, biography)
        attribution = self.cases.cause(case, matching, biography)
        self._causes.add(known, attribution)
        scored = tuple(cell or _UNSCORED for cell in cells)
        if self._repeated is not None:
            scored = self._repeated.add(known.id, case.digest, scored)
        self._summaries.add(known, scored)
        failures = failures_of(case.trace, scored)
        self._tally.add(case, failures)
        if self._judged is not None and any(case.judgements):
            self._judged.add(case.judgements)
        if self._told is not None:
            tell = partial(story_of, case, matching, self.cases.metrics)
            self._told(case_row(case, scored, biography, failures, attribution, tell))
        if journal is not None:
            journal.scores.record(case.number, cause=attribution)

    def report(self, journal: Journal, asked: bytes | None = None) -> Report:
        """The report of all cases that were counted.

        Args:
            asked: what it depends on beside what is asked, where the journal is to keep it: the
                run is complete then.
        """
        tally, repeated = self._tally, self._repeated
        summaries, earlier = self._summaries.summaries(), list[str]()
        clusters = self._summaries.clusters
        (stages, latencies), (causes, right) = tally.stages(), self._causes.result(clusters)
        notes, asides = tally.notes(summaries)
        if clusters and (note := clusters_note(clusters)):
            notes.append(note)
            asides += [note] if self._summaries.names else []
        repeats = () if repeated is None else repeated.notes(tally.seconds)
        if any(stage.reused for stage in stages):
            earlier = [began for _, began in sorted(journal.runs.started().items())][:-1]
        found = Report(
            manifest={},
            metrics=(),
            summaries=summaries,
            stages=stages,
            failures=tally.failures() if tally.counts else (),
            latencies=latencies,
            reused_from=earlier[-1] if earlier else None,
            notes=(*self.cases.manifest.notes, *repeats, *notes),
            asides=frozenset(asides),
            judging=None if self._judged is None else self._judged.report(),
            validation=None if tally.validation is None else tally.validation.table(),
            operators=None if self._biographies is None else self._biographies.table(),
            causes=causes,
            right=right,
            rows=self.cases.rows,
            gold={cause: tally.gold[cause] for cause in GoldCause if tally.gold[cause]},
        )
        if asked is not None:
            body = msgspec.json.encode(found, enc_hook=lambda _: None)  # functions are not kept
            journal.flush()
            journal.runs.complete(hidden_bytes(body), asked)
        return self.cases.report(found)


def case_row(
    case: RunCase,
    cells: tuple[Cell, ...],
    biography: Biography | None,
    failures: tuple[Failure, ...],
    attribution: Attribution,
    tell: Callable[[], CaseStory] | None,
) -> CaseRow:
    trace, known = case.trace, case.case
    result, answer = trace.context.value, trace.generation.value
    ids = None if result is None else result.context_ids
    verdict = None if trace.validation is None else trace.validation.value
    return CaseRow(
        id=known.id,
        query=known.query,
        reference=known.reference,
        reference_ids=known.reference_context_ids,
        cluster=known.cluster,
        tags=known.tags,
        language=known.language,
        retrieved_ids=None if ids is None else tuple(ids),
        response=None if answer is None else answer.response,
        stages={stage: settled.outcome.status for stage, settled in case.settled.items()},
        failures=failures,
        cells=cells,
        judgements=case.judgements,
        biography=biography,
        validation=None if verdict is None else replace(verdict, query_id=known.id),
        attribution=attribution,
        tell=tell,
        confidence=None if answer is None else answer.confidence,
        location=None if trace.location is None else trace.location.value,
        matches=case.matches,
    )


def _repeated(folders: Sequence[Path], metrics: Sequence[Metric]) -> Repeated:
    later: list[RepeatCells] = []
    seconds: dict[str, list[float]] = {}
    for folder in folders:
        cases = RunCases.of(folder)
        if [metric.name for metric in cases.metrics] != [metric.name for metric in metrics]:
            raise RunMismatchError(f"{folder} was scored by other metrics: run eval again")
        cells: dict[str, tuple[bytes, tuple[Cell, ...]]] = {}
        for case in cases.traces(with_texts=False):
            cells[case.case.id] = case.digest, tuple(cell or _UNSCORED for cell in case.cells)
            for stage, (outcome, *_) in case.settled.items():
                if outcome.seconds is not None:
                    seconds.setdefault(stage, []).append(outcome.seconds)
        later.append(cells)
    return Repeated(metrics, later, seconds)
