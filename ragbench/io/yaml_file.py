"""YAML with the line of everything: settings with every mistake at once, and files of data."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from ragbench.core.reading import Reading, words_of
from ragbench.core.record import Record, replace
from ragbench.errors import ConfigError, DataError, MissingExtraError, Problem
from ragbench.io.limits import ReadLimits
from ragbench.io.settings import Place, from_settings, problems_of
from ragbench.io.values import is_list, is_object
from ragbench.masking import hide_arguments
from ragbench.safe_text import listed_names

_MOST_NODES = 100_000
"""Values of a file, those of an alias counted wherever it is used: a few lines of aliases to
aliases may stand for billions."""
_LONGEST_SHOWN = 60
"""Characters of a value that a message names."""


class YamlFile(Record):
    """What a file holds. JSON is YAML too."""

    path: str
    value: Any
    lines: Mapping[Place, int]
    """The line, from 1, at which each value's key or list item stands."""

    def problem(self, place: Place, message: str) -> Problem:
        """A problem at a place of the file: at its line, or that of the nearest value around it.

        A key that is missing has no line; the mapping that lacks it has.

        Args:
            place: keys and positions from the top of the file.
        """
        nearest: Place = ()
        for part in place:
            # A part of the place without a line, such as a key that is missing, is passed over: the
            # problem gets the line of the last value that is there.
            if (*nearest, part) in self.lines:
                nearest = (*nearest, part)
        keys = [part for part in place if isinstance(part, str)]
        key = keys[-1] if keys else None
        return Problem(path=self.path, line=self.lines[nearest], field=key, message=message)


def read_yaml(path: Path) -> YamlFile:
    """A file of settings with the line of each value, as YAML 1.1 reads it.

    Credentials among the settings are declared to be secrets, so that messages mask them.

    Raises:
        DataError: it cannot be read, or is no YAML.
    """
    # Loaded late: not every command reads YAML.
    import yaml

    try:
        raw = ReadLimits().read_settings(path)
    except OSError as error:
        raise _refusal(path, f"cannot be read: {error.strerror or error}") from error
    file = _parsed_yaml(path, raw, yaml.SafeLoader, most=_MOST_NODES)
    hide_arguments(file.value)
    return file


def parse_yaml_data(name: str, raw: bytes) -> YamlFile:
    """A YAML file of data with the line of each value; texts stay as they were written.

    Only ``true`` and ``false`` are truth values, as in YAML 1.2: an answer may be "yes". A date, a
    time such as ``9:30`` and a number that a number would write otherwise (``007``, ``1.10``) are
    texts. The keys of mappings are texts.

    Args:
        name: the file, as problems name it.

    Raises:
        DataError: it is no YAML.
    """
    # Without aliases a text has no more nodes than characters.
    most = max(_MOST_NODES, len(raw))
    file = _parsed_yaml(Path(name), raw, _data_loader(), most=most)
    return replace(file, path=name, value=_as_json_value(file.value))


def _as_json_value(value: object) -> object:
    """A value of a YAML file in the types of JSON, with texts as keys.

    Readers of cases know these types alone. A date, for instance, becomes its text.
    """
    if is_object(value):
        return {str(key): _as_json_value(item) for key, item in value.items()}
    if is_list(value):
        return [_as_json_value(item) for item in value]
    if value is None or isinstance(value, (str, int, float)):
        return value
    return str(value)


_AS_WRITTEN = {
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"0|-?[1-9][0-9]*",
    "float": r"-?(?:0|[1-9][0-9]*)\.[0-9]*[1-9]|\.nan|\.NaN",
    "merge": r"<<",
}
"""Texts without quotation marks that mean something else than themselves, by the kind of it."""


@cache
def _data_loader() -> Any:
    """The class of PyYAML's loader that takes unquoted texts as `parse_yaml_data` says.

    PyYAML's own loaders make a truth value of "yes", and a date of 2024-01-01.
    """
    import yaml

    loader: Any = type("DataLoader", (yaml.SafeLoader,), {"yaml_implicit_resolvers": {}})
    for kind, pattern in _AS_WRITTEN.items():
        text = re.compile(f"^(?:{pattern})$")
        loader.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", text, None)
    return loader


