"""What a gate demands: record, file, options."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast, get_type_hints

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
"""What a budget of tokens is for: these may also be compared with the baseline's."""


class Undecided(StrEnum):
    """What a drop that can neither be shown nor ruled out makes of the verdict."""

    PASS = "pass"
    """Passed, with a note of what these cases could not have shown: for every day."""
    INCONCLUSIVE = "inconclusive"
    """Cannot tell: for releases."""
    FAIL = "fail"


_BelowOne = Annotated[float, Meta(ge=0, lt=1)]
"""A share of all, which is never tolerated as a whole: then nothing could fail."""


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
        """Refuses plain numbers as demands on metrics: a number may be a minimum or a drop.

        Someone who builds a configuration in Python would else get an error from deep in a gate.
        """
        # Typed as Any: whoever builds a configuration by hand may give numbers.
        gates: Mapping[str, Any] = self.metrics
        if not all(isinstance(gate, MetricGate) for gate in gates.values()):
            raise ConfigError(
                "GateConfig(metrics=...) takes a MetricGate each, such as "
                "MetricGate(limits=FigureLimits(minimum=0.8))"
            )


_LIMITS = ("min", "max", "max_drop")
"""Keys of the limits of a figure."""
_GROUPS = ("metrics", "max_latency", "max_cost", "max_tokens")
"""Keys of the gate's section that hold a mapping of their own."""


class LimitOption(NamedTuple):
    """Limits on the command line."""

    flag: str
    place: str
    """Where the gate's section has it; ``{}`` stands for a part of the name."""
    form: str
    """What the name before the last equals sign must match."""
    expected: str


_METRIC = "(.+)"
"""A name of a metric may hold anything."""
_EXAMPLE = "such as 'recall@5=0.8'"
OPTIONS = {
    "minimum": LimitOption("--min", "metrics {} min", _METRIC, f"NAME=NUMBER, {_EXAMPLE}"),
    "maximum": LimitOption("--max", "metrics {} max", _METRIC, f"NAME=NUMBER, {_EXAMPLE}"),
    "max_drop": LimitOption(
        "--max-drop", "metrics {} max_drop", _METRIC, f"NAME=NUMBER, 0 or more, {_EXAMPLE}"
    ),
    "max_latency": LimitOption(
        "--max-latency",
        "max_latency {} {}",
        f"(.+):({'|'.join(FIGURES)})",
        "STAGE:FIGURE=SECONDS, such as 'generate:p95=2.5'; figures are " + ", ".join(FIGURES),
    ),
    "max_cost": LimitOption(
        "--max-cost",
        "max_cost {}",
        f"({'|'.join(EXTENTS)})",
        "case=NUMBER or all=NUMBER, above 0",
    ),
    "max_tokens": LimitOption(
        "--max-tokens",
        "max_tokens {}",
        f"({'|'.join(TOKEN_EXTENTS)})",
        "case=NUMBER or all=NUMBER, above 0, or rise=SHARE",
    ),
}
"""By the names of their fields."""


