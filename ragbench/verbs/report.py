"""A stored run to its report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import cast

import msgspec
import orjson

from ragbench.core.attribution import Attribution, Cause, CorpusGold
from ragbench.core.biography import Biography
from ragbench.core.matched import GoldCause
from ragbench.core.metric import Metric
from ragbench.core.outcome import Cell, Repeats
from ragbench.core.report import CanaryLine, CaseRow, IndexedCase, Report, Summary
from ragbench.core.story import CaseStory
from ragbench.errors import RunMismatchError
from ragbench.ledger.folder import RunFolder, count_repeats, path_of, repeat_folders
from ragbench.ledger.journal import Journal
from ragbench.ledger.manifest import Manifest, metrics_of, read_manifest
from ragbench.masking import hidden_bytes
from ragbench.metrics.matching import Matching
from ragbench.metrics.summary import SummaryBuilder
from ragbench.metrics.window import Compared
from ragbench.stages.attribution import CauseTally, attribute, matches_of
from ragbench.stages.biography import BiographyTally, biography_of
from ragbench.stages.corpus_gold import read_corpus_gold
from ragbench.stages.judge_tally import JudgeTally
from ragbench.stages.repeated import RepeatCells, Repeated, averaged
from ragbench.stages.run_tally import RunTally, failures_of, figure_notes
from ragbench.stages.stage import RunCase
from ragbench.stages.stored import StoredTraces
from ragbench.stages.story import story_of

_CORRECTNESS = frozenset(
    {"ragas:answer_correctness", "ragas:factual_correctness", "ragas:answer_accuracy"}
)
"""Judged metrics that say whether an answer is right; before the words of the answer."""
_UNSCORED = Cell.skipped("not scored yet: the run was interrupted")


def open_traces(path: str | Path, *, with_texts: bool = True) -> Iterator[RunCase]:
    """Reads the cases of a stored run, in order."""
    path = path_of(path)
    manifest = read_manifest(RunFolder(path=path).manifest)
    cases = RunCases(path, manifest, metrics_of(manifest))
    return cases.traces(with_texts=with_texts)


def open_journal(path: Path) -> Journal:
    folder = RunFolder(path=path)
    if not folder.exists:
        raise RunMismatchError(f"{path} is not a run folder: it has no {folder.journal.name}")
    return Journal(folder.journal)


def _canaries(path: Path, manifest: Manifest) -> tuple[CanaryLine, ...]:
    """What the run's judge made of claims of known truth; none where nobody judged."""
    if manifest.judge is None:
        return ()
    from ragbench.stages.canaries import read_canaries

    return read_canaries(path, manifest.fingerprints)


def report_of(path: str | Path) -> Report:
    """The report of a stored run, as it stands in its journal.

    A run that was interrupted, and one that was asked repeatedly, is counted from its cases.

    Args:
        path: the run's folder.

    Raises:
        RunMismatchError: there is no run in the folder.
    """
    path = path_of(path)
    manifest = read_manifest(RunFolder(path=path).manifest)
    metrics, stored = metrics_of(manifest), None
    with open_journal(path) as journal:
        body, started = journal.runs.report(), journal.runs.started()
    if body is not None:
        decoder = msgspec.json.Decoder(Report, dec_hook=_no_function)
        stored = _finished(decoder.decode(body), path, manifest, metrics)
        if count_repeats(path) == 1:
            return stored
    builder = ReportBuilder(path, manifest)
    for case in open_traces(path):
        builder.add(case)
    report = builder.report(started)
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


def _no_function(kind: type, value: object) -> object:
    """In the place of what is not stored: formulas, and what reads the cases."""
    return len


def _finished(
    report: Report, path: Path, manifest: Manifest, metrics: tuple[Metric, ...]
) -> Report:
    """A stored report with what stands in other files."""
    judging = report.judging
    if judging is not None:
        judging = replace(judging, canaries=_canaries(path, manifest))
    cases = RunCases(path, manifest, metrics)
    return replace(
        report,
        manifest=orjson.loads(orjson.dumps(manifest)),
        metrics=metrics,
        summaries=tuple(map(_of_metric, report.summaries, metrics)),
        judging=judging,
        rows=cases.rows,
        find=cases.find,
        index=cases.index,
    )


def _of_metric(summary: Summary, metric: Metric) -> Summary:
    return replace(summary, metric=metric)


