"""Things that a file or a command names: a name, or a mapping with a name and its settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from ragbench.errors import ConfigError
from ragbench.llm.chat import ChatModel
from ragbench.registry import Registry
from ragbench.settings.from_settings import from_settings

__all__ = ["build_named"]

BuiltT = TypeVar("BuiltT")


def build_named(
    given: object,
    protocol: type[BuiltT],
    *,
    registry: Registry,
    method: str,
    chat: ChatModel | None = None,
) -> BuiltT:
    """Builds what a name, or a mapping with ``name`` and settings, asks for.

    Settings are the fields of the implementation's class. A field of the protocol's own type is
    written the same way; one that holds a language model is given ``chat``.

    Args:
        given: what the file or command says. A thing that fits the protocol is returned as it is.
        protocol: what is to be built; one that can be checked at run time.
        registry: implementations by name.
        method: the method that makes a thing one of these, for messages.
        chat: the language model for implementations that ask one.

    Raises:
        ConfigError: the name or a setting does not exist (the message lists those that do), a
            setting has the wrong type or is out of its range, or a language model is missing.
    """
    if isinstance(given, protocol):
        return given
    what = registry.kind.removesuffix("s")
    name, settings = _parts(given, registry, what)

    def nested(value: object) -> BuiltT:
        return build_named(value, protocol, registry=registry, method=method, chat=chat)

    def language_model(value: object) -> ChatModel:
        if value is not None:
            raise ConfigError(f"{name}: 'chat' is not a setting: it is the run's language model")
        if chat is None:
            raise ConfigError(f"the {what} '{name}' needs a language model, and none was given")
        return chat

    made: dict[Any, Any] = {protocol: nested, ChatModel: language_model}
    built = from_settings(registry.load(name), settings, where=name, made=made)
    if not isinstance(built, protocol):
        raise ConfigError(
            f"'{name}' of the {registry.kind} is none: it has no name or no {method}()"
        )
    return built


def _parts(given: object, registry: Registry, what: str) -> tuple[str, dict[str, object]]:
    """A name and settings."""
    if isinstance(given, str):
        return given, {}
    if not isinstance(given, Mapping):
        raise ConfigError(f"a {what} is a name or a mapping with a name, not {given!r}")
    settings = {str(key): value for key, value in cast("Mapping[object, object]", given).items()}
    name = settings.pop("name", None)
    if not isinstance(name, str):
        raise ConfigError(f"a {what} needs a 'name'. Known: " + ", ".join(registry.targets()))
    return name, settings
