"""A stored run to its report."""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import orjson

from ragbench.core.attribution import Attribution, CorpusGold
from ragbench.core.biography import Biography
from ragbench.core.chat import Usage
from ragbench.core.gold_search import GoldCause
from ragbench.core.metric import Metric
from ragbench.core.outcome import Cell, Failure, Judgement, Known, Outcome, Status
from ragbench.core.report import (
    CanaryLine,
    CaseRow,
    FailureGroup,
    JudgeLine,
    JudgeReport,
    Latency,
    Report,
    StageCount,
    Steadiness,
    Summary,
)
from ragbench.core.story import CaseStory
from ragbench.core.trace import Trace
from ragbench.errors import RunMismatchError
from ragbench.ledger.canaries import read_canaries
from ragbench.ledger.codec import question_digest
from ragbench.ledger.folder import RunFolder
from ragbench.ledger.journal import Journal
from ragbench.ledger.manifest import Manifest, read_manifest, write_manifest
from ragbench.metrics.matching import Matching
from ragbench.metrics.registry import stored_metrics
from ragbench.metrics.summary import NO_FIGURE, SummaryBuilder
from ragbench.pipeline.pre_retrieval import pre_retrieval_failures
from ragbench.post.stage import POST_RETRIEVE, steps_of
from ragbench.stages.attribution import CauseTally, attribute
from ragbench.stages.biography import BiographyTally, biography_of
from ragbench.stages.corpus_gold import read_corpus_gold
from ragbench.stages.judge_identity import price_of
from ragbench.stages.locate import LOCATE
from ragbench.stages.panel import PanelTally, by_judge
from ragbench.stages.stored import StoredTraces, TracedCase
from ragbench.stages.story import story_of
from ragbench.stages.validate import VALIDATE, ValidationTally

if TYPE_CHECKING:
    from ragbench.llm.endpoint import Price

__all__ = [
    "JudgeTally",
    "ReportBuilder",
    "keep_figures",
    "metrics_of",
    "open_traces",
    "report_of",
]


@dataclass(slots=True)
class _Account:
    """One metric, so far."""

    answers: int = 0
    prompt: int = 0
    completion: int = 0
    unreported: int = 0
    cost: Decimal = Decimal(0)
    unpriced: int = 0
    """Answers of which no cost is kept."""
    not_sent: set[str] = field(default_factory=set[str])
    quotes: int = 0
    fabricated: int = 0
    repeated: int = 0
    """Cases with at least two values."""
    changed: int = 0
    variances: float = 0.0
    """Sum of their sample variances."""
    errors: float = 0.0
    """Sum over them of variance / count."""
    panel: PanelTally = field(default_factory=PanelTally)

    def add(self, judgements: Sequence[Judgement]) -> None:
        """Counts the judgements of a cell."""
        for judgement in judgements:
            for step in judgement.steps:
                self.answers += 1
                self.cost += step.cost or Decimal(0)
                self.unpriced += step.cost is None
                self.not_sent.update(step.not_sent)
                self.quotes += len(step.quotes)
                self.fabricated += sum(quote.is_fabricated for quote in step.quotes)
                if step.prompt_tokens is None or step.completion_tokens is None:
                    self.unreported += 1
                else:
                    self.prompt += step.prompt_tokens
                    self.completion += step.completion_tokens
        self.panel.add(judgements)
        for made in by_judge(judgements).values():
            self._steady([j.cell.value for j in made if j.cell.value is not None])

    def _steady(self, values: Sequence[float]) -> None:
        """Counts the values that one judge gave a case."""
        if len(values) >= 2:
            mean = math.fsum(values) / len(values)
            variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
            self.repeated += 1
            self.changed += min(values) != max(values)
            self.variances += variance
            self.errors += variance / len(values)

    def line(self, metric: Metric, price: Price | None) -> JudgeLine:
        """What it came to."""
        cost: Decimal | None = None
        if self.answers and not self.unpriced:
            cost = self.cost
        elif price is not None and not self.unreported:
            cost = price.of(Usage(prompt_tokens=self.prompt, completion_tokens=self.completion))
        steadiness = None
        if self.repeated:
            steadiness = Steadiness(
                cases=self.repeated,
                deviation=math.sqrt(self.variances / self.repeated),
                changed=self.changed,
                error=math.sqrt(self.errors) / self.repeated,
            )
        return JudgeLine(
            metric=metric.name,
            answers=self.answers,
            prompt_tokens=self.prompt,
            completion_tokens=self.completion,
            unreported=self.unreported,
            cost=cost,
            steadiness=steadiness,
            not_sent=tuple(sorted(self.not_sent)),
            quotes=self.quotes,
            fabricated_quotes=self.fabricated,
            jurors=self.panel.scores(),
            pairs=self.panel.pairs(),
        )


