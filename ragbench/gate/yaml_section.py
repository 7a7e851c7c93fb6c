"""Typed values out of a YAML mapping: each mistake is noted with its line, none is raised."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from ragbench.errors import Problem
from ragbench.gate.yaml_tree import YamlNode

__all__ = ["Section", "YamlProblems"]

ChoiceT = TypeVar("ChoiceT", bound=StrEnum)

_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


class YamlProblems:
    """The mistakes found in one file."""

    def __init__(self, path: str) -> None:
        """Starts with none.

        Args:
            path: the file, as the user named it.
        """
        self.path = path
        self.found: list[Problem] = []

    def add(self, message: str, node: YamlNode, name: str = "") -> None:
        """Notes a mistake in a value."""
        self.found.append(
            Problem(path=self.path, line=node.line, field=name or None, message=message)
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """A mapping of the file, by key."""

    name: str
    """Its place, such as ``"gate.metrics"``."""
    whole: YamlNode
    nodes: Mapping[str, YamlNode]
    keys: Mapping[str, YamlNode]
    problems: YamlProblems

    @classmethod
    def of(cls, node: YamlNode, name: str, problems: YamlProblems) -> Section | None:
        """The mapping behind a node; None, and a problem, when it is none.

        Nothing behind a key is taken for a mapping without entries.
        """
        nodes: dict[str, YamlNode] = {}
        keys: dict[str, YamlNode] = {}
        if node.pairs is None and not node.is_null:
            problems.add(f"expected 'name: value' entries, found {node}", node, name)
            return None
        for key, value in node.pairs or ():
            if key.text is None:
                problems.add("a key must be a text", key, name)
            elif key.text in nodes:
                first = keys[key.text].line
                message = f"'{key.text}' stands here a second time; first on line {first}"
                problems.add(message, key, name)
            else:
                nodes[key.text], keys[key.text] = value, key
        return cls(name=name, whole=node, nodes=nodes, keys=keys, problems=problems)

    def node(self, key: str) -> YamlNode | None:
        """The value of a key; None when it is not there or nothing."""
        node = self.nodes.get(key)
        return None if node is None or node.is_null else node

    def refuse_others(self, known: Sequence[str]) -> None:
        """Notes each key that is not known."""
        for key in self.nodes:
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                meant = f". Did you mean '{near[0]}'?" if near else ""
                message = f"unknown key '{key}'; known are {', '.join(known)}{meant}"
                self.problems.add(message, self.keys[key], self.name)

    def entries(self, key: str) -> Iterator[tuple[str, YamlNode]]:
        """The entries of the mapping under a key; none when it is not there."""
        node = self.node(key)
        inner = None if node is None else Section.of(node, self._place(key), self.problems)
        if inner is not None:
            yield from inner.nodes.items()

    def texts(self, key: str) -> Iterator[tuple[str, YamlNode]]:
        """The texts of the list under a key, with their nodes; none when it is not there."""
        node = self.node(key)
        if node is None:
            return
        if node.items is None:
            self.problems.add(f"expected a list, found {node}", node, self._place(key))
            return
        for item in node.items:
            if item.is_text and item.text:
                yield item.text, item
            else:
                self.problems.add(f"expected a text, found {item}", item, self._place(key))

    def names(self, key: str, known: Sequence[str]) -> tuple[str, ...] | None:
        """A list of known names; None when it is not there."""
        if self.node(key) is None:
            return None
        found: list[str] = []
        for name, node in self.texts(key):
            if name not in known:
                message = f"'{name}' is none of {', '.join(known)}"
                self.problems.add(message, node, self._place(key))
            found.append(name)
        return tuple(found)

    def text(self, key: str) -> str | None:
        """A text; None when it is not there."""
        node = self.node(key)
        if node is None:
            return None
        if not node.text:
            self.problems.add(f"expected a text, found {node}", node, self._place(key))
        return node.text

    def flag(self, key: str) -> bool | None:
        """True or false; None when it is not there."""
        node = self.node(key)
        if node is None:
            return None
        value = None if node.is_quoted or node.text is None else _BOOLEANS.get(node.text.lower())
        if value is None:
            self.problems.add(f"expected true or false, found {node}", node, self._place(key))
        return value

    def choice(self, key: str, choices: type[ChoiceT]) -> ChoiceT | None:
        """One of the values of an enumeration; None when it is not there."""
        node = self.node(key)
        if node is None:
            return None
        known = [choice.value for choice in choices]
        if node.text in known:
            return choices(node.text)
        message = f"expected one of {', '.join(known)}, found {node}"
        self.problems.add(message, node, self._place(key))
        return None

    def whole_number(self, key: str, *, low: int) -> int | None:
        """A whole number from ``low`` on; None when it is not there."""
        number, node = self.number(key), self.node(key)
        if number is None or node is None:
            return None
        if number != int(number) or number < low:
            message = f"expected a whole number of at least {low}, found {node}"
            self.problems.add(message, node, self._place(key))
            return None
        return int(number)

    def number(
        self,
        key: str,
        *,
        low: float = -math.inf,
        high: float = math.inf,
        low_excluded: bool = False,
        high_excluded: bool = False,
    ) -> float | None:
        """A finite number within bounds; None when it is not there."""
        node = self.node(key)
        if node is None:
            return None
        number = _number(node)
        if number is None:
            message = f"expected a number, found {node}"
        elif number < low or (low_excluded and number == low):
            bound = f"{'above' if low_excluded else 'at least'} {low:g}"
            message = f"{number:g} is too small: it must be {bound}"
        elif number > high or (high_excluded and number == high):
            bound = f"{'below' if high_excluded else 'at most'} {high:g}"
            message = f"{number:g} is too large: it must be {bound}"
        else:
            return number
        self.problems.add(message, node, self._place(key))
        return None

    def _place(self, key: str) -> str:
        return f"{self.name}.{key}" if self.name else key


def _number(node: YamlNode) -> float | None:
    """A number as people write it: YAML 1.1 takes 1e-3 for a text."""
    if node.text is None or node.is_quoted:
        return None
    try:
        value = float(node.text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
