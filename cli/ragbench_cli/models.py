"""The models of a command: their options and ragbench.yaml, what opens them, what they cost."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, cast

from msgspec import structs

from ragbench.core.record import Record, field
from ragbench.errors import (
    ConfigError,
    DataError,
    InterruptedRunError,
    LLMStoppedError,
    NoModelError,
    RunError,
)
from ragbench.safe_text import counted
from ragbench_cli import console
from ragbench_cli.options import Panel, option
from ragbench_cli.output import Blocks, draw, show, styled, table

if TYPE_CHECKING:
    from decimal import Decimal

    from ragbench.core.metric import Metric
    from ragbench.io.yaml_file import YamlFile
    from ragbench.llm.budget import Budget, Receipt
    from ragbench.llm.session import Chat, ModelClients
    from ragbench.llm.settings import LLMSettings
    from ragbench.stages.dry_run import DryRun, JudgingEstimate
    from ragbench.stages.judge import Judging


class NamedModel(Record):
    """Which language model, and where it is."""

    PANEL: ClassVar = Panel.JUDGING

    model: Annotated[str | None, option("--llm-model")] = None
    """Name of the language model."""
    base_url: Annotated[str | None, option("URL", "--llm-base-url")] = None
    """Address of an OpenAI-compatible endpoint, such as http://localhost:8000/v1."""


class LLMChoice(NamedModel):
    """The language model that options name; what they do not, a file or the environment names."""

    api_key_env: Annotated[str | None, option("--llm-api-key-env", rare=True)] = None
    """Environment variable with its API key."""
    api_key_file: Annotated[Path | None, option("--llm-api-key-file", rare=True)] = None
    """File with its API key."""
    config: Annotated[Path | None, option(rare=True)] = None
    """YAML file with sections llm and embeddings. By default ragbench.yaml, where there is one."""

    def settings(self) -> LLMSettings:
        """The settings of the language model.

        Options go before the file, and the file before the environment.

        Raises:
            NoModelError: none of them names one.
        """
        from ragbench.llm.settings import resolve

        section, file = config_section(self.config)
        options = {"model": self.model, **self._endpoint_options()}
        return resolve(options, os.environ, section=section, file=file)

    def panel(self, models: str | None) -> tuple[LLMSettings, ...]:
        """The settings of the further judges of a panel beside the language model.

        A panel is several models that judge each case; options of the address hold for those at the
        same one.

        Args:
            models: their names with commas between them, as ``--panel`` has them; None for those
                of the file.
        """
        from ragbench.llm.settings import resolve_panel

        # Read anew: the main model reads the same section by itself.
        section, file = config_section(self.config)
        return resolve_panel(
            os.environ, given=models, options=self._endpoint_options(), section=section, file=file
        )

    def embeddings(self, chat: LLMSettings | None) -> LLMSettings:
        """The settings of the model for embeddings.

        The address is that of ``chat`` if no other is named.
        """
        from ragbench.llm.settings import resolve_embeddings

        section, file = config_section(self.config, "embeddings")
        return resolve_embeddings(os.environ, section=section, file=file, chat=chat)

    def _endpoint_options(self) -> dict[str, str | None]:
        """The settings that options give of where the language model is.

        They are its address and the place of its key. Judges of a panel at the same address take
        these over, but not the model's name.
        """
        return {
            "base_url": self.base_url,
            "api_key_env": self.api_key_env,
            # As a text, which is the form that the environment has too.
            "api_key_file": None if self.api_key_file is None else str(self.api_key_file),
        }


class EvaluationLLM(LLMChoice):
    """The language model of an evaluation, which most users name with --judge."""

    model: Annotated[str | None, option("--llm-model", rare=True)] = None
    """Name of the language model of judged metrics, if --judge does not name it."""
    base_url: Annotated[str | None, option("URL", "--llm-base-url", rare=True)] = None
    """Address of an OpenAI-compatible endpoint, such as http://localhost:8000/v1."""


