"""A judge against labels of people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from decimal import Decimal
from functools import partial
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
from ragbench.core.outcome import JudgedCell, Judgement, Outcome, Status
from ragbench.core.record import replace
from ragbench.core.result import GenerationResult, RetrievalResult
from ragbench.core.trace import Trace
from ragbench.errors import ConfigError
from ragbench.io.labels import LEVELS, LabelledClaim
from ragbench.llm.session import ModelClients
from ragbench.metrics.judging import ANSWER_INJECTION, INJECTION, JudgePlan
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
"""What a user names, and the changes of a claim that it stands for."""
_PADDING = (
    "To answer this as carefully as it deserves, and after everything has been considered, it is "
    "worth putting it in full. {claim}"
)
"""Makes a claim longer and says no more."""
_READS = frozenset({Need.RESPONSE, Need.RETRIEVED_CONTEXTS, Need.LLM, Need.QUERY, Need.EMBEDDINGS})
"""What a metric of a card may read: a labelled claim has nothing else."""
_READS_BESIDE_REFERENCES = frozenset({Need.RESPONSE, Need.REFERENCE, Need.LLM, Need.QUERY})
"""What it may read where the claim is an answer, and its evidence are the right answers."""


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
    jobs = _jobs_of_card(claims, metric, judging, probes)
    plan = judging.plan([metric])
    info = judging.info(plan)
    # Before the first claim: a wrong key is one error, and no row of failed claims.
    judging.try_models(plan, stopped)
    # By probe and number of the claim; None is the claim as it is.
    verdicts: dict[Probe | None, dict[int, JudgedCell]] = {None: {}}
    for probe in probes:
        verdicts[probe] = {}
    for batch in judging.judged(jobs, partial(_judged_claim, metric), stopped):
        judged_claims = 0
        for job, judged in batch:
            verdicts[job.probe][job.number] = judged
            # Progress counts claims, and no further judgements of the same claim.
            if job.probe is None:
                judged_claims += 1
        advance(judged_claims)
    # Verdicts come in the order in which models answer; figures must not depend on it.
    plain = dict(sorted(verdicts[None].items()))
    agreed = _agreement_of(claims, plain, seed)
    # Of the plain claims alone: probes would make a judgement look dearer than it is in a run.
    account = _account_of(plain.values(), info)
    return JudgeCard(
        labels=labels,
        metric=metric.name,
        judge=info,
        claims=len(claims),
        judged=agreed.judged,
        reasons=account.reasons,
        table=agreed.table,
        agreement=agreed.agreement,
        base_rate=agreed.base_rate,
        kappa=agreed.kappa,
        quadratic_kappa=agreed.quadratic_kappa,
        classes=agreed.classes,
        rank_correlation=agreed.rank_correlation,
        consistency=agreed.consistency,
        # Pairs with `probes` by position.
        probes=tuple(_probe_figure(probe, plain, verdicts[probe]) for probe in probes),
        fabricated_quotes=account.fabricated_quotes,
        unproved=account.unproved,
        prompt_tokens=account.prompt_tokens,
        completion_tokens=account.completion_tokens,
        cost=account.cost,
        currency=account.currency,
    )


def rehearse_card(
    claims: Sequence[LabelledClaim],
    metric: Metric,
    judging: Judging,
    counted: DryRun,
    *,
    probes: Sequence[Probe] = (Probe.POSITION,),
) -> None:
    """Counts the calls that a judge card would take, and makes none: ``--dry-run`` shows its price.

    Args:
        counted: counts the calls, their tokens and cost.
    """
    # The same jobs as `judge_card` has judged, with the trace that its judge reads.
    for job in _jobs_of_card(claims, metric, judging, probes):
        counted.judge(job.plan, metric, _trace_of_claim(job.claim, metric))


def _judged_claim(metric: Metric, job: _Job, panel: ModelClients) -> Awaitable[JudgedCell]:
    """Has the models of a panel judge one labelled claim, as if it were a case's answer.

    Prompts and panel are those of a run, so that the card measures the judge as it works there.
    """
    return job.plan.judge(metric, _trace_of_claim(job.claim, metric), panel)


def _jobs_of_card(
    claims: Sequence[LabelledClaim], metric: Metric, judging: Judging, probes: Sequence[Probe]
) -> list[_Job]:
    """All that a judge card has judged: each claim as it is, then each as the probes change it.

    A probe (a change that should change no verdict) is judged once, a plain claim as often as the
    judging is set to. Metrics that a claim has no fields for are refused.
    """
    needs = metric.definition.needs
    # Either form: claims beside contexts, or answers beside right answers.
    is_readable = needs <= _READS or needs <= _READS_BESIDE_REFERENCES
    if not metric.is_judged or not is_readable or Need.RESPONSE not in needs:
        raise ConfigError(
            f"{metric.name}: a judge card needs a metric that asks a model about an answer and its "
            "contexts, such as support or ragas:faithfulness, or about an answer and the right "
            "ones, as correctness does"
        )
    plan = judging.plan([metric])
    # Repeats show how steady the judge is; a changed claim is only compared with the first verdict.
    probe_plan = replace(judging, repeats=1).plan([metric])
    jobs: list[_Job] = []
    for number, claim in enumerate(claims):
        jobs.append(_Job(plan, None, number, claim))
    for probe in probes:
        for number, claim in enumerate(claims):
            # None where the change does not apply to the claim, such as another order of one
            # passage.
            changed = _changed_claim(claim, probe, metric)
            if changed is not None:
                jobs.append(_Job(probe_plan, probe, number, changed))
    return jobs


class _Job(NamedTuple):
    """A claim to be judged, as it is or changed by a probe."""

    plan: JudgePlan
    """How it is judged: probes are judged once, plain claims as often as was asked."""
    probe: Probe | None
    """None for the claim as it is."""
    number: int
    """The claim's position among all."""
    claim: LabelledClaim


