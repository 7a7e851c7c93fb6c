"""What the functions of metrics give for cases, cell by cell.

A window of cases becomes columns, one for each argument that some function reads; each is made when
it is first asked for, and then serves every metric.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from decimal import Decimal
from functools import cache, partial
from itertools import compress
from math import inf
from numbers import Real
from typing import Any, TypeAlias

from ragbench.core.matched import Matched
from ragbench.core.metric import Direction, Metric, MetricDefinition, Need, Skip
from ragbench.core.outcome import Cell, Failure, Outcome, Status
from ragbench.core.record import replace
from ragbench.core.trace import Trace, reference_ids
from ragbench.errors import ConfigError, InterfaceError, MissingExtraError
from ragbench.metrics.answer import declined
from ragbench.metrics.citations import cited
from ragbench.metrics.expectations import Expected, blocked_expectations
from ragbench.metrics.matching import IDS_ALONE, NO_GOLD, Matching, match
from ragbench.metrics.operational import token_counts
from ragbench.metrics.rank import Ranking, ranking_of
from ragbench.plugins import is_users_interruption
from ragbench.safe_text import counted
from ragbench.stats.mean import LARGEST

Check = Callable[[Trace], Cell | None]
Compared: TypeAlias = Matched | Skip | None
"""A retrieval compared with what is relevant; None where nothing was retrieved."""
_REMEMBERED = 4096
"""Values of a metric whose cells are kept: most metrics take few, and a cell never changes."""
_PLAIN = frozenset({float, int, bool, Skip})
_NO_VALUE = Skip("the metric gave no value")
_NO_RESULT = Skip("retrieval gave no result")
_TOLERANCE = 1e-9
"""How far rounding may take a value out of its metric's range."""
_MAY_BE_SKIP = ("ranking", "citations")
"""Arguments that may be a `Skip`: why the function is not asked about a case."""


class Plan:
    """Scores cases by a list of metrics, a window of cases at a time."""

    def __init__(self, metrics: Sequence[Metric], *, matching: Matching = Matching.AUTO) -> None:
        """Loads what the metrics need, so that a missing package is reported before anything runs.

        Metrics that are blocked in the same cases become one group, so that each case is looked at
        once for all of them.

        Raises:
            ConfigError: a metric asks a language model, which a plan does not.
        """
        judged = [metric.name for metric in metrics if metric.is_judged]
        if judged:
            names = ",".join(judged)
            raise ConfigError(
                f"{names} needs a language model, which this command does not call. Compute it "
                f"with 'ragbench eval -m {names}'"
            )
        self.metrics = tuple(metrics)
        self.matching = matching
        # Metrics that the same cases block are one group: each case is then looked at once for all
        # of them. A member is the metric's position in the run and its column.
        self._groups: dict[tuple[frozenset[Need], bool, bool], list[tuple[int, _Column]]] = {}
        # Whether any metric reads a ranking: only then retrievals are compared with the gold.
        self._ranks = False
        for position, metric in enumerate(metrics):
            if metric.definition.formula is None:
                # A metric of a stored run has lost its function.
                from ragbench.metrics.registry import computable

                metric = computable(metric)
            column = _Column(metric)
            definition = column.definition
            # All that `blocked` asks of a metric.
            group = (definition.needs, definition.abstains, reads_texts(definition))
            self._groups.setdefault(group, []).append((position, column))
            if "ranking" in column.arguments:
                self._ranks = True

    def score(
        self, traces: Sequence[Trace], matched: Sequence[Compared] | None = None
    ) -> list[tuple[Cell, ...]]:
        """For each of some cases what each metric gives for it, or why it gives nothing.

        Never raises for a case or a metric that cannot be scored: its cell says so.

        Args:
            matched: the comparisons of the cases' retrievals, where they were made already.

        Returns:
            For each case its cells, in the order of the metrics.
        """
        if not self.metrics:
            return [()] * len(traces)
        # The arguments of all cases by name; groups whose every case is scored share them.
        arguments: dict[str, list[Any]] = {}
        if self._ranks:
            arguments["ranking"] = self._rankings(traces, matched)
        columns: list[Sequence[Cell]] = [()] * len(self.metrics)
        for (needs, abstains, has_to_read), members in self._groups.items():
            blocked_cells = [
                blocked(trace, needs=needs, abstains=abstains, reads_texts=has_to_read)
                for trace in traces
            ]
            is_open = [cell is None for cell in blocked_cells]
            open_traces = traces
            open_arguments = arguments
            if not all(is_open):
                open_traces = [*compress(traces, is_open)]
                open_rankings = compress(arguments.get("ranking", ()), is_open)
                open_arguments = {"ranking": [*open_rankings]}
            for position, column in members:
                scored: Iterator[Cell] = iter(())
                if open_traces:
                    scored = iter(column.cells(open_traces, open_arguments))
                # Each case has its blocked cell, or else the next that was scored.
                columns[position] = [cell or next(scored) for cell in blocked_cells]
        return list(zip(*columns, strict=True))

    def _rankings(
        self, traces: Sequence[Trace], matched: Sequence[Compared] | None
    ) -> list[Ranking | Skip]:
        """For each case its ranking, or why it has none.

        All rank metrics read the same ranking, which is made once. A `Skip` in the place of a
        ranking keeps rank metrics from being asked about that case.

        Args:
            matched: the comparisons of the cases' retrievals, where they were made already.
        """
        # `matched` is empty only where there are no traces.
        comparisons = matched or map(self._matched, traces)
        rankings: list[Ranking | Skip] = []
        for comparison in comparisons:
            if isinstance(comparison, Matched):
                rankings.append(ranking_of(comparison))
            else:
                rankings.append(comparison or _NO_RESULT)
        return rankings

    def _matched(self, trace: Trace) -> Compared:
        """A case's retrieval compared with what is relevant; None where nothing was retrieved.

        Where a caller has compared it already, that comparison is used instead.
        """
        result = trace.context.value
        if result is None:
            return None
        return match(trace.case, result, self.matching)