def stored_report(report: Report) -> bytes:
    """All of a report but its cases and what the manifest holds, as `report_of` reads it."""
    plain = replace(report, manifest={}, metrics=())
    return hidden_bytes(msgspec.json.encode(plain, enc_hook=lambda _: None))


class ReportBuilder:
    """Counts the cases of a run as they come, and makes its report: nothing is read back."""

    def __init__(
        self,
        path: Path,
        manifest: Manifest,
        metrics: Sequence[Metric] | None = None,
        *,
        matching: Callable[[], Matching] | None = None,
    ) -> None:
        self.manifest = manifest
        self._matching = matching or (lambda: _matching_of(manifest))
        self._path = path
        self._metrics = metrics_of(manifest) if metrics is None else tuple(metrics)
        self._summaries = SummaryBuilder(self._metrics)
        self._tally = RunTally()
        self._judged = JudgeTally(self._metrics, manifest.judge)
        self._biographies = BiographyTally()
        self._causes = CauseTally()
        self._attributed = Attributed.of(path, manifest, self._metrics)
        self._repeated = _repeated(path, self._metrics)

    def add(self, case: RunCase) -> Attribution:
        """Counts a case that is through all stages, and says what became of it."""
        matching = self._matching()
        biography = biography_of(case.trace, matching)
        self._biographies.add(case.trace.case.id, biography)
        attribution = self._attributed.cause(case, matching, biography)
        self._causes.add(case.trace.case.id, attribution)
        cells = cast("tuple[Cell, ...]", case.cells) if all(case.cells) else _complete(case)
        cells = self._repeated.add(case.trace.case.id, case.digest, cells)
        self._summaries.add(case.trace.case, cells)
        self._tally.add(case.trace, cells)
        if any(case.judgements):
            self._judged.add(case.judgements)
        return attribution

    def report(self, started: Mapping[int, str]) -> Report:
        path, tally = self._path, self._tally
        cases = RunCases(path, self.manifest, self._metrics)
        stages = tally.stages()
        earlier = sorted(started)[:-1]
        reused_from = started[earlier[-1]] if earlier and any(s.reused for s in stages) else None
        summaries = self._summaries.summaries()
        asides = tally.asides(summaries)
        return Report(
            manifest=orjson.loads(orjson.dumps(self.manifest)),
            metrics=self._metrics,
            summaries=summaries,
            stages=stages,
            failures=tally.failures(),
            latencies=tally.latencies(),
            reused_from=reused_from,
            notes=(
                *self.manifest.notes,
                *tally.retrieval_notes(),
                *self._repeated.notes(),
                *self._repeated.kept_answers(tally.seconds),
                *figure_notes(summaries),
                *asides,
                *tally.answer_notes(summaries),
            ),
            asides=frozenset(asides),
            judging=self._judged.report(_canaries(path, self.manifest)),
            validation=None if tally.validation is None else tally.validation.table(),
            operators=self._biographies.table(),
            causes=self._causes.counts(),
            rows=cases.rows,
            find=cases.find,
            index=cases.index,
            gold={cause: tally.gold[cause] for cause in GoldCause if tally.gold[cause]},
        )


class RunCases:
    """The cases of a stored run."""

    def __init__(self, path: Path, manifest: Manifest, metrics: tuple[Metric, ...]) -> None:
        self._path, self._manifest, self._metrics = path, manifest, metrics

    def traces(
        self, ids: Sequence[str] | None = None, *, with_texts: bool = True
    ) -> Iterator[RunCase]:
        with open_journal(self._path) as journal:
            yield from StoredTraces(
                journal=journal,
                manifest=self._manifest,
                metrics=self._metrics,
                with_texts=with_texts,
                ids=ids,
            )

    def rows(self) -> Iterator[CaseRow]:
        # What operators and an interrupted run's causes rest on are texts.
        stages = {*self._manifest.rag.stages, *self._manifest.absent}
        with open_journal(self._path) as journal:
            is_counted = journal.runs.report() is not None
        return self._rows(None, with_texts=not is_counted or "post_retrieve" in stages)

    def find(self, ids: Sequence[str]) -> Iterator[CaseRow]:
        return self._rows(ids, with_texts=True)

    def _rows(self, ids: Sequence[str] | None, *, with_texts: bool) -> Iterator[CaseRow]:
        attributed = Attributed.of(self._path, self._manifest, self._metrics)
        matching = _matching_of(self._manifest)
        repeated = _repeated(self._path, self._metrics)
        for case in self.traces(ids, with_texts=with_texts):
            biography = biography_of(case.trace, matching)
            cause = case.attribution or attributed.cause(case, matching, biography)
            tell = None if ids is None else partial(self._story, case, matching)
            cells = _complete(case)
            asked = repeated.cells(case.case.id, case.digest, cells)
            yield _row(case, averaged(cells, asked), asked, biography, cause, tell)

    def _story(self, case: RunCase, matching: Matching) -> CaseStory:
        return story_of(case.trace, _matches(case, matching), case.judgements, self._metrics)

    def index(self, metric: int | None, tag: str | None) -> Iterator[IndexedCase]:
        with open_journal(self._path) as journal:
            if journal.runs.report() is not None and count_repeats(self._path) == 1:
                causes = {cause.value: cause for cause in Cause}
                for id, cause, value in journal.index(metric, tag):
                    yield IndexedCase(id, causes[cause], value)
                return
        for row in (one for one in self.rows() if tag is None or tag in one.tags):
            found = None if row.attribution is None else row.attribution.cause
            score = None if metric is None else row.cells[metric].value
            yield IndexedCase(row.id, found, score)


