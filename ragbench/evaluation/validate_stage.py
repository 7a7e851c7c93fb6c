"""The stage that judges what was retrieved, and what the journal keeps of its verdicts.

It stands behind post-retrieval and changes nothing of what generation is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import orjson

from ragbench.evaluation.judge_dump import warning_texts
from ragbench.evaluation.stage import Stage
from ragbench.interface.results import RetrievalResult
from ragbench.records.cells import Status
from ragbench.records.dumps import RetrievalDump
from ragbench.records.validation import Conflict, Evidence, RetrievalQuality, Validation
from ragbench.runs.fingerprint import fixed_digest
from ragbench.validation.validator import Validator

__all__ = ["VALIDATE", "ValidateInput", "decode_validation", "validate_key", "validate_stage"]

VALIDATE = "validate"
"""The stage's name."""

ValidateInput = tuple[str, RetrievalResult[Any]]
"""A query and what generation is given for it."""


def validate_key(identity: bytes, context: bytes, query: str) -> bytes:
    """Digest of all that a verdict depends on; ``context`` is the digest of what is judged."""
    return fixed_digest(identity, context, query.encode())


def validate_stage(validator: Validator, identity: bytes) -> Stage[ValidateInput, Validation]:
    """The stage that judges a case's chunks.

    Args:
        validator: the judge.
        identity: fingerprint of it.
    """

    def call(inputs: Sequence[ValidateInput]) -> Sequence[Validation]:
        return [_judged(validator, query, result) for query, result in inputs]

    return Stage(
        name=VALIDATE,
        identity=identity,
        call=call,
        call_async=None,
        takes_batches=False,
        texts=lambda _: (),
        encode=_encode,
        decode=lambda _, body: decode_validation(body),
        status=lambda _: Status.MEASURED,
    )


def _judged(validator: Validator, query: str, result: RetrievalResult[Any]) -> Validation:
    chunks = result.to_chunks()
    verdict = validator.validate(query, chunks)
    dump = RetrievalDump(query_id="", query=query, chunks=tuple(chunks))
    return replace(verdict, warnings=tuple(warning_texts(dump, verdict)))


def _encode(verdict: Validation) -> bytes:
    return orjson.dumps(asdict(verdict))


def decode_validation(body: bytes) -> Validation:
    """A verdict as the journal keeps it."""
    raw: dict[str, Any] = orjson.loads(body)
    conflicts = tuple(
        Conflict(
            kind=one["kind"],
            first=Evidence(**one["first"]),
            second=Evidence(**one["second"]),
            detail=one["detail"],
        )
        for one in raw["conflicts"]
    )
    return Validation(
        query_id=raw["query_id"],
        relevant_chunk_ids=tuple(raw["relevant_chunk_ids"]),
        relevance=raw["relevance"],
        answer_present=raw["answer_present"],
        answer_probability=raw["answer_probability"],
        evidence=tuple(Evidence(**piece) for piece in raw["evidence"]),
        retrieval_quality=RetrievalQuality(raw["retrieval_quality"]),
        message=raw["message"],
        validator=raw["validator"],
        reasons=tuple(raw["reasons"]),
        warnings=tuple(raw["warnings"]),
        conflicts=conflicts,
        details=raw["details"],
    )
