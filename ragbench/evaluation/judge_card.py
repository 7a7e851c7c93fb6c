"""judge_card(): a judge against labels of people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ragbench.errors import ConfigError
from ragbench.evaluation.judge_info import judge_info, price_of
from ragbench.evaluation.judging import Judging, judge_many
from ragbench.interface.results import GenerationResult, RetrievalResult
from ragbench.llm.models import Models
from ragbench.llm.preflight import preflight
from ragbench.llm.usage import Usage
from ragbench.records.cases import Case
from ragbench.records.cells import Outcome, Status
from ragbench.records.judge_cards import Figure, JudgeCard, Table
from ragbench.records.judgements import JudgedCell, Judgement
from ragbench.records.labels import LEVELS, LabelledClaim
from ragbench.records.metrics import Metric, Need
from ragbench.runs.trace import Trace
from ragbench.scoring.judge_plan import JudgePlan
from ragbench.scoring.support_judge import is_quoted
from ragbench.stats.agreement import Estimated, agreement
from ragbench.stats.proportion import proportion_interval

__all__ = ["judge_card"]

_READS = frozenset({Need.RESPONSE, Need.RETRIEVED_CONTEXTS, Need.LLM, Need.QUERY, Need.EMBEDDINGS})


def judge_card(
    claims: Sequence[LabelledClaim],
    metric: Metric,
    judging: Judging,
    *,
    labels: str = "",
    swap: bool = True,
    seed: int = 0,
    stopped: Callable[[], bool] = lambda: False,
    advance: Callable[[int], None] = lambda _: None,
) -> JudgeCard:
    """Has claims judged and compares the verdicts with what people said.

    Answers are kept: the same call again asks nobody.

    Args:
        claims: at least one.
        metric: how they are judged: a metric that asks a model and reads answer and contexts.
        judging: who judges; ``repeats`` of at least 2 tell how far the judge agrees with itself.
        labels: where the labels come from.
        swap: judge claims with several passages once more with the passages in reverse order.
        seed: of the resamples behind the intervals.
        stopped: asked before each question; once true, no more is asked.
        advance: told how many more claims are judged.

    Raises:
        ConfigError: the metric is none of those, or no model is named.
        LLMStoppedError: no model answers any more; what was answered is kept.
        InterruptedRunError: ``stopped`` said so.
    """
    needs = metric.definition.needs
    if not metric.is_judged or not needs <= _READS or Need.RESPONSE not in needs:
        raise ConfigError(
            f"{metric.name}: a judge card needs a metric that asks a model about an answer and its "
            "contexts, such as support or ragas:faithfulness"
        )
    plan = JudgePlan([metric], repeats=judging.repeats)
    info = judge_info(
        plan,
        None if judging.chat is None else judging.chat.endpoint,
        None if judging.embeddings is None else judging.embeddings.endpoint,
    )
    session = judging.session
    if judging.preflight:
        session.run(
            lambda models: preflight(models, chat=plan.needs_chat, embeddings=plan.needs_embeddings)
        )
    once = JudgePlan([metric])
    jobs = [_Job(plan, number, _trace(claim), False) for number, claim in enumerate(claims)]
    if swap:
        jobs += [
            _Job(once, number, _trace(_reversed(claim)), True)
            for number, claim in enumerate(claims)
            if len(claim.evidence) > 1
        ]
    found = _Found(claims=claims)

    def work(models: Models, tell: Callable[[_Told], None]) -> Coroutine[Any, Any, None]:
        async def judge(job: _Job, panel: Any) -> None:
            tell(_Told(job, await job.plan.judge(0, job.trace, panel)))

        return judge_many(jobs, judge, models, judging.limits.concurrency, stopped)

    for batch in session.stream(work):
        for job, judged in batch:
            found.add(job.number, judged, swapped=job.swapped)
        advance(sum(not job.swapped for job, _ in batch))
    return found.card(metric, info, labels, seed)


class _Job(NamedTuple):
    plan: JudgePlan
    number: int
    trace: Trace
    swapped: bool


class _Told(NamedTuple):
    job: _Job
    judged: JudgedCell


def _trace(claim: LabelledClaim) -> Trace:
    case = Case(id=claim.id, query=claim.question or "Is the claim true?")
    return Trace(
        case=case,
        retrieval=Outcome(status=Status.MEASURED, value=RetrievalResult(list(claim.evidence))),
        generation=Outcome(
            status=Status.MEASURED, value=GenerationResult(claim.claim, abstained=False)
        ),
    )


def _reversed(claim: LabelledClaim) -> LabelledClaim:
    return replace(claim, evidence=claim.evidence[::-1])


def _level(value: float) -> int:
    """1 is supported, 0 is not, what lies between is partially supported."""
    return 2 if value >= 1 - 1e-9 else 0 if value <= 1e-9 else 1


@dataclass(slots=True)
class _Found:
    """Verdicts by claim."""

    claims: Sequence[LabelledClaim]
    judged: dict[int, JudgedCell] = field(default_factory=dict[int, JudgedCell])
    swapped: dict[int, JudgedCell] = field(default_factory=dict[int, JudgedCell])

    def add(self, number: int, judged: JudgedCell, *, swapped: bool) -> None:
        """Takes what was said of a claim."""
        (self.swapped if swapped else self.judged)[number] = judged

    def card(self, metric: Metric, info: dict[str, Any], labels: str, seed: int) -> JudgeCard:
        """What it comes to. A claim's verdict is its first one: later ones tell of consistency."""
        numbers = [n for n in range(len(self.claims)) if self._values(n)]
        pairs = [(self.claims[n].level, _level(self._values(n)[0])) for n in numbers]
        clusters = [self.claims[n].cluster for n in numbers]
        measured = agreement(pairs, len(LEVELS), clusters, seed=seed) if pairs else None
        empty = Figure(value=None, low=None, high=None, count=0)
        quotes, unquoted = self._quotes()
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
            table=Table(levels=LEVELS, counts=() if measured is None else measured.counts),
            agreement=empty if measured is None else _figure(measured.observed, len(pairs)),
            base_rate=None if measured is None else measured.base_rate,
            kappa=empty if measured is None else _figure(measured.kappa, len(pairs)),
            quadratic_kappa=empty if measured is None else _figure(measured.quadratic, len(pairs)),
            consistency=self._consistency(),
            order_changes=self._order_changes(),
            fabricated_quotes=quotes,
            unquoted=unquoted,
            prompt_tokens=None if tokens is None else tokens[0] / tokens[2],
            completion_tokens=None if tokens is None else tokens[1] / tokens[2],
            cost=cost,
            currency=None if price is None else price.currency,
        )

    def _values(self, number: int) -> tuple[float, ...]:
        judged = self.judged.get(number)
        return () if judged is None else judged.values

    def _reasons(self) -> tuple[tuple[str, int], ...]:
        cells = [judged.cell for judged in self.judged.values() if not judged.values]
        told = Counter(
            f"{cell.failure.type}" if cell.failure is not None else str(cell.reason)
            for cell in cells
        )
        return tuple(sorted(told.items(), key=lambda item: (-item[1], item[0])))

    def _consistency(self) -> Figure:
        known = [
            {*map(_level, v)} for n in range(len(self.claims)) if len(v := self._values(n)) > 1
        ]
        return _share(sum(len(levels) == 1 for levels in known), len(known))

    def _order_changes(self) -> Figure:
        changed = [
            _level(self._values(number)[0]) != _level(swapped.values[0])
            for number, swapped in self.swapped.items()
            if self._values(number) and swapped.values
        ]
        return _share(sum(changed), len(changed))

    def _quotes(self) -> tuple[Figure, Figure]:
        fabricated = quotes = bare = supporting = 0
        for number, judgement in self._judgements():
            for step in judgement.steps:
                told = step.answer.get("quotes")
                if told is None:
                    continue
                quotes += len(told)
                fabricated += sum(
                    not is_quoted(quote, self.claims[number].evidence) for quote in told
                )
                if judgement.cell.value:
                    supporting += 1
                    bare += not told
        # Verdicts on one claim are alike: an interval as of independent ones would be too short.
        return _bare_share(fabricated, quotes), _bare_share(bare, supporting)

    def _tokens(self) -> tuple[int, int, int] | None:
        """Of all first-hand verdicts, and how many they are; None when an answer did not tell."""
        verdicts = prompt = completion = 0
        for _, judgement in self._judgements():
            verdicts += 1
            for step in judgement.steps:
                if step.prompt_tokens is None or step.completion_tokens is None:
                    return None
                prompt += step.prompt_tokens
                completion += step.completion_tokens
        return (prompt, completion, verdicts) if verdicts else None

    def _judgements(self) -> list[tuple[int, Judgement]]:
        return [
            (number, judgement)
            for number, judged in sorted(self.judged.items())
            for judgement in judged.judgements
            if judgement.cell.status is Status.MEASURED
        ]


def _figure(found: Estimated, count: int) -> Figure:
    return Figure(value=found.value, low=found.low, high=found.high, count=count)


def _share(part: int, whole: int) -> Figure:
    if not whole:
        return Figure(value=None, low=None, high=None, count=0)
    low, high = proportion_interval(part, whole)
    return Figure(value=part / whole, low=low, high=high, count=whole)


def _bare_share(part: int, whole: int) -> Figure:
    return Figure(value=part / whole if whole else None, low=None, high=None, count=whole)
