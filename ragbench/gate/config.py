"""What a gate demands: record, file, options."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, cast, get_type_hints

from msgspec import Meta

from ragbench.core.checked import AboveZero, Positive, Share, Weight
from ragbench.core.record import Record, field, replace
from ragbench.errors import ConfigError, Problem
from ragbench.io.settings import Place, converted
from ragbench.io.yaml_file import SettingsFile, YamlFile, read_yaml

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


_BelowOne = Annotated[float, Meta(ge=0, lt=1)]


class FigureLimits(Record):
    """The limits of one figure; None where nothing is demanded."""

    minimum: float | None = None
    maximum: float | None = None
    max_drop: float | None = None
    """Largest tolerated loss of the mean; for metrics where lower is better, its largest rise."""


class SliceGate(Record):
    """Limits on the cases of one slice, or of each slice of a kind."""

    by: str
    """``"tag"`` or ``"language"``."""
    value: str | None
    """None: each value that occurs."""
    limits: FigureLimits | None = None
    """None: the metric's own ``max_drop``."""


class MetricGate(Record):
    """The demands on one metric."""

    limits: FigureLimits = FigureLimits()
    slices: tuple[SliceGate, ...] = ()


class LatencyBudget(Record):
    """The longest time that a stage may take."""

    stage: str
    figure: str
    """One of `FIGURES`."""
    seconds: float
    """Of a rise, a share of the baseline's mean."""


class GateConfig(Record):
    """Everything that a gate demands."""

    baseline: Annotated[str, Meta(min_length=1)] | None = None
    """A path, or `AUTO`; None: no drop is looked for."""
    metrics: Mapping[str, MetricGate] = field(default_factory=dict[str, MetricGate])
    """By name. Empty with a baseline: every metric that has a better side, at ``max_drop``."""
    max_drop: _BelowOne = 0.02
    """Tolerated loss of metrics that are not named, as a share of their scale."""
    max_error_rate: Share = 0.05
    """Largest share of cases in which a stage or a gated metric may fail."""
    min_cases: Positive = 1
    """With fewer cases, a check is inconclusive."""
    latency: tuple[LatencyBudget, ...] = ()
    alpha: float = 0.05
    """Chance of any false alarm in two equal systems; halved where asking again has the rest."""
    undecided: Undecided = Undecided.PASS
    max_cost: Mapping[str, float] = field(default_factory=dict[str, float])
    """Largest cost of the judge's answers, by `EXTENTS`, in the currency of its price."""
    max_tokens: Mapping[str, float] = field(default_factory=dict[str, float])
    """Most tokens that the RAG reports (metric ``total_tokens``), by `TOKEN_EXTENTS`."""
    max_unmeasured: _BelowOne = 0.05
    """Largest tolerated drop of the share of cases that a metric is measured on."""
    must_pass: tuple[str, ...] = ()
    """Cases of which none may be lost: ids, ``tag:NAME``, ``language:CODE``."""
    min_common: Share = 0.5
    """Smallest share of the baseline's cases that must be in the run, unchanged."""
    labels: tuple[str, ...] = ()
    """Files of labels of people, which decide where both sides have some; or METRIC=FILE."""

    def __post_init__(self) -> None:
        given: Mapping[str, Any] = self.metrics
        if not all(isinstance(gate, MetricGate) for gate in given.values()):
            such = "MetricGate(limits=FigureLimits(minimum=0.8))"
            raise ConfigError(f"GateConfig(metrics=...) takes a MetricGate each, such as {such}")


_LIMITS = ("min", "max", "max_drop")
_OTHERS = ("metrics", "max_latency", "max_cost", "max_tokens")


_NAMED, _SUCH = "(.+)", "such as 'recall@5=0.8'"
_PER, _PER_TOKENS = f"({'|'.join(EXTENTS)})", f"({'|'.join(TOKEN_EXTENTS)})"
OPTIONS = {
    "minimum": ("--min", "metrics {} min", _NAMED, f"NAME=NUMBER, {_SUCH}"),
    "maximum": ("--max", "metrics {} max", _NAMED, f"NAME=NUMBER, {_SUCH}"),
    "max_drop": ("--max-drop", "metrics {} max_drop", _NAMED, f"NAME=NUMBER, 0 or more, {_SUCH}"),
    "max_latency": ("--max-latency", "max_latency {} {}", f"(.+):({'|'.join(FIGURES)})",
     f"STAGE:FIGURE=SECONDS, such as 'generate:p95=2.5'; figures are {', '.join(FIGURES)}"),
    "max_cost": ("--max-cost", "max_cost {}", _PER, "case=NUMBER or all=NUMBER, above 0"),
    "max_tokens": ("--max-tokens", "max_tokens {}", _PER_TOKENS,
                   "case=NUMBER or all=NUMBER, above 0, or rise=SHARE"),
}  # fmt: skip
"""Limits on the command line, by the names of its fields: the flag, where the section has it, what
the name before the last equals sign must match, and what is expected."""