class _Column:
    """One metric's function, and what it has given so far."""

    def __init__(self, metric: Metric) -> None:
        """Prepares a metric's function: its parameters bound, its package loaded.

        A column keeps the cells of values that it has seen, so that equal ones are one object.

        Raises:
            ConfigError: the metric has no function, as one that asks a model.
        """
        self.definition = metric.definition
        formula = metric.definition.formula
        if formula is None:  # `computable` gives a formula to all metrics that have a function
            raise ConfigError(f"'{metric.name}' has no function that computes it")
        if formula.prepare is not None:
            formula.prepare()
        keywords: dict[str, Any] = dict(metric.parameters)
        if formula.cutoff is not None and metric.cutoff is not None:
            keywords[formula.cutoff] = metric.cutoff
        self._function: Callable[..., Any] = formula.function
        if keywords:
            self._function = partial(formula.function, **keywords)
        self._is_batch = formula.batch
        self.arguments = formula.arguments
        # The position of the argument that may be a `Skip`.
        self._skip_position: int | None = None
        for position, argument in enumerate(formula.arguments):
            if argument in _MAY_BE_SKIP:
                self._skip_position = position
                break
        # Of a case with several right answers the best value counts, where values have a best.
        has_best = metric.definition.direction is not Direction.NEITHER
        reads_reference = "reference" in formula.arguments
        self._takes_best = reads_reference and has_best and self._skip_position is None
        # A pure function of the ranking alone gives the same for equal rankings: there are few
        # rankings, and equal ones are one object.
        self._is_pure = formula.arguments == ("ranking",) and metric.definition.deterministic
        self._by_ranking: dict[object, Cell] = {}
        # Plain values with their cells, so that equal cells are one object in a long run.
        self._by_value: dict[object, Cell] = {}

    def cells(self, traces: Sequence[Trace], arguments: dict[str, list[Any]]) -> list[Cell]:
        """The metric's cell for each of some cases, none of which is blocked.

        Results are remembered by ranking where the metric reads nothing else, as most rank metrics
        do.

        Args:
            arguments: of the cases, by name. What the function needs and is missing is added for
                the functions that come after it: each is read from the cases once.
        """
        names = self.arguments
        # All references beside the first one, which is what the argument "reference" reads.
        if self._takes_best:
            names = (*names, "references")
        for name in names:
            if name not in arguments:
                arguments[name] = [*map(_ARGUMENT_READERS[name], traces)]
        columns = [arguments[name] for name in self.arguments]
        if self._is_pure:
            cells = self._by_ranking
            # Emptied as a whole: rankings repeat within a run, and counting uses would cost more.
            if len(cells) > _REMEMBERED:
                cells.clear()
            rankings = columns[0]
            # Each new ranking once, in the order of the cases: the new cells are paired with it
            # below.
            new = [ranking for ranking in dict.fromkeys(rankings) if ranking not in cells]
            if new:
                new_cells = self._cells_of_rows([new])
                cells.update(zip(new, new_cells, strict=True))
            return [cells[ranking] for ranking in rankings]
        if self._takes_best:
            references = arguments["references"]
            # With one reference each, the plain way gives the same and is faster.
            if any(len(case_references) > 1 for case_references in references):
                return self._best_of_references(columns, references)
        return self._cells_of_rows(columns)

    def _best_of_references(
        self, columns: list[list[Any]], references: list[tuple[str, ...]]
    ) -> list[Cell]:
        """For each case the best cell of its several right answers.

        The function takes one reference, and is called for each pair of a case and a reference, of
        all cases in one go: a batch metric is not called case by case.

        Args:
            columns: of each argument a value for each case.
            references: of each case.
        """
        owners: list[int] = []  # of each pair, the position of its case
        each_reference: list[str] = []
        for position, case_references in enumerate(references):
            for reference in case_references:
                owners.append(position)
                each_reference.append(reference)
        pair_columns: list[list[Any]] = []
        for argument, column in zip(self.arguments, columns, strict=True):
            if argument == "reference":
                pair_columns.append(each_reference)
            else:
                pair_columns.append([column[position] for position in owners])
        cells = iter(self._cells_of_rows(pair_columns))
        best: list[Cell] = []
        for case_references in references:
            case_cells = [next(cells) for _ in case_references]
            best.append(self._best_cell(case_cells))
        return best

    def _best_cell(self, cells: Sequence[Cell]) -> Cell:
        """The best cell of a case's several right answers, by the direction of the metric.

        A failure comes first: without it another answer might have been the best one.
        """
        cell_by_value: dict[float, Cell] = {}
        for cell in cells:
            if cell.status is Status.FAILED:
                return cell
            if cell.value is not None:
                cell_by_value[cell.value] = cell
        # No answer has a value: the first skip is as good a reason as any other.
        if not cell_by_value:
            return cells[0]
        if self.definition.direction is Direction.LOWER:
            best_value = min(cell_by_value)
        else:
            best_value = max(cell_by_value)
        return cell_by_value[best_value]

    def _cells_of_rows(self, columns: list[list[Any]]) -> list[Cell]:
        """A cell for each row of arguments, whatever the function returns or raises.

        A user's function may do anything: that costs the cell and not the run. The function is not
        called for a row with a `Skip` among its arguments.

        Args:
            columns: of each argument a value for each row.
        """
        # Local names, as the loop runs for each case.
        function = self._function
        skip_position = self._skip_position
        cell_by_value = self._by_value
        batch_values: Iterator[Any] | None = None
        if self._is_batch:
            if skip_position is None:
                batch_columns = [[*column] for column in columns]
            else:
                is_asked = [not isinstance(value, Skip) for value in columns[skip_position]]
                batch_columns = [[*compress(column, is_asked)] for column in columns]
            batch_values = iter(self._batch_values(batch_columns))
        cells: list[Cell] = []
        for row in zip(*columns, strict=True):
            value = None if skip_position is None else row[skip_position]
            if not isinstance(value, Skip):
                try:
                    value = function(*row) if batch_values is None else next(batch_values)
                except (ConfigError, MissingExtraError):
                    raise
                except BaseException as error:
                    if is_users_interruption(error):
                        raise
                    value = error  # a failed cell is made of it
            # Only values of these types can be looked up: others may not be hashable.
            cell = cell_by_value.get(value) if type(value) in _PLAIN else None
            cells.append(cell or self._cell_of_value(value))
        return cells

    def _batch_values(self, columns: list[list[Any]]) -> list[Any]:
        """The values of a function that takes many cases at once.

        Where it raises, or returns another number of values, it is called with halves, so that one
        bad case costs one cell.
        """
        rows = len(columns[0])
        if not rows:
            return []
        try:
            values = list(self._function(*columns))
            if len(values) != rows:
                raise InterfaceError(
                    f"the metric gave {counted(len(values), 'value')} for {counted(rows, 'case')}"
                )
        except (ConfigError, MissingExtraError):
            raise
        except BaseException as error:
            if is_users_interruption(error):
                raise
            # One case is left, and it is the bad one: its error is made into a failed cell.
            if rows == 1:
                return [error]
            half = rows // 2
            first_values = self._batch_values([column[:half] for column in columns])
            second_values = self._batch_values([column[half:] for column in columns])
            return first_values + second_values
        return values

    def _cell_of_value(self, value: object) -> Cell:
        """The cell of a value that a metric's function returned or raised.

        Numbers of any library are accepted if they are finite and in the metric's range; anything
        else is a failed cell with the reason. Cells are kept by value, as most metrics give few
        values.
        """
        if isinstance(value, Cell):
            return value
        if isinstance(value, BaseException):
            return Cell.failed(Failure.of(value, stage="score"))
        if value is None or isinstance(value, Skip):
            cell = Cell(status=Status.SKIPPED, reason=(value or _NO_VALUE).reason)
        else:
            number = value if type(value) is float else _as_float(value)
            if number is None:
                # Any length that fits a line of the report.
                text = repr(value)
                if len(text) > 60:
                    text = f"{text[:57]}..."
                return _unusable_value(f"{text} (a {type(value).__name__}), which is not a number")
            if not abs(number) <= LARGEST:  # not >: NaN is no larger than anything
                return _unusable_value(
                    f"{number}, which is not a finite number of up to {LARGEST:g}"
                )
            low = self.definition.low
            high = self.definition.high
            is_below = low is not None and number < low - _TOLERANCE
            is_above = high is not None and number > high + _TOLERANCE
            if is_below or is_above:
                return _unusable_value(
                    f"{number:g}, outside of its range, {_range_text(low, high)}: give @metric the "
                    "right low and high, None where there is no end"
                )
            value = number
            cell = Cell(status=Status.MEASURED, value=number)
        if len(self._by_value) < _REMEMBERED:
            self._by_value[value] = cell
        return cell