def budget_of(max_cost: str | None, run_limit: str | None = None) -> Budget:
    """The cap on costs of a command's models: in this command, and in all commands of a run.

    A text that is no amount is an error that names the option.

    Args:
        max_cost: as ``--max-cost`` has it; None for no limit.
        run_limit: as ``--max-cost-run`` has it.
    """
    from ragbench.llm.budget import Budget, amount_of

    limit: Decimal | None = None
    if max_cost is not None:
        limit = amount_of(max_cost, "--max-cost")
    limit_of_run: Decimal | None = None
    if run_limit is not None:
        limit_of_run = amount_of(run_limit, "--max-cost-run")
    return Budget(limit, run_limit=limit_of_run)


_DEFAULT_CONFIG = Path("ragbench.yaml")
"""The configuration file that is read without being named, from the folder of the command."""


def config_section(
    config: Path | None = None, name: str = "llm"
) -> tuple[Mapping[str, object], str]:
    """A section of a configuration file, and the file; both empty where there is none.

    Several commands share the file, and each reads the sections that it needs.

    Args:
        config: the file that the user names; without one, it is ragbench.yaml.
        name: of the section.
    """
    file = config_file(config)
    if file is None:
        return {}, ""
    section = file.value.get(name)
    # An empty section is none: YAML gives None for a heading without lines.
    if section is None:
        return {}, file.path
    if not isinstance(section, dict):
        raise DataError([file.problem((name,), "must hold settings such as 'model: NAME'")])
    settings = cast("dict[object, object]", section)
    # YAML may read a key such as `on` as another type.
    return {str(name): value for name, value in settings.items()}, file.path


def config_file(config: Path | None) -> YamlFile | None:
    """The parsed configuration file, an object of sections; None where there is none.

    A file that is no mapping of sections is an error with its line.

    Args:
        config: the file that the user names; without one, it is ragbench.yaml.
    """
    from ragbench.io.yaml_file import read_yaml

    # Only the default file may be missing: a file that is named must be there.
    if config is None and not _DEFAULT_CONFIG.is_file():
        return None
    file = read_yaml(config or _DEFAULT_CONFIG)
    if not isinstance(cast("object", file.value), dict):
        raise DataError([file.problem((), "must hold sections such as llm")])
    return file


@contextmanager
def language_model(
    purpose: str, settings: Callable[[], LLMSettings], *, budget: Budget | None = None
) -> Generator[Chat]:
    """Opens a language model for the length of a block; it costs nothing until it is asked.

    At the end of the block its connections are closed.

    Args:
        purpose: what its calls are booked under.
        settings: reads the model's settings, once, when the model is first asked.
    """
    from ragbench.llm.session import Chat, LLMSession, open_models

    read_settings = cache(settings)  # the files are read when the model is first used, and once
    with LLMSession(lambda: open_models(read_settings(), budget=budget)) as session:
        yield Chat(session=session, settings=read_settings, purpose=purpose)


class JudgeChoice(Record):
    """Who judges, and what that may cost."""

    PANEL: ClassVar = Panel.JUDGING

    llm: LLMChoice = field(default_factory=LLMChoice)
    dry_run: bool = False
    """Estimate calls, tokens and cost without judging."""
    max_cost: Annotated[str | None, option("AMOUNT", rare=True)] = None
    """Cap on the cost of models in this command; needs a known price."""
    no_preflight: Annotated[bool, option(rare=True)] = False
    """Do not try the models before the first judgement."""


NO_JUDGE = "off"
"""In place of a model: no judge, whatever ragbench.yaml says."""