@dataclass(kw_only=True, slots=True)
class _Section(SettingsFile):
    """The gate's section, in a file among those of other commands, with what options put there."""

    given: dict[Place, tuple[str, str]] = dataclasses.field(
        default_factory=dict[Place, tuple[str, str]]
    )
    """What options put there: each one's flag, and how it is refused."""

    def wrong(self, place: Place, message: str) -> None:
        """Names the whole place: a key such as ``min`` stands below many metrics."""
        if place in self.given:
            flag, refusal = self.given[place]
            self.problems.append(Problem(path=flag, message=refusal))
        else:
            problem = self.file.problem(place, message)
            self.problems.append(
                dataclasses.replace(problem, field=".".join(map(str, place)) or None)
            )

    def take(self, option: tuple[str, str, str, str], entries: Iterable[str]) -> None:
        """Puts what an option says over what the file says; of two limits of a name none wins."""
        flag, where, form, expected = option
        names: set[str] = set()
        for entry in entries:
            name, _, text = (part.strip() for part in entry.rpartition("="))
            found = re.fullmatch(form, name)
            refusal = f"'{entry}' is not understood: expected {expected}"
            if found is None or name.casefold() in names:
                twice = f"{name} is given more than once: give it once"
                self.problems.append(Problem(path=flag, message=twice if found else refusal))
                continue
            names.add(name.casefold())
            parts = iter(found.groups())
            place = ("gate", *(next(parts) if part == "{}" else part for part in where.split()))
            self.file = replace(self.file, value=_placed(self.file.value, place, text))
            if self.at(place) is text:
                self.given[place] = flag, refusal

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


def _placed(tree: Any, place: Place, value: object) -> Any:
    """Nested mappings with a value at a place; as they are where the way is barred."""
    if not place:
        return value
    if tree is not None and not isinstance(tree, Mapping):
        return tree
    known = {str(key): one for key, one in cast("Mapping[Any, Any]", tree or {}).items()}
    return {**known, place[0]: _placed(known.get(str(place[0])), place[1:], value)}


def read_gate_config(
    path: Path | None, *, optional: bool = False, options: Mapping[str, Iterable[str]] | None = None
) -> GateConfig:
    """The section of a file, with what options say in its place; without a file, theirs alone."""
    file = _Section(file=read_yaml(path) if path else YamlFile(path="", value={}, lines={(): 1}))
    for name, option in OPTIONS.items():
        file.take(option, (options or {}).get(name, ()))
    config, folder = GateConfig(), Path() if path is None else path.parent
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
        config = replace(config, baseline=str(folder / config.baseline))
    return replace(config, labels=tuple(_beside(folder, entry) for entry in config.labels))


def _beside(folder: Path, entry: str) -> str:
    """A file, or METRIC=FILE, that is named from the folder of the configuration."""
    metric, equals, file = entry.rpartition("=")
    return f"{metric}{equals}{folder / file}"


_DEFAULT = Path("ragbench.yaml")


def demanded(
    path: Path | None,
    *,
    baseline: str | None,
    strict: bool,
    must_pass: Iterable[str] = (),
    labels: Iterable[str] = (),
    **options: Iterable[str],
) -> GateConfig:
    """What a file demands, or ``ragbench.yaml`` where there is one, overruled by the options.

    Args:
        options: limits, by their names in `OPTIONS`.
    """
    default = _DEFAULT if _DEFAULT.is_file() else None
    config = read_gate_config(path or default, optional=path is None, options=options)
    overruling = {
        "baseline": baseline,
        "must_pass": tuple(must_pass),
        "labels": tuple(labels),
        "undecided": Undecided.INCONCLUSIVE if strict else None,
    }
    known: dict[str, Any] = {name: value for name, value in overruling.items() if value}
    return replace(config, **known)


_KINDS = {
    name: kind
    for name, kind in get_type_hints(GateConfig, include_extras=True).items()
    if name not in ("metrics", "latency", "alpha", "max_cost", "max_tokens")
}
"""Of the settings that are one value each."""


def _budget_values(file: _Section, place: Place, names: Sequence[str]) -> dict[str, float]:
    file.mapping(place, names)
    found = {name: file.value((*place, name), AboveZero) for name in names}
    return {name: number for name, number in found.items() if number is not None}


def _metric(file: _Section, place: Place) -> MetricGate:
    given = file.mapping(place, (*_LIMITS, "slices"))
    limits = _limits(file, place)
    if all(one is None for one in given.values()):
        file.wrong(place, "no check: give min, max, max_drop or slices")
    return MetricGate(limits=limits, slices=tuple(_slices(file, (*place, "slices"), limits)))


def _limits(file: _Section, place: Place) -> FigureLimits:
    limits = FigureLimits(
        minimum=file.value((*place, "min"), float),
        maximum=file.value((*place, "max"), float),
        max_drop=file.value((*place, "max_drop"), Weight),
    )
    low, high = limits.minimum, limits.maximum
    is_own = not file.given.keys() & {(*place, "min"), (*place, "max")}
    if is_own and low is not None and high is not None and low > high:
        file.wrong(place, f"min is {low:g} and max is {high:g}: nothing lies between")
    return limits


def _slices(file: _Section, place: Place, limits: FigureLimits) -> Iterator[SliceGate]:
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
