"""Validators by name, and built from a name and settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from ragbench.errors import ConfigError
from ragbench.llm.chat import ChatModel
from ragbench.registry import Registry
from ragbench.settings.from_settings import from_settings
from ragbench.validation.validator import Validator

__all__ = ["VALIDATORS", "build_validator"]

_PACKAGE = "ragbench.validation"

VALIDATORS = Registry(
    kind="validators",
    builtin={
        "cascade": f"{_PACKAGE}.cascade:CascadeValidator",
        "lexical": f"{_PACKAGE}.lexical:LexicalValidator",
        "llm": f"{_PACKAGE}.llm:LlmValidator",
        "local": f"{_PACKAGE}.local:LocalValidator",
    },
)
"""Other packages add theirs through the entry-point group ``ragbench.validators``."""


def build_validator(given: object, *, chat: ChatModel | None = None) -> Validator:
    """Builds a validator from what a configuration file or a command says.

    Args:
        given: a name, or a mapping with ``name`` and the validator's settings, which are the fields
            of its class; validators within validators are written the same way. A `Validator` is
            returned as it is.
        chat: the language model for validators that ask one.

    Raises:
        ConfigError: the name or a setting does not exist (the message lists those that do), a
            setting has the wrong type or is out of its range, or a language model is missing.

    Example:
        >>> build_validator("lexical").name
        'lexical'
    """
    if isinstance(given, Validator):
        return given
    name, settings = _parts(given)

    def nested(value: object) -> Validator:
        return build_validator(value, chat=chat)

    def language_model(value: object) -> ChatModel:
        if value is not None:
            raise ConfigError(f"{name}: 'chat' is not a setting: it is the run's language model")
        if chat is None:
            raise ConfigError(f"the validator '{name}' needs a language model, and none was given")
        return chat

    made = {Validator: nested, ChatModel: language_model}
    built = from_settings(VALIDATORS.load(name), settings, where=name, made=made)
    if not isinstance(built, Validator):
        raise ConfigError(f"'{name}' of the validators is none: it has no name or no validate()")
    return built


def _parts(given: object) -> tuple[str, dict[str, object]]:
    """A validator's name and its settings."""
    if isinstance(given, str):
        return given, {}
    if not isinstance(given, Mapping):
        raise ConfigError(f"a validator is a name or a mapping with a name, not {given!r}")
    settings = {str(key): value for key, value in cast("Mapping[object, object]", given).items()}
    name = settings.pop("name", None)
    if not isinstance(name, str):
        raise ConfigError("a validator needs a 'name'. Known: " + ", ".join(VALIDATORS.targets()))
    return name, settings
