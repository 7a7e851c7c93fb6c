"""A case of a run as one flat row: the columns that CSV, Parquet and Hugging Face share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ragbench.interface.results import RetrievalResult
from ragbench.prepare.export.base import Scores
from ragbench.prepare.export.json_text import in_case, json_text
from ragbench.records.cases import Case
from ragbench.records.cells import Outcome
from ragbench.runs.sample_row import SampleRow, sample_row
from ragbench.runs.trace import Trace

__all__ = ["Column", "Kind", "columns", "table_row"]


class Kind(StrEnum):
    """What a column holds."""

    TEXT = "text"
    TEXTS = "texts"
    NUMBER = "number"
    NUMBERS = "numbers"
    FLAG = "flag"
    """True or false."""
    JSON = "json"
    """A mapping, or a list of mappings, as a JSON text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """A column of the table."""

    name: str
    kind: Kind


_FIXED: Mapping[str, Kind] = {
    "id": Kind.TEXT,
    # The twelve fields of a RAGAS sample, under ragas' names: ragas reads the table as it is. All
    # but the rubrics: a text under that name would be refused by ragas, and also where the table
    # is read back as cases, because their metadata may hold the rubrics as a mapping.
    "user_input": Kind.TEXT,
    "retrieved_contexts": Kind.TEXTS,
    "reference_contexts": Kind.TEXTS,
    "retrieved_context_ids": Kind.TEXTS,
    "reference_context_ids": Kind.TEXTS,
    "response": Kind.TEXT,
    "multi_responses": Kind.TEXTS,
    "reference": Kind.TEXT,
    "rubrics_json": Kind.TEXT,
    "persona_name": Kind.TEXT,
    "query_style": Kind.TEXT,
    "query_length": Kind.TEXT,
    # What else the case says.
    "alternative_references": Kind.TEXTS,
    "answerable": Kind.FLAG,
    "language": Kind.TEXT,
    "cluster": Kind.TEXT,
    "tags": Kind.TEXTS,
    "grades": Kind.JSON,
    "evidence": Kind.JSON,
    "metadata": Kind.JSON,
    # How the stages ended and what else they gave.
    "retrieval_status": Kind.TEXT,
    "retrieval_reason": Kind.TEXT,
    "retrieval_seconds": Kind.NUMBER,
    "retrieved_scores": Kind.NUMBERS,
    "context_metadata": Kind.JSON,
    "retrieval_metadata": Kind.JSON,
    "post_retrieval_status": Kind.TEXT,
    "post_retrieval_reason": Kind.TEXT,
    "post_retrieval_seconds": Kind.NUMBER,
    "generation_status": Kind.TEXT,
    "generation_reason": Kind.TEXT,
    "generation_seconds": Kind.NUMBER,
    "confidence": Kind.NUMBER,
    "abstained": Kind.FLAG,
    "generation_metadata": Kind.JSON,
}


def columns(scores: Scores) -> tuple[Column, ...]:
    """The table's columns: the fixed ones, then ``score:M`` and ``status:M`` for each metric M."""
    fixed = (Column(name=name, kind=kind) for name, kind in _FIXED.items())
    scored = (
        column
        for metric in scores.metrics
        for column in (
            Column(name=f"score:{metric}", kind=Kind.NUMBER),
            Column(name=f"status:{metric}", kind=Kind.TEXT),
        )
    )
    return (*fixed, *scored)


def table_row(trace: Trace, scores: Scores) -> dict[str, Any]:
    """One case's values by column name.

    Texts and JSON are strings, numbers floats, flags booleans, lists are lists of these; None is
    not known.

    Raises:
        InputError: metadata holds something without a JSON form, or a result is no string.
    """
    sample = sample_row(trace)
    with in_case(trace.case.id):
        return {
            **_sample(sample),
            **_case(trace.case),
            **_stages(trace),
            **_scores(trace.case.id, scores),
        }


def _sample(sample: SampleRow) -> dict[str, Any]:
    values = {
        name: _listed(value) if _FIXED.get(name) is Kind.TEXTS else value
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
        f"{stage}_seconds": None if outcome is None else _float(outcome.seconds),
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
