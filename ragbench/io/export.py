"""The formats that a run is written in, the flat table they share, and ragbench's own JSONL."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import orjson

from ragbench.core.case import Case, Evidence, Expectation, Turn
from ragbench.core.outcome import Cell, Outcome, Status
from ragbench.core.record import Record, field
from ragbench.core.trace import Trace, sample_row
from ragbench.errors import DataError, Problem
from ragbench.io.atomic import written_whole
from ragbench.io.fields import read_table
from ragbench.io.json_text import in_case, json_bytes, json_text
from ragbench.io.source import IdRegister
from ragbench.io.values import ValueProblem, check_depth, is_object
from ragbench.masking import hidden
from ragbench.plugins import Registry


class Scores(Record):
    metrics: tuple[str, ...] = ()
    cells: Mapping[str, Mapping[str, Cell]] = field(default_factory=dict[str, Mapping[str, Cell]])
    """Case id to metric name to cell. Asked for one case at a time, so it may read from disk."""

    def of(self, case: str) -> Iterator[tuple[str, Cell | None]]:
        """Each metric with its cell for a case; None where the case was not scored by it."""
        cells = self.cells.get(case, {})
        return ((metric, cells.get(metric)) for metric in self.metrics)


@dataclass(kw_only=True, slots=True)
class Exported:
    """What was written where; a writer counts in it."""

    paths: tuple[Path, ...]
    written: int = 0
    left_out: dict[str, int] = dataclasses.field(default_factory=dict[str, int])
    """Why cases were left out, and how many for each reason; empty when none were."""
    unfinished: int = 0
    """How many cases an interrupted run has not asked or not scored yet."""

    def leave_out(self, reason: str) -> None:
        self.left_out[reason] = self.left_out.get(reason, 0) + 1


class Export(Protocol):
    """The one primitive of a format.

    It reads the traces once, in order, keeps none of them, and leaves either the whole output
    or nothing behind. The same traces and scores give the same bytes.
    """

    def __call__(self, traces: Iterable[Trace], path: Path, *, scores: Scores) -> Exported: ...


def failed_stage(trace: Trace) -> str | None:
    for name in ("retrieval", "post_retrieval", "generation"):
        outcome: Outcome[Any] | None = getattr(trace, name)
        if outcome is not None and outcome.status is Status.FAILED:
            return name.replace("_", "-")
    return None


EXPORTS = Registry(kind="exports")
"""Formats that a run can be written in. Others come by the entry-point group
``ragbench.exports``; each is a function of the shape `Export`."""


def export(
    name: str, traces: Iterable[Trace], path: Path | str, *, scores: Scores | None = None
) -> Exported:
    """Writes a run in a format.

    Example:
        ``export("ragas", traces, "samples.jsonl").written`` is the number of samples in the file.
    """
    write: Export = EXPORTS.load(name)
    return write(traces, Path(path), scores=Scores() if scores is None else scores)


class ColumnKind(StrEnum):
    TEXT = "text"
    TEXTS = "texts"
    NUMBER = "number"
    NUMBERS = "numbers"
    FLAG = "flag"
    JSON = "json"
    """A mapping, or a list of mappings, as a JSON text."""


RETRIEVAL_COLUMNS = {
    "context_ids": "retrieved_context_ids", "scores": "retrieved_scores",
    "context_metadata": "context_metadata", "metadata": "retrieval_metadata",
}  # fmt: skip
"""Field of a retrieval's result, and the column of a table that holds it."""


@cache
def table_columns() -> Mapping[str, ColumnKind]:
    """The columns of a table of cases: the samples, how the stages ended, what else they gave."""
    table: Mapping[str, str] = read_table("fields.toml")["export"]
    return {name: ColumnKind(kind) for name, kind in table.items()}


def columns(scores: Scores) -> dict[str, ColumnKind]:
    """The table's columns: the fixed ones, then ``score:M`` and ``status:M`` for each metric M."""
    found = dict(table_columns())
    for metric in scores.metrics:
        found[f"score:{metric}"] = ColumnKind.NUMBER
        found[f"status:{metric}"] = ColumnKind.TEXT
    return found


def table_row(trace: Trace, scores: Scores) -> dict[str, Any]:
    """One case's values by column name.

    Texts and JSON are strings, numbers floats, flags booleans, lists are lists of these; None is
    not known.
    """
    retrieved, generated = trace.context.value, trace.generation.value
    sample = sample_row(trace)
    values: dict[str, Any] = {
        **{name: getattr(trace.case, name) for name in Case.__struct_fields__},
        **{column: getattr(retrieved, name, None) for name, column in RETRIEVAL_COLUMNS.items()},
        **sample.as_mapping(),
        "confidence": getattr(generated, "confidence", None),
        "abstained": getattr(generated, "abstained", None),
        "generation_metadata": getattr(generated, "metadata", None),
    }
    for stage in ("retrieval", "post_retrieval", "generation"):
        values |= _outcome(stage, getattr(trace, stage))
    for metric, cell in scores.of(trace.case.id):
        values[f"score:{metric}"] = None if cell is None else cell.value
        values[f"status:{metric}"] = None if cell is None else cell.status.value
    with in_case(trace.case.id):
        values["rubrics_json"] = None if sample.rubrics is None else json_text(sample.rubrics)
        return {name: _cell(kind, values[name]) for name, kind in columns(scores).items()}


