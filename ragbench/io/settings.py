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
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from functools import partial
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
"""msgspec's names of types, in the words of a message."""


class SettingsError(ConfigError):
    """Settings are wrong: all that is, each with its place below what was read."""

    def __init__(self, problems: Sequence[tuple[Place, str]]) -> None:
        """Keeps every problem with its place, and makes a message with a line for each of them.

        A file's reader adds the lines of the places, so that a user mends all settings in one go.
        """
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

    A wrong name or type in a file would else fail deep in the program, without its line.

    A function, or a class that is none, is called with them as they are.

    Args:
        target: what is called.
        settings: its arguments by name, as a file or a user's call has them.
        where: what messages name the settings, such as ``pipeline.retrieval``.
        made: what makes values that no file can hold, such as a language model, by the type of
            the field. It is called with None where the settings do not name the field.
        folder: that of the file; paths among the settings are relative to it.

    Raises:
        SettingsError: names, types or values are wrong; it holds every problem.
    """
    if not _is_record(target):
        try:
            return target(**settings)
        except TypeError as error:
            raise ConfigError(f"{where}: {error}") from error
    fields = setting_fields(target)
    values, problems = _field_values(target, settings, where, made or {}, folder)
    is_complete = all(name in values or _has_default(field) for name, field in fields.items())
    try:
        # The object is made also where problems are known: its class may find further ones.
        if is_complete:
            built = target(**values)
            if not problems:
                return built
    except ConfigError as error:  # out of its range
        problems += problems_of(error, fields)
    raise SettingsError(problems)


def _field_values(
    target: Any, settings: Mapping[str, object], where: str, makers: Makers, folder: Path
) -> tuple[dict[str, Any], list[tuple[Place, str]]]:
    """The values that settings give a dataclass's fields, and all that is wrong with the settings.

    Problems are collected, not raised, so that a user mends all settings in one go. A field without
    a setting is left to its default, or to what makes values of its type.

    Args:
        where: what messages name the settings.
        makers: what makes values that no file can hold, by the type of the field.
        folder: that of the file, to which paths among the settings are relative.
    """
    fields = setting_fields(target)
    # A field that the program itself fills is none that a user may name.
    names = sorted(name for name, field in fields.items() if not field.metadata.get("given"))
    problems: list[tuple[Place, str]] = []
    for key in settings:
        if key not in names:
            message = f"{where}: unknown setting '{key}'.{listed_names(key, names)}"
            problems.append(((key,), message))
    values: dict[str, Any] = {}
    hints = typing.get_type_hints(target, include_extras=True)
    settings = placed(settings, hints, folder)
    for name, field in fields.items():
        is_set = name in settings and name in names
        if not is_set and _has_default(field):
            continue
        try:
            if not is_set and hints[name] not in makers:
                raise ConfigError(f"{where}: the setting '{name}' is missing")
            value = settings[name] if is_set else None
            values[name] = _value_of_type(value, hints[name], f"{where}: {name}", makers)
        except ConfigError as error:
            problems += _problems_below(name, error)
    return values, problems


def problems_of(error: Exception, names: Iterable[str] = ()) -> list[tuple[Place, str]]:
    """The problems of an error about settings, each with its place below what was read.

    A reader of YAML finds the line of each problem by its place.

    Args:
        error: one with places, or one whose message has a problem per line.
        names: names of settings. A line that begins with one of them is about that setting.
    """
    if isinstance(error, SettingsError):
        return list(error.problems)
    problems: list[tuple[Place, str]] = []
    # Only a line that begins with a setting's name has a place of its own.
    for line in str(error).splitlines():
        first_word = line.split(" ")[0]
        place = (first_word,) if first_word in names else ()
        problems.append((place, line))
    return problems


@contextmanager
def below(*place: str | int) -> Generator[None]:
    """A block whose errors are about the value at a place of a file, or about values inside it.

    The keys of the place are put before those of each problem, so that a problem deep in a file is
    reported at its own line.

    Raises:
        SettingsError: in place of any other error of the configuration.
    """
    try:
        yield
    except ConfigError as error:
        problems: list[tuple[Place, str]] = []
        for inner_place, message in problems_of(error):
            problems.append(((*place, *inner_place), message))
        raise SettingsError(problems) from None


def _problems_below(key: str | int, error: ConfigError) -> list[tuple[Place, str]]:
    """The problems of a value with the key of the value put before the place of each problem.

    So a place leads from the top of the file down, however deep the settings are nested.
    """
    return [((key, *place), message) for place, message in problems_of(error)]


def setting_fields(target: Any) -> dict[str, dataclasses.Field[Any]]:
    """The fields of a dataclass that a user may set, by name; an instance has those of its class.

    Fields that are not arguments, or are marked with ``metadata={"setting": False}``, are the
    program's own, such as a store of scores.
    """
    return {
        field.name: field
        for field in dataclasses.fields(target)
        if field.init and field.metadata.get("setting", True) is not False
    }


def _is_record(target: object) -> bool:
    """Whether a type is a dataclass: its settings are then read by name, and checked one by one.

    Of other classes and functions the settings are not known; they are called with what is written.
    """
    return isinstance(target, type) and dataclasses.is_dataclass(target)


def _has_default(field: dataclasses.Field[Any]) -> bool:
    """Whether a setting may be left out: the field has a default, or a factory of one.

    Without either, a missing setting is a problem, and the schema lists it as required.
    """
    missing = dataclasses.MISSING
    return field.default is not missing or field.default_factory is not missing


def _value_of_type(value: object, hint: Any, where: str, makers: Makers) -> Any:
    """The value of a setting, checked and converted to the type of its field.

    msgspec converts plain values. Records inside lists and mappings are read as settings of their
    own, so that their problems have places. The range that a type names is checked where the record
    is made.

    Args:
        hint: the type; of a type or None, the type counts.
        where: what messages name the setting.
        makers: what makes values that no file can hold, by type.
    """
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if get_origin(hint) in (Union, types.UnionType):
        if value is None and types.NoneType in get_args(hint):
            return None
        value_types = [member for member in get_args(hint) if member is not types.NoneType]
        if len(value_types) == 1:
            return _value_of_type(value, value_types[0], where, makers)
    if hint in makers:
        return makers[hint](value)
    origin = get_origin(hint)
    arguments = get_args(hint)
    if origin is collections.abc.Sequence and isinstance(value, (list, tuple)):
        # A tuple: the settings of a record do not change afterwards.
        items = enumerate(cast("Sequence[object]", value))
        return tuple(_values_by_key(items, arguments[0], where, makers).values())
    if origin is collections.abc.Mapping and isinstance(value, Mapping):
        entries = cast("Mapping[Any, object]", value).items()
        return _values_by_key(entries, arguments[1], where, makers)
    if _is_record(hint) and isinstance(value, Mapping):
        settings: dict[str, object] = {}
        for key, item in cast("Mapping[object, object]", value).items():
            settings[str(key)] = item
        return from_settings(hint, settings, where=where, made=makers)
    return converted(value, hint, where)


def _values_by_key(
    items: Iterable[tuple[Any, object]], hint: Any, where: str, makers: Makers
) -> dict[Any, Any]:
    """The values of a list or a mapping in settings, by position or key, each read as one type.

    The problems of each value get its key before their places, so that they are reported at its
    line.

    Args:
        hint: the type of each value.
        where: what messages name the list or the mapping.
        makers: what makes values that no file can hold, by type.

    Raises:
        SettingsError: values are wrong; it holds the problems of all of them.
    """
    values: dict[Any, Any] = {}
    problems: list[tuple[Place, str]] = []
    for key, item in items:
        item_name = f"{where}[{key}]" if isinstance(key, int) else f"{where}.{key}"
        try:
            values[key] = _value_of_type(item, hint, item_name, makers)
        except ConfigError as error:
            problems += _problems_below(key, error)
    if problems:
        raise SettingsError(problems)
    return values


def converted(value: object, hint: Any, where: str, *, strict: bool = True) -> Any:
    """A value of settings as a type, with a message in the words of a user where it is none of it.

    Args:
        where: what the message names the value; it begins with this.
        strict: else texts, such as those of the environment, are read as numbers and truth values.

    Raises:
        ConfigError: the value is none of the type, or a number that is not finite.
    """
    choices: Sequence[object] = ()
    if get_origin(hint) is Literal:
        choices = get_args(hint)
    elif isinstance(hint, type) and issubclass(hint, Enum):
        choices = [member.value for member in hint]
    try:
        result: Any = msgspec.convert(
            value, cast("Any", hint), strict=strict, dec_hook=_leave_as_it_came
        )
    except msgspec.ValidationError as error:
        if not strict and isinstance(value, str) and re.match(r"\.\d", value):  # as people write .9
            return converted(f"0{value}", hint, where, strict=False)
        if choices:
            expected = f"one of {', '.join(map(str, choices))}"
        else:
            expected = _expected_in_words(str(error))
        raise ConfigError(f"{where} must be {expected}, not {value!r}") from None
    except (TypeError, NotImplementedError):  # a type of the user's own
        return value
    if isinstance(result, float) and not math.isfinite(result):
        raise ConfigError(f"{where} must be {_KINDS['float']}, not {value!r}")
    return result


def _leave_as_it_came(kind: type, value: object) -> object:
    """Says to msgspec that a type is not one of its own, by the error that it expects for this.

    `converted` then returns the setting's value as it came: a user's own type is not checked.
    """
    raise NotImplementedError


def _expected_in_words(message: str) -> str:
    """The type that a setting must have, in a user's words, from msgspec's message about its value.

    A message of any other form is returned as it is: msgspec may word it anew in a later version.
    """
    # As msgspec words it: Expected `int` >= 1 - at `$.retries`.
    match = re.match(r"Expected `([^`]+)`(?: (of length )?([<>=!]+ \S+?))?(?:,| - |$)", message)
    if match is None:
        return message
    type_names, of_length, bound = match.groups()
    # A missing value is nothing that a user has to be reminded of.
    kinds = [_KINDS.get(name, name) for name in type_names.split(" | ") if name != "null"]
    expected = " or ".join(kinds)
    if bound:
        expected += f" {of_length or ''}{bound}"
    return expected


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
    """Builds the implementation, such as a reranker, that settings name.

    The settings are a name, or a mapping with ``name`` and the implementation's settings: the
    fields of its class. A name such as ``file.py:Class`` or ``package.module:Class`` is an
    implementation of the user's. A field of the protocol's own type, such as a reranker in a
    reranker, is written the same way.

    Args:
        given: the name or the mapping; an instance of the protocol is returned as it is.
        protocol: what any implementation has to offer.
        registry: the implementations that have a name.
        method: a method by which the class is found in a user's file that names no class.
        chat: the run's language model, for implementations with a field for one.
        folder: that of the file; paths among the settings are relative to it.

    Raises:
        ConfigError: there is no such implementation, or its settings are wrong.
    """
    if isinstance(given, protocol):
        return given
    noun = registry.kind.removesuffix("s")
    if not isinstance(given, (str, Mapping)):
        lacks = _lacking(given, protocol)
        raise ConfigError(f"{given!r} is no name, and no {noun} either: it lacks {lacks}")
    name, settings = _name_and_settings(cast("Any", given), registry, noun)

    build_nested = partial(
        build_named,
        protocol=protocol,
        registry=registry,
        method=method,
        chat=chat,
        folder=folder,
    )
    model_of_run = partial(_chat_of_run, chat=chat, name=name, noun=noun)
    made: dict[Any, Any] = {protocol: build_nested, ChatModel: model_of_run}
    # A place such as ``file.py:Class`` is the user's own code, and no known name.
    if ":" in name:
        built = built_own(
            name, settings, folder=folder, made=made, offers=lambda value: hasattr(value, method)
        )
    else:
        built = from_settings(registry.load(name), settings, where=name, made=made, folder=folder)
    if not isinstance(built, protocol):
        raise ConfigError(f"'{name}' is not a {noun}: it lacks {_lacking(built, protocol)}")
    return built


def _chat_of_run(value: object, *, chat: ChatModel | None, name: str, noun: str) -> ChatModel:
    """The run's language model, as the value of a field that needs one.

    Args:
        value: the setting of the field, which has to be missing: a run has one model for all.
        chat: the run's model; None where it has none.
        name: the implementation that has the field, for messages.
        noun: what it is, such as ``reranker``, for messages.

    Raises:
        ConfigError: the setting is there, or the run has no model.
    """
    if value is not None:
        raise ConfigError(f"{name}: 'chat' is not a setting: it is the run's language model")
    if chat is None:
        raise ConfigError(f"the {noun} '{name}' needs a language model, and none was given")
    return chat


def _name_and_settings(
    given: str | Mapping[object, object], registry: Registry, noun: str
) -> tuple[str, dict[str, object]]:
    """The implementation that is meant, and its settings, from a name or a mapping with ``name``.

    Args:
        registry: the known names, which the error lists.
        noun: what is named, such as ``reranker``, for the error.

    Raises:
        ConfigError: the mapping has no name.
    """
    if isinstance(given, str):
        return given, {}
    settings = {str(key): value for key, value in given.items()}
    name = settings.pop("name", None)
    if not isinstance(name, str):
        raise ConfigError(f"a {noun} needs a 'name'. Known: " + ", ".join(registry.targets()))
    return name, settings


def _lacking(value: object, protocol: type) -> str:
    """The public attributes and methods of a protocol that a value lacks, for an error's message.

    By them a user sees what to add to his own class.
    """
    names = (*inspect.get_annotations(protocol), *vars(protocol))
    return ", ".join(name for name in names if name[0] != "_" and not hasattr(value, name))


def built_own(
    place: str,
    settings: Mapping[str, object],
    *,
    folder: str | Path,
    made: Makers | None = None,
    offers: Callable[[object], bool] | None = None,
) -> Any:
    """The object that a user's class or function makes of settings; an instance is taken as it is.

    A file may so name the user's own code in the place of any part of ragbench's. Whatever that
    code raises becomes an error that names it.

    Args:
        place: where the user's code is, such as ``file.py:Class``.
        settings: the arguments of the class or function.
        folder: where the file, or the module, is looked for.
        made: what makes values that no file can hold; see `from_settings`.
        offers: whether a value of the module is meant where the place names none.

    Raises:
        ConfigError: there is no such thing, it takes no such settings, or it fails.
    """
    target = load_target(place, search_path=folder, offers=offers)
    if not inspect.isclass(target) and not inspect.isroutine(target):
        if settings:
            raise ConfigError(f"'{place}' is an instance and takes no {', '.join(settings)}")
        return target
    try:
        return from_settings(target, settings, where=place, made=made)
    # An error of ragbench's own names what is wrong already.
    except RagbenchError:
        raise
    except Exception as error:
        raise ConfigError(f"'{place}' raised {error_text(error)}") from error


def schema_of_settings(target: Any, special: Mapping[Any, Any] | None = None) -> dict[str, Any]:
    """The JSON schema of the settings in a file of which a dataclass is built.

    Editors complete YAML files by it, and ``ragbench show`` lists its properties. Fields that no
    file can hold are left out.

    Args:
        special: schemas of types that have one of their own.
    """
    if not _is_record(target):
        return {"type": "object"}
    hints = typing.get_type_hints(target, include_extras=True)
    descriptions = field_docs(target)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for field in setting_fields(target).values():
        schema = _schema_of_type(hints[field.name], special or {})
        # No file can hold a value of such a type; and a "given" one, such as a client, comes from
        # the program and not from the settings.
        if schema is None or field.metadata.get("given"):
            continue
        if field.name in descriptions:
            schema["description"] = descriptions[field.name]
        if not _has_default(field):
            required.append(field.name)
        elif isinstance(field.default, (bool, int, float, str)):
            schema["default"] = field.default
        properties[field.name] = schema
    schema_of_target: dict[str, Any] = {
        "type": "object",
        "description": summary_of(target),
        "properties": properties,
        "additionalProperties": False,
    }
    if required:
        schema_of_target["required"] = required
    return schema_of_target


def summary_of(target: object) -> str:
    """The first paragraph of a class's docstring in one line: its description for users.

    Lists of implementations and schemas show it.
    """
    text = inspect.getdoc(target) or ""
    return " ".join(text.partition("\n\n")[0].split())


def _schema_of_type(hint: Any, special: Mapping[Any, Any]) -> dict[str, Any] | None:
    """The JSON schema of the type of a setting; None if no file can hold a value of the type.

    The schema is a new object each time: the caller adds a description and a default.

    Args:
        hint: the type.
        special: schemas of types that have one of their own.
    """
    # A list that may not be shorter than so many: its type is annotated with that.
    if get_origin(hint) is Annotated and get_origin(get_args(hint)[0]) is collections.abc.Sequence:
        sequence, length = get_args(hint)[:2]
        schema = _schema_of_type(sequence, special)
        return None if schema is None else {**schema, "minItems": length.min_length}
    if get_origin(hint) is collections.abc.Sequence:
        items = _schema_of_type(get_args(hint)[0], special)
        return None if items is None else {"type": "array", "items": items}
    if _is_record(hint):
        return schema_of_settings(hint, special)
    record_types = [member for member in get_args(hint) if _is_record(member)]
    if record_types:  # a record or None
        return {"anyOf": [_schema_of_type(record_types[0], special), {"type": "null"}]}
    try:
        return msgspec.json.schema(hint, schema_hook=lambda kind: dict(special[kind]))
    # Neither msgspec nor `special` has a schema of the type.
    except (TypeError, KeyError):
        return None


# --- paths


def beside(folder: Path, path: object) -> str:
    """A path in a file of settings, taken as relative to the folder of that file.

    So a file works from whatever folder a command runs in. ``~`` is the user's home.
    """
    return str(folder / Path(str(path)).expanduser())


def placed(settings: Mapping[str, Any], hints: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Settings of a file, with the paths among them relative to the folder of the file.

    So a file works from whatever folder a command runs in.

    Args:
        hints: the type of each setting; by it a path is known from any other text.
    """
    return {key: _placed_value(value, hints.get(key), folder) for key, value in settings.items()}


_PATHS_OF_MODELS = ("api_key_file", "cache")


def placed_model(settings: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Settings of a language model in a file, with the paths among them relative to its folder.

    The settings have no dataclass with types at this point: `_PATHS_OF_MODELS` lists which of them
    are paths, and has to name every one.
    """
    values = dict(settings)
    for key in _PATHS_OF_MODELS:
        if values.get(key, "") not in ("", "off"):  # a cache may be off
            values[key] = beside(folder, values[key])
    return values


def _placed_value(value: Any, hint: Any, folder: Path) -> Any:
    """A setting's value; a path is taken as relative to the folder of the settings' file.

    A model may be a path or a name elsewhere: it is a path if it exists beside the file.

    Args:
        hint: the type of the setting, by which a path is known from any other text.
    """
    if not isinstance(value, str) or not value:
        return value
    type_parts = (hint, *get_args(hint))
    if FilePath in type_parts:
        return beside(folder, value)
    if ModelPath not in type_parts:
        return value
    path = Path(beside(folder, value))
    # What lies in the working folder alone is not what the file names: the model is then missing,
    # and not looked for by a name elsewhere.
    if path.exists() or Path(value).exists():
        return str(path)
    return value
