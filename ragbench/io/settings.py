"""Things built from names and settings; settings described and as a schema.

Paths that a file of settings names are relative to that file, wherever the command runs.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import inspect
import math
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, Union, cast, get_args, get_origin

import msgspec

from ragbench.core.chat import ChatModel
from ragbench.core.record import field_docs
from ragbench.errors import ConfigError, RagbenchError
from ragbench.plugins import Registry, error_text, load_target
from ragbench.safe_text import listed_names

Place = tuple[str | int, ...]
"""Keys and positions from the top of what was read down to a value."""
Makers = Mapping[Any, Callable[[object], object]]
"""What makes the values that a file cannot hold as they are, by the type of the field."""

FilePath: TypeAlias = Annotated[str, "path"]
"""The type of a setting that is a file or a folder."""
ModelPath: TypeAlias = Annotated[str, "path or name"]
"""The type of a setting that is a folder, or a name elsewhere, such as on the Hugging Face hub."""

_KINDS = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "array": "a list",
    "object": "a mapping",
}


class SettingsError(ConfigError):
    """Settings are wrong: all that is, each with its place below what was read."""

    def __init__(self, problems: Sequence[tuple[Place, str]]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(message for _, message in problems))


def from_settings(
    target: Any,
    settings: Mapping[str, object],
    *,
    where: str,
    made: Makers | None = None,
    folder: Path = Path(),
) -> Any:
    """Calls a dataclass with settings, after looking at their names and types.

    A function, or a class that is none, is called with them as they are. Paths are relative to the
    folder.

    Raises:
        SettingsError: names, types or values are wrong; it holds every problem.
    """
    if not (isinstance(target, type) and dataclasses.is_dataclass(target)):
        try:
            return cast("Any", target)(**settings)
        except TypeError as error:
            raise ConfigError(f"{where}: {error}") from error
    fields = setting_fields(target)
    known = sorted(name for name, field in fields.items() if not field.metadata.get("given"))
    problems: list[tuple[Place, str]] = [
        ((key,), f"{where}: unknown setting '{key}'.{listed_names(key, known)}")
        for key in settings
        if key not in known
    ]
    values: dict[str, Any] = {}
    hints = typing.get_type_hints(target, include_extras=True)
    settings = placed(settings, hints, folder)
    for name, field in fields.items():
        given = name in settings and name in known
        if given or not _has_default(field):
            try:
                if not given and hints[name] not in (made or {}):
                    raise ConfigError(f"{where}: the setting '{name}' is missing")
                value = settings[name] if given else None
                values[name] = _value(value, hints[name], f"{where}: {name}", made or {})
            except ConfigError as error:
                problems += [((name, *place), message) for place, message in problems_of(error)]
    try:
        if all(name in values or _has_default(field) for name, field in fields.items()):
            built = target(**values)
            if not problems:
                return built
    except ConfigError as error:  # out of its range
        problems += problems_of(error, fields)
    raise SettingsError(problems)


def problems_of(error: Exception, names: Iterable[str] = ()) -> list[tuple[Place, str]]:
    """The problems of an error; a line of one that knows no places may begin with one's name."""
    if isinstance(error, SettingsError):
        return list(error.problems)
    lines = str(error).splitlines()
    return [((first,) if (first := line.split(" ")[0]) in names else (), line) for line in lines]


def setting_fields(target: Any) -> dict[str, dataclasses.Field[Any]]:
    """The fields of a dataclass, or of an instance of one, that are settings, by name."""
    return {
        field.name: field
        for field in dataclasses.fields(target)
        if field.init and field.metadata.get("setting", True) is not False
    }


def _is_record(target: object) -> bool:
    return isinstance(target, type) and dataclasses.is_dataclass(target)