def _cell(kind: ColumnKind, value: Any) -> Any:
    """Without credentials: a table of another format than text is written past `written_whole`."""
    if value is None or kind is ColumnKind.FLAG:
        return value
    if kind in (ColumnKind.TEXTS, ColumnKind.NUMBERS):
        return [*map(hidden if kind is ColumnKind.TEXTS else float, value)]
    if kind is ColumnKind.NUMBER:
        return float(value)
    return hidden(json_text(value) if kind is ColumnKind.JSON else value)


def _outcome(stage: str, outcome: Outcome[Any] | None) -> dict[str, Any]:
    if outcome is None:
        return dict.fromkeys((f"{stage}_status", f"{stage}_reason", f"{stage}_seconds"))
    return {
        f"{stage}_status": outcome.status.value,
        f"{stage}_reason": outcome.reason if outcome.failure is None else str(outcome.failure),
        # Of a shared call only the mean is known, and a number in a table looks like a time.
        f"{stage}_seconds": None if outcome.sharing > 1 else outcome.seconds,
    }


# --- JSON Lines

_KNOWN_NONE = frozenset(
    {"reference_contexts", "reference_context_ids", "grades", "text", "contexts"}
)
"""Fields of which an empty one says something: that it is known to be none."""


def encode_case(case: Case) -> dict[str, Any]:
    """A case as a JSON object: fields in a fixed order, those that say nothing left out."""
    values = _said(case)
    if case.history:
        values["history"] = [*map(_said, case.history)]
    if case.evidence:
        values["evidence"] = [*map(_said, case.evidence)]
    if case.expectations:
        values["expectations"] = [*map(_said, case.expectations)]
    return values


def _said(record: Case | Evidence | Turn | Expectation) -> dict[str, Any]:
    values = {name: getattr(record, name) for name in record.__struct_fields__}
    return {
        name: dict(value) if is_object(value) else value
        for name, value in values.items()
        if value is not None and (value not in ((), {}) or name in _KNOWN_NONE)
    }


def write_cases(cases: Iterable[Case], path: str | Path) -> int:
    """Writes one case per line. The file appears complete, or the earlier one stays.

    Args:
        cases: the cases; consumed one at a time.
        path: where to; compressed when it ends in ``.gz``.

    Returns:
        How many were written.

    Raises:
        DataError: a case has no id or query, an id that another one has, or holds what JSON
            cannot.
        InputError: the file cannot be written.
    """
    path, ids, count = Path(path), IdRegister(), 0
    with written_whole(path) as out:
        for count, case in enumerate(cases, start=1):
            values, problem, line = encode_case(case), None, b""
            field = next((name for name in ("id", "query") if not values[name].strip()), None)
            if field is not None:
                problem = f"the {field} is empty"
            elif (earlier := ids.add(case.id, count)) is not None:
                problem, field = f"'{case.id}' is already the id of record {earlier}", "id"
            try:
                check_depth(values)
                line = orjson.dumps(values, option=orjson.OPT_APPEND_NEWLINE)
            except (TypeError, ValueProblem) as error:
                problem = problem or f"cannot be written as JSON: {error}"
            if problem is not None:
                found = Problem(message=problem, path=str(path), line=count, field=field)
                raise DataError([found])
            out.write(line)
    return count


def write_lines(traces: Iterable[Trace], path: Path, *, scores: Scores) -> Exported:
    """Everything that is known, one case per line: inputs, results, statuses, failures, scores.

    One JSON object per line, in UTF-8.

    The case's fields stand at the top level under their own names, so that the file is also a
    case file. Beside them stand ``retrieval``, ``post_retrieval``, ``generation`` (each an
    outcome: status, value, reason, failure, seconds) and ``scores`` (metric to cell). Null means
    not known or not given, an empty list known to be none.
    """
    tally = Exported(paths=(path,))
    with written_whole(path, make_folders=True) as file:
        for trace in traces:
            case = trace.case
            record = {
                **{name: getattr(case, name) for name in Case.__struct_fields__},
                "retrieval": trace.retrieval,
                "post_retrieval": trace.post_retrieval,
                "generation": trace.generation,
                "scores": {name: cell for name, cell in scores.of(case.id) if cell is not None},
            }
            with in_case(case.id):
                line = json_bytes(record)
            file.write(line + b"\n")
            tally.written += 1
    return tally
