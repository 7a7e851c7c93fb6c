"""What a gate demands: record, file, options."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from ragbench.errors import ConfigError, DataError, Problem
from ragbench.io.settings import Place, converted
from ragbench.io.yaml_file import SettingsFile, read_yaml

AUTO = "auto"
"""The baseline's name that stands for the best earlier run."""

RISE = "rise"
"""The budget that is a share by which this run may lie above the baseline."""
FIGURES = ("mean", "p50", "p95", "longest", "total", RISE)
"""Figures of a stage's wall times."""

EXTENTS = ("case", "all")
"""What a budget of cost or tokens is for: the mean of a case, or the whole run."""
TOKEN_EXTENTS = (*EXTENTS, RISE)


class Undecided(StrEnum):
    """What a drop that can neither be shown nor ruled out makes of the verdict."""

    PASS = "pass"
    """Passed, with a note of what these cases could not have shown: for every day."""
    INCONCLUSIVE = "inconclusive"
    """Cannot tell: for releases."""
    FAIL = "fail"


@dataclass(frozen=True, kw_only=True, slots=True)
class FigureLimits:
    """The limits of one figure; None where nothing is demanded."""

    minimum: float | None = None
    maximum: float | None = None
    max_drop: float | None = None
    """Largest tolerated loss of the mean; for metrics where lower is better, its largest rise."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SliceGate:
    """Limits on the cases of one slice, or of each slice of a kind."""

    by: str
    """``"tag"`` or ``"language"``."""
    value: str | None
    """None: each value that occurs."""
    limits: FigureLimits | None = None
    """None: the metric's own ``max_drop``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricGate:
    """The demands on one metric."""

    limits: FigureLimits = FigureLimits()
    slices: tuple[SliceGate, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class LatencyBudget:
    """The longest time that a stage may take."""

    stage: str
    figure: str
    """One of `FIGURES`."""
    seconds: float
    """Of a rise, a share of the baseline's mean."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GateConfig:
    """Everything that a gate demands."""

    baseline: str | None = None
    """A path, or `AUTO`; None: no drop is looked for."""
    metrics: Mapping[str, MetricGate] = field(default_factory=dict[str, MetricGate])
    """By name. Empty with a baseline: every metric that has a better side, at ``max_drop``."""
    max_drop: float = 0.02
    """Tolerated loss of metrics that are not named, as a share of their scale."""
    max_error_rate: float = 0.05
    """Largest share of cases in which a stage or a gated metric may fail."""
    min_cases: int = 1
    """With fewer cases, a check is inconclusive."""
    latency: tuple[LatencyBudget, ...] = ()
    alpha: float = 0.05
    """Chance of any false alarm in two equal systems; halved where asking again has the rest."""
    undecided: Undecided = Undecided.PASS
    max_cost: Mapping[str, float] = field(default_factory=dict[str, float])
    """Largest cost of the judge's answers, by `EXTENTS`, in the currency of its price."""
    max_tokens: Mapping[str, float] = field(default_factory=dict[str, float])
    """Most tokens that the RAG reports (metric ``total_tokens``), by `TOKEN_EXTENTS`."""
    max_unmeasured: float = 0.05
    """Largest tolerated drop of the share of cases that a metric is measured on."""
    must_pass: tuple[str, ...] = ()
    """Cases of which none may be lost: ids, ``tag:NAME``, ``language:CODE``."""
    min_common: float = 0.5
    """Smallest share of the baseline's cases that must be in the run, unchanged."""
    labels: tuple[str, ...] = ()
    """Files of labels of people, which decide where both sides have some; or METRIC=FILE."""


_SHARE = Annotated[float, Meta(ge=0, le=1)]
_BELOW_ONE = Annotated[float, Meta(ge=0, lt=1)]
_ABOVE_ZERO = Annotated[float, Meta(gt=0)]
_LIMITS = ("min", "max", "max_drop")
_OTHERS = ("metrics", "max_latency", "max_cost", "max_tokens")


class _GateFile(SettingsFile):
    """The file that the gate's section stands in, among those of other commands."""

    def wrong(self, place: Place, message: str) -> None:
        """Names the whole place: a key such as ``min`` stands below many metrics."""
        problem = self.file.problem(place, message)
        self.problems.append(replace(problem, field=".".join(map(str, place)) or None))

    def value(self, place: Place, kind: Any) -> Any:
        """A value as a type, with the range that it names; None when it is not there, or wrong.

        A number may be written as a text: YAML 1.1 takes 1e-3 for one.
        """
        given = self.at(place)
        try:
            return None if given is None else converted(given, kind, "it", strict=False)
        except ConfigError as error:
            self.wrong(place, str(error))
            return None

    def sections(self, place: Place) -> Iterator[Place]:
        """The places of the mappings in a mapping; what is none of them is noted."""
        for name in self.mapping(place):
            inner, known = (*place, name), len(self.problems)
            self.mapping(inner)
            if len(self.problems) == known:
                yield inner


def read_gate_config(path: Path, *, optional: bool = False) -> GateConfig:
    file = _GateFile(file=read_yaml(path))
    config = GateConfig()
    if file.mapping(()).get("gate") is not None:
        place = ("gate",)
        file.mapping(place, (*_KINDS, *_OTHERS))
        known = {key: file.value((*place, key), kind) for key, kind in _KINDS.items()}
        metrics = file.sections((*place, "metrics"))
        config = replace(
            GateConfig(
                metrics={str(metric[-1]): _metric(file, metric) for metric in metrics},
                latency=tuple(
                    LatencyBudget(stage=str(stage[-1]), figure=figure, seconds=seconds)
                    for stage in file.sections((*place, "max_latency"))
                    for figure, seconds in _budget_values(file, stage, FIGURES).items()
                ),
                max_cost=_budget_values(file, (*place, "max_cost"), EXTENTS),
                max_tokens=_budget_values(file, (*place, "max_tokens"), TOKEN_EXTENTS),
            ),
            **{key: value for key, value in known.items() if value is not None},
        )
    elif not optional and not file.problems:
        file.wrong((), "there is no section 'gate', or nothing in it")
    file.finish()
    if config.baseline is not None and config.baseline != AUTO:
        config = replace(config, baseline=str(path.parent / config.baseline))
    return replace(config, labels=tuple(_beside(path, entry) for entry in config.labels))


def _beside(path: Path, entry: str) -> str:
    """A file, or METRIC=FILE, that is named from the folder of the configuration."""
    metric, equals, file = entry.rpartition("=")
    return f"{metric}{equals}{path.parent / file}"


_DEFAULT = Path("ragbench.yaml")


def demanded(path: Path | None, *, baseline: str | None, strict: bool) -> GateConfig:
    """What a file demands, or ``ragbench.yaml`` where there is one, overruled by the options."""
    config = GateConfig()
    if path is not None:
        config = read_gate_config(path)
    elif _DEFAULT.is_file():
        config = read_gate_config(_DEFAULT, optional=True)
    if baseline is not None:
        config = replace(config, baseline=baseline)
    return replace(config, undecided=Undecided.INCONCLUSIVE) if strict else config


_KINDS: Mapping[str, Any] = {
    "baseline": Annotated[str, Meta(min_length=1)],
    "max_drop": _BELOW_ONE,
    "max_error_rate": _SHARE,
    "max_unmeasured": _BELOW_ONE,
    "min_common": _SHARE,
    "min_cases": Annotated[int, Meta(ge=1)],
    "undecided": Undecided,
    "must_pass": tuple[str, ...],
    "labels": tuple[str, ...],
}
"""Of the settings that are one value each."""


def _budget_values(file: _GateFile, place: Place, names: Sequence[str]) -> dict[str, float]:
    file.mapping(place, names)
    found = {name: file.value((*place, name), _ABOVE_ZERO) for name in names}
    return {name: number for name, number in found.items() if number is not None}


def _metric(file: _GateFile, place: Place) -> MetricGate:
    given = file.mapping(place, (*_LIMITS, "slices"))
    limits = _limits(file, place)
    if limits == FigureLimits() and given.get("slices") is None:
        file.wrong(place, "no check: give min, max, max_drop or slices")
    return MetricGate(limits=limits, slices=tuple(_slices(file, (*place, "slices"), limits)))


def _limits(file: _GateFile, place: Place) -> FigureLimits:
    limits = FigureLimits(
        minimum=file.value((*place, "min"), float),
        maximum=file.value((*place, "max"), float),
        max_drop=file.value((*place, "max_drop"), Annotated[float, Meta(ge=0)]),
    )
    low, high = limits.minimum, limits.maximum
    if low is not None and high is not None and low > high:
        file.wrong(place, f"min is {low:g} and max is {high:g}: nothing lies between")
    return limits


def _slices(file: _GateFile, place: Place, limits: FigureLimits) -> Iterator[SliceGate]:
    given = file.at(place)
    named: list[tuple[str, FigureLimits | None]] = []
    if isinstance(given, Mapping):
        for inner in file.sections(place):
            file.mapping(inner, _LIMITS)
            inside = _limits(file, inner)
            if inside == FigureLimits():
                file.wrong(inner, "no check: give min, max or max_drop")
            named.append((str(inner[-1]), inside))
    elif given is not None:
        if limits.max_drop is None:
            file.wrong(place, "a list of slices needs the metric's max_drop")
        named = [(selector, None) for selector in file.value(place, list[str]) or ()]
    for selector, own in named:
        by, colon, value = selector.partition(":")
        if by in ("tag", "language") and (value or not colon):
            yield SliceGate(by=by, value=value or None, limits=own)
        else:
            expected = "tag, language, tag:NAME or language:CODE"
            file.wrong(place, f"'{selector}' names no slice: expected {expected}")


def with_options(
    config: GateConfig,
    *,
    minimum: Iterable[str] = (),
    maximum: Iterable[str] = (),
    max_drop: Iterable[str] = (),
    max_latency: Iterable[str] = (),
    max_cost: Iterable[str] = (),
    max_tokens: Iterable[str] = (),
    must_pass: Iterable[str] = (),
    labels: Iterable[str] = (),
) -> GateConfig:
    """The configuration with limits from the command line, which override those of the file."""
    problems: list[Problem] = []
    metrics = dict(config.metrics)
    for option, field_name, entries, least in (
        ("--min", "minimum", minimum, -math.inf),
        ("--max", "maximum", maximum, -math.inf),
        ("--max-drop", "max_drop", max_drop, 0.0),
    ):
        expected = f"NAME=NUMBER{'' if least else ', 0 or more'}, such as 'recall@5=0.8'"
        for name, number in _numbers(problems, option, entries, expected, least=least).items():
            known = metrics.get(name, MetricGate())
            metrics[name] = replace(known, limits=replace(known.limits, **{field_name: number}))
    latency = {(budget.stage, budget.figure): budget for budget in config.latency}
    expected = f"STAGE:FIGURE=SECONDS, such as 'generate:p95=2.5'; figures are {', '.join(FIGURES)}"
    form = f".+:({'|'.join(FIGURES)})"
    for name, number in _numbers(problems, "--max-latency", max_latency, expected, form).items():
        stage, _, figure = name.rpartition(":")
        latency[stage, figure] = LatencyBudget(stage=stage, figure=figure, seconds=number)
    expected, form = "case=NUMBER or all=NUMBER, above 0", "|".join(EXTENTS)
    cost = _numbers(problems, "--max-cost", max_cost, expected, form)
    expected, form = f"{expected}, or rise=SHARE", "|".join(TOKEN_EXTENTS)
    tokens = _numbers(problems, "--max-tokens", max_tokens, expected, form)
    if problems:
        raise DataError(problems)
    return replace(
        config,
        metrics=metrics,
        latency=tuple(latency.values()),
        max_cost={**config.max_cost, **cost},
        max_tokens={**config.max_tokens, **tokens},
        must_pass=tuple(must_pass) or config.must_pass,
        labels=tuple(labels) or config.labels,
    )


def _numbers(
    problems: list[Problem],
    option: str,
    entries: Iterable[str],
    expected: str,
    form: str = ".+",
    *,
    least: float = math.ulp(0.0),
) -> dict[str, float]:
    """Each entry's number by its name; the last equals sign parts them.

    A name may hold one. Of two limits of one name neither may silently win.

    Args:
        form: what a name must match.
        least: the smallest number there may be: what is above 0 when not given.
    """
    found: dict[str, float] = {}
    for entry in entries:
        name, _, text = entry.rpartition("=")
        name = name.strip()
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        message = ""
        if not re.fullmatch(form, name) or not math.isfinite(number) or number < least:
            message = f"'{entry}' is not understood: expected {expected}"
        elif name.casefold() in map(str.casefold, found):
            message = f"{name} is given more than once: give it once"
        if message:
            problems.append(Problem(path=option, message=message))
        else:
            found[name] = number
    return found
