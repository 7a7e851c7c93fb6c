"""Verdicts to render."""

from __future__ import annotations

from ragbench import FigureLimits, GateConfig, MetricGate
from ragbench.core.gate_result import GateResult
from ragbench.core.run_scores import ScoredCase
from ragbench.gate.gate import gate
from tests.unit.gate.builders import run

__all__ = ["failed_verdict", "refused_verdict"]


def failed_verdict(*, id: str = "case", text: str = "text", metric: str = "m") -> GateResult:
    """A drop that is shown, one that is not, a floor that holds, a failed case.

    Args:
        id: of the case that failed.
        text: stands wherever a user's text may stand.
        metric: name of the metric that fell.
    """
    from dataclasses import replace

    now = run({metric: ["failed"] + [0.0] * 9, "n": [1, 0] * 5}, dataset=text, source=text)
    first: ScoredCase = now.cases[0]
    cell = replace(first.scores[metric], reason=text)
    broken = replace(first, id=id, query=text, scores={**first.scores, metric: cell})
    now = replace(now, cases=(broken, *now.cases[1:]))
    before = run({metric: [1.0] * 10, "n": [0, 1] * 5})
    before = replace(before, cases=(replace(before.cases[0], id=id), *before.cases[1:]))
    config = GateConfig(
        max_error_rate=0.2,
        metrics={
            metric: MetricGate(limits=FigureLimits(max_drop=0.02)),
            "n": MetricGate(limits=FigureLimits(max_drop=0.02, minimum=0.5)),
        },
    )
    return gate(now, before, config, notes=(text,))


def refused_verdict() -> GateResult:
    """Runs whose chunks were matched in two ways."""
    config = GateConfig(metrics={"m": MetricGate(limits=FigureLimits(max_drop=0.02))})
    return gate(run({"m": [1]}), run({"m": [1]}, matching="text"), config)