def _range_text(low: float | None, high: float | None) -> str:
    """A metric's range in words, such as "0 to 1", for the error of a value outside of it.

    At least one of its ends is not None.
    """
    if low is None:
        return f"up to {high:g}"
    if high is None:
        return f"{low:g} or more"
    return f"{low:g} to {high:g}"


def _as_float(value: object) -> float | None:
    """A number of any library as a float; None for anything else.

    Users' functions return NumPy scalars, tensors of one number, decimals.
    """
    if isinstance(value, Decimal):
        return float(value)
    item: Any = getattr(value, "item", None)  # numbers of NumPy and torch have this method
    try:
        plain = value
        if callable(item) and not isinstance(value, Real):
            plain = item()
        if not isinstance(plain, Real):
            return None
        return float(plain)
    except OverflowError:
        return inf
    except (TypeError, ValueError, RuntimeError):  # an array of several numbers is no number
        return None


def _unusable_value(value_text: str) -> Cell:
    """The failed cell of a case for which a metric's function returned no usable value.

    A user's metric is to be mended then, and the message says what it gave.

    Args:
        value_text: the value and the problem with it.
    """
    message = f"the metric gave {value_text}"
    return Cell.failed(Failure(type="ValueError", message=message, stage="score"))


# --- which cases can be scored, and what functions are given