@dataclass(kw_only=True, slots=True)
class _Section(SettingsFile):
    """The gate's section, in a file among those of other commands, with what options put there."""

    options: dict[Place, tuple[str, str]] = dataclasses.field(
        default_factory=dict[Place, tuple[str, str]]
    )
    """What options put there: each one's flag, and how it is refused."""

    def wrong(self, place: Place, message: str) -> None:
        """Notes a mistake in the gate's section: at its place in the file, or at the option's flag.

        The whole place is named, since a key such as ``min`` stands below many metrics.
        """
        # A mistake in a value that an option put there is the option's.
        if place in self.options:
            flag, refusal = self.options[place]
            self.problems.append(Problem(path=flag, message=refusal))
        else:
            problem = self.file.problem(place, message)
            field_name = ".".join(map(str, place)) or None
            self.problems.append(dataclasses.replace(problem, field=field_name))

    def take(self, option: LimitOption, entries: Iterable[str]) -> None:
        """Puts the limits of an option of the command line over those of the file.

        Of two limits with one name none wins: both are refused, since either may be a typing error.

        Args:
            entries: as typed, such as ``recall@5=0.8``.
        """
        # Names of this option so far, without regard to capitals.
        names: set[str] = set()
        for entry in entries:
            # From the right: names of metrics may hold an equals sign, numbers hold none.
            name, _, number = entry.rpartition("=")
            name = name.strip()
            text = number.strip()
            refusal = f"'{entry}' is not understood: expected {option.expected}"
            match = re.fullmatch(option.form, name)
            if match is None:
                self.problems.append(Problem(path=option.flag, message=refusal))
                continue
            if name.casefold() in names:
                repeated = f"{name} is given more than once: give it once"
                self.problems.append(Problem(path=option.flag, message=repeated))
                continue
            names.add(name.casefold())
            place = _place_of_option(option, match.groups())
            content = _with_value(self.file.value, place, text)
            # The file itself stays as it was on disk: only the tree in memory is changed.
            self.file = replace(self.file, value=content)
            # The very text that was put there: a file of another form leaves no place for it.
            if self.at(place) is text:
                self.options[place] = option.flag, refusal

    def value(self, place: Place, kind: Any) -> Any:
        """A value of the gate's section, converted to a type; None when it is absent or wrong.

        A wrong value is noted, so that all mistakes of a file are reported together. A number may
        be written as a text: YAML 1.1 reads 1e-3 as a text.
        """
        written = self.at(place)
        if written is None:
            return None
        try:
            return converted(written, kind, "it", strict=False)
        except ConfigError as error:
            self.wrong(place, str(error))
            return None

    def sections(self, place: Place) -> Iterator[Place]:
        """The places of the mappings inside a mapping, such as those of each metric's demands.

        An entry that is no mapping is noted as a mistake and left out.
        """
        for name in self.mapping(place):
            inner_place = (*place, name)
            problems_before = len(self.problems)
            # Notes a mistake where the entry is no mapping.
            self.mapping(inner_place)
            if len(self.problems) == problems_before:
                yield inner_place


def _place_of_option(option: LimitOption, names: Sequence[str]) -> Place:
    """The keys from the file's top to the limit that an option sets.

    For example ``gate``, ``metrics``, ``recall@5``, ``min`` for the option ``--min``.

    An option and a key of the file then mean the same, and one replaces the other.

    Args:
        names: what takes the place of each ``{}`` in `LimitOption.place`, such as a metric.
    """
    remaining = list(names)
    # `pop(0)`: the names are used up in the order of the places.
    place: list[str] = ["gate"]
    for part in option.place.split():
        place.append(remaining.pop(0) if part == "{}" else part)
    return tuple(place)


def _with_value(tree: Any, place: Place, value: object) -> Any:
    """Nested mappings with a value put at a place; unchanged where the way is barred.

    A text or a list where a mapping should be bars the way: this is the file's own mistake, which
    its reader reports.
    """
    if not place:
        return value
    # Unchanged: the file's reader reports what is wrong with its form.
    if tree is not None and not isinstance(tree, Mapping):
        return tree
    branches: dict[Any, Any] = {}
    for key, branch in cast("Mapping[Any, Any]", tree or {}).items():
        branches[str(key)] = branch
    key = place[0]
    # Keys as texts, since YAML may read a name such as 404 as a number.
    branches[key] = _with_value(branches.get(str(key)), place[1:], value)
    return branches


