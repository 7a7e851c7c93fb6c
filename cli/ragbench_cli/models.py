"""The models of a command."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from ragbench_cli import console
from ragbench_cli.llm_options import LLMChoice
from ragbench_cli.options import JUDGING, amount, option

if TYPE_CHECKING:
    from ragbench.core.metric import Metric, Need
    from ragbench.core.report import Report
    from ragbench.llm.budget import Budget
    from ragbench.llm.session import Chat, LLMSession, ModelClients
    from ragbench.llm.settings import LLMSettings
    from ragbench.stages.dry_run import DryRun
    from ragbench.stages.judge import Judging


@contextmanager
def language_model(
    purpose: str, settings: Callable[[], LLMSettings], *, budget: Budget | None = None
) -> Generator[Chat]:
    """Gives a model for the length of a block; it costs nothing until it is used."""
    from ragbench.llm.session import Chat, LLMSession, open_models

    known = cache(settings)
    with LLMSession(lambda: open_models(known(), budget=budget)) as session:
        yield Chat(session=session, settings=known, purpose=purpose)


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelChoice:
    llm: LLMChoice = field(default_factory=LLMChoice)
    PANEL: ClassVar = JUDGING

    dry_run: bool = False
    """Estimate calls, tokens and cost of the judged metrics without judging. The RAG is asked, and
    its answers are kept for the run."""
    max_cost: Annotated[str | None, option("AMOUNT")] = None
    """Cap on what models may cost in this command; needs a known price."""
    max_cost_run: Annotated[str | None, option("AMOUNT", rare=True)] = None
    """Cap on what models may cost in all commands of this run together, those included that were
    killed."""
    panel: Annotated[str | None, option("LIST", rare=True)] = None
    """Further judges besides the language model, by their models' names, separated by commas, such
    as anthropic/claude-haiku-4-5. Each judges every case; a score is their mean."""
    repeats: Annotated[int, option(min=1, rare=True)] = 1
    """How many times each case is judged. A score is the mean; the report shows how far the judge
    agrees with itself."""
    no_preflight: Annotated[bool, option(rare=True)] = False
    """Do not try the models before the first judgement."""

    def budget(self) -> Budget:
        """What may be spent: by this command, and by all commands of its run."""
        from ragbench.llm.budget import Budget

        return Budget(
            amount(self.max_cost, "--max-cost"),
            run_limit=amount(self.max_cost_run, "--max-cost-run"),
        )


@dataclass(slots=True)
class ModelsInUse:
    choice: ModelChoice
    session: LLMSession
    judging: Judging | None
    """None when no metric asks a model."""
    dry_run: DryRun | None
    budget: Budget
    """What all models of the evaluation may cost, those of a pipeline included."""
    _chat: list[LLMSettings]

    def chat(self, purpose: str) -> Chat:
        """The language model for a stage of the run: operators, a validator."""
        from ragbench.llm.session import Chat

        return Chat(session=self.session, settings=self._for_stages, purpose=purpose)

    def _for_stages(self) -> LLMSettings:
        if not self._chat:
            self._chat.append(self.choice.llm.settings())
        if self.dry_run is not None:
            from ragbench.errors import ConfigError

            raise ConfigError(
                "a stage of the run asks a language model, which a dry run does not. Run without "
                "judged metrics first: what the stages gave is kept for the dry run"
            )
        return self._chat[0]


def _named(
    choice: ModelChoice, needs: Collection[Need]
) -> tuple[list[LLMSettings], LLMSettings | None]:
    """The models that metrics need, as far as any are named: what needs one says so itself."""
    from ragbench.core.metric import Need
    from ragbench.errors import NoModelError

    chat: list[LLMSettings] = []
    embeddings: LLMSettings | None = None
    if Need.LLM in needs or Need.EMBEDDINGS in needs:
        with suppress(NoModelError):
            chat.append(choice.llm.settings())
    if Need.EMBEDDINGS in needs:
        with suppress(NoModelError):
            embeddings = choice.llm.embeddings(chat[0] if chat else None)
    return chat, embeddings


@contextmanager
def models_in_use(choice: ModelChoice, metrics: Sequence[Metric]) -> Generator[ModelsInUse]:
    """Gives the models for the length of a block; none is opened before it is asked."""
    from ragbench.core.metric import Need
    from ragbench.llm.session import LLMSession, open_models
    from ragbench.stages.judge import Judging

    needs = {need for metric in metrics for need in metric.definition.needs}
    budget = choice.budget()
    named, embeddings = _named(choice, needs)
    panel = choice.llm.panel(choice.panel)
    judge = named[0] if named else None

    def opening() -> AbstractAsyncContextManager[ModelClients]:
        others = panel if Need.LLM in needs else ()
        # A stage may have named one since.
        return open_models(named[0] if named else None, embeddings, panel=others, budget=budget)

    with ExitStack() as stack:
        session = stack.enter_context(LLMSession(opening))
        counter = None
        if choice.dry_run:
            from ragbench.stages.dry_run import DryRun

            counter = stack.enter_context(DryRun(judge, embeddings, panel))
        judging = Judging(
            session=session,
            chat=judge,
            embeddings=embeddings,
            panel=panel,
            repeats=choice.repeats,
            preflight=not choice.no_preflight,
            rehearsal=counter,
        )
        asks = any(metric.is_judged for metric in metrics)
        yield ModelsInUse(choice, session, judging if asks else None, counter, budget, named)


def with_canaries(
    report: Report,
    models: ModelsInUse,
    folder: Path,
    count: int,
    seed: int,
    stopped: Callable[[], bool],
) -> Report:
    """Puts canaries to a run's judge; see `ragbench.stages.canaries`."""
    from ragbench.stages.canaries import judge_canaries, plant
    from ragbench.verbs.report import open_traces, report_of

    judging = models.judging
    if judging is None:
        return report
    planted = plant((case.trace for case in open_traces(folder)), count, seed=seed)
    if models.dry_run is not None:
        models.dry_run.count(judging, report.metrics, [canary.trace for canary in planted])
        return report
    if len(planted) < count:
        console.say(f"canaries: the run's contexts give {len(planted):,} of {count:,}")
    run = report.manifest["fingerprints"]
    judge_canaries(planted, report.metrics, judging, folder, run=run, stopped=stopped)
    return report_of(folder)