@dataclass(slots=True)
class JudgeTally:
    """Counts over the cases of a run."""

    metrics: Sequence[Metric]
    """All of the run."""
    judge: Mapping[str, Any] | None
    """The manifest's."""
    _accounts: dict[int, _Account] = field(default_factory=dict[int, _Account])

    def add(self, judgements: Sequence[Sequence[Judgement]]) -> None:
        """Counts a case: the judgements of each of its cells."""
        for position, found in enumerate(judgements):
            if found:
                self._accounts.setdefault(position, _Account()).add(found)

    def report(self, canaries: tuple[CanaryLine, ...] = ()) -> JudgeReport | None:
        """What it came to; None when no metric of the run asks a model.

        Args:
            canaries: what the judge made of claims of known truth.
        """
        if self.judge is None:
            return None
        price = price_of(self.judge)
        lines = [
            self._accounts.get(position, _Account()).line(metric, price)
            for position, metric in enumerate(self.metrics)
            if metric.is_judged
        ]
        return JudgeReport(
            judge=self.judge,
            lines=tuple(lines),
            currency=None if price is None else price.currency,
            price_origin=None if price is None else price.origin,
            canaries=canaries,
        )


_KINDS = 1000
"""How many messages are told apart: a message that quotes its query differs for every case."""
_OTHERS = "(other messages)"
_CORRECTNESS = frozenset(
    {"ragas:answer_correctness", "ragas:factual_correctness", "ragas:answer_accuracy"}
)
"""Judged metrics that say whether an answer is right; before the words of the answer."""
_UNSCORED = Cell.skipped("not scored yet: the run was interrupted")


def open_traces(path: Path, *, with_texts: bool = True) -> Iterator[TracedCase]:
    """Reads the cases of a stored run, in order.

    Args:
        path: the run's folder.
        with_texts: whether context texts are read too.

    Raises:
        RunMismatchError: there is no run in the folder.
    """
    folder = RunFolder(path=path)
    manifest = read_manifest(folder.manifest)
    metrics = metrics_of(manifest)
    if not folder.exists:
        raise RunMismatchError(f"{path} is not a run folder: it has no {folder.journal.name}")
    with Journal(folder.journal) as journal:
        yield from StoredTraces(
            journal=journal, manifest=manifest, metrics=metrics, with_texts=with_texts
        )


def metrics_of(manifest: Manifest) -> tuple[Metric, ...]:
    """A stored run's metrics, as they were when it was scored."""
    return stored_metrics(
        manifest.metrics, () if manifest.judge is None else manifest.judge["keys"]
    )


def keep_figures(report: Report, path: Path) -> bool:
    """Stores the figures that users' own summary functions gave, beside the run's metrics.

    With them the run can be reported where those functions are not installed.

    Args:
        report: the finished run.
        path: its folder.

    Returns:
        Whether there were such figures.
    """
    own = {
        summary.metric.name: {
            "score": summary.score,
            "slices": [[part.by, part.value, part.score] for part in summary.slices],
            "problem": _why_no_figure(summary),
        }
        for summary in report.summaries
        if summary.metric.definition.aggregate and summary.metric.definition.digest
    }
    manifest = read_manifest(RunFolder(path=path).manifest)
    if not own or manifest.fingerprints != report.manifest["fingerprints"]:
        return False  # nothing to keep, or another run was begun here
    metrics = tuple(replace(info, figure=own.get(info.name)) for info in manifest.metrics)
    write_manifest(replace(manifest, metrics=metrics), RunFolder(path=path).manifest)
    return True


