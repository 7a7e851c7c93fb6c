"""How metrics are written: ``recall@5``, ``P(rel=2)@5``, ``my.py:recall(rel=2)@5``.

The grammar is that of ir_measures (MacAvaney et al. 2022, "Streamlining Evaluation with
ir-measures", ECIR), with quotes optional around plain words, and with places of functions as names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Literal

from ragbench.core.metric import Metric, MetricDefinition, Parameter, ParameterValue
from ragbench.errors import ConfigError
from ragbench.io.settings import converted

_QUOTED = r"""'[^']*'|"(?:[^"\\]|\\.)*\""""
_METRIC = re.compile(
    rf"""\s*(?P<name>[^\W\d][\w.:-]*|[^\s()'",@=]+\.py:[\w.]+)
    \s*(?:\((?P<arguments>(?:[^()'"]|{_QUOTED})*)\))?
    \s*(?:@\s*(?P<cutoff>\d+))?\s*""",
    re.VERBOSE,
)
_ARGUMENT = re.compile(
    rf"""\s*(?P<key>[^\W\d]\w*)\s*=\s*(?P<value>{_QUOTED}|[^\s,'"=()]+)\s*(?:,|$)""", re.VERBOSE
)
_PART = re.compile(rf"""(?:\((?:[^()'"]|{_QUOTED})*\)|[^\s,])+""")


def split_metrics(text: str) -> list[str]:
    """Splits a list of metrics at commas and white space outside parentheses."""
    return _PART.findall(text)


def read_spelling(text: str) -> tuple[str, dict[str, str], int | None]:
    """A metric as it was written: its name, the texts of its parameters, and its cutoff.

    The name is a registered one, ``file.py:function`` or ``package.module:function``.
    """
    found = _METRIC.fullmatch(text)
    if found is None:
        raise ConfigError(f"'{text}' is not of the form name, name@k or name(parameter=value)@k")
    written = (found["arguments"] or "").rstrip()
    arguments: dict[str, str] = {}
    position = 0
    while position < len(written):
        part = _ARGUMENT.match(written, position)
        if part is None:
            raise ConfigError(f"'{text}': '{written[position:].strip()}' is not parameter=value")
        if part["key"] in arguments:
            raise ConfigError(f"'{text}' is given the parameter '{part['key']}' twice")
        arguments[part["key"]] = _unquoted(text, part["value"])
        position = part.end()
    return found["name"], arguments, None if found["cutoff"] is None else int(found["cutoff"])


def _unquoted(text: str, value: str) -> str:
    if value.startswith("'"):
        return value[1:-1]
    if value.startswith('"'):
        try:
            return str(json.loads(value))
        except ValueError as error:
            raise ConfigError(f"'{text}': {value} is not a valid quoted text: {error}") from error
    return value


def bound(
    definition: MetricDefinition,
    values: Mapping[str, object],
    cutoff: int | None,
    *,
    spelled: str = "",
) -> Metric:
    known = {parameter.name: parameter for parameter in definition.parameters}
    found: dict[str, ParameterValue] = {}
    for name, value in values.items():
        if name not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise ConfigError(f"'{definition.name}' has no parameter '{name}': {has}")
        found[name] = _value(definition.name, known[name], value)
    if cutoff is None and definition.cutoff == "required":
        spelled = spelled or definition.name
        raise ConfigError(f"'{spelled}' needs a cutoff, as in {spelled}@10")
    if cutoff is not None and definition.cutoff == "none":
        raise ConfigError(f"'{definition.name}' takes no cutoff (@{cutoff})")
    if cutoff is not None and cutoff < 1:
        raise ConfigError(f"the cutoff of '{definition.name}' must be at least 1")
    return Metric(
        definition=definition,
        parameters=tuple((k, v) for k, v in sorted(found.items()) if v != known[k].default),
        cutoff=cutoff,
    )


def _value(name: str, parameter: Parameter, given: object) -> ParameterValue:
    """A value of the default's type, from a text or from such a value."""
    kind: Any = Literal[parameter.choices] if parameter.choices else type(parameter.default)
    where = f"'{name}': {parameter.name}"
    value: ParameterValue = converted(given, kind, where, strict=False)
    if parameter.low is not None and not isinstance(value, str) and value < parameter.low:
        raise ConfigError(f"{where} must be at least {parameter.low:g}")
    return value