NO_REFERENCE = "no reference answer"
_TEXTS = frozenset({"contexts", "citations"})
"""Arguments that are made of the texts of what was retrieved."""


def reads_texts(definition: MetricDefinition) -> bool:
    """Whether a metric reads what retrieved chunks say, and not their ids and ranks alone.

    A recorded ranking may have ids and no texts: only metrics that need the texts are then skipped.
    """
    if definition.formula is None:  # a judge reads all parts of a case that the metric needs
        return Need.RETRIEVED_CONTEXTS in definition.needs
    return not _TEXTS.isdisjoint(definition.formula.arguments)


def blocked(
    trace: Trace, *, needs: frozenset[Need], abstains: bool, reads_texts: bool
) -> Cell | None:
    """The cell of a case that a metric must not be asked about; None where it can be computed.

    A failed stage comes before a declined answer, and a declined answer before what the case does
    not know: "I don't know" without a reference answer is an abstention. The order decides which
    reason a report shows, and is the same for metrics with and without a judge.
    """
    # A metric that reads only the question is not blocked by a failed retrieval.
    if not needs.isdisjoint(_OF_RETRIEVAL) and trace.context.value is None:
        return _cell_without_value(trace.context, "retrieval")
    if reads_texts and trace.context.value is not None and trace.context.value.is_ids_alone:
        return _IDS_ALONE
    # Metrics that skip declined answers need the answer even where they do not read it.
    if abstains or not needs.isdisjoint(_OF_GENERATION):
        if trace.generation.value is None:
            return _cell_without_value(trace.generation, "generation")
        if abstains and declined(trace.generation):
            return _DECLINED
    for check in _checks(needs):
        cell = check(trace)
        if cell is not None:
            return cell
    return None


