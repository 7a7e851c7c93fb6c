"""The section ``gate`` of ragbench.yaml, with every mistake in it told at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragbench.data.yaml_file import read_yaml
from ragbench.errors import DataError, Problem
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
from ragbench.settings.section import Section

__all__ = ["read_gate_config"]

_LIMITS = ("min", "max", "max_drop")
_METRIC = (*_LIMITS, "informational", "slices")
_SHARES = ("alpha", "power", "confidence")
_GATE = (
    "baseline", "metrics", "max_drop", "max_error_rate", "max_latency", "min_cases", *_SHARES,
    "resamples", "seed", "correction", "cluster", "floors", "undecided", "require_same",
    "quarantine",
)  # fmt: skip


def read_gate_config(path: Path, *, optional: bool = False) -> GateConfig:
    """Reads what a gate demands.

    Args:
        path: a YAML file with a section ``gate``; its other sections are not looked at. The paths
            in it, of a baseline and a quarantine file, are relative to the file.
        optional: whether the section may be absent; then nothing is demanded.

    Raises:
        DataError: the file cannot be read or has mistakes; holds all of them, with their lines.
    """
    problems: list[Problem] = []
    file = read_yaml(path)
    top = Section.of(file, file.value, (), problems)
    config = GateConfig()
    if top is not None and top.has("gate"):
        section = top.inner("gate")
        config = config if section is None else _gate(section)
    elif top is not None and not optional:
        top.note("there is no section 'gate', or nothing in it")
    if problems:
        raise DataError(sorted(problems, key=lambda problem: problem.line or 0))
    if config.baseline is not None and config.baseline != AUTO:
        config = replace(config, baseline=str(path.parent / config.baseline))
    if config.quarantine is not None:
        config = replace(config, quarantine=str(path.parent / config.quarantine))
    return config


def _gate(section: Section) -> GateConfig:
    section.refuse_others(_GATE)
    known: dict[str, Any] = {
        "baseline": section.text("baseline"),
        "quarantine": section.text("quarantine"),
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
        "metrics": {metric.name: _metric(metric) for metric in section.sections("metrics")},
        "latency": tuple(_latency(section)),
    }
    for name in _SHARES:
        known[name] = section.number(name, low=0.0, high=1.0, low_excluded=True, high_excluded=True)
    found = {key: value for key, value in known.items() if value is not None}
    return replace(GateConfig(), **found)


def _metric(section: Section) -> MetricGate:
    section.refuse_others(_METRIC)
    limits = _limits(section)
    informational = section.flag("informational") or False
    slices = tuple(_slices(section, limits))
    if limits.is_empty and not informational and not section.has("slices"):
        section.note(
            "nothing is demanded: give min, max, max_drop or slices, or informational: true"
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
        section.note(f"min is {low:g} and max is {high:g}: nothing lies between")
    return limits


def _slices(section: Section, limits: Limits) -> Iterator[SliceGate]:
    if isinstance(section.values.get("slices"), dict):
        for own in section.sections("slices"):
            own.refuse_others(_LIMITS)
            found = _limits(own)
            if found.is_empty:
                own.note("nothing is demanded: give min, max or max_drop")
            yield from _slice(own.name, found, section)
        return
    if section.has("slices") and limits.max_drop is None:
        section.note("a list of slices needs the metric's max_drop", "slices")
    for selector in section.texts("slices"):
        yield from _slice(selector, None, section)


def _slice(selector: str, limits: Limits | None, section: Section) -> Iterator[SliceGate]:
    by, colon, value = selector.partition(":")
    if by in ("tag", "language") and (value or not colon):
        yield SliceGate(by=by, value=value or None, limits=limits)
    else:
        expected = "tag, language, tag:NAME or language:CODE"
        section.note(f"'{selector}' names no slice: expected {expected}", "slices")


def _latency(section: Section) -> Iterator[LatencyBudget]:
    for budget in section.sections("max_latency"):
        budget.refuse_others(FIGURES)
        for figure in FIGURES:
            seconds = budget.number(figure, low=0.0, low_excluded=True)
            if seconds is not None:
                yield LatencyBudget(stage=budget.name, figure=figure, seconds=seconds)
