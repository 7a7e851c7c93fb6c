"""What the functions of metrics give for cases, cell by cell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache, partial
from numbers import Real
from typing import Any

from ragbench.core.metric import Direction, Metric, Need, Skip
from ragbench.core.outcome import Cell, Failure, Status
from ragbench.core.trace import Trace
from ragbench.errors import ConfigError, InterfaceError, MissingExtraError
from ragbench.metrics.matching import Matching
from ragbench.metrics.registry import computable
from ragbench.metrics.window import Compared, Window, blocked

_REMEMBERED = 4096
"""Values of a metric whose cells are kept: most metrics take few, and a cell never changes."""
_NO_VALUE = Skip("the metric gave no value")
_TOLERANCE = 1e-9
"""How far rounding may take a value out of its metric's range."""


class Plan:
    """Scores cases by a list of metrics, a window of cases at a time."""

    def __init__(self, metrics: Sequence[Metric], *, matching: Matching = Matching.AUTO) -> None:
        """Loads what the metrics need, so that missing packages are known before anything runs."""
        judged = [metric.name for metric in metrics if metric.is_judged]
        if judged:
            names = ",".join(judged)
            raise ConfigError(
                f"{names} needs a language model, which this command does not call. Compute it "
                f"with 'ragbench eval -m {names}'"
            )
        self.metrics = tuple(metrics)
        self.matching = matching
        self._columns = [
            _Column(one if one.definition.formula else computable(one)) for one in metrics
        ]
        self._groups: dict[tuple[frozenset[Need], bool], list[int]] = {}
        for position, column in enumerate(self._columns):
            definition = column.definition
            group = (definition.needs, definition.abstains)
            self._groups.setdefault(group, []).append(position)

    def score(
        self, traces: Sequence[Trace], matched: Sequence[Compared] | None = None
    ) -> list[tuple[Cell, ...]]:
        """Scores a window of cases.

        Never raises for a case or a metric that cannot be scored: its cell says so.
        """
        if not self.metrics:
            return [()] * len(traces)
        whole = Window(traces, self.matching, matched)
        columns: list[Sequence[Cell]] = [()] * len(self.metrics)
        for (needs, abstains), positions in self._groups.items():
            known = [blocked(trace, needs=needs, abstains=abstains) for trace in traces]
            rows = [row for row, cell in enumerate(known) if cell is None]
            part = whole
            if len(rows) < len(traces):
                given = None if matched is None else [matched[row] for row in rows]
                part = Window([traces[row] for row in rows], self.matching, given)
            for position in positions:
                scored = iter(self._columns[position].cells(part) if rows else ())
                columns[position] = [cell or next(scored) for cell in known]
        return list(zip(*columns, strict=True))