class ModelChoice(JudgeChoice):
    """The models of an evaluation."""

    llm: EvaluationLLM = field(default_factory=EvaluationLLM)
    judge: Annotated[str | None, option("MODEL")] = None
    """Model that judges whether the answers are right; 'off' for none. See docs/judging.md."""
    dry_run: bool = False
    """Estimate calls, tokens and cost of the judged metrics without judging. The RAG is asked, and
    its answers are kept for the run."""
    max_cost_run: Annotated[str | None, option("AMOUNT", rare=True)] = None
    """Cap on the cost of models in all commands of this run together, killed ones included."""
    panel: Annotated[str | None, option("LIST", rare=True)] = None
    """Further judges besides the language model, by their models' names, separated by commas, such
    as anthropic/claude-haiku-4-5. Each judges every case; a score is their mean."""
    repeats: Annotated[int, option("--judge-repeats", min=1, rare=True)] = 1
    """How many times each case is judged. A score is the mean; the report shows how far the judge
    agrees with itself."""


def with_judge(choice: ModelChoice) -> ModelChoice:
    """The options of models in which ``--judge`` or the file's judge is the language model.

    A user names the judge once; everything else reads the language model.

    Raises:
        ConfigError: the options name two models.
        DataError: what ragbench.yaml says of the judge is no name.
    """
    judge = choice.judge
    if judge is None:
        judge = _configured_judge(choice.llm.config)
        if judge is not None and judge != NO_JUDGE:
            judge = choice.llm.model or judge  # an option goes before the file
    # "off" leaves everything to the comparison of words.
    if judge is None or judge == NO_JUDGE:
        return structs.replace(choice, judge=None)
    # An option for each of two models: which one judges would be a guess.
    if choice.llm.model not in (None, judge):
        raise ConfigError(
            f"--judge {judge} and --llm-model {choice.llm.model} name two models, and a command "
            "asks one: leave one of them out. Further judges are named with --panel"
        )
    llm = structs.replace(choice.llm, model=judge)
    return structs.replace(choice, judge=judge, llm=llm)


def _configured_judge(config: Path | None) -> str | None:
    """The model that ragbench.yaml names as the judge of answers; None where it names none.

    ``judge: off``, which YAML reads as false, means that nothing judges.
    """
    file = config_file(config)
    if file is None:
        return None
    judge = file.value.get("judge")
    if judge is None:
        return None
    if judge is False:  # YAML reads off so
        return NO_JUDGE
    # YAML may give a number or a list here.
    if not isinstance(judge, str) or not judge.strip():
        message = "must be the name of a model, such as 'judge: qwen3'; its address goes under llm"
        raise DataError([file.problem(("judge",), message)])
    return judge


def configured_rubrics(config: Path | None) -> dict[str, str]:
    """The rubrics of a configuration file by name.

    A rubric is a criterion in words, by which a judge scores answers.

    Raises:
        DataError: one has no words.
    """
    # Rubrics are optional: without a file or section there are none.
    file = config_file(config)
    if file is None:
        return {}
    section = file.value.get("rubrics")
    if section is None:
        return {}
    if not isinstance(section, dict):
        message = "must hold criteria such as 'polite: The answer is polite.'"
        raise DataError([file.problem(("rubrics",), message)])
    rubrics: dict[str, str] = {}
    for name, words in cast("dict[object, object]", section).items():
        # YAML reads "polite: yes" as a boolean: that is no criterion.
        if not isinstance(words, str) or not words.strip():
            message = f"'{name}' must be a criterion in words, such as 'The answer is polite.'"
            raise DataError([file.problem(("rubrics", str(name)), message)])
        rubrics[str(name)] = words
    return rubrics


