"""One query's verdict as a line of a file, and what a summary needs of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import NamedTuple

import orjson

from ragbench.errors import ConfigError, LLMStoppedError, MissingExtraError
from ragbench.records.cells import Failure
from ragbench.records.dumps import DumpWarning, RetrievalDump
from ragbench.records.validation import Validation
from ragbench.reports.validation_json import failed_verdict_object, validation_object
from ragbench.validation.intake import take_in
from ragbench.validation.lint import lint
from ragbench.validation.validator import Validator

__all__ = ["Judged", "Told", "dump_digest", "judge_with", "warning_texts"]


class Told(NamedTuple):
    """What a summary needs of a verdict."""

    query_id: str
    query: str
    chunks: int
    relevant: int
    answer_present: bool | None
    """None when the validator failed."""
    quality: str | None
    warnings: tuple[tuple[str, int], ...]
    """Kind, and how many chunks."""
    failure: str | None
    details: Mapping[str, float]


class Judged(NamedTuple):
    """One query's verdict."""

    digest: str
    """Of everything that the validator saw."""
    told: Told
    line: bytes
    """The verdict as JSON, without a line break."""


def dump_digest(dump: RetrievalDump) -> str:
    """Changes with anything in a query's retrieval that its line depends on."""
    chunks = [(chunk.id, chunk.text, chunk.score, chunk.metadata) for chunk in dump.chunks]
    told = [(warning.kind, warning.message) for warning in dump.warnings]
    seen = (dump.query_id, dump.query, chunks, told)
    try:
        options = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS
        written = orjson.dumps(seen, default=str, option=options)
    except TypeError:  # metadata that is nested too deep to be written
        written = repr(seen).encode("utf-8", "backslashreplace")
    return blake2b(written, digest_size=16).hexdigest()


def judge_with(make: Callable[[], Validator]) -> Callable[[RetrievalDump], Judged]:
    """The call that judges a query: a partial of this is what each process makes.

    Args:
        make: makes the validator.
    """
    validator = make()
    return lambda dump: _judge(validator, dump)


def _judge(validator: Validator, dump: RetrievalDump) -> Judged:
    found = lint(dump)
    kinds = tuple((warning.kind.value, warning.count) for warning in found)
    texts = list(map(_text, found))
    try:
        verdict = replace(validator.validate(dump.query, dump.chunks), query_id=dump.query_id)
    except (ConfigError, MissingExtraError, LLMStoppedError):
        raise  # every other query would fail alike
    except Exception as error:  # noqa: BLE001  # one query's failure is no other's
        return _failed(validator, dump, error, kinds, texts)
    more = [("conflict", f"conflict: {conflict.detail}") for conflict in verdict.conflicts]
    more += [("validator", f"validator: {text}") for text in _of_its_own(verdict, dump)]
    line = orjson.dumps(validation_object(verdict, [*texts, *(text for _, text in more)]))
    told = Told(
        query_id=dump.query_id,
        query=dump.query,
        chunks=len(dump.chunks),
        relevant=len(verdict.relevant_chunk_ids),
        answer_present=verdict.answer_present,
        quality=verdict.retrieval_quality.value,
        warnings=(*kinds, *((kind, 1) for kind, _ in more)),
        failure=None,
        details=dict(verdict.details),
    )
    return Judged(dump_digest(dump), told, line)


def _failed(
    validator: Validator,
    dump: RetrievalDump,
    error: Exception,
    kinds: tuple[tuple[str, int], ...],
    texts: list[str],
) -> Judged:
    failure = Failure.of(error, stage="validate")
    line = orjson.dumps(failed_verdict_object(dump.query_id, failure, validator.name, texts))
    told = Told(
        query_id=dump.query_id,
        query=dump.query,
        chunks=len(dump.chunks),
        relevant=0,
        answer_present=None,
        quality=None,
        warnings=kinds,
        failure=str(failure),
        details={},
    )
    return Judged(dump_digest(dump), told, line)


def warning_texts(dump: RetrievalDump, verdict: Validation) -> list[str]:
    """Everything that is to be warned of, each as ``kind: sentence``."""
    texts = list(map(_text, lint(dump)))
    texts += [f"conflict: {conflict.detail}" for conflict in verdict.conflicts]
    return texts + [f"validator: {text}" for text in _of_its_own(verdict, dump)]


def _text(warning: DumpWarning) -> str:
    examples = f" ({', '.join(warning.chunk_ids)})" if warning.chunk_ids else ""
    return f"{warning.kind.value}: {warning.message}{examples}"


def _of_its_own(verdict: Validation, dump: RetrievalDump) -> list[str]:
    """What a validator warns of that is not said of the dump already."""
    if not verdict.warnings:
        return []
    said = {*take_in(dump.query, dump.chunks).warnings, *(c.detail for c in verdict.conflicts)}
    return [text for text in verdict.warnings if text not in said]
