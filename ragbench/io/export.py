"""The formats that a run is written in, and the flat table they share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, cast

from ragbench.core.case import Case
from ragbench.core.outcome import Cell, Outcome, Status
from ragbench.core.result import RetrievalResult
from ragbench.core.trace import SampleRow, Trace, sample_row
from ragbench.io.json_text import in_case, json_text
from ragbench.masking import hidden
from ragbench.plugins import Registry


@dataclass(frozen=True, kw_only=True, slots=True)
class Scores:
    metrics: tuple[str, ...] = ()
    cells: Mapping[str, Mapping[str, Cell]] = field(default_factory=dict[str, Mapping[str, Cell]])
    """Case id to metric name to cell. Asked for one case at a time, so it may read from disk."""

    def of(self, case: str) -> Iterator[tuple[str, Cell | None]]:
        """Each metric with its cell for a case; None where the case was not scored by it."""
        cells = self.cells.get(case, {})
        return ((metric, cells.get(metric)) for metric in self.metrics)


@dataclass(frozen=True, kw_only=True, slots=True)
class Exported:
    paths: tuple[Path, ...]
    written: int
    left_out: Mapping[str, int]
    """Why cases were left out, and how many for each reason; empty when none were."""


class Export(Protocol):
    """The one primitive of a format.

    It reads the traces once, in order, keeps none of them, and leaves either the whole output
    or nothing behind. The same traces and scores give the same bytes.
    """

    def __call__(self, traces: Iterable[Trace], path: Path, *, scores: Scores) -> Exported: ...


@dataclass(kw_only=True, slots=True)
class Tally:
    written: int = 0
    left_out: dict[str, int] = field(default_factory=dict[str, int])

    def leave_out(self, reason: str) -> None:
        self.left_out[reason] = self.left_out.get(reason, 0) + 1

    def exported(self, *paths: Path) -> Exported:
        return Exported(paths=paths, written=self.written, left_out=self.left_out)


def failed_stage(trace: Trace) -> str | None:
    stages = {
        "retrieval": trace.retrieval,
        "post-retrieval": trace.post_retrieval,
        "generation": trace.generation,
    }
    for name, outcome in stages.items():
        if outcome is not None and outcome.status is Status.FAILED:
            return name
    return None


EXPORTS = Registry(
    kind="exports",
    builtin={
        "ragas": "ragbench.prepare:write",
        "jsonl": "ragbench.io.own_form:write",
        "trec": "ragbench.io.trec:write",
        "csv": "ragbench.io.tables:write",
        "parquet": "ragbench.io.arrow:write_parquet",
        "hf": "ragbench.io.arrow:write_hugging_face",
    },
)
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


TABLE_COLUMNS: Mapping[str, ColumnKind] = {
    "id": ColumnKind.TEXT,
    # The twelve fields of a RAGAS sample, under ragas' names: ragas reads the table as it is. All
    # but the rubrics: a text under that name would be refused by ragas, and also where the table
    # is read back as cases, because their metadata may hold the rubrics as a mapping.
    "user_input": ColumnKind.TEXT,
    "retrieved_contexts": ColumnKind.TEXTS,
    "reference_contexts": ColumnKind.TEXTS,
    "retrieved_context_ids": ColumnKind.TEXTS,
    "reference_context_ids": ColumnKind.TEXTS,
    "response": ColumnKind.TEXT,
    "multi_responses": ColumnKind.TEXTS,
    "reference": ColumnKind.TEXT,
    "rubrics_json": ColumnKind.TEXT,
    "persona_name": ColumnKind.TEXT,
    "query_style": ColumnKind.TEXT,
    "query_length": ColumnKind.TEXT,
    # What else the case says.
    "alternative_references": ColumnKind.TEXTS,
    "answerable": ColumnKind.FLAG,
    "language": ColumnKind.TEXT,
    "cluster": ColumnKind.TEXT,
    "tags": ColumnKind.TEXTS,
    "grades": ColumnKind.JSON,
    "evidence": ColumnKind.JSON,
    "metadata": ColumnKind.JSON,
    # How the stages ended and what else they gave.
    "retrieval_status": ColumnKind.TEXT,
    "retrieval_reason": ColumnKind.TEXT,
    "retrieval_seconds": ColumnKind.NUMBER,
    "retrieved_scores": ColumnKind.NUMBERS,
    "context_metadata": ColumnKind.JSON,
    "retrieval_metadata": ColumnKind.JSON,
    "post_retrieval_status": ColumnKind.TEXT,
    "post_retrieval_reason": ColumnKind.TEXT,
    "post_retrieval_seconds": ColumnKind.NUMBER,
    "generation_status": ColumnKind.TEXT,
    "generation_reason": ColumnKind.TEXT,
    "generation_seconds": ColumnKind.NUMBER,
    "confidence": ColumnKind.NUMBER,
    "abstained": ColumnKind.FLAG,
    "generation_metadata": ColumnKind.JSON,
}


def columns(scores: Scores) -> dict[str, ColumnKind]:
    """The table's columns: the fixed ones, then ``score:M`` and ``status:M`` for each metric M."""
    found = dict(TABLE_COLUMNS)
    for metric in scores.metrics:
        found[f"score:{metric}"] = ColumnKind.NUMBER
        found[f"status:{metric}"] = ColumnKind.TEXT
    return found