class ModelsInUse:
    """The models of a command, there as long as the stack is; none is opened before it is asked."""

    def __init__(self, choice: ModelChoice, metrics: Sequence[Metric], stack: ExitStack) -> None:
        """Readies the models that an evaluation may ask, without opening one.

        A model is looked for only where a metric needs it: a run without judges needs no settings.

        Args:
            stack: closes the models at the end of the command.
        """
        from ragbench.core.metric import Need
        from ragbench.llm.session import LLMSession

        needs: set[Need] = set()
        # What any metric needs: one model serves all of them.
        for metric in metrics:
            needs |= metric.definition.needs
        budget = budget_of(choice.max_cost, choice.max_cost_run)
        self.budget = budget
        """What all models of the evaluation may cost, those of a pipeline included."""
        self._settings = cache(choice.llm.settings)  # a file is read once
        read_settings = self._settings
        # A model is looked for only where a metric needs it: nobody must name one for the others.
        judge: LLMSettings | None = None
        embeddings: LLMSettings | None = None
        panel: tuple[LLMSettings, ...] = ()
        asks_models = Need.LLM in needs or Need.EMBEDDINGS in needs
        if asks_models:
            judge = _if_named(read_settings)
        if asks_models or choice.panel is not None:  # a panel that nobody asks may still be wrong
            panel = choice.llm.panel(choice.panel)
        if Need.EMBEDDINGS in needs:
            embeddings = _if_named(partial(choice.llm.embeddings, judge))
        # Further judges are asked only by metrics that ask a language model.
        jurors = panel if Need.LLM in needs else ()
        # The clients are opened at the first call: a run from stored answers needs no connection.
        opening = partial(self._open_clients, embeddings, jurors)
        self.session = stack.enter_context(LLMSession(opening))
        # In a dry run this counts the calls in place of making them; None where calls are made.
        self.dry_run: DryRun | None = None
        self.judging: Judging | None = None
        """None when no metric asks a model."""
        if choice.dry_run:
            from ragbench.stages.dry_run import DryRun

            self.dry_run = stack.enter_context(DryRun(judge, embeddings, panel))
        if any(metric.is_judged for metric in metrics):
            from ragbench.stages.judge import Judging

            # None: the calls are made.
            rehearsal = None
            if self.dry_run is not None:
                rehearsal = self.dry_run.all
            self.judging = Judging(
                session=self.session,
                chat=judge,
                embeddings=embeddings,
                panel=panel,
                repeats=choice.repeats,
                preflight=not choice.no_preflight,
                rehearsal=rehearsal,
            )

    def _open_clients(
        self, embeddings: LLMSettings | None, jurors: tuple[LLMSettings, ...]
    ) -> AbstractAsyncContextManager[ModelClients]:
        """Opens the clients of the evaluation's models; the first question to one calls this.

        A cached answer needs them open, too.

        Args:
            jurors: the further judges of a panel.
        """
        from ragbench.llm.session import open_models

        # A stage may ask a model where no metric does.
        chat = _if_named(self._settings)
        return open_models(chat, embeddings, panel=jurors, budget=self.budget)

    def _settings_of_stage(self) -> LLMSettings:
        """The settings of the model that a stage of the run asks; raises in a dry run.

        They are read when the stage first asks: a dry run may go on where none does.
        """
        # First the settings: a mistake in them is named, also in a dry run.
        settings = self._settings()
        if self.dry_run is not None:
            raise ConfigError(
                "a stage of the run asks a language model, which a dry run does not. Run "
                "without judged metrics first: the stages' results are kept for the dry run"
            )
        return settings

    def chat(self, purpose: str) -> Chat:
        """The language model for a stage of the run that is not a judge: operators, or a validator.

        Its calls share cache, cap and books with the judges.

        Args:
            purpose: what its calls are booked under.
        """
        from ragbench.llm.session import Chat

        return Chat(session=self.session, settings=self._settings_of_stage, purpose=purpose)


def _if_named(settings: Callable[[], LLMSettings]) -> LLMSettings | None:
    """The settings of a model, or None where no model is named: whoever needs one reports that.

    Most evaluations ask no model, and must not fail for want of one.
    """
    with suppress(NoModelError):
        return settings()
    return None


