"""The section ``gate`` of ragbench.yaml, with every mistake in it told at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragbench.errors import DataError
from ragbench.gate.config import (
    AUTO,
    COMPARABLE,
    FIGURES,
    Correction,
    FloorRule,
    GateConfig,
    LatencyBudget,
    Limits,
    MetricGate,
    SliceGate,
    Undecided,
)
from ragbench.gate.yaml_section import Section, YamlProblems
from ragbench.gate.yaml_tree import YamlNode, read_yaml

__all__ = ["read_gate_config"]

_LIMITS = ("min", "max", "max_drop")
_METRIC = (*_LIMITS, "informational", "slices")
_SHARES = ("alpha", "power", "confidence")
_GATE = (
    "baseline", "metrics", "max_drop", "max_error_rate", "max_latency", "min_cases", *_SHARES,
    "resamples", "seed", "correction", "cluster", "floors", "undecided", "require_same",
)  # fmt: skip


def read_gate_config(path: Path, *, optional: bool = False) -> GateConfig:
    """Reads what a gate demands.

    Args:
        path: a YAML file with a section ``gate``; its other sections are not looked at. A
            baseline's path in it is relative to the file.
        optional: whether the section may be absent; then nothing is demanded.

    Raises:
        DataError: the file cannot be read or has mistakes; holds all of them, with their lines.
    """
    problems = YamlProblems(str(path))
    root = read_yaml(path)
    top = Section.of(root, "", problems)
    node = None if top is None else top.node("gate")
    if top is not None and node is None and not optional:
        problems.add("there is no section 'gate', or nothing in it", root)
    section = None if node is None else Section.of(node, "gate", problems)
    config = GateConfig() if section is None else _gate(section)
    if problems.found:
        raise DataError(sorted(problems.found, key=lambda problem: problem.line or 0))
    if config.baseline is not None and config.baseline != AUTO:
        return replace(config, baseline=str(path.parent / config.baseline))
    return config


def _gate(section: Section) -> GateConfig:
    section.refuse_others(_GATE)
    config = GateConfig()
    known: dict[str, Any] = {
        "baseline": section.text("baseline"),
        "max_drop": section.number("max_drop", low=0.0, high=1.0, high_excluded=True),
        "max_error_rate": section.number("max_error_rate", low=0.0, high=1.0),
        "min_cases": section.whole_number("min_cases", low=1),
        "resamples": section.whole_number("resamples", low=100),
        "seed": section.whole_number("seed", low=0),
        "correction": section.choice("correction", Correction),
        "floors": section.choice("floors", FloorRule),
        "undecided": section.choice("undecided", Undecided),
        "cluster": section.flag("cluster"),
        "require_same": section.names("require_same", COMPARABLE),
        "metrics": _metrics(section),
        "latency": tuple(_latency(section)),
    }
    for name in _SHARES:
        known[name] = section.number(name, low=0.0, high=1.0, low_excluded=True, high_excluded=True)
    return replace(config, **{key: value for key, value in known.items() if value is not None})


def _metrics(section: Section) -> dict[str, MetricGate]:
    found: dict[str, MetricGate] = {}
    for name, node in section.entries("metrics"):
        metric = Section.of(node, f"{section.name}.metrics.{name}", section.problems)
        if metric is not None:
            found[name] = _metric(metric)
    return found


def _metric(section: Section) -> MetricGate:
    section.refuse_others(_METRIC)
    limits = _limits(section)
    informational = section.flag("informational") or False
    slices = tuple(_slices(section, limits))
    if limits.is_empty and not informational and section.node("slices") is None:
        section.problems.add(
            "nothing is demanded: give min, max, max_drop or slices, or informational: true",
            section.whole,
            section.name,
        )
    return MetricGate(limits=limits, informational=informational, slices=slices)


def _limits(section: Section) -> Limits:
    limits = Limits(
        minimum=section.number("min"),
        maximum=section.number("max"),
        max_drop=section.number("max_drop", low=0.0),
    )
    low, high = limits.minimum, limits.maximum
    if low is not None and high is not None and low > high:
        message = f"min is {low:g} and max is {high:g}: nothing lies between"
        section.problems.add(message, section.nodes["min"], section.name)
    return limits


def _slices(section: Section, limits: Limits) -> Iterator[SliceGate]:
    node = section.node("slices")
    if node is None:
        return
    field = f"{section.name}.slices"
    if node.pairs is not None:
        for selector, inner in section.entries("slices"):
            own = Section.of(inner, f"{field}.{selector}", section.problems)
            if own is not None:
                own.refuse_others(_LIMITS)
                yield from _slice(selector, _limits(own), inner, field, section.problems)
        return
    if limits.max_drop is None:
        section.problems.add("a list of slices needs the metric's max_drop", node, field)
    for selector, inner in section.texts("slices"):
        yield from _slice(selector, None, inner, field, section.problems)


def _slice(
    selector: str, limits: Limits | None, node: YamlNode, field: str, problems: YamlProblems
) -> Iterator[SliceGate]:
    by, colon, value = selector.partition(":")
    if by not in ("tag", "language") or (colon and not value):
        message = f"'{selector}' names no slice: expected tag, language, tag:NAME or language:CODE"
        problems.add(message, node, field)
    elif limits is not None and limits.is_empty:
        problems.add("nothing is demanded: give min, max or max_drop", node, f"{field}.{selector}")
    else:
        yield SliceGate(by=by, value=value or None, limits=limits)


def _latency(section: Section) -> Iterator[LatencyBudget]:
    for stage, node in section.entries("max_latency"):
        budget = Section.of(node, f"{section.name}.max_latency.{stage}", section.problems)
        if budget is None:
            continue
        budget.refuse_others(FIGURES)
        for figure in FIGURES:
            seconds = budget.number(figure, low=0.0, low_excluded=True)
            if seconds is not None:
                yield LatencyBudget(stage=stage, figure=figure, seconds=seconds)