class _Column:
    def __init__(self, metric: Metric) -> None:
        self.definition = metric.definition
        formula = metric.definition.formula
        if formula is None:  # made by hand: `computable` gives none such
            raise ConfigError(f"'{metric.name}' has no function that computes it")
        if formula.prepare is not None:
            formula.prepare()
        given: dict[str, Any] = dict(metric.parameters)
        if formula.cutoff is not None and metric.cutoff is not None:
            given[formula.cutoff] = metric.cutoff
        self._function = partial(formula.function, **given) if given else formula.function
        self._is_batch = formula.batch
        self._arguments = formula.arguments
        self._reads_ranking = "ranking" in formula.arguments
        self._takes_best = (
            "reference" in formula.arguments
            and not self._reads_ranking
            and metric.definition.direction is not Direction.NEITHER
        )
        # Of a pure function of the ranking alone, what it gave for one is what it gives for the
        # next: there are few rankings, and equal ones are one object.
        self._is_pure = formula.arguments == ("ranking",) and metric.definition.deterministic
        self._by_ranking: dict[object, Cell] = {}
        self._known: dict[object, Cell] = {}

    def cells(self, window: Window) -> list[Cell]:
        columns = [window.column(argument) for argument in self._arguments]
        if self._is_pure:
            known = self._by_ranking
            if len(known) > _REMEMBERED:
                known.clear()
            new = [one for one in dict.fromkeys(columns[0]) if one not in known]
            if new:
                known.update(zip(new, self._computed([new]), strict=True))
            return [known[ranking] for ranking in columns[0]]
        if self._takes_best:
            references = window.column("references")
            if any(len(several) > 1 for several in references):
                return self._best(columns, references)
        return self._computed(columns)

    def _best(self, columns: list[list[Any]], references: list[tuple[str, ...]]) -> list[Cell]:
        """The best of what the function gives for each right answer of a case."""
        owners = [row for row, several in enumerate(references) for _ in several]
        each = [
            [reference for several in references for reference in several]
            if argument == "reference"
            else [column[row] for row in owners]
            for argument, column in zip(self._arguments, columns, strict=True)
        ]
        cells = iter(self._computed(each))
        choose = min if self.definition.direction is Direction.LOWER else max
        best: list[Cell] = []
        for several in references:
            found = [next(cells) for _ in several]
            failed = [cell for cell in found if cell.status is Status.FAILED]
            values = {cell.value: cell for cell in found if cell.value is not None}
            best.append((failed or found)[0] if failed or not values else values[choose(values)])
        return best

    def _computed(self, columns: list[list[Any]]) -> list[Cell]:
        values, known = self._values(columns), self._known
        try:
            return [known.get(value) or self._cell(value) for value in values]
        except TypeError:  # a value that has no hash
            return [self._cell(value) for value in values]

    def _values(self, columns: list[list[Any]]) -> list[Any]:
        """What the function gives; it is not asked about a case whose ranking says why not."""
        if self._reads_ranking:
            rankings = columns[self._arguments.index("ranking")]
            there = [row for row, one in enumerate(rankings) if not isinstance(one, Skip)]
            if len(there) < len(rankings):
                found = iter(self._values([[column[row] for row in there] for column in columns]))
                return [one if isinstance(one, Skip) else next(found) for one in rankings]
        if self._is_batch:
            return self._of_batch(columns)
        values: list[Any] = []
        # A map goes on with the next case after the function has raised for one.
        given = map(self._function, *columns)
        while len(values) < len(columns[0]):
            try:
                for value in given:
                    values.append(value)
            except (ConfigError, MissingExtraError):
                raise
            except (Exception, SystemExit) as error:  # noqa: BLE001 - it becomes a cell
                values.append(_failed(error))
            else:
                if len(values) < len(columns[0]):
                    values.append(_failed(RuntimeError("the metric raised StopIteration")))
        return values

    def _of_batch(self, columns: list[list[Any]]) -> list[Any]:
        """Calls the function; where that fails, in halves, so that one case costs one cell."""
        rows = len(columns[0])
        if not rows:
            return []
        try:
            values = list(self._function(*columns))
            if len(values) != rows:
                raise InterfaceError(f"the metric gave {len(values)} values for {rows} cases")
        except (ConfigError, MissingExtraError):
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - it becomes a cell
            if rows == 1:
                return [_failed(error)]
            half = rows // 2
            first = self._of_batch([column[:half] for column in columns])
            return [*first, *self._of_batch([column[half:] for column in columns])]
        return values

    def _cell(self, value: object) -> Cell:
        if isinstance(value, Cell):
            return value
        if isinstance(value, Exception):
            return _failed(value)
        if value is None or isinstance(value, Skip):
            cell = Cell.skipped((value or _NO_VALUE).reason)
        else:
            number = value if type(value) is float else _number(value)
            if number is None:
                kind, text = type(value).__name__, repr(value)
                text = text if len(text) <= 60 else f"{text[:57]}..."
                return _unusable(f"{text} (a {kind}), which is not a number")
            if not math.isfinite(number):
                return _unusable(f"{number}, which is not a finite number")
            low, high = self.definition.low, self.definition.high
            if (low is not None and number < low - _TOLERANCE) or (
                high is not None and number > high + _TOLERANCE
            ):
                return _unusable(
                    f"{number:g}, outside of its range, {_range(low, high)}: give @metric the "
                    "right low and high, None where there is no end"
                )
            value, cell = number, _measured(number)
        if len(self._known) < _REMEMBERED:
            self._known[value] = cell
        return cell


@lru_cache(maxsize=_REMEMBERED)
def _measured(number: float) -> Cell:
    return Cell.measured(number)


def _number(value: object) -> float | None:
    """A number of any library as a float; None for anything else."""
    item: Any = getattr(value, "item", None)  # of NumPy, torch
    try:
        plain = item() if callable(item) and not isinstance(value, Real) else value
        return float(plain) if isinstance(plain, Real) else None
    except OverflowError:
        return math.inf
    except (TypeError, ValueError, RuntimeError):  # of several numbers
        return None


def _range(low: float | None, high: float | None) -> str:
    if low is None:
        return f"up to {high:g}"
    return f"{low:g} or more" if high is None else f"{low:g} to {high:g}"


def _unusable(given: str) -> Cell:
    message = f"the metric gave {given}"
    return Cell.failed(Failure(type="ValueError", message=message, stage="score"))


def _failed(error: BaseException) -> Cell:
    return Cell.failed(Failure.of(error, stage="score"))
