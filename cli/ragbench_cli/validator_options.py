"""Which dump is read and how, which validator judges it, and where."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext, redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Self

from ragbench.core.record import Record, field, replace
from ragbench_cli import console
from ragbench_cli.models import LLMChoice
from ragbench_cli.options import (
    CalibrationOption,
    EncodingOption,
    EngineOption,
    OnEngine,
    Panel,
    Taken,
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
CALLS = 8
"""Queries that a language model is asked about at a time; its client has a limit of its own."""


class OnProcesses(OnEngine):
    engine: EngineOption = "processes"
    workers: Annotated[int | None, option(min=1, panel=Panel.ENGINE, rare=True)] = None
    """Worker processes, by default one per processor of the machine or cluster; with a language
    model the number of concurrent queries, by default 8."""


class ValidatorChoice(Record):
    PANEL: ClassVar = Panel.MEASURED

    name: Annotated[
        str, option("--validator", complete=completed("validators", DEFAULT_VALIDATOR))
    ] = DEFAULT_VALIDATOR
    """Which validator judges: lexical (words only), local (a reader model on this machine; needs
    the extra onnx), llm (a language model) or cascade (lexical first, the llm where it is unsure).
    auto: local if its extra is installed, else lexical."""
    validator_args: ValidatorArgsOption = None
    llm: LLMChoice = field(default_factory=LLMChoice)

    @property
    def named(self) -> Self:
        """With the name of a validator in place of auto."""
        from ragbench.validators.validator import default_validator

        return replace(self, name=default_validator()) if self.name == DEFAULT_VALIDATOR else self


class CalibratedChoice(ValidatorChoice):
    calibration: CalibrationOption = None


@contextmanager
def validator_maker(
    choice: ValidatorChoice, chat: ChatModel | None = None
) -> Generator[tuple[Callable[[], Validator], bool]]:
    """Gives what makes the validator, and whether several processes may make one each.

    A language model is opened when the validator first asks for it, once for this process.
    """
    from ragbench.validators.validator import build_validator
    from ragbench_cli.models import language_model

    given: dict[str, Any] = {"name": choice.name}
    if choice.validator_args is not None:
        given |= json_object(choice.validator_args, "--validator-args")
    if isinstance(choice, CalibratedChoice) and choice.calibration is not None:
        given["calibration"] = str(choice.calibration)
    if choice.name == "cascade":
        given = {"first": "lexical", "second": "llm", **given}
    if '"llm"' not in json.dumps(given):  # in a cascade at any depth
        yield partial(build_validator, given), True
        return
    own = language_model("validate", choice.llm.settings) if chat is None else nullcontext(chat)
    with own as model:
        made = build_validator(given, chat=model)
        yield lambda: made, False


def _formats(typed: str) -> list[str]:
    from ragbench.io.dumps.forms import form_names

    return [name for name in form_names() if name.startswith(typed)]


class DumpChoice(Record):
    PANEL: ClassVar = Panel.CASES

    format: Annotated[str | None, option("FORM", complete=_formats)] = None
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
    taken: Taken = field(default_factory=Taken)


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
    choice: ValidatorChoice, path: str, read: DumpChoice, engine: str, *, quiet: bool
) -> Generator[Judging]:
    """Opens a dump and its judge, and says how it is read."""
    from ragbench.io.dumps.form import ScoreKind
    from ragbench.io.joined import open_dump
    from ragbench.workers.engines import check_engine

    fields = mapping(read.map, "--field") if read.map else None
    kind = None if read.scores is None else ScoreKind(read.scores)
    with (
        console.stop_on_signal() as stopped,
        redirect_stdout(sys.stderr),  # Ray reports workers that end on standard output
        validator_maker(choice) as (make, may_be_many),
        open_dump(
            path, format=read.format, overrides=fields, scores=kind,
            query=read.query, queries=read.queries, corpus=read.corpus, split=read.split,
            encoding=read.encoding, only=read.taken.only,
        ) as source,
        console.progress(shown=not quiet) as bars,
    ):  # fmt: skip
        if not quiet:
            console.say(f"read as {source.mapping.format}: {source.mapping.described()}")
            if read.format is None and not read.map:
                console.say("(guessed; correct it with --format FORM or --field text=PATH)")
        for note in source.notes:  # a guess is said in any case
            console.say(note)
        if check_engine(engine) == "ray" and not may_be_many:
            console.say(
                "the language model is asked from this machine: one rate limit and one budget hold"
            )
        # A validator that asks a language model is asked in this process.
        where = engine if may_be_many else "local"
        yield Judging(source, make, where, may_be_many, stopped, bars)
