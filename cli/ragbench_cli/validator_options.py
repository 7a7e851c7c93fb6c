"""Which dump is read and how, which validator judges it, and where."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Self

from ragbench.core.record import Record, field, replace
from ragbench.errors import ConfigError
from ragbench_cli import console
from ragbench_cli.models import LLMChoice
from ragbench_cli.options import (
    CalibrationOption,
    EncodingOption,
    EngineOption,
    OnEngine,
    Panel,
    RecordChoice,
    ValidatorArgsOption,
    completed,
    json_object,
    mapping,
    option,
)

if TYPE_CHECKING:
    from ragbench.core.chat import ChatModel
    from ragbench.io.dumps.read import OpenDump
    from ragbench.validators.validator import Validator
    from ragbench_cli.console import StageAdvance


DEFAULT_VALIDATOR = "auto"


class OnProcesses(OnEngine):
    """Where a dump is judged: by default on all processors."""

    engine: EngineOption = "processes"
    workers: Annotated[int | None, option(min=1, panel=Panel.ENGINE, rare=True)] = None
    """Worker processes, by default one per processor of the machine or cluster; with a language
    model the number of concurrent queries, by default 4 to 16, as many as are answered."""


class ValidatorChoice(Record):
    """Which validator, and its settings."""

    PANEL: ClassVar = Panel.MEASURED

    name: Annotated[
        str, option("--validator", complete=completed("validators", DEFAULT_VALIDATOR))
    ] = DEFAULT_VALIDATOR
    """Which validator judges: lexical (words only), local (a reader model on this machine; needs
    the extra onnx), llm (a language model) or cascade (lexical first, the llm where it is unsure).
    auto: local if its extra is installed, else lexical."""
    reader: Annotated[str | None, option("NAME_OR_FOLDER", rare=True)] = None
    """Model that local reads with, in place of the bundled one: a folder, or owner/name on the
    Hugging Face hub. Cross-encoders, and models of question answering or entailment."""
    validator_args: ValidatorArgsOption = None
    llm: LLMChoice = field(default_factory=LLMChoice)

    @property
    def named(self) -> Self:
        """The choice with the name of a validator in place of ``auto``.

        It is the best validator that is installed.
        """
        from ragbench.validators.validator import default_validator

        if self.name != DEFAULT_VALIDATOR:
            return self
        # Only the validator "local" takes a reader: where its extra is missing, that is an error,
        # and no other validator is tried.
        name = default_validator() if self.reader is None else "local"
        return replace(self, name=name)


class CalibratedChoice(ValidatorChoice):
    """The same with a calibration, which ``ragbench calibrate`` itself must not be given."""

    calibration: CalibrationOption = None


@contextmanager
def validator_maker(
    choice: ValidatorChoice, chat: ChatModel | None = None
) -> Generator[tuple[Callable[[], Validator], bool]]:
    """Gives a function that makes the chosen validator, and whether each process may make its own.

    A language model is opened when the validator first asks for it, once for this process.
    """
    from ragbench.validators.validator import build_validator
    from ragbench_cli.models import language_model

    settings: dict[str, Any] = {"name": choice.name}
    if choice.validator_args is not None:
        settings |= json_object(choice.validator_args, "--validator-args")
    if isinstance(choice, CalibratedChoice) and choice.calibration is not None:
        settings["calibration"] = str(choice.calibration)
    # Refused rather than ignored: the user would believe that his reader judges.
    if choice.reader is not None:
        if choice.name != "local":
            raise ConfigError(f"--reader is for --validator local, not for {choice.name}")
        settings["reader"] = choice.reader
    if choice.name == "cascade":
        # The defaults first, so that the user's own arguments replace them.
        settings = {"first": "lexical", "second": "llm", **settings}
    if '"llm"' not in json.dumps(settings):  # a cascade may hold it at any depth
        yield partial(build_validator, settings), True
        return
    opened: AbstractContextManager[ChatModel]
    # Within an evaluation the model is open already: its budget counts these calls too.
    if chat is None:
        opened = language_model("validate", choice.llm.settings)
    else:
        opened = nullcontext(chat)
    with opened as model:
        validator = build_validator(settings, chat=model)
        # The same object each time: one rate limit and one budget hold.
        yield lambda: validator, False


def _complete_form(typed: str) -> list[str]:
    """The completions of the name of a dump's form, for shells.

    A form is how another program writes its retrieval log. Shells wait for the answer, so imports
    are late.
    """
    from ragbench.io.dumps.forms import form_names

    return [name for name in form_names() if name.startswith(typed)]


class DumpChoice(Record):
    """How a dump is read."""

    PANEL: ClassVar = Panel.CASES

    format: Annotated[str | None, option("FORM", complete=_complete_form, rare=True)] = None
    """Form of the dump; detected if omitted."""
    map: Annotated[list[str] | None, option("FIELD=PATH", "--field")] = None
    """Where a field is found, such as text=payload.content; repeatable. Fields: query, query_id,
    chunks, id, text, score, metadata, relevant, answer_present."""
    scores: Annotated[
        Literal["similarity", "distance"] | None, option("KIND", "--score-kind", rare=True)
    ] = None
    """Whether scores are similarity or distance. By default inferred from the order of the
    chunks."""
    query: Annotated[str | None, option("TEXT", rare=True)] = None
    """The query, for a dump that is one response."""
    queries: Annotated[Path | None, option(rare=True)] = None
    """File with the queries, for responses without them: joined by id, or by order."""
    corpus: Annotated[Path | None, option("PATH")] = None
    """File or folder with the texts, for a TREC run or BEIR results."""
    split: Annotated[str | None, option(rare=True)] = None
    """Part to read from a source with several: the sheet of a workbook, by default the first; a
    provider or prompt of promptfoo."""
    encoding: EncodingOption = None
    records: RecordChoice = field(default_factory=RecordChoice)


class Judging(NamedTuple):
    """A dump that is open, and what judges it."""

    source: OpenDump
    make: Callable[[], Validator]
    engine: str
    may_be_many: bool
    """Whether workers may make a validator each."""
    stopped: Callable[[], bool]
    bars: StageAdvance | None


@contextmanager
def judging(
    choice: ValidatorChoice, path: str, dump: DumpChoice, engine: str, *, quiet: bool
) -> Generator[Judging]:
    """Opens a dump and its validator for the length of a block, and reports how the dump is read.

    A guess about the dump is reported: a column read as the wrong field makes all figures wrong.
    """
    from ragbench.io.dumps.form import ScoreKind
    from ragbench.io.joined import open_dump
    from ragbench.workers.engines import check_engine

    fields = mapping(dump.map, "--field") if dump.map else None
    score_kind = None if dump.scores is None else ScoreKind(dump.scores)
    with (
        console.stop_on_signal() as stopped,
        redirect_stdout(sys.stderr),  # Ray reports workers that end on standard output
        validator_maker(choice) as (make, may_be_many),
        open_dump(
            path,
            format=dump.format,
            overrides=fields,
            scores=score_kind,
            query=dump.query,
            queries=dump.queries,
            corpus=dump.corpus,
            split=dump.split,
            encoding=dump.encoding,
            only=dump.records.only,
        ) as source,
        console.progress(shown=not quiet) as bars,
    ):
        if not quiet:
            console.say(f"read as {source.mapping.format}: {source.mapping.described()}")
            # A form or fields that the user named are no guess.
            if dump.format is None and not dump.map:
                console.say("(guessed; correct it with --format FORM or --field text=PATH)")
        for note in source.notes:  # a guess is reported in any case
            console.say(note)
        if check_engine(engine) == "ray" and not may_be_many:
            console.say(
                "the language model is asked from this machine: one rate limit and one budget hold"
            )
        # A validator that asks a language model is asked in this process.
        judging_engine = engine if may_be_many else "local"
        yield Judging(source, make, judging_engine, may_be_many, stopped, bars)