def _has_default(field: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return field.default is not missing or field.default_factory is not missing


def _value(value: object, hint: Any, where: str, makers: Makers) -> Any:
    """What msgspec makes of a value; records within it are read with their own settings.

    The range that a type names is looked at where the record is made.
    """
    hint = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    if get_origin(hint) in (Union, types.UnionType):
        if value is None and types.NoneType in get_args(hint):
            return None
        others = [one for one in get_args(hint) if one is not types.NoneType]
        if len(others) == 1:
            return _value(value, others[0], where, makers)
    if hint in makers:
        return makers[hint](value)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is collections.abc.Sequence and isinstance(value, (list, tuple)):
        listed = enumerate(cast("Sequence[object]", value))
        return tuple(_each(listed, arguments[0], where, makers).values())
    if origin is collections.abc.Mapping and isinstance(value, Mapping):
        return _each(cast("Mapping[Any, object]", value).items(), arguments[1], where, makers)
    if _is_record(hint) and isinstance(value, Mapping):
        given = {str(key): one for key, one in cast("Mapping[object, object]", value).items()}
        return from_settings(hint, given, where=where, made=makers)
    return converted(value, hint, where)


def _each(items: Iterable[tuple[Any, object]], hint: Any, where: str, makers: Makers) -> Any:
    values: dict[Any, Any] = {}
    problems: list[tuple[Place, str]] = []
    for key, item in items:
        at = f"{where}[{key}]" if isinstance(key, int) else f"{where}.{key}"
        try:
            values[key] = _value(item, hint, at, makers)
        except ConfigError as error:
            problems += [((key, *place), message) for place, message in problems_of(error)]
    if problems:
        raise SettingsError(problems)
    return values


def converted(value: object, hint: Any, where: str, *, strict: bool = True) -> Any:
    """A value as a type; not strict, texts such as those of the environment are read as numbers."""
    choices: Sequence[object] = ()
    if get_origin(hint) is Literal:
        choices = get_args(hint)
    elif isinstance(hint, type) and issubclass(hint, Enum):
        choices = [one.value for one in hint]
    try:
        found: Any = msgspec.convert(value, cast("Any", hint), strict=strict, dec_hook=_unknown)
    except msgspec.ValidationError as error:
        if not strict and isinstance(value, str) and re.match(r"\.\d", value):  # as people write .9
            return converted(f"0{value}", hint, where, strict=False)
        wanted = f"one of {', '.join(map(str, choices))}" if choices else _wanted(str(error))
        raise ConfigError(f"{where} must be {wanted}, not {value!r}") from None
    except (TypeError, NotImplementedError):  # a type of the user's own
        return value
    if isinstance(found, float) and not math.isfinite(found):
        raise ConfigError(f"{where} must be {_KINDS['float']}, not {value!r}")
    return found


def _unknown(kind: type, value: object) -> object:
    raise NotImplementedError


def _wanted(message: str) -> str:
    """What msgspec expected, in words; with the bounds that it names."""
    found = re.match(r"Expected `([^`]+)`(?: (of length )?([<>=!]+ \S+?))?(?:,| - |$)", message)
    if found is None:
        return message
    kinds = " or ".join(_KINDS.get(kind, kind) for kind in found[1].split(" | ") if kind != "null")
    return f"{kinds} {found[2] or ''}{found[3]}" if found[3] else kinds


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
    if not isinstance(given, (str, Mapping)):
        lacks = _lacking(given, protocol)
        raise ConfigError(f"{given!r} is no name, and no {what} either: it lacks {lacks}")
    if isinstance(given, str):
        name, settings = given, dict[str, object]()
    else:
        name, settings = _parts(cast("Mapping[object, object]", given), registry, what)

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
        built = from_settings(registry.load(name), settings, where=name, made=made, folder=folder)
    if not isinstance(built, protocol):
        raise ConfigError(f"'{name}' is not a {what}: it lacks {_lacking(built, protocol)}")
    return built


def _lacking(value: object, protocol: type) -> str:
    needed = (*inspect.get_annotations(protocol), *vars(protocol))
    return ", ".join(one for one in needed if one[0] != "_" and not hasattr(value, one))


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


def _parts(given: Mapping[Any, Any], registry: Registry, what: str) -> tuple[str, dict[str, Any]]:
    settings = {str(key): value for key, value in given.items()}
    name = settings.pop("name", None)
    if not isinstance(name, str):
        raise ConfigError(f"a {what} needs a 'name'. Known: " + ", ".join(registry.targets()))
    return name, settings


def schema_of_settings(target: Any, special: Mapping[Any, Any] | None = None) -> dict[str, Any]:
    """The JSON schema of what `ragbench.io.settings` builds a dataclass of."""
    if not _is_record(target):
        return {"type": "object"}
    hints = typing.get_type_hints(target, include_extras=True)
    documented = field_docs(target)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for field in setting_fields(target).values():
        schema = _schema(hints[field.name], special or {})
        if schema is None or field.metadata.get("given"):  # made of what no file can hold
            continue
        described: dict[str, Any] = {}
        if field.name in documented:
            described["description"] = documented[field.name]
        if not _has_default(field):
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
    if get_origin(hint) is Annotated and get_origin(get_args(hint)[0]) is collections.abc.Sequence:
        listed = _schema(get_args(hint)[0], special)
        return None if listed is None else {**listed, "minItems": get_args(hint)[1].min_length}
    if get_origin(hint) is collections.abc.Sequence:
        items = _schema(get_args(hint)[0], special)
        return None if items is None else {"type": "array", "items": items}
    if _is_record(hint):
        return schema_of_settings(hint, special)
    inner = [one for one in get_args(hint) if _is_record(one)]
    if inner:
        return {"anyOf": [_schema(inner[0], special), {"type": "null"}]}
    try:
        return msgspec.json.schema(hint, schema_hook=lambda kind: dict(special[kind]))
    except (TypeError, KeyError):
        return None


# --- paths


def beside(folder: Path, path: object) -> str:
    """A path that a file in a folder names."""
    return str(folder / Path(str(path)).expanduser())


def placed(settings: Mapping[str, Any], hints: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Settings as a file in a folder has them, with its paths beside it."""
    return {key: _placed(value, hints.get(key), folder) for key, value in settings.items()}


_OF_MODELS = ("api_key_file", "cache")


def placed_model(settings: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The same for the settings of a language model."""
    return {
        key: beside(folder, value) if key in _OF_MODELS and value not in ("", "off") else value
        for key, value in settings.items()
    }


def _placed(value: Any, hint: Any, folder: Path) -> Any:
    kinds = (hint, *get_args(hint))
    if not isinstance(value, str) or not value:
        return value
    if FilePath in kinds:
        return beside(folder, value)
    # What lies in the working folder alone is not what the file names.
    here = Path(beside(folder, value))
    is_path = ModelPath in kinds and (here.exists() or Path(value).exists())
    return str(here) if is_path else value
