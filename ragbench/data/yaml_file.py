"""A YAML file, with the line of everything in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragbench.errors import DataError, Problem

__all__ = ["Place", "YamlFile", "read_yaml"]

Place = tuple[str | int, ...]
"""Keys and positions from the top of the file down to a value."""

_MOST_NODES = 100_000


@dataclass(frozen=True, kw_only=True, slots=True)
class YamlFile:
    """What a file holds. JSON is YAML too."""

    path: str
    """The file, as the user named it."""
    value: Any
    """Mappings, lists, texts, numbers, booleans, dates and None."""
    lines: Mapping[Place, int]
    """The line, from 1, at which each value's key or list item stands."""

    def at(self, place: Place) -> Any:
        """The value at a place that is there."""
        value = self.value
        for part in place:
            value = value[part]
        return value

    def problem(self, place: Place, message: str) -> Problem:
        """A problem at a place: at its line, or that of the nearest thing around it."""
        known = next(place[:end] for end in range(len(place), -1, -1) if place[:end] in self.lines)
        field = next((part for part in reversed(place) if isinstance(part, str)), None)
        return Problem(path=self.path, line=self.lines[known], field=field, message=message)


def read_yaml(path: Path) -> YamlFile:
    """Reads a file.

    Raises:
        DataError: it cannot be read, is no YAML, is empty, or gives a key twice; with the line.
    """
    import yaml

    try:
        text = path.read_text("utf-8-sig")
    except OSError as error:
        raise _refusal(path, f"cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise _refusal(path, f"is not UTF-8: {error.reason} at byte {error.start}") from error
    try:
        loader: Any = yaml.SafeLoader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                raise _refusal(path, "is empty")
            lines = dict(_lines(path, node))
            value = loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = f"is no YAML: {error.problem or error.context}"
        raise _refusal(path, message, None if mark is None else mark.line + 1) from error
    except RecursionError as error:
        raise _refusal(path, "is nested too deep") from error
    except (yaml.YAMLError, ValueError) as error:  # a date such as 2024-13-01
        raise _refusal(path, f"is no YAML: {error}") from error
    return YamlFile(path=str(path), value=value, lines=lines)


def _lines(path: Path, root: Any) -> Iterator[tuple[Place, int]]:
    """The line of each place, in depth; anchors are followed wherever they are used."""
    import yaml

    waiting: list[tuple[Place, int, Any, frozenset[int]]] = [((), 0, root, frozenset())]
    seen = 0
    while waiting:
        place, line, node, around = waiting.pop()
        seen += 1
        if id(node) in around or seen > _MOST_NODES:
            raise _refusal(path, "an alias leads into itself, or to too much", line + 1)
        yield place, line + 1
        within = around | {id(node)}
        if isinstance(node, yaml.MappingNode):
            keys: set[str] = set()
            for key, value in node.value:
                name = str(key.value)
                if name in keys:
                    raise _refusal(
                        path, f"the key '{name}' is given twice", key.start_mark.line + 1
                    )
                keys.add(name)
                waiting.append(((*place, name), key.start_mark.line, value, within))
        elif isinstance(node, yaml.SequenceNode):
            for position, value in enumerate(node.value):
                waiting.append(((*place, position), value.start_mark.line, value, within))


def _refusal(path: Path, message: str, line: int | None = None) -> DataError:
    return DataError([Problem(path=str(path), line=line, message=message)])
