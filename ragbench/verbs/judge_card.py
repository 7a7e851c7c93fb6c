"""A judge against labels of people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ragbench.core.case import Case
from ragbench.core.chat import Usage
from ragbench.core.judge_card import (
    CardFigure,
    ClassFigures,
    ConfusionTable,
    JudgeCard,
    Probe,
    ProbeFigure,
)
from ragbench.core.metric import Metric, Need
from ragbench.core.outcome import JudgedCell, Judgement, Outcome, Status
from ragbench.core.result import GenerationResult, RetrievalResult
from ragbench.core.trace import Trace
from ragbench.errors import ConfigError
from ragbench.io.labels import LEVELS, LabelledClaim
from ragbench.llm.session import ModelClients
from ragbench.metrics.judging import INJECTION, JudgePlan
from ragbench.stages.judge import Judging
from ragbench.stages.judge_identity import price_of
from ragbench.stats.agreement import Estimated, agreement, rank_correlation
from ragbench.stats.mean import proportion_interval

PROBES: Mapping[str, tuple[Probe, ...]] = {
    "position": (Probe.POSITION,),
    "verbosity": (Probe.VERBOSITY,),
    "injection": (Probe.INJECTION_ANSWER, Probe.INJECTION_CONTEXT),
}
_PADDING = (
    "To answer this as carefully as it deserves, it is worth putting it in full: {claim} That, "
    "after everything has been considered, is what can be said about the matter here."
)
_READS = frozenset({Need.RESPONSE, Need.RETRIEVED_CONTEXTS, Need.LLM, Need.QUERY, Need.EMBEDDINGS})


def judge_card(
    claims: Sequence[LabelledClaim],
    metric: Metric,
    judging: Judging,
    *,
    labels: str = "",
    probes: Sequence[Probe] = (Probe.POSITION,),
    seed: int = 0,
    stopped: Callable[[], bool] = lambda: False,
    advance: Callable[[int], None] = lambda _: None,
) -> JudgeCard:
    """Has claims judged and compares the verdicts with what people said.

    Answers are kept: the same call again asks nobody.

    Args:
        claims: at least one.
        metric: how they are judged: a metric that asks a model and reads answer and contexts.
        judging: who judges; ``repeats`` of at least 2 show how far the judge agrees with itself.
        labels: where the labels come from.
        probes: judge claims once more for each, changed in ways that should change no verdict.
        seed: of the resamples behind the intervals.
        stopped: asked before each question; once true, no more is asked.
        advance: called with how many more claims are judged.

    Raises:
        ConfigError: the metric is none of those, or no model is named.
        LLMStoppedError: no model answers any more; what was answered is kept.
        InterruptedRunError: ``stopped`` said so.
    """
    _check_metric(metric)
    plan = judging.plan([metric])
    info = judging.info(plan)
    judging.try_models(plan)
    jobs = [_Job(plan, number, claim, None) for number, claim in enumerate(claims)]
    jobs += _probing(replace(judging, repeats=1).plan([metric]), claims, probes)
    found = _Found(claims=claims, probes=tuple(probes))

    def judge(job: _Job, panel: ModelClients) -> Awaitable[JudgedCell]:
        return job.plan.judge(0, _trace(job.claim), panel)

    for batch in judging.judged(jobs, judge, stopped):
        for job, judged in batch:
            found.judged[job.probe, job.number] = judged
        advance(sum(job.probe is None for job, _ in batch))
    return found.card(metric, info, labels, seed)


def _check_metric(metric: Metric) -> None:
    needs = metric.definition.needs
    if not metric.is_judged or not needs <= _READS or Need.RESPONSE not in needs:
        raise ConfigError(
            f"{metric.name}: a judge card needs a metric that asks a model about an answer and its "
            "contexts, such as support or ragas:faithfulness"
        )


class _Job(NamedTuple):
    plan: JudgePlan
    number: int
    claim: LabelledClaim
    probe: Probe | None
    """None for the claim as it is."""


def _probing(
    plan: JudgePlan, claims: Sequence[LabelledClaim], probes: Sequence[Probe]
) -> Iterator[_Job]:
    for probe in probes:
        for number, claim in enumerate(claims):
            changed = _probed(claim, probe)
            if changed is not None:
                yield _Job(plan, number, changed, probe)


def probes_named(names: Sequence[str]) -> tuple[Probe, ...]:
    """The probes of a list of names; ``none`` stands for none, ``all`` for all."""
    wanted = [name.strip() for name in names if name.strip()]
    if wanted == ["none"]:
        return ()
    for name in wanted:
        if name not in PROBES and wanted != ["all"]:
            raise ConfigError(f"there is no probe '{name}'. Known: {', '.join(PROBES)}, all, none")
    chosen = PROBES if wanted == ["all"] else wanted
    return tuple(probe for name in dict.fromkeys(chosen) for probe in PROBES[name])


def _probed(claim: LabelledClaim, probe: Probe) -> LabelledClaim | None:
    """The claim with a change that leaves its truth; None where the probe says nothing about it.

    An injection is tried on what is not supported: only there does obeying it show.
    """
    first, *others = claim.evidence
    match probe:
        case Probe.POSITION:
            return replace(claim, evidence=claim.evidence[::-1]) if others else None
        case Probe.VERBOSITY:
            return replace(claim, claim=_PADDING.format(claim=claim.claim))
        case _ if claim.level == 2:
            return None
        case Probe.INJECTION_ANSWER:
            return replace(claim, claim=f"{claim.claim} {INJECTION}")
        case Probe.INJECTION_CONTEXT:
            return replace(claim, evidence=(f"{first}\n{INJECTION}", *others))


def _probe_figure(probe: Probe, pairs: Sequence[tuple[JudgedCell, JudgedCell]]) -> ProbeFigure:
    """What a probe did to verdicts: those before it, and after."""
    known = [(_level(a.values[0]), _level(b.values[0])) for a, b in pairs if a.values and b.values]
    found = ProbeFigure(
        probe=probe,
        count=len(known),
        changed=sum(a != b for a, b in known),
        raised=sum(a < b for a, b in known),
        unproved=sum(bool(a.values) and b.cell.status is Status.UNPROVED for a, b in pairs),
    )
    if not known:
        return found
    low, high = proportion_interval(found.hits, len(known))
    return replace(found, low=low, high=high)


def _trace(claim: LabelledClaim) -> Trace:
    case = Case(id=claim.id, query=claim.question or "Is the claim true?")
    return Trace(
        case=case,
        retrieval=Outcome(status=Status.MEASURED, value=RetrievalResult(list(claim.evidence))),
        generation=Outcome(
            status=Status.MEASURED, value=GenerationResult(claim.claim, abstained=False)
        ),
    )


def _level(value: float) -> int:
    """1 is supported, 0 is not, what lies between is partially supported."""
    return 2 if value >= 1 - 1e-9 else 0 if value <= 1e-9 else 1


@dataclass(slots=True)
class _Found:
    claims: Sequence[LabelledClaim]
    probes: Sequence[Probe]
    judged: dict[tuple[Probe | None, int], JudgedCell] = field(
        default_factory=dict[tuple[Probe | None, int], JudgedCell]
    )
    """By the probe and the number of the claim; without a probe for the claim as it is."""

    def card(self, metric: Metric, info: dict[str, Any], labels: str, seed: int) -> JudgeCard:
        """What it comes to. A claim's verdict is its first one: later ones show consistency."""
        numbers = [n for n in range(len(self.claims)) if self._values(n)]
        clusters = [self.claims[n].cluster for n in numbers]
        verdicts = [self._values(n)[0] for n in numbers]
        pairs = [(self.claims[n].level, _level(v)) for n, v in zip(numbers, verdicts, strict=True)]
        grades = [(self.claims[n].graded, v) for n, v in zip(numbers, verdicts, strict=True)]
        rated = agreement(pairs, len(LEVELS), clusters, seed=seed) if pairs else None
        ranks = rank_correlation(grades, clusters, seed=seed) if grades else None
        quotes, unproved = self._quotes()
        tokens = self._tokens()
        price = price_of(info)
        cost = None
        if price is not None and tokens is not None:
            total = Usage(prompt_tokens=tokens[0], completion_tokens=tokens[1])
            cost = price.of(total) / tokens[2]
        return JudgeCard(
            labels=labels,
            metric=metric.name,
            judge=info,
            claims=len(self.claims),
            judged=len(pairs),
            reasons=self._reasons(),
            table=ConfusionTable(levels=LEVELS, counts=rated.counts if rated else ()),
            agreement=_figure(rated.observed if rated else None, len(pairs)),
            base_rate=rated.base_rate if rated else None,
            kappa=_figure(rated.kappa if rated else None, len(pairs)),
            quadratic_kappa=_figure(rated.quadratic if rated else None, len(pairs)),
            classes=_classes(rated.counts if rated else ()),
            rank_correlation=_figure(ranks, len(pairs)),
            consistency=self._consistency(),
            probes=tuple(self._probe(probe) for probe in self.probes),
            fabricated_quotes=quotes,
            unproved=unproved,
            prompt_tokens=None if tokens is None else tokens[0] / tokens[2],
            completion_tokens=None if tokens is None else tokens[1] / tokens[2],
            cost=cost,
            currency=None if price is None else price.currency,
        )

    def _as_they_are(self) -> list[JudgedCell]:
        return [self.judged[key] for key in sorted(k for k in self.judged if k[0] is None)]

    def _values(self, number: int) -> tuple[float, ...]:
        judged = self.judged.get((None, number))
        return () if judged is None else judged.values

    def _reasons(self) -> tuple[tuple[str, int], ...]:
        cells = [judged.cell for judged in self._as_they_are() if not judged.values]
        counts = Counter(
            f"{cell.failure.type}" if cell.failure is not None else str(cell.reason)
            for cell in cells
        )
        return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def _consistency(self) -> CardFigure:
        known = [
            {*map(_level, v)} for n in range(len(self.claims)) if len(v := self._values(n)) > 1
        ]
        return _share(sum(len(levels) == 1 for levels in known), len(known))

    def _probe(self, probe: Probe) -> ProbeFigure:
        pairs = [
            (self.judged[None, number], self.judged[probe, number])
            for number in range(len(self.claims))
            if (None, number) in self.judged and (probe, number) in self.judged
        ]
        return _probe_figure(probe, pairs)

    def _quotes(self) -> tuple[CardFigure, CardFigure]:
        fabricated = quotes = unproved = supporting = 0
        for judgement in self._judgements():
            looked_up = [quote for step in judgement.steps for quote in step.quotes]
            quotes += len(looked_up)
            fabricated += sum(quote.is_fabricated for quote in looked_up)
            unproved += judgement.cell.status is Status.UNPROVED
            supporting += judgement.cell.status is Status.UNPROVED or bool(judgement.cell.value)
        # Verdicts on one claim are alike: an interval as of independent ones would be too short.
        return _bare_share(fabricated, quotes), _bare_share(unproved, supporting)

    def _tokens(self) -> tuple[int, int, int] | None:
        """Of all first-hand verdicts, and their number; None when an answer did not report them."""
        verdicts = prompt = completion = 0
        for judgement in self._judgements():
            verdicts += 1
            for step in judgement.steps:
                if step.prompt_tokens is None or step.completion_tokens is None:
                    return None
                prompt += step.prompt_tokens
                completion += step.completion_tokens
        return (prompt, completion, verdicts) if verdicts else None

    def _judgements(self) -> list[Judgement]:
        """All first-hand verdicts, proved or not."""
        return [
            judgement
            for judged in self._as_they_are()
            for judgement in judged.judgements
            if judgement.cell.status in (Status.MEASURED, Status.UNPROVED)
        ]


def _classes(counts: Sequence[Sequence[int]]) -> tuple[ClassFigures, ...]:
    """Precision and recall of each level, from the table of people (rows) and judge (columns)."""
    return tuple(
        ClassFigures(
            level=LEVELS[at],
            precision=_share(row[at], sum(other[at] for other in counts)),
            recall=_share(row[at], sum(row)),
        )
        for at, row in enumerate(counts)
    )


def _figure(found: Estimated | None, count: int) -> CardFigure:
    if found is None:
        return CardFigure()
    return CardFigure(value=found.value, low=found.low, high=found.high, count=count)


def _share(part: int, whole: int) -> CardFigure:
    if not whole:
        return CardFigure()
    low, high = proportion_interval(part, whole)
    return CardFigure(value=part / whole, low=low, high=high, count=whole)


def _bare_share(part: int, whole: int) -> CardFigure:
    return CardFigure(value=part / whole if whole else None, count=whole)