@contextmanager
def booked_run(
    models: ModelsInUse, stage_chats: Sequence[Chat], folder: Path, *, quiet: bool
) -> Generator[None]:
    """Keeps the books of a run's model calls for the length of a block, and shows what was spent.

    Whatever ends the block, the run's folder is named, so that the user can go on. Calls of a
    command that was killed before are in the folder's receipts afterwards.

    Args:
        stage_chats: models with sessions of their own: those of a pipeline.
    """
    from ragbench.ledger.folder import RunFolder
    from ragbench.llm.budget import CALLS, CallBook, Receipt

    book = CallBook(folder)
    # Calls are booked while they are made, so that a killed command leaves them behind.
    models.budget.book = book
    try:
        yield
    except (InterruptedRunError, KeyboardInterrupt) as error:
        raise InterruptedRunError(
            f"finished cases are stored in {folder}. The same command continues"
        ) from error
    except LLMStoppedError as error:
        text = f"{error}\nFinished cases are stored in {folder}: ragbench report {folder}"
        # The same type of error, so that whoever catches it by its type still does.
        raise type(error)(text, status=error.status) from error
    finally:
        sessions = [models.session, *(chat.session for chat in stage_chats)]
        # A session that was never opened has asked nothing.
        receipts = [session.receipt() for session in sessions if session.is_open]
        # Calls of a command that was killed may be in the folder.
        is_booked = (folder / CALLS).exists()
        # Neither calls of this command nor of an earlier one: nothing to write.
        if receipts or is_booked:
            receipt = Receipt.of(receipts)
            if folder.is_dir() and (receipt.lines or is_booked):
                try:
                    with RunFolder(path=folder).locked():
                        book.open()
                        book.close(receipt)
                except RunError:  # another command holds the folder, and its book is its own
                    book.close(receipt)
            # A quiet command keeps its books all the same.
            if not quiet:
                say_receipt(receipt, models.session.not_sent())


def say_receipt(receipt: Receipt, not_sent: Mapping[str, str] | None = None) -> None:
    """Reports on standard error what a command's models were asked and cost; nothing without calls.

    Costs that may have been billed without an answer are in a line of their own.

    Args:
        not_sent: parameters that the endpoint refuses, each with its words.
    """
    # No calls: a run without models says nothing of them.
    if not receipt.lines:
        return
    calls = sum(line.calls for line in receipt.lines)
    cached = sum(line.cached for line in receipt.lines)
    failed = sum(line.failed for line in receipt.lines)
    requests = sum(line.requests for line in receipt.lines)
    prompt_tokens = sum(line.prompt_tokens for line in receipt.lines)
    completion_tokens = sum(line.completion_tokens for line in receipt.lines)
    reasoning_tokens = sum(line.reasoning_tokens for line in receipt.lines)
    tokens = f"{prompt_tokens:,} tokens in, {completion_tokens:,} out"
    if reasoning_tokens:
        tokens += f" ({reasoning_tokens:,} of them hidden reasoning)"
    cost = "not known"
    # What may have been billed at an unknown price is no cost of 0.
    if receipt.cost is not None and receipt.unconfirmed is not None:
        cost = f"{receipt.cost:.4f} {receipt.currency or ''}".rstrip()
    console.say(
        f"asked   {counted(calls, 'call')} ({cached:,} kept from before, {failed:,} failed) in "
        f"{counted(requests, 'request')}; {tokens}; cost {cost}"
    )
    # Requests whose answer never came may be billed all the same.
    if receipt.unconfirmed:
        amount = f"up to {receipt.unconfirmed:.4f}"
        likely = receipt.unconfirmed_estimate
        if likely is not None:
            amount = f"about {likely:.4f}, {amount}"
        console.say(f"        and {amount} for requests whose answer never came")
    if not_sent is not None:
        for name, text in not_sent.items():
            console.say(f"        {name} is not sent: the endpoint says: {text}")