def _repeated(path: Path, metrics: Sequence[Metric]) -> Repeated:
    """What the repeats of a run hold; nothing where it was asked once."""
    later: list[RepeatCells] = []
    seconds: dict[str, list[float]] = {}
    for folder in repeat_folders(path):
        known = metrics_of(read_manifest(RunFolder(path=folder).manifest))
        if [metric.name for metric in known] != [metric.name for metric in metrics]:
            raise RunMismatchError(f"{folder} was scored by other metrics: run eval again")
        cells: dict[str, tuple[bytes, tuple[Cell, ...]]] = {}
        for case in open_traces(folder, with_texts=False):
            cells[case.trace.case.id] = (case.digest, _complete(case))
            for stage, outcome in case.trace.stages:
                if outcome.seconds is not None:
                    seconds.setdefault(stage, []).append(outcome.seconds)
        later.append(cells)
    return Repeated(metrics, later, seconds)


@dataclass(frozen=True, slots=True)
class Attributed:
    corpus: CorpusGold | None
    correctness: int | None
    """Position of the metric by which a judge grades the answer; None without one."""

    @classmethod
    def of(cls, path: Path, manifest: Manifest, metrics: Sequence[Metric]) -> Attributed:
        judged = (n for n, metric in enumerate(metrics) if metric.name in _CORRECTNESS)
        return cls(
            corpus=read_corpus_gold(path, manifest.fingerprints),
            correctness=next(judged, None),
        )

    def cause(self, case: RunCase, matching: Matching, biography: Biography | None) -> Attribution:
        at = self.correctness
        return attribute(
            case.trace,
            matches=_matches(case, matching),
            biography=biography,
            corpus=self.corpus,
            correctness=None if at is None else case.cells[at],
        )


def _matches(case: RunCase, matching: Matching) -> Mapping[str, Compared]:
    return case.matches or matches_of(case.trace, matching)


def _complete(case: RunCase) -> tuple[Cell, ...]:
    return tuple(_UNSCORED if cell is None else cell for cell in case.cells)


def _matching_of(manifest: Manifest) -> Matching:
    return Matching(manifest.settings["matching"])


def _row(
    case: RunCase,
    cells: tuple[Cell, ...],
    repeats: tuple[Repeats | None, ...],
    biography: Biography | None,
    attribution: Attribution,
    story: Callable[[], CaseStory] | None,
) -> CaseRow:
    trace = case.trace
    result, answer = trace.context.value, trace.generation.value
    ids = None if result is None or result.context_ids is None else tuple(result.context_ids)
    return CaseRow(
        id=trace.case.id,
        query=trace.case.query,
        reference=trace.case.reference,
        reference_ids=trace.case.reference_context_ids,
        cluster=trace.case.cluster,
        tags=trace.case.tags,
        language=trace.case.language,
        retrieved_ids=ids,
        response=None if answer is None else answer.response,
        stages={stage: outcome.status for stage, outcome in trace.stages},
        failures=tuple(failures_of(trace, _complete(case))),
        cells=cells,
        repeats=repeats,
        judgements=case.judgements,
        biography=biography,
        validation=None
        if trace.validation is None or trace.validation.value is None
        else replace(trace.validation.value, query_id=trace.case.id),
        attribution=attribution,
        tell=story,
        confidence=None if answer is None else answer.confidence,
        location=None if trace.location is None else trace.location.value,
        matches=case.matches,
    )