def _why_no_figure(summary: Summary) -> str | None:
    told = (reason for reason, _ in summary.reasons if reason.startswith(NO_FIGURE))
    return next((reason.removeprefix(NO_FIGURE) for reason in told), None)


def report_of(path: Path) -> Report:
    """Builds the report of a stored run. Nothing is computed anew.

    Args:
        path: the run's folder.

    Raises:
        RunMismatchError: there is no run in the folder.
    """
    manifest = read_manifest(RunFolder(path=path).manifest)
    builder = ReportBuilder(path, manifest)
    for case in open_traces(path):
        builder.add(case)
    with Journal(RunFolder(path=path).journal) as journal:
        return builder.report(journal.started())


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
        """Begins without a case.

        Args:
            path: the run's folder.
            manifest: what it is a run of.
            metrics: its metrics with their functions, where they are at hand: those make the
                figures that are not means.
            matching: how chunks are compared with gold contexts, where that is decided later than
                the manifest was made; the manifest's when not given.
        """
        self.manifest = manifest
        self._matching = matching or (lambda: _matching_of(manifest))
        self._path = path
        self._metrics = metrics_of(manifest) if metrics is None else tuple(metrics)
        kept = {info.name: info.figure for info in manifest.metrics if info.figure is not None}
        self._summaries = SummaryBuilder(self._metrics, kept)
        self._tally = _Tally()
        self._judged = JudgeTally(self._metrics, manifest.judge)
        self._biographies = BiographyTally()
        self._causes = CauseTally()
        self._attributed = Attributed.of(path, manifest, self._metrics)

    def add(self, case: TracedCase) -> None:
        """Counts a case that is through all stages; its context texts are needed."""
        matching = self._matching()
        biography = biography_of(case.trace, matching)
        self._biographies.add(case.trace.case.id, biography)
        self._causes.add(case.trace.case.id, self._attributed.cause(case, matching, biography))
        cells = cast("tuple[Cell, ...]", case.cells) if all(case.cells) else _complete(case)
        self._summaries.add(case.trace.case, cells)
        self._tally.add(case.trace, cells)
        if any(case.judgements):
            self._judged.add(case.judgements)

    def report(self, started: Mapping[int, str]) -> Report:
        """The report of the cases so far.

        Args:
            started: when each run of the folder began.
        """
        path, tally = self._path, self._tally
        stages = tally.stages()
        earlier = sorted(started)[:-1]
        reused_from = started[earlier[-1]] if earlier and any(s.reused for s in stages) else None
        summaries = self._summaries.summaries()
        return Report(
            manifest=orjson.loads(orjson.dumps(self.manifest)),
            metrics=self._metrics,
            summaries=summaries,
            stages=stages,
            failures=tally.failures(),
            latencies=tally.latencies(),
            reused_from=reused_from,
            notes=(*_notes(self.manifest, tally), *_metric_notes(summaries)),
            judging=self._judged.report(read_canaries(path, self.manifest.fingerprints)),
            validation=tally.validation.table(),
            operators=self._biographies.table(),
            causes=self._causes.counts(),
            rows=self._rows,
            gold={cause: tally.gold[cause] for cause in GoldCause if tally.gold[cause]},
        )

    def _rows(self) -> Iterator[CaseRow]:
        attributed = Attributed.of(self._path, self.manifest, self._metrics)
        matching = _matching_of(self.manifest)
        for case in open_traces(self._path):
            biography = biography_of(case.trace, matching)
            story = story_of(case.trace, matching, case.judgements, self._metrics)
            yield _row(case, biography, attributed.cause(case, matching, biography), story)


