"""Every metric that ragbench knows, and how a text becomes one.

Other packages add definitions through entry points in the group ``ragbench.metrics``; each
names a `MetricDefinition` or a sequence of them::

    [project.entry-points."ragbench.metrics"]
    mine = "my_package.metrics:DEFINITIONS"
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import cache
from typing import cast

from ragbench.errors import ConfigError
from ragbench.records.metrics import Metric, MetricDefinition, Parameter, ParameterValue
from ragbench.registry import Registry, load_attribute
from ragbench.scoring.definitions import (
    abstention,
    answer,
    candidates,
    judged,
    operational,
    ragas,
    rank,
    support,
)
from ragbench.scoring.grammar import Spelling, read_spelling, split_metrics

__all__ = ["default_metrics", "definitions", "find_definition", "parse_metric", "parse_metrics"]

_BUILT_IN: tuple[MetricDefinition, ...] = (
    *rank.DEFINITIONS,
    *answer.DEFINITIONS,
    *candidates.DEFINITIONS,
    *abstention.DEFINITIONS,
    *operational.DEFINITIONS,
    *ragas.DEFINITIONS,
    *judged.DEFINITIONS,
    *support.DEFINITIONS,
)

_DEFAULT = (
    "recall@5, precision@5, hit_rate@5, MRR@10, nDCG@10, Judged@10, exact_match, token_f1, "
    "best_of_n, candidate_agreement, brier, ECE, abstention_accuracy, answer_rate, "
    "abstention_recall"
)


def definitions() -> tuple[MetricDefinition, ...]:
    """Every definition: ragbench's own by family, then those of other packages by entry point.

    Raises:
        ConfigError: an entry point gives something that is no definition.
    """
    return (*_BUILT_IN, *_third_party())


def find_definition(name: str) -> MetricDefinition:
    """The definition of a name or an alias, without regard to case; ragbench's own names win.

    Raises:
        ConfigError: no such metric; the message names close ones.
    """
    found = _built_in_index().get(name.casefold())
    if found is None:
        # Only now: looking for entry points reads the metadata of every installed package.
        known = _index(definitions())
        found = known.get(name.casefold())
        if found is None:
            raise ConfigError(_unknown(name, known))
    return found


def parse_metric(text: str) -> Metric:
    """Reads one metric, such as ``"nDCG@10"``, ``"P(rel=2)@5"`` or ``"rouge(variant=rougeL)"``.

    Raises:
        ConfigError: the text, the name, a parameter or the cutoff is wrong.
    """
    spelling = read_spelling(text)
    definition = find_definition(spelling.name)
    return Metric(
        definition=definition,
        parameters=_parameters(definition, spelling),
        cutoff=_cutoff(definition, spelling),
    )


def parse_metrics(metrics: str | Iterable[str]) -> tuple[Metric, ...]:
    """Reads a list of metrics, keeping its order and dropping repetitions.

    Args:
        metrics: a text with commas or spaces between them, or one text each.

    Raises:
        ConfigError: some are wrong; the message holds one line for each of those.
    """
    texts = split_metrics(metrics) if isinstance(metrics, str) else list(metrics)
    parsed: dict[str, Metric] = {}
    problems: list[str] = []
    for text in texts:
        try:
            metric = parse_metric(text)
        except ConfigError as error:
            problems.append(str(error))
        else:
            parsed.setdefault(metric.name, metric)
    if problems:
        raise ConfigError("\n".join(problems))
    return tuple(parsed.values())


def default_metrics() -> tuple[Metric, ...]:
    """What a run measures when nothing else is asked for: free, and no extra needed."""
    return parse_metrics(_DEFAULT)


@cache
def _built_in_index() -> dict[str, MetricDefinition]:
    return _index(_BUILT_IN)


def _index(known: tuple[MetricDefinition, ...]) -> dict[str, MetricDefinition]:
    index: dict[str, MetricDefinition] = {}
    for definition in known:
        index.setdefault(definition.name.casefold(), definition)
    for definition in known:
        for alias in definition.aliases:
            index.setdefault(alias.casefold(), definition)
    return index


def _third_party() -> tuple[MetricDefinition, ...]:
    found: list[MetricDefinition] = []
    for name, target in Registry(kind="metrics").targets().items():
        given = load_attribute(target)
        several = cast("Sequence[object]", given if isinstance(given, Sequence) else (given,))
        for definition in several:
            if not isinstance(definition, MetricDefinition):
                raise ConfigError(
                    f"the entry point '{name}' of ragbench.metrics gives a "
                    f"{type(definition).__name__}, not a MetricDefinition"
                )
            found.append(definition)
    return tuple(found)


def _unknown(name: str, known: dict[str, MetricDefinition]) -> str:
    close = get_close_matches(name.casefold(), known, n=3)
    names = dict.fromkeys(known[match].name for match in close)
    hint = f"Did you mean {' or '.join(names)}? " if names else ""
    return f"unknown metric '{name}'. {hint}'ragbench show metrics' lists all"


def _cutoff(definition: MetricDefinition, spelling: Spelling) -> int | None:
    if spelling.cutoff is None:
        if definition.cutoff == "required":
            raise ConfigError(f"'{definition.name}' needs a cutoff, as in {definition.name}@10")
        return None
    if definition.cutoff == "none":
        raise ConfigError(f"'{definition.name}' takes no cutoff (@{spelling.cutoff})")
    if spelling.cutoff < 1:
        raise ConfigError(f"the cutoff of '{definition.name}' must be at least 1")
    return spelling.cutoff


def _parameters(
    definition: MetricDefinition, spelling: Spelling
) -> tuple[tuple[str, ParameterValue], ...]:
    known = {parameter.name: parameter for parameter in definition.parameters}
    values: dict[str, ParameterValue] = {}
    for key, text in spelling.arguments:
        if key not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise ConfigError(f"'{definition.name}' has no parameter '{key}': {has}")
        if key in values:
            raise ConfigError(f"'{definition.name}' is given the parameter '{key}' twice")
        values[key] = _value(definition.name, known[key], text)
    return tuple(
        (key, value) for key, value in sorted(values.items()) if value != known[key].default
    )


def _value(name: str, parameter: Parameter, text: str) -> ParameterValue:
    try:
        value = _converted(text, parameter.default)
    except ValueError:
        kind = _KINDS[type(parameter.default)]
        raise ConfigError(f"'{name}': {parameter.name} must be {kind}, not '{text}'") from None
    if parameter.choices and value not in parameter.choices:
        choices = ", ".join(map(str, parameter.choices))
        raise ConfigError(f"'{name}': {parameter.name} must be one of {choices}, not '{text}'")
    if parameter.low is not None and not isinstance(value, str) and value < parameter.low:
        raise ConfigError(f"'{name}': {parameter.name} must be at least {parameter.low:g}")
    return value


_KINDS: dict[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
}


def _converted(text: str, default: ParameterValue) -> ParameterValue:
    if isinstance(default, bool):
        if text.lower() not in ("true", "false"):
            raise ValueError(text)
        return text.lower() == "true"
    if isinstance(default, int):
        return int(text)
    if isinstance(default, float):
        if not math.isfinite(float(text)):
            raise ValueError(text)
        return float(text)
    return text