@cache
def _checks(needs: frozenset[Need]) -> tuple[Check, ...]:
    """The checks of a case before a metric with some needs is computed, out of `_CHECK_OF`.

    Looked up once for the same needs, since each of thousands of cases is checked.
    """
    return tuple(check for need, check in _CHECK_OF.items() if need in needs)


def _cell_without_value(outcome: Outcome[Any], stage: str) -> Cell:
    """The cell of a case in which a stage gave nothing: failed as the stage did, else skipped.

    The metric is not to blame: the report counts the case under its stage's failure.

    Args:
        stage: its name, for the reason.
    """
    if outcome.status is Status.FAILED:
        unknown = Failure(type="Failure", message="the cause was not recorded", stage=stage)
        return Cell.failed(outcome.failure or unknown)
    return Cell.skipped(outcome.reason or f"no {stage}")


def _check_time(outcome: Outcome[Any], stage: str) -> Cell | None:
    """The skipped cell of a case whose stage has no time of its own; None where it has one.

    Cases that were asked in one batch share its time, and a part of it would be made up.
    """
    if outcome.value is None:
        return _cell_without_value(outcome, stage)
    # Before the missing time: a shared time is there, and would mislead.
    if outcome.sharing > 1:
        return _SHARED_TIME
    if outcome.seconds is None:
        return _NO_TIME
    return None


_NO_TIME = Cell.skipped("no time was measured")
_SHARED_TIME = Cell.skipped("cases shared a call: the time of one is not known")
_IDS_ALONE = Cell.skipped(IDS_ALONE)
_DECLINED = Cell.abstained("the system declined to answer")


_OF_RETRIEVAL = frozenset(
    {Need.RETRIEVED_CONTEXTS, Need.RETRIEVED_CONTEXT_IDS, Need.SCORES, Need.CONTEXT_METADATA}
)
_OF_GENERATION = frozenset({Need.RESPONSE, Need.MULTI_RESPONSES, Need.CONFIDENCE, Need.TOKENS})


def _skip_unless(reason: str, is_there: Callable[[Any], bool]) -> Check:
    """A check that skips a case with a reason, unless the case has what a metric needs.

    Checks are made once for each need of a metric (`_CHECK_OF`), and called for every case.

    Args:
        is_there: whether the trace of a case has it.
    """
    return partial(_skipped_unless, is_there, Cell.skipped(reason))


def _skipped_unless(is_there: Callable[[Any], bool], skipped: Cell, trace: Trace) -> Cell | None:
    """The skipped cell of a case that lacks what a metric needs; None where the case has it.

    The report shows the reason, with the number of cases.

    Args:
        is_there: whether the trace of a case has it.
        skipped: the cell with the reason, which is the same for all cases.
    """
    if is_there(trace):
        return None
    return skipped


