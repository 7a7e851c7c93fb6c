"""Things built from names and settings; settings described and as a schema."""

from __future__ import annotations

import ast
import collections.abc
import dataclasses
import inspect
import math
import textwrap
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin

from ragbench.core.chat import ChatModel
from ragbench.errors import ConfigError, RagbenchError
from ragbench.plugins import Registry, error_text, load_target

Makers = Mapping[Any, Callable[[object], object]]

_KIND_NAMES: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
}


def from_settings(
    target: Any, settings: Mapping[str, object], *, where: str, made: Makers | None = None
) -> Any:
    """Calls a dataclass with settings, after looking at their names and types."""
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
    if hint not in _KIND_NAMES:
        return value
    if type(value) is not hint or (hint is float and not math.isfinite(cast("float", value))):
        raise ConfigError(f"{where} must be {_KIND_NAMES[hint]}, not {value!r}")
    return value


BuiltT = TypeVar("BuiltT")


def build_named(
    given: object,
    protocol: type[BuiltT],
    *,
    registry: Registry,
    method: str,
    chat: ChatModel | None = None,
    folder: Path = Path(),
) -> BuiltT:
    """Builds what a name, or a mapping with ``name`` and settings, asks for.

    A name such as ``file.py:Class`` or ``package.module:Class`` is an implementation of the user's.

    Settings are the fields of the implementation's class. A field of the protocol's own type is
    written the same way; one that holds a language model is given ``chat``.
    """
    if isinstance(given, protocol):
        return given
    what = registry.kind.removesuffix("s")
    name, settings = _parts(given, registry, what)

    def nested(value: object) -> BuiltT:
        return build_named(
            value, protocol, registry=registry, method=method, chat=chat, folder=folder
        )

    def language_model(value: object) -> ChatModel:
        if value is not None:
            raise ConfigError(f"{name}: 'chat' is not a setting: it is the run's language model")
        if chat is None:
            raise ConfigError(f"the {what} '{name}' needs a language model, and none was given")
        return chat

    made: dict[Any, Any] = {protocol: nested, ChatModel: language_model}
    if ":" in name:
        built = built_own(
            name, settings, folder=folder, made=made, offers=lambda value: hasattr(value, method)
        )
    else:
        built = from_settings(registry.load(name), settings, where=name, made=made)
    if not isinstance(built, protocol):
        raise ConfigError(
            f"'{name}' is not a {what}: it needs an attribute 'name' and a method {method}()"
        )
    return built


def built_own(
    place: str,
    settings: Mapping[str, object],
    *,
    folder: str | Path,
    made: Makers | None = None,
    offers: Callable[[object], bool] | None = None,
) -> Any:
    """What a user's class or function makes of settings; an instance is taken as it is."""
    target = load_target(place, search_path=folder, offers=offers)
    if not inspect.isclass(target) and not inspect.isroutine(target):
        if settings:
            raise ConfigError(f"'{place}' is an instance and takes no {', '.join(settings)}")
        return target
    try:
        return from_settings(target, settings, where=place, made=made)
    except RagbenchError:
        raise
    except Exception as error:
        raise ConfigError(f"'{place}' raised {error_text(error)}") from error


def _parts(given: object, registry: Registry, what: str) -> tuple[str, dict[str, object]]:
    if isinstance(given, str):
        return given, {}
    if not isinstance(given, Mapping):
        raise ConfigError(f"a {what} is a name or a mapping with a name, not {given!r}")
    settings = {str(key): value for key, value in cast("Mapping[object, object]", given).items()}
    name = settings.pop("name", None)
    if not isinstance(name, str):
        raise ConfigError(f"a {what} needs a 'name'. Known: " + ", ".join(registry.targets()))
    return name, settings


def field_docs(target: type) -> dict[str, str]:
    """The text below each field, in one line; also of classes that it inherits from."""
    found: dict[str, str] = {}
    for owner in reversed(target.__mro__[:-1]):
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(owner)))
        except (OSError, TypeError, SyntaxError):  # written elsewhere than in a file
            continue
        body = getattr(tree.body[0], "body", [])
        for field, text in pairwise(body):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(text, ast.Expr)
                and isinstance(text.value, ast.Constant)
                and isinstance(text.value.value, str)
            ):
                found[field.target.id] = " ".join(text.value.value.split())
    return found


_SCHEMA_TYPES: dict[Any, str] = {bool: "boolean", int: "integer", float: "number", str: "string"}


def schema_of_settings(target: Any, special: Mapping[Any, Any] | None = None) -> dict[str, Any]:
    """The JSON schema of what `ragbench.io.settings` builds a dataclass of."""
    if not (isinstance(target, type) and dataclasses.is_dataclass(target)):
        return {"type": "object"}
    hints = typing.get_type_hints(target)
    documented = field_docs(target)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for field in dataclasses.fields(target):
        if not field.init or field.metadata.get("given") or field.metadata.get("setting") is False:
            continue
        schema = _schema(hints[field.name], special or {})
        if schema is None:  # made of what no file can hold
            continue
        described: dict[str, Any] = {}
        if field.name in documented:
            described["description"] = documented[field.name]
        missing = dataclasses.MISSING
        if field.default is missing and field.default_factory is missing:
            required.append(field.name)
        elif isinstance(field.default, (bool, int, float, str)):
            described["default"] = field.default
        properties[field.name] = {**schema, **described}
    found: dict[str, Any] = {
        "type": "object",
        "description": summary_of(target),
        "properties": properties,
        "additionalProperties": False,
    }
    return {**found, "required": required} if required else found


def summary_of(target: object) -> str:
    """The first paragraph of what a class says of itself, in one line."""
    text = inspect.getdoc(target) or ""
    return " ".join(text.partition("\n\n")[0].split())


def _schema(hint: Any, special: Mapping[Any, Any]) -> dict[str, Any] | None:
    if hint in special:
        return dict(special[hint])
    if hint in _SCHEMA_TYPES:
        return {"type": _SCHEMA_TYPES[hint]}
    if hint is type(None):
        return {"type": "null"}
    if hint is Any or hint is object:
        return {}
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        options = [_schema(one, special) for one in arguments]
        known = [option for option in options if option is not None]
        return {"anyOf": known} if len(known) == len(options) else None
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is collections.abc.Sequence:
        items = _schema(arguments[0], special)
        return None if items is None else {"type": "array", "items": items}
    if origin is collections.abc.Mapping:
        return {"type": "object"}
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return schema_of_settings(hint, special)
    return None