def read_gate_config(
    path: Path | None, *, optional: bool = False, options: Mapping[str, Iterable[str]] | None = None
) -> GateConfig:
    """The gate's configuration from a file and from options, which overrule the file.

    Without a file, the options alone make it.

    Args:
        path: the file; None where there is none.
        optional: whether the file may lack the section, as a ``ragbench.yaml`` by default does.
        options: limits, by their names in `OPTIONS`.

    Raises:
        ConfigError: with every mistake of the file and of the options at once.
    """
    # A file without content, in which options find their place.
    content = YamlFile(path="", value={}, lines={(): 1})
    if path is not None:
        content = read_yaml(path)
    file = _Section(file=content)
    entries_of_options = options or {}
    # Before the section is read: options are then part of it.
    for name, option in OPTIONS.items():
        file.take(option, entries_of_options.get(name, ()))
    config = GateConfig()
    # Options alone make a section, too.
    if file.mapping(()).get("gate") is not None:
        config = _read_section(file)
    elif not optional and not file.problems:
        # With mistakes of options, theirs are enough.
        file.wrong((), "there is no section 'gate', or nothing in it")
    # Raises all mistakes at once.
    file.finish()

    # Paths in a file are meant from the folder that it lies in.
    folder = Path() if path is None else path.parent
    if config.baseline is not None and config.baseline != AUTO:
        config = replace(config, baseline=str(folder / config.baseline))
    labels = tuple(_beside(folder, entry) for entry in config.labels)
    return replace(config, labels=labels)


def _read_section(file: _Section) -> GateConfig:
    """The configuration in a file's section ``gate``.

    Mistakes are noted in the file, so that a user sees all of them together.
    """
    place = ("gate",)
    file.mapping(place, (*SINGLE_VALUES, *_GROUPS))
    values: dict[str, Any] = {}
    for key, kind in SINGLE_VALUES.items():
        value = file.value((*place, key), kind)
        # Absent keys keep the record's default.
        if value is not None:
            values[key] = value
    metrics: dict[str, MetricGate] = {}
    for metric in file.sections((*place, "metrics")):
        metrics[str(metric[-1])] = _metric_gate(file, metric)
    latency: list[LatencyBudget] = []
    for stage in file.sections((*place, "max_latency")):
        for figure, seconds in _budget_values(file, stage, FIGURES).items():
            latency.append(LatencyBudget(stage=str(stage[-1]), figure=figure, seconds=seconds))
    config = GateConfig(
        metrics=metrics,
        latency=tuple(latency),
        max_cost=_budget_values(file, (*place, "max_cost"), EXTENTS),
        max_tokens=_budget_values(file, (*place, "max_tokens"), TOKEN_EXTENTS),
    )
    return replace(config, **values)


def _beside(folder: Path, entry: str) -> str:
    """A path of labels, or METRIC=FILE, with the file taken from the configuration's folder.

    A configuration can then be used from any folder.
    """
    # From the right: a metric's name may hold an equals sign; without one, `metric` and `equals`
    # are "".
    metric, equals, file = entry.rpartition("=")
    return f"{metric}{equals}{folder / file}"


_DEFAULT_FILE = Path("ragbench.yaml")
"""The file that is read where no file is named."""


def demanded(
    path: Path | None,
    *,
    baseline: str | None,
    strict: bool,
    must_pass: Iterable[str] = (),
    labels: Iterable[str] = (),
    **options: Iterable[str],
) -> GateConfig:
    """The gate's configuration for a command: from a file, overruled by options.

    Where no file is named, ``ragbench.yaml`` is read if there is one.

    Args:
        path: the file that the user named; None for none.
        strict: whether a drop that is neither shown nor ruled out makes the verdict inconclusive.
        options: limits, by their names in `OPTIONS`.
    """
    file = path
    if file is None and _DEFAULT_FILE.is_file():
        file = _DEFAULT_FILE
    # A file that the user names must have the section.
    config = read_gate_config(file, optional=path is None, options=options)
    if baseline:
        config = replace(config, baseline=baseline)
    # Options take the place of the file's list, and are not added to it.
    cases = tuple(must_pass)
    if cases:
        config = replace(config, must_pass=cases)
    files = tuple(labels)
    if files:
        config = replace(config, labels=files)
    if strict:
        config = replace(config, undecided=Undecided.INCONCLUSIVE)
    return config