_NO_IDS = _skip_unless("no reference context ids", lambda t: t.case.judgements is not None)
_CHECK_OF: dict[Need, Check] = {
    Need.JUDGEMENTS: _skip_unless(
        NO_GOLD,
        lambda t: (
            t.case.judgements is not None
            or t.case.reference_contexts is not None
            or bool(t.case.evidence)
        ),
    ),
    Need.RETRIEVED_CONTEXT_IDS: _skip_unless(
        "retrieval gave no context ids", lambda t: t.context.value.context_ids is not None
    ),
    Need.SCORES: _skip_unless(
        "retrieval gave no scores", lambda t: t.context.value.scores is not None
    ),
    Need.CONTEXT_METADATA: _skip_unless(
        "retrieval gave no metadata of contexts",
        lambda t: t.context.value.context_metadata is not None,
    ),
    Need.REFERENCE: _skip_unless(
        NO_REFERENCE,
        lambda t: t.case.reference is not None or bool(t.case.alternative_references),
    ),
    Need.REFERENCE_CONTEXTS: _skip_unless(
        "no reference contexts", lambda t: bool(t.case.reference_contexts)
    ),
    Need.REFERENCE_CONTEXT_IDS: _NO_IDS,
    Need.GRADES: _NO_IDS,
    Need.EVIDENCE: _skip_unless("no evidence", lambda t: bool(t.case.evidence)),
    Need.MULTI_RESPONSES: _skip_unless(
        "generation gave no candidates", lambda t: bool(t.generation.value.multi_responses)
    ),
    Need.CONFIDENCE: _skip_unless(
        "generation gave no confidence", lambda t: t.generation.value.confidence is not None
    ),
    Need.ANSWERABLE: _skip_unless(
        "not known whether the case is answerable", lambda t: t.case.answerable is not None
    ),
    Need.EXPECTATIONS: blocked_expectations,
    Need.RUBRICS: _skip_unless("no rubrics", lambda t: bool(t.case.metadata.get("rubrics"))),
    Need.RETRIEVAL_LATENCY: lambda trace: _check_time(trace.retrieval, "retrieval"),
    Need.GENERATION_LATENCY: lambda trace: _check_time(trace.generation, "generation"),
}


_LISTS = ("contexts", "context_ids", "scores", "context_metadata", "multi_responses")
"""Fields of results that are lists."""
_RESULTS = ("retrieval", "post_retrieval", "generation")
"""Fields of a trace that are the outcomes of stages."""


def _with_tuples(result: Any) -> Any:
    """A copy of a stage's result with tuples in place of its lists.

    A metric of a user's might change a list, and the next metric would read the changed one.
    """
    copied = copy(result)
    for name in _LISTS:
        value = getattr(result, name, None)
        if value is not None:
            # A result is frozen, and no other way writes the field of a copy.
            object.__setattr__(copied, name, tuple(value))
    return copied


def _trace_with_tuples(trace: Trace) -> Trace:
    """A trace whose results hold tuples in place of lists, for metrics that read a whole trace.

    A metric of a user's might change a list, and the next metric would read the changed one.
    """
    outcomes: dict[str, Any] = {}
    for name in _RESULTS:
        outcome: Outcome[Any] | None = getattr(trace, name)
        if outcome:
            # The rest of the outcome, its status and times, stays.
            outcomes[name] = replace(outcome, value=_with_tuples(outcome.value))
    return replace(trace, **outcomes)


# A case that lacks what an argument needs has been kept away. Lists are handed out as tuples: what
# one metric does with them must reach neither the next nor the report.
_ARGUMENT_READERS: dict[str, Callable[[Any], Any]] = {
    "query": lambda trace: trace.case.query,
    "response": lambda trace: trace.generation.value.response,
    "multi_responses": lambda trace: tuple(trace.generation.value.multi_responses),
    "confidence": lambda trace: trace.generation.value.confidence,
    "declined": lambda trace: declined(trace.generation),
    "citations": lambda trace: cited(trace.generation.value, trace.context.value),
    "tokens": lambda trace: token_counts(trace.generation.value.metadata),
    "reference": lambda trace: trace.case.references[0],
    "references": lambda trace: trace.case.references,
    "answerable": lambda trace: trace.case.answerable,
    "contexts": lambda trace: tuple(trace.context.value.contexts),
    "context_ids": lambda trace: tuple(trace.context.value.context_ids),
    "scores": lambda trace: tuple(trace.context.value.scores),
    "context_metadata": lambda trace: tuple(trace.context.value.context_metadata),
    "reference_contexts": lambda trace: trace.case.reference_contexts,
    "reference_context_ids": lambda trace: tuple(reference_ids(trace.case) or ()),
    "grades": lambda trace: trace.case.judgements,
    "evidence": lambda trace: trace.case.evidence,
    "retrieval_seconds": lambda trace: trace.retrieval.seconds,
    "generation_seconds": lambda trace: trace.generation.seconds,
    "retrieval": lambda trace: _with_tuples(trace.context.value),
    "generation": lambda trace: _with_tuples(trace.generation.value),
    "case": lambda trace: trace.case,
    "expectations": lambda trace: Expected(trace=trace),
    "trace": _trace_with_tuples,
}
"""All arguments but ``ranking``, which depends on how chunks are compared."""
