"""A judge against labels of people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from ragbench.core.case import Case
from ragbench.core.labels import (
    CardFigure,
    ClassFigures,
    ConfusionTable,
    JudgeCard,
    Probe,
    ProbeFigure,
)
from ragbench.core.metric import Metric, Need
from ragbench.core.outcome import JudgedCell, Outcome, Status
from ragbench.core.record import replace
from ragbench.core.result import GenerationResult, RetrievalResult
from ragbench.core.trace import Trace
from ragbench.errors import ConfigError
from ragbench.io.labels import LEVELS, LabelledClaim
from ragbench.llm.session import ModelClients
from ragbench.metrics.judging import INJECTION, JudgePlan
from ragbench.metrics.summary import most_frequent
from ragbench.stages.dry_run import DryRun
from ragbench.stages.judge import Judging
from ragbench.stages.judge_tally import Account, price_of
from ragbench.stats.agreement import Estimated, agreement, rank_correlation
from ragbench.stats.mean import proportion_interval

PROBES: Mapping[str, tuple[Probe, ...]] = {
    "position": (Probe.POSITION,),
    "verbosity": (Probe.VERBOSITY,),
    "injection": (Probe.INJECTION_ANSWER, Probe.INJECTION_CONTEXT),
}
_PADDING = (
    "To answer this as carefully as it deserves, and after everything has been considered, it is "
    "worth putting it in full. {claim}"
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
    """Has claims judged and compares the verdicts with labels of people.

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
    jobs = _jobs(claims, metric, judging, probes)
    plan = judging.plan([metric])
    info = judging.info(plan)
    judging.try_models(plan, stopped)
    found: dict[Probe | None, dict[int, JudgedCell]] = {each: {} for each in (None, *probes)}

    def judge(job: _Job, panel: ModelClients) -> Awaitable[JudgedCell]:
        return job.plan.judge(metric, _trace(job.claim), panel)

    for batch in judging.judged(jobs, judge, stopped):
        for job, judged in batch:
            found[job.probe][job.number] = judged
        advance(sum(job.probe is None for job, _ in batch))
    plain = dict(sorted(found[None].items()))
    return JudgeCard(
        labels=labels,
        metric=metric.name,
        judge=info,
        claims=len(claims),
        probes=tuple(_probe_figure(probe, plain, found[probe]) for probe in probes),
        **_agreed(claims, plain, seed),
        **_said(plain.values(), info),
    )


def rehearse_card(
    claims: Sequence[LabelledClaim],
    metric: Metric,
    judging: Judging,
    counted: DryRun,
    *,
    probes: Sequence[Probe] = (Probe.POSITION,),
) -> None:
    """Counts the calls that a card would take, and makes none."""
    for job in _jobs(claims, metric, judging, probes):
        counted.judge(job.plan, metric, _trace(job.claim))


def _jobs(
    claims: Sequence[LabelledClaim], metric: Metric, judging: Judging, probes: Sequence[Probe]
) -> list[_Job]:
    needs = metric.definition.needs
    if not metric.is_judged or not needs <= _READS or Need.RESPONSE not in needs:
        raise ConfigError(
            f"{metric.name}: a judge card needs a metric that asks a model about an answer and its "
            "contexts, such as support or ragas:faithfulness"
        )
    plan, once = (one.plan([metric]) for one in (judging, replace(judging, repeats=1)))
    return [
        *(_Job(plan, None, number, claim) for number, claim in enumerate(claims)),
        *(
            _Job(once, probe, number, changed)
            for probe in probes
            for number, claim in enumerate(claims)
            if (changed := _probed(claim, probe)) is not None
        ),
    ]


class _Job(NamedTuple):
    plan: JudgePlan
    probe: Probe | None
    """None for the claim as it is."""
    number: int
    claim: LabelledClaim


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


def _probe_figure(
    probe: Probe, plain: Mapping[int, JudgedCell], probed: Mapping[int, JudgedCell]
) -> ProbeFigure:
    """What a probe did to verdicts: those before it, and after."""
    pairs = [(plain[number], after) for number, after in probed.items() if number in plain]
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


def _agreed(
    claims: Sequence[LabelledClaim], judged: Mapping[int, JudgedCell], seed: int
) -> dict[str, Any]:
    """How far the judge agrees with people: they are rows of the table, the judge its columns.

    A claim's verdict is its first one: later ones show consistency.
    """
    verdicts = {number: one.values[0] for number, one in judged.items() if one.values}
    repeated = [{*map(_level, one.values)} for one in judged.values() if len(one.values) > 1]
    clusters = [claims[number].cluster for number in verdicts]
    pairs = [(claims[number].level, _level(value)) for number, value in verdicts.items()]
    grades = [(claims[number].graded, value) for number, value in verdicts.items()]
    rated = agreement(pairs, len(LEVELS), clusters, seed=seed) if pairs else None
    ranks = rank_correlation(grades, clusters, seed=seed) if grades else None
    counts = rated.counts if rated else ()
    return {
        "judged": len(verdicts),
        "consistency": _share(sum(len(levels) == 1 for levels in repeated), len(repeated)),
        "table": ConfusionTable(levels=LEVELS, counts=counts),
        "agreement": _figure(rated.observed if rated else None, len(pairs)),
        "base_rate": rated.base_rate if rated else None,
        "kappa": _figure(rated.kappa if rated else None, len(pairs)),
        "quadratic_kappa": _figure(rated.quadratic if rated else None, len(pairs)),
        "classes": tuple(
            ClassFigures(
                level=LEVELS[at],
                precision=_share(row[at], sum(other[at] for other in counts)),
                recall=_share(row[at], sum(row)),
            )
            for at, row in enumerate(counts)
        ),
        "rank_correlation": _figure(ranks, len(pairs)),
    }


def _said(judged: Collection[JudgedCell], info: dict[str, Any]) -> dict[str, Any]:
    """Quotes, proofs and tokens of all first-hand verdicts; those on one claim are alike."""
    cells = [one.cell for one in judged if not one.values]
    reasons = Counter(str(c.reason) if c.failure is None else c.failure.type for c in cells)
    said = [
        judgement
        for one in judged
        for judgement in one.judgements
        if judgement.cell.status in (Status.MEASURED, Status.UNPROVED)
    ]
    account = Account()
    account.add(said)
    counts, usage = account.counts, account.usage if said else None
    unproved = [one.cell.status is Status.UNPROVED for one in said]
    supporting = sum(no or bool(one.cell.value) for no, one in zip(unproved, said, strict=True))
    price = price_of(info)
    return {
        "reasons": most_frequent(reasons),
        "fabricated_quotes": _share(counts["fabricated_quotes"], counts["quotes"], are_alike=True),
        "unproved": _share(sum(unproved), supporting, are_alike=True),
        "prompt_tokens": None if usage is None else usage.prompt_tokens / len(said),
        "completion_tokens": None if usage is None else usage.completion_tokens / len(said),
        "cost": None if price is None or usage is None else price.of(usage) / len(said),
        "currency": None if price is None else price.currency,
    }


def _figure(found: Estimated | None, count: int) -> CardFigure:
    if found is None:
        return CardFigure()
    return CardFigure(value=found.value, low=found.low, high=found.high, count=count)


def _share(part: int, whole: int, *, are_alike: bool = False) -> CardFigure:
    """A share with its interval, which would be too short for things that are alike."""
    if not whole:
        return CardFigure()
    low, high = (None, None) if are_alike else proportion_interval(part, whole)
    return CardFigure(value=part / whole, low=low, high=high, count=whole)