def probes_named(names: Sequence[str]) -> tuple[Probe, ...]:
    """The probes (changes of a claim that should change no verdict) of a list of names.

    ``none`` is none of them, ``all`` is all; an unknown name is an error.
    """
    names = [name.strip() for name in names if name.strip()]
    if names == ["none"]:
        return ()
    if names == ["all"]:
        names = list(PROBES)
    probes: list[Probe] = []
    # Each name once, in the order of the user; a name may be of several probes.
    for name in dict.fromkeys(names):
        if name not in PROBES:
            raise ConfigError(f"there is no probe '{name}'. Known: {', '.join(PROBES)}, all, none")
        probes += PROBES[name]
    return tuple(probes)


def _changed_claim(claim: LabelledClaim, probe: Probe, metric: Metric) -> LabelledClaim | None:
    """The claim with a probe's change, which leaves its truth; None where the probe does not apply.

    A judge whose verdict changes with it can be led astray. An injection is tried only on claims
    that are not supported: only there does obeying it show.
    """
    # Every labelled claim has some evidence.
    passage, *other_passages = claim.evidence
    match probe:
        case Probe.POSITION:
            if not other_passages:
                return None
            # Back to front: the strongest change of order that is the same in every run.
            return replace(claim, evidence=claim.evidence[::-1])
        case Probe.VERBOSITY:
            return replace(claim, claim=_PADDING.format(claim=claim.claim))
        case _ if claim.level == 2:
            # A supported claim: an order to call it supported would change nothing.
            return None
        case Probe.INJECTION_ANSWER:
            order = INJECTION
            if _reads_references(metric):
                order = ANSWER_INJECTION
            return replace(claim, claim=f"{claim.claim} {order}")
        case Probe.INJECTION_CONTEXT:
            if _reads_references(metric):
                return None  # right answers are the user's own
            return replace(claim, evidence=(f"{passage}\n{INJECTION}", *other_passages))


def _probe_figure(
    probe: Probe, plain: Mapping[int, JudgedCell], probed: Mapping[int, JudgedCell]
) -> ProbeFigure:
    """The figure of one probe: how many verdicts its change of the claims has changed, and raised.

    Args:
        plain: by number of the claim, the verdict on the claim as it is.
        probed: by number of the claim, the verdict on the changed claim.
    """
    levels: list[tuple[int, int]] = []
    unproved = 0
    for number, after in probed.items():
        before = plain.get(number)
        if before is None or not before.values:  # nothing that the probe could have changed
            continue
        if after.values:
            # The first of repeated verdicts, since a probe is judged once.
            levels.append((_level(before.values[0]), _level(after.values[0])))
        if after.cell.status is Status.UNPROVED:
            unproved += 1
    figure = ProbeFigure(
        probe=probe,
        count=len(levels),
        changed=sum(before != after for before, after in levels),
        raised=sum(before < after for before, after in levels),
        unproved=unproved,
    )
    if not levels:
        return figure
    # `hits` is the count that the probe is about: verdicts changed, or raised by an injection.
    low, high = proportion_interval(figure.hits, len(levels))
    return replace(figure, low=low, high=high)


