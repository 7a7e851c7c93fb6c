"""Options of validate and calibrate."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from ragbench_cli import console
from ragbench_cli.options import argument, option

if TYPE_CHECKING:
    from ragbench.core.chat import ChatModel
    from ragbench.io.dumps.read import OpenDump
    from ragbench.validators.validator import Validator

__all__ = [
    "CALLS",
    "DEFAULT_VALIDATOR",
    "CalibrationOption",
    "CorpusOption",
    "DumpArgument",
    "DumpChoice",
    "FormatOption",
    "MapOption",
    "QueriesOption",
    "QueryOption",
    "ScoresOption",
    "ValidatorArgsOption",
    "ValidatorChoice",
    "ValidatorOption",
    "WorkersOption",
    "chosen_engine",
    "opened",
    "validator_maker",
    "validator_name",
]

_SCORES = ("similarity", "distance")


def _formats(typed: str) -> list[str]:
    from ragbench.io.dumps.forms import form_names

    return [name for name in form_names() if name.startswith(typed)]


def _kinds(typed: str) -> list[str]:
    return [name for name in _SCORES if name.startswith(typed)]


DumpArgument = Annotated[
    str,
    argument(
        metavar="DUMP",
        help="File with what a retriever returned, '-' for standard input. Forms: "
        "ragbench show dumps.",
    ),
]
FormatOption = Annotated[
    str | None,
    option(
        "--format",
        help="Form of the dump; detected if omitted.",
        metavar="FORM",
        complete=_formats,
    ),
]
MapOption = Annotated[
    list[str] | None,
    option(
        "--map",
        help="Where a field is found, such as text=payload.content; repeatable. Fields: query, "
        "query_id, chunks, id, text, score, metadata, relevant, answer_present.",
        metavar="FIELD=PATH",
    ),
]
ScoresOption = Annotated[
    str | None,
    option(
        "--scores",
        help="What scores are: similarity or distance. By default inferred from the order "
        "of the chunks.",
        metavar="KIND",
        complete=_kinds,
    ),
]
QueryOption = Annotated[
    str | None,
    option("--query", help="The query, for a dump that is one response.", metavar="TEXT"),
]
QueriesOption = Annotated[
    Path | None,
    option(
        "--queries",
        help="File with the queries, for responses without them: joined by id, or by order.",
        metavar="FILE",
    ),
]
CorpusOption = Annotated[
    Path | None,
    option(
        "--corpus",
        help="File or folder with the texts, for a TREC run or BEIR results.",
        metavar="PATH",
    ),
]


@dataclass(frozen=True, kw_only=True, slots=True)
class DumpChoice:
    """What the options say of a dump."""

    path: str
    format: str | None
    map: list[str] | None
    scores: str | None
    query: str | None
    queries: Path | None
    corpus: Path | None


@contextmanager
def opened(choice: DumpChoice, *, quiet: bool) -> Generator[OpenDump]:
    """Opens a dump, and says how it is read.

    Raises:
        ConfigError: an option is wrong.
        DataError: the dump cannot be read.
    """
    from ragbench.io.dumps.mapping import ScoreKind
    from ragbench.io.retrievals import open_retrievals
    from ragbench_cli.options import mapping, one_of

    kind = None
    if choice.scores is not None:
        kind = ScoreKind(one_of(choice.scores, _SCORES, "--scores"))
    with open_retrievals(
        choice.path,
        format=choice.format,
        overrides=mapping(choice.map, "--map"),
        scores=kind,
        query=choice.query,
        queries=choice.queries,
        corpus=choice.corpus,
    ) as dump:
        if not quiet:
            console.say(f"read as {dump.mapping.format}: {dump.mapping.described()}")
            if choice.format is None and not choice.map:
                console.say("(guessed; correct it with --format FORM or --map text=PATH)")
        yield dump


DEFAULT_VALIDATOR = "auto"
CALLS = 8
"""Queries that a language model is asked about side by side; its client has a limit of its own."""


def _validators(typed: str) -> list[str]:
    from ragbench.validators.validator import VALIDATORS

    return [name for name in (DEFAULT_VALIDATOR, *VALIDATORS.targets()) if name.startswith(typed)]


ValidatorOption = Annotated[
    str,
    option(
        "--validator",
        help="Which validator judges: lexical (words only), local (a reader model on this "
        "machine; needs the extra onnx), llm (a language model) or cascade (lexical "
        "first, the llm where it is unsure). auto: local if its extra is installed, else "
        "lexical.",
        metavar="NAME",
        show_default=True,
        complete=_validators,
    ),
]
ValidatorArgsOption = Annotated[
    str | None,
    option("--validator-args", help="Settings of the validator, as JSON.", metavar="JSON"),
]
CalibrationOption = Annotated[
    Path | None,
    option(
        "--calibration",
        help="File that ragbench calibrate wrote, for probabilities that fit your data.",
        metavar="FILE",
    ),
]
WorkersOption = Annotated[
    int | None,
    option(
        "--workers",
        help="Worker processes, by default one per processor of the machine or cluster; with a "
        "language model the number of concurrent queries, by default 8.",
        metavar="N",
        min=1,
    ),
]


@dataclass(frozen=True, kw_only=True, slots=True)
class ValidatorChoice:
    """What the options say of the validator."""

    name: str
    settings: str | None = None
    calibration: Path | None = None
    config: Path | None = None
    model: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    api_key_file: Path | None = None


def validator_name(given: str) -> str:
    """The validator that a name stands for: ``auto`` is the best one at hand."""
    from ragbench.validators.validator import default_validator

    return default_validator() if given == DEFAULT_VALIDATOR else given


@contextmanager
def validator_maker(
    choice: ValidatorChoice, chat: ChatModel | None = None
) -> Generator[tuple[Callable[[], Validator], bool]]:
    """Gives what makes the validator, and whether several processes may make one each.

    A language model is opened when the validator first asks for it, once for this process.

    Args:
        choice: what the options say.
        chat: the command's language model, where it has one; else it is as ``choice`` says.

    Raises:
        ConfigError: no such validator or setting.
    """
    from ragbench.validators.validator import build_validator
    from ragbench_cli.llm_options import llm_settings
    from ragbench_cli.models import language_model
    from ragbench_cli.options import json_object

    name = validator_name(choice.name)
    given: dict[str, Any] = {
        "name": name,
        **json_object(choice.settings, "--validator-args"),
    }
    if choice.calibration is not None:
        given["calibration"] = str(choice.calibration)
    if name == "cascade":
        given = {"first": "lexical", "second": "llm", **given}
    if not _asks_language_model(given):
        yield partial(build_validator, given), True
        return
    settings = partial(
        llm_settings,
        config=choice.config,
        model=choice.model,
        base_url=choice.base_url,
        api_key_env=choice.api_key_env,
        api_key_file=choice.api_key_file,
    )
    given_chat = nullcontext(chat) if chat is not None else language_model("validate", settings)
    with given_chat as model:
        made = build_validator(given, chat=model)
        yield lambda: made, False


def chosen_engine(engine: str, *, may_be_many: bool) -> str:
    """The engine that an option names; this process for a validator that asks a language model.

    Raises:
        ConfigError: there is no such engine.
    """
    from ragbench.workers.open import check_engine

    kind = check_engine(engine)
    if may_be_many:
        return engine
    if kind == "ray":
        console.say(
            "the language model is asked from this machine: one rate limit and one budget hold"
        )
    return "local"


def _asks_language_model(given: object) -> bool:
    """Whether a validator, or one within it, asks a language model."""
    if isinstance(given, Mapping):
        settings = cast("Mapping[str, object]", given)
        return any(map(_asks_language_model, settings.values()))
    return given == "llm"
