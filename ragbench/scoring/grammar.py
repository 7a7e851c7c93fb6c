"""How metrics are written: ``name``, ``name@k``, ``name(parameter=value, ...)@k``.

The grammar is that of ir_measures (MacAvaney et al. 2022, "Streamlining Evaluation with
ir-measures", ECIR), with quotes optional around plain words.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from ragbench.errors import ConfigError

__all__ = ["Spelling", "read_spelling", "split_metrics"]

_QUOTED = r"""'[^']*'|"(?:[^"\\]|\\.)*\""""
_METRIC = re.compile(
    rf"""\s*(?P<name>[^\W\d][\w.:-]*)
    \s*(?:\((?P<arguments>(?:[^()'"]|{_QUOTED})*)\))?
    \s*(?:@\s*(?P<cutoff>\d+))?\s*""",
    re.VERBOSE,
)
_ARGUMENT = re.compile(
    rf"""\s*(?P<key>[^\W\d]\w*)\s*=\s*(?P<value>{_QUOTED}|[^\s,'"=()]+)\s*(?:,|$)""", re.VERBOSE
)
_PART = re.compile(rf"""(?:\((?:[^()'"]|{_QUOTED})*\)|[^\s,])+""")


@dataclass(frozen=True, kw_only=True, slots=True)
class Spelling:
    """A metric as it was written, before its name and values are looked at."""

    name: str
    arguments: tuple[tuple[str, str], ...] = ()
    """Parameter names with their values as texts, quotes removed, in the order written."""
    cutoff: int | None = None


def split_metrics(text: str) -> list[str]:
    """Splits a list of metrics at commas and white space outside parentheses."""
    return _PART.findall(text)


def read_spelling(text: str) -> Spelling:
    """Reads one metric.

    Raises:
        ConfigError: the text does not follow the grammar.
    """
    found = _METRIC.fullmatch(text)
    if found is None:
        raise ConfigError(f"'{text}' is not of the form name, name@k or name(parameter=value)@k")
    cutoff = found["cutoff"]
    return Spelling(
        name=found["name"],
        arguments=_arguments(text, found["arguments"] or ""),
        cutoff=None if cutoff is None else int(cutoff),
    )


def _arguments(text: str, written: str) -> tuple[tuple[str, str], ...]:
    arguments: list[tuple[str, str]] = []
    position = 0
    while position < len(written.rstrip()):
        found = _ARGUMENT.match(written, position)
        if found is None:
            raise ConfigError(f"'{text}': '{written[position:].strip()}' is not parameter=value")
        arguments.append((found["key"], _unquoted(text, found["value"])))
        position = found.end()
    return tuple(arguments)


def _unquoted(text: str, value: str) -> str:
    if value.startswith("'"):
        return value[1:-1]
    if value.startswith('"'):
        try:
            return str(json.loads(value))
        except ValueError as error:
            raise ConfigError(f"'{text}': {value} is not a valid quoted text: {error}") from error
    return value
