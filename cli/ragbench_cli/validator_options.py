"""Which validator judges, and where: options that commands share."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

from ragbench_cli import console
from ragbench_cli.llm_options import LLMChoice
from ragbench_cli.options import ENGINE, MEASURED, option

if TYPE_CHECKING:
    from ragbench.core.chat import ChatModel
    from ragbench.validators.validator import Validator

DEFAULT_VALIDATOR = "auto"
CALLS = 8
"""Queries that a language model is asked about at a time; its client has a limit of its own."""


def _validators(typed: str) -> list[str]:
    from ragbench.validators.validator import VALIDATORS

    return [name for name in (DEFAULT_VALIDATOR, *VALIDATORS.targets()) if name.startswith(typed)]


ValidatorArgsOption = Annotated[
    str | None,
    option(
        "--validator-args",
        help="Settings of the validator, as JSON.",
        metavar="JSON",
        panel=MEASURED,
        rare=True,
    ),
]
CalibrationOption = Annotated[
    Path | None,
    option(
        "--calibration",
        help="File that ragbench calibrate wrote, for probabilities that fit your data.",
        metavar="FILE",
        panel=MEASURED,
        rare=True,
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
        panel=ENGINE,
        rare=True,
    ),
]


@dataclass(frozen=True, kw_only=True, slots=True)
class ValidatorChoice:
    PANEL: ClassVar = MEASURED

    name: Annotated[str, option("--validator", complete=_validators)] = DEFAULT_VALIDATOR
    """Which validator judges: lexical (words only), local (a reader model on this machine; needs
    the extra onnx), llm (a language model) or cascade (lexical first, the llm where it is unsure).
    auto: local if its extra is installed, else lexical."""
    settings: ValidatorArgsOption = None
    llm: LLMChoice = field(default_factory=LLMChoice)


@dataclass(frozen=True, kw_only=True, slots=True)
class CalibratedChoice(ValidatorChoice):
    calibration: CalibrationOption = None


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
    """
    from ragbench.validators.validator import build_validator
    from ragbench_cli.models import language_model
    from ragbench_cli.options import json_object

    name = validator_name(choice.name)
    given: dict[str, Any] = {
        "name": name,
        **json_object(choice.settings, "--validator-args"),
    }
    if isinstance(choice, CalibratedChoice) and choice.calibration is not None:
        given["calibration"] = str(choice.calibration)
    if name == "cascade":
        given = {"first": "lexical", "second": "llm", **given}
    if not _asks_language_model(given):
        yield partial(build_validator, given), True
        return
    own = language_model("validate", choice.llm.settings) if chat is None else nullcontext(chat)
    with own as model:
        made = build_validator(given, chat=model)
        yield lambda: made, False


def chosen_engine(engine: str, *, may_be_many: bool) -> str:
    """The engine that an option names; this process for a validator that asks a language model."""
    from ragbench.workers.engines import check_engine

    kind = check_engine(engine)
    if may_be_many:
        return engine
    if kind == "ray":
        console.say(
            "the language model is asked from this machine: one rate limit and one budget hold"
        )
    return "local"


def _asks_language_model(given: object) -> bool:
    if isinstance(given, Mapping):
        settings = cast("Mapping[str, object]", given)
        return any(map(_asks_language_model, settings.values()))
    return given == "llm"