def _reads_references(metric: Metric) -> bool:
    """Whether a metric compares an answer with right answers, in place of contexts.

    A labelled claim's evidence is those right answers then.
    """
    return Need.REFERENCE in metric.definition.needs


def _trace_of_claim(claim: LabelledClaim, metric: Metric) -> Trace:
    """A labelled claim in the form of a case that a judge can be asked about, the claim its answer.

    The claim's evidence takes the place of the retrieved contexts or, for a metric that reads
    references, of the right answers.
    """
    # A claim without a question is put to the judge as one about its truth.
    case = Case(id=claim.id, query=claim.question or "Is the claim true?")
    contexts = list(claim.evidence)
    if _reads_references(metric):
        reference, *others = claim.evidence
        case = replace(case, reference=reference, alternative_references=tuple(others))
        contexts = []
    retrieved = RetrievalResult(contexts)
    # Not abstained, however the claim reads: else the judge would not be asked.
    generated = GenerationResult(claim.claim, abstained=False)
    return Trace(
        case=case,
        retrieval=Outcome(status=Status.MEASURED, value=retrieved),
        generation=Outcome(status=Status.MEASURED, value=generated),
    )


_ROUNDING = 1e-9
"""By which a verdict may miss 0 or 1, as a mean of floats does."""


def _level(value: float) -> int:
    """The level of a judge's value, on the scale of people's labels.

    2 is supported (a value of 1), 0 not supported (0), and 1 all between: partially. Labels use the
    same numbers.
    """
    if value >= 1 - _ROUNDING:
        return 2
    if value <= _ROUNDING:
        return 0
    return 1


class _Agreement(NamedTuple):
    """How far a judge agrees with people; its fields are those of the card."""

    judged: int
    consistency: CardFigure
    table: ConfusionTable
    """People's levels are its rows, the judge's its columns."""
    agreement: CardFigure
    base_rate: float | None
    kappa: CardFigure
    quadratic_kappa: CardFigure
    classes: tuple[ClassFigures, ...]
    rank_correlation: CardFigure


def _agreement_of(
    claims: Sequence[LabelledClaim], judged: Mapping[int, JudgedCell], seed: int
) -> _Agreement:
    """How far a judge agrees with people: its first verdict on each claim beside their label.

    Later verdicts on the same claim show only how steady the judge is.

    Args:
        judged: by number of the claim, the judge's verdicts.
        seed: of the resamples behind the intervals.
    """
    clusters: list[str | None] = []
    levels: list[tuple[int, int]] = []
    grades: list[tuple[float, float]] = []
    repeated = 0
    steady = 0
    for number, verdict in judged.items():
        # A claim without a verdict is in `reasons`, and in none of these figures.
        if not verdict.values:
            continue
        claim = claims[number]
        value = verdict.values[0]
        # Three lists that grow together: their positions pair.
        clusters.append(claim.cluster)
        levels.append((claim.level, _level(value)))
        grades.append((claim.graded, value))
        # Steadiness is counted over claims that were judged more than once.
        if len(verdict.values) > 1:
            repeated += 1
            levels_of_repeats = set(map(_level, verdict.values))
            if len(levels_of_repeats) == 1:
                steady += 1

    judged_count = len(levels)
    consistency = _share_figure(steady, repeated)
    if not levels:
        return _Agreement(
            judged=judged_count,
            consistency=consistency,
            table=ConfusionTable(levels=LEVELS, counts=()),
            agreement=CardFigure(),
            base_rate=None,
            kappa=CardFigure(),
            quadratic_kappa=CardFigure(),
            classes=(),
            rank_correlation=CardFigure(),
        )
    rated = agreement(levels, len(LEVELS), clusters, seed=seed)
    ranks = rank_correlation(grades, clusters, seed=seed)
    classes: list[ClassFigures] = []
    # Rows are people's levels, columns the judge's: the diagonal is where they agree.
    for position, row in enumerate(rated.counts):
        hits = row[position]
        # The column's sum: how often the judge chose this level.
        by_judge = sum(counts[position] for counts in rated.counts)
        by_people = sum(row)
        figures = ClassFigures(
            level=LEVELS[position],
            precision=_share_figure(hits, by_judge),
            recall=_share_figure(hits, by_people),
        )
        classes.append(figures)
    return _Agreement(
        judged=judged_count,
        consistency=consistency,
        table=ConfusionTable(levels=LEVELS, counts=rated.counts),
        agreement=_card_figure(rated.observed, judged_count),
        base_rate=rated.base_rate,
        kappa=_card_figure(rated.kappa, judged_count),
        quadratic_kappa=_card_figure(rated.quadratic, judged_count),
        classes=tuple(classes),
        rank_correlation=_card_figure(ranks, judged_count),
    )


