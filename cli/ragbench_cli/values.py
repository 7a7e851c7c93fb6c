"""Option values that stand for something richer than a text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from ragbench.errors import ConfigError

__all__ = ["json_object", "mapping", "one_of"]


def json_object(text: str | None, option: str) -> dict[str, Any]:
    """The arguments that an option gives as a JSON object; none when it is not given.

    Raises:
        ConfigError: it is no JSON object.
    """
    import orjson

    if text is None:
        return {}
    try:
        value = cast("object", orjson.loads(text))
    except orjson.JSONDecodeError as error:
        raise ConfigError(
            f'{option} is not JSON: {error}. Expected an object such as {{"top_k": 3}}, in single '
            "quotes for the shell"
        ) from error
    if not isinstance(value, dict):
        raise ConfigError(f'{option} must be a JSON object such as {{"top_k": 3}}, not {text}')
    return cast("dict[str, Any]", value)


def mapping(entries: Iterable[str] | None, option: str) -> dict[str, str] | None:
    """What a repeated option of the form TARGET=SOURCE says; None when it is not given.

    Raises:
        ConfigError: an entry has no equals sign, or nothing before it.
    """
    found: dict[str, str] = {}
    for entry in entries or ():
        target, equals, source = entry.partition("=")
        if not equals or not target:
            raise ConfigError(f"{option} {entry}: expected TARGET=SOURCE, such as query=Frage")
        found[target] = source
    return found or None


def one_of(value: str, choices: Sequence[str], option: str) -> str:
    """The value, when it is one of the choices.

    Raises:
        ConfigError: it is not.
    """
    if value not in choices:
        raise ConfigError(f"{option} must be one of {', '.join(choices)}, not '{value}'")
    return value
