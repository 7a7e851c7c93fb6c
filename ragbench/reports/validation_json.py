"""A verdict on a retrieval for programs. Its schema stands beside this file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from importlib.resources import files
from typing import Any

import orjson

from ragbench.records.cells import Failure
from ragbench.records.dump_summaries import DumpSummary
from ragbench.records.validation import Validation

__all__ = [
    "SCHEMA_VERSION",
    "failed_verdict_object",
    "summary_object",
    "summary_schema",
    "validation_object",
    "validation_schema",
]

SCHEMA_VERSION = 1
_DIGITS = 6
"""Digits of a probability: more would be noise, and differ from one machine to another."""


def validation_object(verdict: Validation, warnings: Sequence[str] = ()) -> dict[str, Any]:
    """A verdict as a JSON object: the same verdict gives the same object.

    Args:
        verdict: the verdict.
        warnings: what is wrong with the retrieval, each as ``kind: sentence``.
    """
    return {
        "query_id": verdict.query_id,
        "relevant_chunk_ids": list(verdict.relevant_chunk_ids),
        "relevance": {id: round(p, _DIGITS) for id, p in verdict.relevance.items()},
        "answer_present": verdict.answer_present,
        "answer_probability": round(verdict.answer_probability, _DIGITS),
        "evidence": [
            {
                "chunk_id": piece.chunk_id,
                "start": piece.start,
                "end": piece.end,
                "text": piece.text,
            }
            for piece in verdict.evidence
        ],
        "retrieval_quality": verdict.retrieval_quality.value,
        "message": verdict.message,
        "warnings": list(warnings),
        "validator": verdict.validator,
    }


def failed_verdict_object(
    query_id: str, failure: Failure, validator: str, warnings: Sequence[str] = ()
) -> dict[str, Any]:
    """What stands in the place of a verdict that there is none of: nothing but why."""
    return {
        "query_id": query_id,
        "relevant_chunk_ids": [],
        "relevance": {},
        "answer_present": None,
        "answer_probability": None,
        "evidence": [],
        "retrieval_quality": None,
        "message": f"Failed: {failure.type}: {failure.message}",
        "warnings": list(warnings),
        "validator": validator,
    }


def summary_object(summary: DumpSummary) -> dict[str, Any]:
    """A summary as a JSON object: the same summary gives the same object."""
    return {"schema_version": SCHEMA_VERSION, **asdict(summary), "is_met": summary.is_met}


def validation_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) that every line of verdicts meets."""
    return _schema("validation.schema.json")


def summary_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) that every summary meets."""
    return _schema("validation_summary.schema.json")


def _schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads((files("ragbench.reports") / name).read_bytes())
    return found