class _Account(NamedTuple):
    """What verdicts were made of and what they took; its fields are those of the card."""

    reasons: tuple[tuple[str, int], ...]
    fabricated_quotes: CardFigure
    unproved: CardFigure
    prompt_tokens: float | None
    completion_tokens: float | None
    cost: Decimal | None
    currency: str | None


def _account_of(judged: Collection[JudgedCell], info: dict[str, Any]) -> _Account:
    """The quotes, proofs, tokens and cost of all verdicts that the judge gave, for the card.

    Args:
        info: the record of the judge, with the price of its tokens.
    """
    reasons: Counter[str] = Counter()
    judgements: list[Judgement] = []
    unproved = 0
    supporting = 0
    for verdict in judged:
        cell = verdict.cell
        # Why a claim has no verdict: the type of the failure, or the reason of a skip.
        if not verdict.values:
            reason = str(cell.reason)
            if cell.failure is not None:
                reason = cell.failure.type
            reasons[reason] += 1
        for judgement in verdict.judgements:
            is_unproved = judgement.cell.status is Status.UNPROVED
            # Only verdicts that count: a failed repetition has no quotes or proofs.
            if not is_unproved and judgement.cell.status is not Status.MEASURED:
                continue
            judgements.append(judgement)
            unproved += is_unproved
            # A verdict without proof claimed support, and lost it.
            supporting += is_unproved or bool(judgement.cell.value)

    account = Account()
    account.add(judgements)
    fabricated_count = account.counts["fabricated_quotes"]
    quote_count = account.counts["quotes"]
    # No intervals: the verdicts on one claim are alike.
    fabricated = _share_figure(fabricated_count, quote_count, are_alike=True)
    # None where some verdict does not report its tokens: a mean of the others would mislead.
    usage = account.usage if judgements else None
    price = price_of(info)
    prompt_tokens: float | None = None
    completion_tokens: float | None = None
    cost: Decimal | None = None
    if usage is not None:
        # Of one verdict, in the mean: a claim may have several.
        prompt_tokens = usage.prompt_tokens / len(judgements)
        completion_tokens = usage.completion_tokens / len(judgements)
        if price is not None:
            cost = price.of(usage) / len(judgements)
    return _Account(
        reasons=most_frequent(reasons),
        fabricated_quotes=fabricated,
        unproved=_share_figure(unproved, supporting, are_alike=True),
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        cost=cost,
        currency=None if price is None else price.currency,
    )


def _card_figure(estimated: Estimated, count: int) -> CardFigure:
    """A figure of the judge card (how far a judge agrees with people), with its interval.

    Args:
        estimated: the value with its bounds, any of which may be None.
        count: labels behind it, which a reader needs to weigh it.
    """
    return CardFigure(value=estimated.value, low=estimated.low, high=estimated.high, count=count)


def _share_figure(part: int, whole: int, *, are_alike: bool = False) -> CardFigure:
    """A share as a figure of the judge card, with its interval; an empty figure of nothing.

    Args:
        are_alike: whether the counted things depend on each other, as verdicts on one claim do: an
            interval would be too short, and is left out.
    """
    if not whole:
        return CardFigure()
    if are_alike:
        return CardFigure(value=part / whole, count=whole)
    low, high = proportion_interval(part, whole)
    return CardFigure(value=part / whole, low=low, high=high, count=whole)