@dataclass(frozen=True, slots=True)
class Attributed:
    """Finds the causes of a run's cases."""

    corpus: CorpusGold | None
    correctness: int | None
    """Position of the metric by which a judge grades the answer; None without one."""

    @classmethod
    def of(cls, path: Path, manifest: Manifest, metrics: Sequence[Metric]) -> Attributed:
        """With what is known of the run."""
        judged = (n for n, metric in enumerate(metrics) if metric.name in _CORRECTNESS)
        return cls(
            corpus=read_corpus_gold(path, manifest.fingerprints),
            correctness=next(judged, None),
        )

    def cause(
        self, case: TracedCase, matching: Matching, biography: Biography | None
    ) -> Attribution:
        """The cause of a case."""
        at = self.correctness
        return attribute(
            case.trace,
            matching=matching,
            biography=biography,
            corpus=self.corpus,
            correctness=None if at is None else case.cells[at],
        )


def _complete(case: TracedCase) -> tuple[Cell, ...]:
    return tuple(_UNSCORED if cell is None else cell for cell in case.cells)


def _stage_outcomes(trace: Trace) -> tuple[tuple[str, Outcome[Any]], ...]:
    between = trace.post_retrieval
    stages: list[tuple[str, Outcome[Any]]] = [("retrieve", trace.retrieval)]
    if trace.location is not None:
        stages.append((LOCATE, trace.location))
    if between is not None:
        stages.append((POST_RETRIEVE, between))
    if trace.validation is not None:
        stages.append((VALIDATE, trace.validation))
    return (*stages, ("generate", trace.generation))


def _recovered(trace: Trace) -> list[Failure]:
    """Failures before retrieval and of operators that were passed over."""
    first, between = trace.retrieval.value, trace.post_retrieval
    found = [] if first is None else [*pre_retrieval_failures(first)]
    if between is None or between.value is None:
        return found
    return [*found, *(failure for step in steps_of(between.value) for failure in step.failures)]


def _matching_of(manifest: Manifest) -> Matching:
    return Matching(manifest.settings["matching"])


def _row(
    case: TracedCase, biography: Biography | None, attribution: Attribution, story: CaseStory
) -> CaseRow:
    trace, cells = case.trace, _complete(case)
    result, answer = trace.context.value, trace.generation.value
    ids = None if result is None or result.context_ids is None else tuple(result.context_ids)
    return CaseRow(
        id=trace.case.id,
        fingerprint=question_digest(trace.case).hex(),
        query=trace.case.query,
        reference=trace.case.reference,
        reference_ids=trace.case.reference_context_ids,
        cluster=trace.case.cluster,
        tags=trace.case.tags,
        language=trace.case.language,
        retrieved_ids=ids,
        response=None if answer is None else answer.response,
        stages={stage: outcome.status for stage, outcome in _stage_outcomes(trace)},
        failures=tuple(_failures(trace, cells)),
        cells=cells,
        judgements=case.judgements,
        biography=biography,
        validation=None
        if trace.validation is None or trace.validation.value is None
        else replace(trace.validation.value, query_id=trace.case.id),
        attribution=attribution,
        story=story,
        location=None if trace.location is None else trace.location.value,
        matches=case.matches,
    )


def _failures(trace: Trace, cells: Sequence[Cell]) -> Sequence[Failure]:
    """What failed for a case; a failure that only passes on an earlier one is listed once."""
    passed_over = _recovered(trace)
    found = [outcome.failure for _, outcome in _stage_outcomes(trace) if outcome.failure]
    found += [*passed_over, *[cell.failure for cell in cells if cell.failure]]
    if not found:
        return ()  # most cases
    unique: dict[str, Failure] = {}
    for failure in found:
        unique.setdefault(str(failure), failure)
    return tuple(unique.values())


