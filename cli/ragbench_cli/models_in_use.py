"""The models that an evaluation asks: one session for operators and judges alike."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING

from ragbench_cli.language_model import LanguageModel

if TYPE_CHECKING:
    from ragbench.evaluation.dry_run import DryRun
    from ragbench.evaluation.judging import Judging
    from ragbench.llm.budget import Budget
    from ragbench.llm.models import Models
    from ragbench.llm.session import LLMSession
    from ragbench.llm.settings import LLMSettings
    from ragbench.records.metrics import Metric

__all__ = ["ModelChoice", "ModelsInUse", "models_in_use"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelChoice:
    """What the command line says about models."""

    model: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    api_key_file: Path | None = None
    config: Path | None = None
    max_cost: str | None = None
    repeats: int = 1
    preflight: bool = True

    def budget(self) -> Budget | None:
        """The cap on this command's cost.

        Raises:
            ConfigError: it is no number.
        """
        if self.max_cost is None:
            return None
        from ragbench.errors import ConfigError
        from ragbench.llm.budget import Budget

        try:
            return Budget(Decimal(self.max_cost))
        except InvalidOperation:
            raise ConfigError(f"--max-cost must be a number, not '{self.max_cost}'") from None

    def chat(self) -> LLMSettings:
        """Settings of the language model.

        Raises:
            NoModelError: none is named.
        """
        from ragbench_cli.llm_options import llm_settings

        return llm_settings(
            config=self.config,
            model=self.model,
            base_url=self.base_url,
            api_key_env=self.api_key_env,
            api_key_file=self.api_key_file,
        )


@dataclass(slots=True)
class ModelsInUse:
    """The models of one evaluation."""

    choice: ModelChoice
    session: LLMSession
    judging: Judging | None
    """None when no metric asks a model."""
    dry_run: DryRun | None
    budget: Budget | None
    """The cap on what all models of the evaluation cost, those of a pipeline included."""
    _chat: list[LLMSettings]

    def chat(self, purpose: str) -> LanguageModel:
        """The language model for a stage of the run: operators, a validator.

        Args:
            purpose: what its calls are booked under.
        """
        return LanguageModel(self._for_stages, purpose)

    def _for_stages(self) -> LLMSession:
        if not self._chat:
            self._chat.append(self.choice.chat())
        if self.dry_run is not None:
            from ragbench.errors import ConfigError

            raise ConfigError(
                "a stage of the run asks a language model, which a dry run does not. Run without "
                "judged metrics first: what the stages gave is kept for the dry run"
            )
        return self.session


@contextmanager
def models_in_use(
    choice: ModelChoice, metrics: Sequence[Metric], *, dry_run: bool
) -> Generator[ModelsInUse]:
    """Gives the models for the length of a block; none is opened before it is asked.

    Args:
        choice: what the command line says.
        metrics: what is measured.
        dry_run: whether judging is only counted.

    Raises:
        ConfigError: a setting is wrong.
    """
    from ragbench.errors import NoModelError
    from ragbench.evaluation.dry_run import DryRun
    from ragbench.evaluation.judging import Judging
    from ragbench.llm.models import open_models
    from ragbench.llm.session import LLMSession
    from ragbench.records.metrics import Need
    from ragbench_cli.llm_options import embedding_settings

    needs = {need for metric in metrics for need in metric.definition.needs}
    budget = choice.budget()
    chat: list[LLMSettings] = []
    embeddings: list[LLMSettings] = []
    if Need.LLM in needs or Need.EMBEDDINGS in needs:
        try:
            chat.append(choice.chat())
        except NoModelError:  # what needs it says so, with its name
            chat.clear()
    if Need.EMBEDDINGS in needs:
        try:
            known = chat[0] if chat else None
            embeddings.append(embedding_settings(config=choice.config, chat=known))
        except NoModelError:
            embeddings.clear()

    def opening() -> AbstractAsyncContextManager[Models]:
        first = chat[0] if chat else None
        return open_models(first, embeddings[0] if embeddings else None, budget=budget)

    counter: DryRun | None = None
    with LLMSession(opening) as session:
        judging = None
        if any(metric.is_judged for metric in metrics):
            judging = Judging(
                session=session,
                chat=chat[0] if chat else None,
                embeddings=embeddings[0] if embeddings else None,
                repeats=choice.repeats,
                preflight=choice.preflight,
            )
        if not dry_run:
            yield ModelsInUse(choice, session, judging, None, budget, chat)
            return
        from dataclasses import replace

        with DryRun(chat[0] if chat else None, embeddings[0] if embeddings else None) as counter:
            rehearsed = None if judging is None else replace(judging, rehearsal=counter)
            yield ModelsInUse(choice, session, rehearsed, counter, budget, chat)
