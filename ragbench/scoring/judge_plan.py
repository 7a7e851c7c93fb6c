"""Judged metrics ready to be asked: scorers loaded, prompts known, cases told apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ragbench.errors import ConfigError
from ragbench.records.cells import Cell, Status
from ragbench.records.judgements import JudgedCell, Judgement
from ragbench.records.metrics import Metric, Need
from ragbench.registry import load_attribute
from ragbench.runs.trace import Trace
from ragbench.scoring.judge import JudgeScorer
from ragbench.scoring.needs import blocked
from ragbench.scoring.panel import Panel

if TYPE_CHECKING:
    from ragbench.llm.endpoint import Endpoint

__all__ = ["JudgePlan"]


class JudgePlan:
    """Judges cases by a list of metrics."""

    def __init__(self, metrics: Sequence[Metric], *, repeats: int = 1) -> None:
        """Loads the scorers, so that what is not installed is told before anything runs.

        Args:
            metrics: metrics that ask models.
            repeats: how often each case is judged; the cell is the mean.

        Raises:
            ConfigError: a metric cannot be computed as it is set, or ``repeats`` is below 1.
            MissingExtraError: a metric needs a package that is not installed.
        """
        if repeats < 1:
            raise ConfigError(f"a case must be judged at least once, not {repeats} times")
        self.metrics = tuple(metrics)
        self.repeats = repeats
        loaded: dict[str, JudgeScorer] = {}
        for metric in metrics:
            target = metric.definition.scorer
            if target not in loaded:
                loaded[target] = load_attribute(target)()
        self._scorers = [loaded[metric.definition.scorer] for metric in self.metrics]
        self.prompts: dict[str, str] = {
            metric.name: scorer.prepare(metric)
            for metric, scorer in zip(self.metrics, self._scorers, strict=True)
        }
        """A digest of each metric's prompts."""
        self.identities: dict[str, object] = {
            target: scorer.identity() for target, scorer in sorted(loaded.items())
        }
        """What each scorer's judgements depend on."""
        own = {m.name: self.prompts[m.name] for m in self.metrics if _reads_file(m)}
        if own:
            self.identities["files"] = own

    @property
    def needs_chat(self) -> bool:
        """Whether a language model is asked."""
        return any(Need.LLM in metric.definition.needs for metric in self.metrics)

    @property
    def needs_embeddings(self) -> bool:
        """Whether texts are embedded."""
        return any(Need.EMBEDDINGS in metric.definition.needs for metric in self.metrics)

    def check(self, chat: Endpoint | None, embeddings: Endpoint | None) -> None:
        """Sees whether there is somebody to ask.

        Raises:
            ConfigError: there is not; says what to set.
        """
        for need, who, told in (
            (Need.LLM, chat, _NO_CHAT),
            (Need.EMBEDDINGS, embeddings, _NO_EMBEDDINGS),
        ):
            names = [m.name for m in self.metrics if need in m.definition.needs]
            if names and who is None:
                raise ConfigError(f"{', '.join(names)}: {told}")

    def blocked(self, position: int, trace: Trace) -> Cell | None:
        """The cell of a case that a metric cannot be asked about; None when it can."""
        definition = self.metrics[position].definition
        return blocked([trace], needs=definition.needs, abstains=definition.abstains)[0]

    async def judge(self, position: int, trace: Trace, panel: Panel) -> JudgedCell:
        """Judges a case by a metric, as often as is asked for.

        Raises:
            LLMStoppedError: nobody answers any more.
        """
        found = self.blocked(position, trace)
        if found is not None:
            return JudgedCell(cell=found)
        metric, scorer = self.metrics[position], self._scorers[position]
        judgements: list[Judgement] = []
        for repeat in range(self.repeats):
            judgement = await scorer.judge(metric, trace, panel, repeat)
            judgements.append(judgement)
            if not judgement.steps and judgement.cell.status is not Status.FAILED:
                break  # nobody was asked: it would be the same again
        return JudgedCell(cell=_mean(judgements), judgements=tuple(judgements))


def _reads_file(metric: Metric) -> bool:
    """Whether its name does not say all of its prompt."""
    return any(name == "rubrics" for name, _ in metric.parameters)


def _mean(judgements: Sequence[Judgement]) -> Cell:
    """The mean of those that gave a value; else why the first one gave none."""
    values = [j.cell.value for j in judgements if j.cell.value is not None]
    if not values:
        return judgements[0].cell
    return Cell.measured(math.fsum(values) / len(values))


_NO_CHAT = (
    "a language model is asked, and none is named. Give --llm-model (and --llm-base-url), or "
    "RAGBENCH_LLM_MODEL, or a section llm in ragbench.yaml; 'ragbench doctor --llm' checks it. See "
    "docs/judging.md"
)
_NO_EMBEDDINGS = (
    "texts are embedded, and no model for that is named. Give RAGBENCH_EMBEDDINGS_MODEL, or a "
    "section embeddings in ragbench.yaml. See docs/judging.md"
)
