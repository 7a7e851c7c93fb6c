"""What a family of judged metrics has to bring: one judging of one case."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ragbench.records.judgements import Judgement
from ragbench.records.metrics import Metric
from ragbench.runs.trace import Trace
from ragbench.scoring.panel import Panel

__all__ = ["JudgeScorer"]


class JudgeScorer(Protocol):
    """Computes metrics that ask models.

    A definition whose ``cost`` is not free names its class or factory, which is called without
    arguments. What a metric's definition says that it needs is there in every trace.
    """

    def identity(self) -> Mapping[str, str]:
        """Versions of what makes the prompts, and a digest of all prompts there are.

        Judgements of runs compare when it is the same; which of the metrics a run asks for must
        not change it.
        """
        ...

    def prepare(self, metric: Metric) -> str:
        """Makes a metric ready, before anything is asked.

        Returns:
            A digest of its prompts and of all else that its judgements depend on, apart from the
            models and the case.

        Raises:
            ConfigError: a parameter of it cannot be used.
        """
        ...

    async def judge(self, metric: Metric, trace: Trace, panel: Panel, repeat: int) -> Judgement:
        """Judges a case.

        Args:
            metric: a metric that was prepared.
            trace: the case.
            panel: who is asked.
            repeat: which of several judgings this is, from 0; each is asked anew.

        Raises:
            LLMStoppedError: nobody answers any more. What else goes wrong is a failed cell.
        """
        ...
