"""How judgements are stored in the journal: compact JSON, trusted on reading."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from ragbench.records.cells import Cell, Failure, Status
from ragbench.records.judgements import Judgement, JudgeStep
from ragbench.runs.fingerprint import always_jsonable

__all__ = ["decode_judgements", "encode_judgements", "judgement_object"]


def encode_judgements(judgements: Sequence[Judgement]) -> bytes:
    """Judgements as bytes."""
    return always_jsonable([judgement_object(judgement) for judgement in judgements])


def judgement_object(judgement: Judgement) -> dict[str, Any]:
    """A judgement as a JSON object: how it ended, and each answer of the judge."""
    cell, failure = judgement.cell, judgement.cell.failure
    return {
        "status": cell.status.value,
        "value": cell.value,
        "reason": cell.reason if failure is None else f"{failure.type}: {failure.message}",
        "steps": [
            {
                "asked": step.asked,
                "answer": step.answer,
                "prompt_tokens": step.prompt_tokens,
                "completion_tokens": step.completion_tokens,
            }
            for step in judgement.steps
        ],
    }


def decode_judgements(body: bytes) -> tuple[Judgement, ...]:
    """What `encode_judgements` wrote; of a failure its type and message."""
    return tuple(
        Judgement(cell=_cell(raw), steps=tuple(JudgeStep(**step) for step in raw["steps"]))
        for raw in orjson.loads(body)
    )


def _cell(raw: dict[str, Any]) -> Cell:
    status, reason = Status(raw["status"]), raw["reason"]
    if status is Status.FAILED:
        kind, _, message = str(reason).partition(": ")
        return Cell.failed(Failure(type=kind, message=message, stage="score"))
    return Cell(status=status, value=raw["value"], reason=reason)