def table_row(trace: Trace, scores: Scores) -> dict[str, Any]:
    """One case's values by column name.

    Texts and JSON are strings, numbers floats, flags booleans, lists are lists of these; None is
    not known.
    """
    sample = sample_row(trace)
    with in_case(trace.case.id):
        row = {
            **_sample(sample),
            **_case(trace.case),
            **_stages(trace),
            **_scores(trace.case.id, scores),
        }
    return {name: _hidden(value) for name, value in row.items()}


def _hidden(value: Any) -> Any:
    """Without credentials: a table of another format than text is written past `written_whole`."""
    if isinstance(value, str):
        return hidden(value)
    return list(map(_hidden, cast("list[Any]", value))) if isinstance(value, list) else value


def _sample(sample: SampleRow) -> dict[str, Any]:
    values = {
        name: _listed(value) if TABLE_COLUMNS.get(name) is ColumnKind.TEXTS else value
        for name, value in sample.as_mapping().items()
    }
    values["rubrics_json"] = _json(values.pop("rubrics"))
    return values


def _case(case: Case) -> dict[str, Any]:
    return {
        "id": case.id,
        "alternative_references": list(case.alternative_references),
        "answerable": case.answerable,
        "language": case.language,
        "cluster": case.cluster,
        "tags": list(case.tags),
        "grades": _json(case.grades),
        "evidence": _json(case.evidence),
        "metadata": _json(case.metadata),
    }


def _stages(trace: Trace) -> dict[str, Any]:
    retrieved: RetrievalResult[Any] | None = trace.context.value
    generated = trace.generation.value
    scores = None if retrieved is None else retrieved.scores
    return {
        **_outcome("retrieval", trace.retrieval),
        **_outcome("post_retrieval", trace.post_retrieval),
        **_outcome("generation", trace.generation),
        "retrieved_scores": None if scores is None else [float(score) for score in scores],
        "context_metadata": None if retrieved is None else _json(retrieved.context_metadata),
        "retrieval_metadata": None if retrieved is None else _json(retrieved.metadata),
        "confidence": None if generated is None else _float(generated.confidence),
        "abstained": None if generated is None else generated.abstained,
        "generation_metadata": None if generated is None else _json(generated.metadata),
    }


def _outcome(stage: str, outcome: Outcome[Any] | None) -> dict[str, Any]:
    reason = None
    if outcome is not None:
        reason = outcome.reason if outcome.failure is None else str(outcome.failure)
    return {
        f"{stage}_status": None if outcome is None else outcome.status.value,
        f"{stage}_reason": reason,
        # Of a shared call only the mean is known, and a number in a table looks like a time.
        f"{stage}_seconds": None
        if outcome is None or outcome.sharing > 1
        else _float(outcome.seconds),
    }


def _scores(case: str, scores: Scores) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for metric, cell in scores.of(case):
        values[f"score:{metric}"] = None if cell is None else _float(cell.value)
        values[f"status:{metric}"] = None if cell is None else cell.status.value
    return values


def _listed(values: Any) -> list[str] | None:
    return None if values is None else list(values)


def _json(value: object) -> str | None:
    return None if value is None else json_text(value)


def _float(value: float | None) -> float | None:
    return None if value is None else float(value)