@dataclass(slots=True)
class _Tally:
    """Counts over the cases of a run."""

    statuses: Counter[tuple[str, Status]] = field(default_factory=Counter[tuple[str, Status]])
    known: Counter[tuple[str, Known]] = field(default_factory=Counter[tuple[str, Known]])
    groups: dict[tuple[str, str, str], list[str]] = field(
        default_factory=dict[tuple[str, str, str], list[str]]
    )
    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter[tuple[str, str, str]])
    seconds: dict[str, array[float]] = field(default_factory=lambda: defaultdict(_doubles))
    sharing: Counter[str] = field(default_factory=Counter[str])
    """The most cases that shared a call, by stage."""
    repeated_ids: int = 0
    gold: Counter[GoldCause] = field(default_factory=Counter[GoldCause])
    validation: ValidationTally = field(default_factory=ValidationTally)

    def add(self, trace: Trace, cells: Sequence[Cell]) -> None:
        """Counts a case."""
        if trace.validation is not None:
            self.validation.add(trace)
        if trace.location is not None and trace.location.value is not None:
            self.gold[trace.location.value.cause] += 1
        for stage, outcome in _stage_outcomes(trace):
            self.statuses[stage, outcome.status] += 1
            if outcome.known is not Known.ASKED:
                self.known[stage, outcome.known] += 1
            if outcome.seconds is not None:
                self.seconds[stage].append(outcome.seconds)
                self.sharing[stage] = max(self.sharing[stage], outcome.sharing)
        for failure in _failures(trace, cells):
            key = (failure.stage, failure.type, failure.message)
            if key not in self.counts and len(self.counts) >= _KINDS:
                key = (failure.stage, failure.type, _OTHERS)
            self.counts[key] += 1
            examples = self.groups.setdefault(key, [])
            if len(examples) < 5:
                examples.append(trace.case.id)
        result = trace.retrieval.value
        if result is not None and result.context_ids is not None:
            self.repeated_ids += len(set(result.context_ids)) < len(result.context_ids)

    def stages(self) -> tuple[StageCount, ...]:
        """How each stage ended."""
        return tuple(
            StageCount(
                stage=stage,
                measured=self.statuses[stage, Status.MEASURED],
                abstained=self.statuses[stage, Status.ABSTAINED],
                skipped=self.statuses[stage, Status.SKIPPED],
                failed=self.statuses[stage, Status.FAILED],
                reused=self.known[stage, Known.REUSED],
                recorded=self.known[stage, Known.RECORDED],
            )
            for stage in ("retrieve", LOCATE, POST_RETRIEVE, VALIDATE, "generate")
            if any(self.statuses[stage, status] for status in Status)
        )

    def failures(self) -> tuple[FailureGroup, ...]:
        """Failures of one kind together, the most frequent kind first."""
        return tuple(
            FailureGroup(
                stage=key[0],
                type=key[1],
                message=key[2],
                count=count,
                examples=tuple(self.groups[key]),
            )
            for key, count in sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
        )

    def latencies(self) -> tuple[Latency, ...]:
        """Wall times per stage."""
        return tuple(
            _latency(stage, values, self.sharing[stage]) for stage, values in self.seconds.items()
        )


def _doubles() -> array[float]:
    return array("d")


def _latency(stage: str, values: array[float], sharing: int) -> Latency:
    alone = sharing == 1
    return Latency(
        stage=stage,
        count=len(values),
        mean=math.fsum(values) / len(values),
        p50=_percentile(values, 0.50) if alone else None,
        p95=_percentile(values, 0.95) if alone else None,
        longest=max(values) if alone else None,
        sharing=sharing,
    )


def _percentile(values: array[float], share: float) -> float:
    """The nearest-rank percentile: a value that was really measured."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def _metric_notes(summaries: Sequence[Summary]) -> Iterator[str]:
    """What cannot be said of metrics of other packages and of earlier versions."""
    for summary in summaries:
        metric = summary.metric
        if not metric.has_definition:
            yield (
                f"{metric.name}: no definition kept. An earlier version of ragbench scored it, and "
                "no metric of that name is installed: which side is better is not known."
            )
        elif metric.definition.aggregate and summary.measured and summary.score is None:
            problem = _why_no_figure(summary) or "the run was not finished"
            yield (
                f"{metric.name}: there is no figure over the run, which "
                f"{metric.definition.aggregate} makes: {problem}."
            )


def _notes(manifest: Manifest, tally: _Tally) -> tuple[str, ...]:
    notes = [*manifest.notes]
    if tally.repeated_ids:
        notes.append(
            f"{tally.repeated_ids} retrievals returned an id more than once; only its first place "
            "counts."
        )
    return tuple(notes)
