"""Dataclasses built from the settings of a configuration file."""

from __future__ import annotations

import collections.abc
import dataclasses
import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Literal, Union, cast, get_args, get_origin

from ragbench.errors import ConfigError

__all__ = ["from_settings", "setting_fields"]

Makers = Mapping[Any, Callable[[object], object]]

_KINDS: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
}


def from_settings(
    target: Any, settings: Mapping[str, object], *, where: str, made: Makers | None = None
) -> Any:
    """Calls a dataclass with settings, after looking at their names and types.

    Args:
        target: a dataclass whose fields are its settings, without those that its ``__init__`` does
            not take and those marked by ``metadata={"setting": False}``. A field marked by
            ``metadata={"given": True}`` is made by ``made`` and is no setting. Anything else that
            can be called is called with the settings as they are.
        settings: by field name.
        where: what is configured, for messages.
        made: for some types of fields, what makes such a value from a setting. Where such a field
            has no setting and no default, it is made from None.

    Raises:
        ConfigError: settings do not exist, are missing, or have values that do not fit; a line
            each.
    """
    if not (isinstance(target, type) and dataclasses.is_dataclass(target)):
        return _called(target, settings, where)
    makers = made or {}
    hints = typing.get_type_hints(target)
    fields = setting_fields(target)
    known = sorted(name for name, field in fields.items() if not field.metadata.get("given"))
    problems = [
        f"{where}: unknown setting '{key}'.{_near(key, known)} Known: {', '.join(known)}"
        for key in settings
        if key not in known
    ]
    values: dict[str, Any] = {}
    for name, field in fields.items():
        try:
            if name in settings and name in known:
                value = _value(settings[name], hints[name], f"{where}: {name}", makers)
            elif _has_default(field):
                continue
            elif hints[name] in makers:
                value = makers[hints[name]](None)
            else:
                raise ConfigError(f"{where}: the setting '{name}' is missing")
        except ConfigError as error:
            problems.append(str(error))
        else:
            values[name] = value
    if problems:
        problems += _out_of_range(target, values, fields)
        raise ConfigError("\n".join(problems))
    return target(**values)


def _out_of_range(
    target: Any, values: Mapping[str, Any], fields: Mapping[str, dataclasses.Field[Any]]
) -> list[str]:
    """What the dataclass itself says of the values that are right so far."""
    if any(name not in values and not _has_default(field) for name, field in fields.items()):
        return []
    try:
        target(**values)
    except ConfigError as error:
        return [str(error)]
    return []


def _near(key: str, known: Iterable[str]) -> str:
    close = get_close_matches(key, known, n=1)
    return f" Did you mean '{close[0]}'?" if close else ""


def _called(target: Any, settings: Mapping[str, object], where: str) -> Any:
    try:
        return target(**settings)
    except TypeError as error:
        raise ConfigError(f"{where}: {error}") from error


def setting_fields(target: Any) -> dict[str, dataclasses.Field[Any]]:
    """The fields of a dataclass, or of an instance of one, that are settings, by name."""
    return {
        field.name: field
        for field in dataclasses.fields(target)
        if field.init and field.metadata.get("setting", True) is not False
    }


def _has_default(field: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return field.default is not missing or field.default_factory is not missing


def _value(value: object, hint: Any, where: str, makers: Makers) -> Any:
    if hint in makers:
        return makers[hint](value)
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _one_of(value, get_args(hint), where, makers)
    if origin is Literal:
        return _choice(value, get_args(hint), where)
    if origin is collections.abc.Sequence:
        return _list(value, get_args(hint)[0], where, makers)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _dataclass(value, hint, where, makers)
    if origin is collections.abc.Mapping:
        if isinstance(value, Mapping):
            return cast("Mapping[object, object]", value)
        raise ConfigError(f"{where} must be a mapping, not {value!r}")
    return _simple(value, hint, where)


def _one_of(value: object, hints: tuple[Any, ...], where: str, makers: Makers) -> Any:
    if value is None and type(None) in hints:
        return None
    others = [hint for hint in hints if hint is not type(None)]
    mapping = collections.abc.Mapping
    fitting = [
        hint for hint in others if isinstance(value, mapping) == (get_origin(hint) is mapping)
    ]
    return _value(value, (fitting or others)[0], where, makers)


def _choice(value: object, choices: tuple[Any, ...], where: str) -> object:
    if value in choices:
        return value
    raise ConfigError(f"{where} must be one of {', '.join(map(str, choices))}, not {value!r}")


def _list(value: object, hint: Any, where: str, makers: Makers) -> tuple[Any, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ConfigError(f"{where} must be a list, not {value!r}")
    return tuple(
        _value(item, hint, f"{where}[{at}]", makers)
        for at, item in enumerate(cast("Sequence[object]", value))
    )


def _dataclass(value: object, hint: type, where: str, makers: Makers) -> Any:
    if isinstance(value, hint):
        return value
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where} must be a mapping, not {value!r}")
    given = {str(key): one for key, one in cast("Mapping[object, object]", value).items()}
    return from_settings(hint, given, where=where, made=makers)


def _simple(value: object, hint: Any, where: str) -> object:
    if hint is float and type(value) is int:
        return float(value)
    if hint not in _KINDS:
        return value
    if type(value) is not hint or (hint is float and not math.isfinite(cast("float", value))):
        raise ConfigError(f"{where} must be {_KINDS[hint]}, not {value!r}")
    return value