def _parsed_yaml(path: Path, raw: bytes, loader_class: Any, *, most: int) -> YamlFile:
    """The value of a YAML file, with the line of each part of it.

    Args:
        loader_class: PyYAML's, which decides what an unquoted text means.
        most: values that the file may hold.

    Raises:
        DataError: it is no YAML, or holds more.
    """
    with Reading(lambda error: _no_yaml(path, error)):
        loader = loader_class(raw.decode("utf-8-sig"))
        try:
            node = loader.get_single_node()
            if node is None:
                raise _refusal(path, "is empty")
            # First, as this refuses what would grow without end when it is constructed.
            lines = dict(_lines_of_places(path, node, most))
            value = loader.construct_document(node)
        finally:
            loader.dispose()
    return YamlFile(path=str(path), value=value, lines=lines)


def _no_yaml(path: Path, error: Exception) -> DataError:
    """The error of a file that is not YAML: what is wrong, and in which line if that is known.

    PyYAML also raises what Python does, such as a ValueError for a date like 2024-13-01.
    """
    import yaml

    if isinstance(error, UnicodeDecodeError):
        return _refusal(path, f"is not UTF-8: {error.reason} at byte {error.start}")
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else mark.line + 1
        return _refusal(path, f"is not YAML: {error.problem or error.context}", line)
    if isinstance(error, RecursionError):
        return _refusal(path, "is nested too deep")
    return _refusal(path, f"is not YAML: {words_of(error)}")


def _lines_of_places(path: Path, root: Any, most: int) -> Iterator[tuple[Place, int]]:
    """The line of each value of a YAML file, by its place (keys and positions from the top).

    Messages about settings and records name these lines. Anchors are followed wherever they are
    used.

    Args:
        root: the node of PyYAML that is the whole file.
        most: nodes that are followed, so that aliases to aliases end.

    Raises:
        DataError: a key is there twice, or aliases lead into themselves or to too much.
    """
    import yaml

    # The nodes still to be followed: each with its place before it, its line (from 0), and behind
    # it the ids of the nodes that it is in.
    waiting: list[tuple[Place, int, Any, frozenset[int]]] = [((), 0, root, frozenset())]
    count = 0
    while waiting:
        place, line, node, outer_ids = waiting.pop()
        count += 1
        if id(node) in outer_ids or count > most:
            raise _refusal(path, "an alias leads into itself, or to too much", line + 1)
        yield place, line + 1
        ids = outer_ids | {id(node)}
        if isinstance(node, yaml.MappingNode):
            names: set[str] = set()
            for key, value in node.value:
                name = str(key.value)
                key_line = key.start_mark.line
                if name in names:
                    raise _refusal(path, f"the key '{name}' is given twice", key_line + 1)
                names.add(name)
                waiting.append(((*place, name), key_line, value, ids))
        elif isinstance(node, yaml.SequenceNode):
            for position, value in enumerate(node.value):
                waiting.append(((*place, position), value.start_mark.line, value, ids))


def _refusal(path: Path, message: str, line: int | None = None) -> DataError:
    """The error of a file that is not readable YAML, with its line where that is known.

    The error ends the reading at once. Mistakes in readable settings are collected instead.
    """
    return DataError([Problem(path=str(path), line=line, message=message)])


ValueT = TypeVar("ValueT")


