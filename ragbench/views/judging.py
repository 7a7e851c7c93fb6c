"""What a report says of its judges, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from ragbench.core.report import JudgeLine, JudgeReport
from ragbench.stats.mean import proportion_interval


def judge_remarks(judging: JudgeReport) -> tuple[str, ...]:
    """What a reader must know of a run's judges: proofs, agreement, what it is wrong about."""
    told = [sentence for line in judging.lines for sentence in _of(line)]
    for metric in dict.fromkeys(line.metric for line in judging.canaries):
        told.append(_of_canaries(judging, metric))
    return tuple(told)


def _of_canaries(judging: JudgeReport, metric: str) -> str:
    lines = [line for line in judging.canaries if line.metric == metric]
    judged, wrong = sum(line.judged for line in lines), sum(line.wrong for line in lines)
    if not judged:
        return f"{metric}: no canary got a verdict"
    low, high = proportion_interval(wrong, judged)
    kinds = ", ".join(f"{line.kind} {line.wrong:,} of {line.judged:,}" for line in lines)
    return (
        f"{metric}: the judge is wrong about {wrong:,} of {judged:,} canaries "
        f"({wrong / judged:.1%}, {low:.1%} .. {high:.1%}): {kinds}"
    )


def _of(line: JudgeLine) -> Iterator[str]:
    if line.fabricated_quotes:
        yield (
            f"{line.metric}: {line.fabricated_quotes:,} of {line.quotes:,} quotes of the judge "
            f"stand in no context ({line.fabricated_rate:.1%})"
        )
    if line.not_sent:
        names = ", ".join(line.not_sent)
        yield f"{line.metric}: the endpoint refuses {names}; the judge was asked without"
    for juror in line.jurors:
        score = "-" if juror.score is None else f"{juror.score:.3f}"
        unproved = f", {juror.unproved:,} unproved" if juror.unproved else ""
        yield f"{line.metric} by {juror.judge}: {score} over {juror.measured:,} cases{unproved}"
    for pair in line.pairs:
        if pair.same is None:
            continue
        kappa = "" if pair.kappa is None else f", kappa {pair.kappa:.2f}"
        yield (
            f"{line.metric}: {pair.first} and {pair.second} say the same of {pair.same:.0%} of "
            f"{pair.cases:,} cases{kappa}"
        )