SINGLE_VALUES = {
    name: kind
    for name, kind in get_type_hints(GateConfig, include_extras=True).items()
    if name not in ("metrics", "latency", "alpha", "max_cost", "max_tokens")
}
"""The type of each setting that is one value, by its key."""


def _budget_values(file: _Section, place: Place, names: Sequence[str]) -> dict[str, float]:
    """The limits of one budget, by what each limits, such as ``case`` or ``p95``.

    A budget is the section of a stage's times, of cost or of tokens. Unknown names and limits that
    are not above 0 are noted as mistakes.

    A wrong name would leave a budget without effect.
    """
    file.mapping(place, names)
    limits: dict[str, float] = {}
    for name in names:
        limit = file.value((*place, name), AboveZero)
        if limit is not None:
            limits[name] = limit
    return limits


def _metric_gate(file: _Section, place: Place) -> MetricGate:
    """The demands on one metric: its limits and its slices.

    A metric without any demand is noted as a mistake, since nothing would be checked.

    A slice is the cases of one tag or language.
    """
    demands = file.mapping(place, (*_LIMITS, "slices"))
    limits = _limits_at(file, place)
    # Keys without a value demand nothing.
    if all(demand is None for demand in demands.values()):
        file.wrong(place, "no check: give min, max, max_drop or slices")
    slices = tuple(_slices_at(file, (*place, "slices"), limits))
    return MetricGate(limits=limits, slices=slices)


def _limits_at(file: _Section, place: Place) -> FigureLimits:
    """The limits ``min``, ``max`` and ``max_drop`` at a place of the file.

    A minimum above the maximum is noted as a mistake, since every run would fail.
    """
    limits = FigureLimits(
        minimum=file.value((*place, "min"), float),
        maximum=file.value((*place, "max"), float),
        max_drop=file.value((*place, "max_drop"), Weight),
    )
    low = limits.minimum
    high = limits.maximum
    # An option may contradict the file: then no line of the file is wrong.
    is_of_file = not file.options.keys() & {(*place, "min"), (*place, "max")}
    if is_of_file and low is not None and high is not None and low > high:
        file.wrong(place, f"min is {low:g} and max is {high:g}: nothing lies between")
    return limits


def _slices_at(file: _Section, place: Place, limits: FigureLimits) -> Iterator[SliceGate]:
    """The slices of a metric, each with its limits: a slice is the cases of a tag or a language.

    The file has a list of them, held to the metric's own ``max_drop``, or a mapping to their
    limits.

    A loss in one language may be hidden by gains in the others.
    """
    written = file.at(place)
    selectors: list[tuple[str, FigureLimits | None]] = []
    if isinstance(written, Mapping):
        for slice_place in file.sections(place):
            file.mapping(slice_place, _LIMITS)
            slice_limits = _limits_at(file, slice_place)
            if slice_limits == FigureLimits():
                file.wrong(slice_place, "no check: give min, max or max_drop")
            selectors.append((str(slice_place[-1]), slice_limits))
    elif written is not None:
        if limits.max_drop is None:
            file.wrong(place, "a list of slices needs the metric's max_drop")
        for selector in file.value(place, list[str]) or ():
            selectors.append((selector, None))
    for selector, own_limits in selectors:
        by, colon, value = selector.partition(":")
        # "tag" or "language", alone for all of its values.
        is_kind = by in ("tag", "language")
        lacks_value = bool(colon) and not value  # "tag:" names neither all tags nor one
        if is_kind and not lacks_value:
            yield SliceGate(by=by, value=value or None, limits=own_limits)
        else:
            expected = "tag, language, tag:NAME or language:CODE"
            file.wrong(place, f"'{selector}' names no slice: expected {expected}")
