"""The models of a command."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ragbench_cli import console

if TYPE_CHECKING:
    from ragbench.core.chat import ChatModel, Message
    from ragbench.core.metric import Metric, Need
    from ragbench.core.report import Report
    from ragbench.llm.book import CallBook
    from ragbench.llm.budget import Budget, Receipt
    from ragbench.llm.schema import Schema
    from ragbench.llm.session import LLMSession, ModelClients
    from ragbench.llm.settings import LLMSettings
    from ragbench.stages.dry_run import DryRun
    from ragbench.stages.judge import Judging

__all__ = [
    "LanguageModel",
    "ModelChoice",
    "ModelsInUse",
    "amount",
    "booked_run",
    "language_model",
    "models_in_use",
    "with_canaries",
]


ValueT = TypeVar("ValueT")


@dataclass(slots=True)
class LanguageModel:
    """A `ragbench.core.chat.ChatModel` that is opened with a session when it is first asked."""

    session: Callable[[], LLMSession]
    """Gives the session; it may fail when no model is named."""
    purpose: str
    """What its calls are booked under."""

    @property
    def name(self) -> str:
        """The model's name.

        Raises:
            ConfigError: no model is named, or a setting is wrong.
        """
        return self._chat().name

    def complete(self, messages: Sequence[Message]) -> str:
        """See `ragbench.core.chat.ChatModel.complete`.

        Raises:
            ConfigError: no model is named, or a setting is wrong.
        """
        return self._chat().complete(messages)

    def ask_structure(self, messages: Sequence[Message], schema: Schema[ValueT]) -> ValueT:
        """See `ragbench.llm.replies.StructuredChat.ask_structure`.

        Raises:
            ConfigError: no model is named, or a setting is wrong.
        """
        from ragbench.llm.replies import ask_structure

        return ask_structure(self._chat(), messages, schema)

    def _chat(self) -> ChatModel:
        return self.session().chat(self.purpose)


@contextmanager
def language_model(
    purpose: str,
    settings: Callable[[], LLMSettings] | None = None,
    *,
    budget: Budget | None = None,
) -> Generator[LanguageModel]:
    """Gives a model for the length of a block; it costs nothing until it is used.

    Args:
        purpose: what its calls are booked under.
        settings: gives its settings; those of the environment and ragbench.yaml when not given.
        budget: caps its cost.
    """
    from ragbench.llm.session import LLMSession, open_models
    from ragbench_cli.llm_options import llm_settings

    known: list[LLMSettings] = []

    def opening() -> AbstractAsyncContextManager[ModelClients]:
        return open_models(known[0], budget=budget)

    with LLMSession(opening) as session:

        def opened() -> LLMSession:
            if not known:
                known.append((settings or llm_settings)())
            return session

        yield LanguageModel(opened, purpose)


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelChoice:
    """What the command line says about models."""

    model: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    api_key_file: Path | None = None
    config: Path | None = None
    max_cost: str | None = None
    max_cost_run: str | None = None
    panel: str | None = None
    panel_vote: str | None = None
    repeats: int = 1
    preflight: bool = True

    def budget(self) -> Budget:
        """What may be spent: by this command, and by all commands of its run.

        Raises:
            ConfigError: a cap is not a number.
        """
        from ragbench.llm.budget import Budget

        return Budget(
            amount(self.max_cost, "--max-cost"),
            run_limit=amount(self.max_cost_run, "--max-cost-run"),
        )

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


def amount(text: str | None, option: str) -> Decimal | None:
    """A sum of money that was typed; None without one.

    Raises:
        ConfigError: it is not a number.
    """
    if text is None:
        return None
    from ragbench.errors import ConfigError

    try:
        return Decimal(text)
    except InvalidOperation:
        raise ConfigError(f"{option} must be a number, not '{text}'") from None


@dataclass(slots=True)
class ModelsInUse:
    """The models of one evaluation."""

    choice: ModelChoice
    session: LLMSession
    judging: Judging | None
    """None when no metric asks a model."""
    dry_run: DryRun | None
    budget: Budget
    """What all models of the evaluation may cost, those of a pipeline included."""
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


def _named(
    choice: ModelChoice, needs: Collection[Need]
) -> tuple[list[LLMSettings], list[LLMSettings]]:
    """The chat model and the embedder that metrics need, in lists; empty where none is named."""
    from ragbench.core.metric import Need
    from ragbench.errors import NoModelError
    from ragbench_cli.llm_options import embedding_settings

    chat: list[LLMSettings] = []
    embeddings: list[LLMSettings] = []
    # Where none is named, what needs it says so, with its name.
    if Need.LLM in needs or Need.EMBEDDINGS in needs:
        with suppress(NoModelError):
            chat.append(choice.chat())
    if Need.EMBEDDINGS in needs:
        with suppress(NoModelError):
            known = chat[0] if chat else None
            embeddings.append(embedding_settings(config=choice.config, chat=known))
    return chat, embeddings


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
    from ragbench.core.metric import Need
    from ragbench.llm.session import LLMSession, open_models
    from ragbench.stages.judge import Judging
    from ragbench_cli.llm_options import panel_settings

    needs = {need for metric in metrics for need in metric.definition.needs}
    budget = choice.budget()
    chat, embeddings = _named(choice, needs)
    panel, vote = panel_settings(
        config=choice.config,
        panel=choice.panel,
        vote=choice.panel_vote,
        base_url=choice.base_url,
        api_key_env=choice.api_key_env,
        api_key_file=choice.api_key_file,
    )

    def opening() -> AbstractAsyncContextManager[ModelClients]:
        first = chat[0] if chat else None
        others = panel if Need.LLM in needs else ()
        embeds = embeddings[0] if embeddings else None
        return open_models(first, embeds, panel=others, budget=budget)

    with LLMSession(opening) as session:
        judging = None
        if any(metric.is_judged for metric in metrics):
            judging = Judging(
                session=session,
                chat=chat[0] if chat else None,
                embeddings=embeddings[0] if embeddings else None,
                panel=panel,
                vote=vote,
                repeats=choice.repeats,
                preflight=choice.preflight,
            )
        if not dry_run:
            yield ModelsInUse(choice, session, judging, None, budget, chat)
            return
        from dataclasses import replace

        from ragbench.stages.dry_run import DryRun

        embeds = embeddings[0] if embeddings else None
        with DryRun(chat[0] if chat else None, embeds, panel) as counter:
            rehearsed = None if judging is None else replace(judging, rehearsal=counter)
            yield ModelsInUse(choice, session, rehearsed, counter, budget, chat)


@contextmanager
def booked_run(
    models: ModelsInUse, others: Callable[[], Sequence[Receipt]], folder: Path, *, quiet: bool
) -> Generator[None]:
    """Keeps the books of a run for the length of a block.

    Whatever ends it, its folder is named and what was spent is told. What a command did that was
    killed before stands in the folder's receipts afterwards.

    Args:
        models: the models; they must not have been asked before.
        others: gives the receipts of further models, such as a pipeline's own.
        folder: the run's.
        quiet: whether nothing is said.
    """
    from ragbench.errors import InterruptedRunError, LLMStoppedError
    from ragbench.llm.book import CallBook
    from ragbench.llm.budget import Receipt

    book = models.budget.book = CallBook(folder)
    try:
        yield
    except InterruptedRunError as error:
        raise InterruptedRunError(
            f"what is finished is stored in {folder}. The same command continues"
        ) from error
    except LLMStoppedError as error:
        told = f"{error}\nWhat is finished is stored in {folder}: ragbench report {folder}"
        raise type(error)(told, status=error.status) from error
    finally:
        receipt = Receipt.of([models.session.receipt(), *others()])
        _close_book(book, receipt, folder)
        if not quiet:
            say_receipt(receipt, book, models.session.not_sent())


def with_canaries(
    report: Report,
    models: ModelsInUse,
    folder: Path,
    count: int,
    seed: int,
    stopped: Callable[[], bool],
) -> Report:
    """Puts canaries to a run's judge; see `ragbench.stages.canaries`.

    Args:
        report: the run's, without them.
        models: the models of the evaluation, one of which judges.
        folder: the run's.
        count: how many canaries.
        seed: of the draw.
        stopped: whether the user wants to stop.

    Returns:
        The run's report with what came of them.
    """
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


def _close_book(book: CallBook, receipt: Receipt, folder: Path) -> None:
    """Writes the receipt, and that of a command that was killed."""
    from ragbench.errors import RunError
    from ragbench.ledger.folder import RunFolder
    from ragbench.views.write import receipt_object

    if not folder.is_dir():
        return
    told = receipt_object(receipt) if receipt.lines else None
    try:
        with RunFolder(path=folder).locked():
            book.open()
            book.close(told)
    except RunError:  # another command holds the folder by now, and the book in it is its own
        book.close(told)


def say_receipt(
    receipt: Receipt, book: CallBook | None = None, not_sent: Mapping[str, str] | None = None
) -> None:
    """Tells on standard error what a command spent; nothing when nobody was asked.

    Args:
        receipt: what it spent.
        book: in which what was asked again stands.
        not_sent: parameters that the model refuses, with what it says of them.
    """
    if not receipt.lines:
        return
    calls = sum(line.calls for line in receipt.lines)
    cached = sum(line.cached for line in receipt.lines)
    failed = sum(line.failed for line in receipt.lines)
    requests = sum(line.requests for line in receipt.lines)
    prompt = sum(line.usage.prompt_tokens for line in receipt.lines)
    answer = sum(line.usage.completion_tokens for line in receipt.lines)
    thought = sum(line.usage.reasoning_tokens for line in receipt.lines)
    hidden = f" ({thought:,} of them hidden reasoning)" if thought else ""
    cost = "not known" if receipt.cost is None else f"{receipt.cost:.4f} {receipt.currency or ''}"
    console.say(
        f"asked   {calls:,} calls ({cached:,} kept from before, {failed:,} failed) in "
        f"{requests:,} requests; {prompt:,} tokens in, {answer:,} out{hidden}; "
        f"cost {cost.rstrip()}"
    )
    if receipt.unconfirmed:
        lost = f"{receipt.unconfirmed:.4f} for requests whose answer never came"
        console.say(f"        and up to {lost}")
    if book is not None and book.asked_again:
        console.say(
            f"        {book.asked_again:,} requests were in flight when an earlier command was "
            f"killed and were sent again: {book.cost_again:.4f} of the cost"
        )
    for name, told in (not_sent or {}).items():
        console.say(f"        {name} is not sent: the endpoint says: {told}")