def show_estimate(estimate: JudgingEstimate, judgements: int, *, as_json: bool) -> None:
    """Prints the estimate of a dry run.

    It has calls, kept answers, tokens and cost, each from least to most.

    Args:
        judgements: how many would be made.
    """
    cost: list[str] | None = None
    if estimate.cost is not None:
        # As texts: JSON has no decimals, and a float would be another amount.
        cost = [f"{amount:f}" for amount in estimate.cost]
    document = {"judgements": judgements, "cost": cost, **structs.asdict(estimate)}
    show(document, lambda: draw(_estimate_blocks(estimate, judgements)), json=as_json)


def _estimate_blocks(estimate: JudgingEstimate, judgements: int) -> Blocks:
    """The screen of a dry run's estimate: a row per metric, the total, and what it rests on.

    Where a price is not known or tokens are counted for another model, a line says so: a user
    would take the total for a bill.
    """
    from ragbench.stages.dry_run import ASSUMPTIONS

    yield styled((f"{judgements:,} judgements would be made", "bold"))
    columns = ("metric", "calls", "kept", "tokens in", "tokens out", "cost")
    yield table(columns, _estimate_rows(estimate))
    total = "not known"
    if estimate.cost is not None:
        total = f"{_amounts_text(*estimate.cost)} {estimate.least.currency or ''}".rstrip()
    yield styled("all together: ", (total, "bold"))
    for receipt in (estimate.least, estimate.embeddings):
        models = dict.fromkeys(line.model for line in receipt.lines)  # each once, in order
        for model in models:
            price = receipt.price_origin
            if not price:
                price = (
                    f"of {model} is not known: give price_input and price_output, per million "
                    "tokens"
                )
            yield styled(f"price: {price}")
    if estimate.counter:
        line = f"{estimate.counter} counts tokens"
        if estimate.approximate:
            line += ", about"
        yield styled(line)
    if estimate.guessed:
        # Prompts of later steps, which hold what the judge says in earlier ones.
        count = f"{estimate.guessed:,} prompts hold answers that are not there yet"
        yield styled(f"{count}. Assumed: {ASSUMPTIONS}")
    yield styled("Calls that are made again after errors come on top; --max-cost caps the whole.")


def _estimate_rows(estimate: JudgingEstimate) -> Iterator[Sequence[str]]:
    """The rows of a dry run's estimate by metric and model: calls, kept answers, tokens, cost.

    Tokens and cost are from the least to the most that they may be.
    """
    # With a single model its name is on the screen already.
    is_panel = len({line.model for line in estimate.least.lines}) > 1
    for least, most in zip(estimate.least.lines, estimate.most.lines, strict=True):
        name = f"  {least.purpose}"
        if is_panel:
            name += f", {least.model}"
        cost = _amounts_text(least.cost, most.cost)
        if least.calls == least.cached:
            cost = "0"  # answers that are kept cost nothing, whatever the price
        yield (
            name,
            f"{least.calls:,}",
            f"{least.cached:,}",
            _range_text(least.prompt_tokens, most.prompt_tokens),
            _range_text(least.completion_tokens, most.completion_tokens),
            cost,
        )
    for line in estimate.embeddings.lines:
        yield (
            f"  {line.purpose}, embeddings",
            f"{line.calls:,}",
            "-",
            f"{line.prompt_tokens:,}",
            "-",
            _amounts_text(line.cost, line.cost),
        )


def _range_text(least: int, most: int) -> str:
    """A number of tokens from the least to the most; once where both are the same.

    A dry run knows only between which numbers it lies.
    """
    if least == most:
        return f"{least:,}"
    return f"{least:,} .. {most:,}"


def _amounts_text(least: Decimal | None, most: Decimal | None) -> str:
    """A cost from the least to the most; once where both are the same.

    In US dollars, to four places: a single call costs far less than a cent.
    """
    if least is None or most is None:  # a price is missing
        return "not known"
    if least == most:
        return f"{least:.4f}"
    return f"{least:.4f} .. {most:.4f}"
