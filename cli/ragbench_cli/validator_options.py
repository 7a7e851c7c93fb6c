"""Which validator judges: options that commands share."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from ragbench_cli.options import option

if TYPE_CHECKING:
    from ragbench.llm.chat import ChatModel
    from ragbench.validation.validator import Validator

__all__ = [
    "CALLS",
    "DEFAULT_VALIDATOR",
    "CalibrationOption",
    "ValidatorArgsOption",
    "ValidatorChoice",
    "ValidatorOption",
    "WorkersOption",
    "validator_maker",
    "validator_name",
]

DEFAULT_VALIDATOR = "auto"
CALLS = 8
"""Queries that a language model is asked about side by side; its client has a limit of its own."""


def _validators(typed: str) -> list[str]:
    from ragbench.validation.registry import VALIDATORS

    return [name for name in (DEFAULT_VALIDATOR, *VALIDATORS.targets()) if name.startswith(typed)]


ValidatorOption = Annotated[
    str,
    option(
        "--validator",
        help="Who judges: lexical (words alone), local (a reader on this machine; extra onnx), llm "
        "(a language model), cascade (lexical first, the llm where it is unsure). auto: local "
        "where its extra is installed, else lexical.",
        metavar="NAME",
        show_default=True,
        complete=_validators,
    ),
]
ValidatorArgsOption = Annotated[
    str | None,
    option("--validator-args", help="Its settings, as JSON.", metavar="JSON"),
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
        help="Processes that judge, by default one a processor; with a language model queries that "
        "are asked about side by side, by default 8.",
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
    from ragbench.validation.registry import default_validator

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
    from ragbench.validation.registry import build_validator
    from ragbench_cli.language_model import language_model
    from ragbench_cli.llm_options import llm_settings
    from ragbench_cli.values import json_object

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


def _asks_language_model(given: object) -> bool:
    """Whether a validator, or one within it, asks a language model."""
    if isinstance(given, Mapping):
        settings = cast("Mapping[str, object]", given)
        return any(map(_asks_language_model, settings.values()))
    return given == "llm"