@dataclass(kw_only=True, slots=True)
class SettingsFile:
    """Reads a file; what is wrong is noted, never raised, until `finish`."""

    file: YamlFile
    folder: Path = Path()
    """Where relative paths, files and modules are looked for."""
    problems: list[Problem] = field(default_factory=list[Problem])

    def wrong(self, place: Place, message: str) -> None:
        """Notes a problem of the file at a place, or one for each line of a message.

        Nothing is raised before `finish`, so that a user sees all mistakes of a file at once.
        """
        self.problems.extend(self.file.problem(place, line) for line in message.splitlines())

    def finish(self) -> None:
        """Refuses the file if anything was wrong in it, with all problems by line.

        Raises:
            DataError: a problem was noted.
        """
        if self.problems:
            # What two stages name, such as a wrong model, is reported once.
            distinct = dict.fromkeys(self.problems)
            raise DataError(sorted(distinct, key=lambda problem: problem.line or 0))

    def at(self, place: Place) -> Any:
        """The value at a place of the file; None when there is nothing.

        Args:
            place: keys and positions from the top of the file.
        """
        value = self.file.value
        for part in place:
            if is_object(value):
                # YAML takes some keys for numbers or dates; their places name them as texts.
                item_by_name = {str(key): item for key, item in value.items()}
                value = cast("Any", value).get(part, item_by_name.get(str(part)))
            elif is_list(value) and isinstance(part, int):
                value = value[part]
            else:
                return None
        return value

    def mapping(self, place: Place, known: Sequence[str] | None = None) -> dict[str, Any]:
        """The mapping at a place of the file, without unknown keys; empty when there is none.

        Anything else than a mapping, and each unknown key, is noted as a problem.

        Args:
            known: the keys that are allowed; None allows any.
        """
        value = self.at(place)
        if not is_object(value):
            if value is not None:
                self.wrong(place, f"expected 'name: value' entries, found {shown(value)}")
            return {}
        mapping: dict[str, Any] = {}
        for key, item in value.items():
            # YAML reads some keys as numbers or dates.
            name = str(key)
            if known is None or name in known:
                mapping[name] = item
            else:
                self.wrong((*place, name), f"unknown key.{listed_names(name, known)}")
        return mapping

    def items(self, place: Place) -> list[Any]:
        """The list at a place of the file; empty, and a problem, when there is none.

        The caller goes on with the empty list, so that later mistakes are found, too.
        """
        value = self.at(place)
        if is_list(value):
            return [*value]
        if value is None:
            # The mapping around it has a line, a key that is missing has none.
            self.wrong(place[:-1], f"the key '{place[-1]}' is missing")
        else:
            self.wrong(place, f"expected a list, found {shown(value)}")
        return []

    def section(self, place: Place, kind: type[ValueT]) -> ValueT | None:
        """The dataclass that the mapping at a place of the file describes.

        None, and a problem for each wrong setting, if it cannot be built.

        Args:
            kind: the dataclass, whose fields are the keys of the mapping.
        """
        settings = self.mapping(place)
        path = ".".join(map(str, place))
        return self.built(place, settings, lambda: from_settings(kind, settings, where=path))

    def built(self, place: Place, settings: object, make: Callable[[], ValueT]) -> ValueT | None:
        """The object that `make` builds of the settings at a place of the file; None if it fails.

        Its error becomes a problem at the line of the setting that it is about.

        Args:
            settings: the value at the place, by whose keys an error is brought to its line.
            make: builds the object.
        """
        try:
            return make()
        except (ConfigError, MissingExtraError) as error:
            keys = [str(key) for key in settings] if is_object(settings) else []
            for inner_place, message in problems_of(error):
                # An error that does not say where it is, or says it in other names, may still
                # speak of one of the keys.
                if not inner_place or inner_place[0] not in keys:
                    key = _key_in_message(keys, message)
                    inner_place = () if key is None else (key,)
                self.wrong((*place, *inner_place), message)
        return None


def _key_in_message(keys: Sequence[str], message: str) -> str | None:
    """The first of some settings' keys that an error's message is about; None if none is.

    The error itself may not say where in the file it is: by the key it gets the line of the
    setting.
    """
    for key in keys:
        if re.search(f"(^|: |unknown |'){re.escape(key)}[ ']", message):
            return key
    return None


def shown(value: object) -> str:
    """A value of a settings file as a message shows it, cut to a length that fits in a line.

    Lists and mappings are named by their kind alone.
    """
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = repr(value)
    return f"{text[:_LONGEST_SHOWN]} ..." if len(text) > _LONGEST_SHOWN else text


def is_own(name: object) -> bool:
    """Whether a name in a settings file is that of a user's class, and not of one of ragbench's.

    It is ``package.module:Class`` or ``file.py:Class``, which the colon shows.
    """
    return isinstance(name, str) and ":" in name
