"""What a source says that a system did, as recorded outcomes.

Nothing is made up: a null response is not an answer, an empty one is an empty answer; a time or a
token count that the source does not give stays unmeasured; an error in the source is a failure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from ragbench.core.cited_sources import CITED_SOURCES
from ragbench.core.outcome import Failure, Known, Outcome, Status
from ragbench.core.result import GenerationResult, RetrievalResult
from ragbench.core.validation import RetrievalDump, WarningKind
from ragbench.errors import DataError
from ragbench.io.dumps.decode import Decoder
from ragbench.io.dumps.form import DumpRecord
from ragbench.io.dumps.guess import guess_mapping
from ragbench.io.fields import HIT_FIELDS, outcome_fields
from ragbench.io.source import Problems, Row
from ragbench.io.values import ValueProblem

_TOKENS = ("prompt_tokens", "completion_tokens", "total_tokens")
ERROR = "RecordedError"
"""Type of a failure of which the source has the message alone."""


def recorded_outcome(value: Any, *, seconds: float | None = None) -> Outcome[Any]:
    """A value that the source holds; an abstention where the source says that it is one."""
    declined = getattr(value, "abstained", None) is True
    status = Status.ABSTAINED if declined else Status.MEASURED
    return Outcome(status=status, value=value, seconds=seconds, known=Known.RECORDED)


def failed_outcome(stage: str, message: str, *, seconds: float | None = None) -> Outcome[Any]:
    failure = Failure(type=ERROR, message=message, stage=stage)
    return Outcome(status=Status.FAILED, failure=failure, seconds=seconds, known=Known.RECORDED)


Texts = Callable[[Iterable[str]], Mapping[str, str]]
"""Looks up texts by id; ids that it does not know are left out."""


@dataclass(kw_only=True, slots=True)
class Retrieved:
    """Reads what was retrieved, where it is objects, or ids alone."""

    fields: Mapping[str, str] = field(default_factory=dict[str, str])
    """What the user said of fields of a chunk; see `ragbench.io.fields.HIT_FIELDS`."""
    texts: Texts | None = None
    warnings: Counter[str] = field(default_factory=Counter[str])
    ids_alone: int = 0
    """Records with ids whose texts are not known."""
    looked_up: bool = False
    unknown_ids: int = 0
    decoder: Decoder | None = None
    """How a chunk's fields are found; None while none was read."""

    def of_objects(self, row: Row, source: str) -> RetrievalResult[Any]:
        record, decoder = DumpRecord(row.path, row.line, row.values), self.decoder
        if decoder is None:  # the first row shows how chunks that are objects are read
            named = self.fields.items()
            given = {HIT_FIELDS[name]: path for name, path in named if name in HIT_FIELDS}
            try:
                decoder = guess_mapping([record], overrides={"chunks": source, **given})
            except DataError as error:
                raise ValueProblem(error.problems[0].message.partition(". ")[0]) from error
            self.decoder = decoder
        raw = next(iter(decoder.raw(record)), None)
        if raw is None:
            raise ValueProblem("no chunks are recognised")
        dump = decoder.retrieval(raw, "", "")
        has_ids = decoder.mapping.id is not None
        for warning in dump.warnings:
            if has_ids or warning.kind is not WarningKind.MISSING_ID:
                self.warnings[str(warning.kind)] += warning.count
        return retrieved(dump, has_ids=has_ids)

    def named(self, ids: Sequence[str]) -> tuple[str, ...]:
        """Ids by rank; a chunk without an id is named by its rank, and counted."""
        missing = sum(not id for id in ids)
        if missing:
            self.warnings[str(WarningKind.MISSING_ID)] += missing
        return tuple(id or f"#{rank}" for rank, id in enumerate(ids, start=1))

    def of_ids(self, ids: Sequence[str], scores: Sequence[float] | None) -> RetrievalResult[Any]:
        """The retrieval of ids; the text of one that is not known is empty."""
        texts: Mapping[str, str] = {}
        if self.texts is not None:
            self.looked_up = True
            texts = self.texts(ids)
            self.unknown_ids += sum(id not in texts for id in ids)
        elif ids:
            self.ids_alone += 1
        return RetrievalResult(
            [texts.get(id, "") for id in ids],
            context_ids=list(ids),
            scores=None if scores is None else list(scores),
        )


def retrieved(dump: RetrievalDump, *, has_ids: bool = True) -> RetrievalResult[Any]:
    """A query's chunks as a retrieval."""
    result: RetrievalResult[Any] = RetrievalResult.from_chunks(dump.chunks)
    if not has_ids:
        result = replace(result, context_ids=None)
    if not any(result.context_metadata or ()):
        result = replace(result, context_metadata=None)
    return result


def outcomes(
    found: dict[str, Any], row: Row, chunks: Retrieved, source: str | None, problems: Problems
) -> dict[str, Outcome[Any]]:
    """Takes what a system did out of a row's fields."""
    recorded: dict[str, Outcome[Any]] = {}
    said = {name: found.pop(name) for name in outcome_fields() if name in found}
    seconds, error = _seconds(said, "retrieval_"), said.get("retrieval_error")
    contexts, ids = said.get("retrieved_contexts"), said.get("retrieved_context_ids")
    if ids is not None:
        ids = chunks.named(ids)
    if error:
        recorded["retrieve"] = failed_outcome("retrieve", error, seconds=seconds)
    elif contexts is not None or ids is not None:
        try:
            result = _result(contexts, ids, said.get("retrieved_scores"), row, chunks, source)
            recorded["retrieve"] = recorded_outcome(result, seconds=seconds)
        except ValueProblem as problem:
            problems.add(str(problem), path=row.path, line=row.line, field=source)
    if (generation := _generation(said)) is not None:
        recorded["generate"] = generation
    # What a form of its own says knows more than single fields do.
    return {**recorded, **row.recorded} if row.recorded else recorded


def _result(
    contexts: object,
    ids: Sequence[str] | None,
    scores: Sequence[float] | None,
    row: Row,
    chunks: Retrieved,
    source: str | None,
) -> RetrievalResult[Any]:
    if contexts is None:
        return chunks.of_ids(ids or (), scores)
    if not isinstance(contexts, tuple):
        return chunks.of_objects(row, source or "")
    texts = cast("tuple[str, ...]", contexts)
    for name, values in (("ids", ids), ("scores", scores)):
        if values is not None and len(values) != len(texts):
            raise ValueProblem(f"found {len(texts)} texts and {len(values)} {name} for them")
    return RetrievalResult(
        list(texts),
        context_ids=None if ids is None else list(ids),
        scores=None if scores is None else list(scores),
    )


def _generation(said: Mapping[str, Any]) -> Outcome[Any] | None:
    seconds, error = _seconds(said, ""), said.get("error")
    usage: dict[str, Any] = dict(said.get("usage") or {})
    counts = {name: count for name in _TOKENS if (count := said.get(name)) is not None}
    for name, count in counts.items():
        usage[name] = int(count) if count.is_integer() else count
    metadata = usage
    if "citations" in said:
        metadata = {**usage, CITED_SOURCES: list(said["citations"])}
    candidates, abstained = said.get("multi_responses"), said.get("abstained")
    response = said.get("response", candidates[0] if candidates else None)
    # A text beside an error is not an answer: it may be the error itself, or half an answer.
    if error:
        return failed_outcome("generate", error, seconds=seconds)
    if response is None and abstained is not True:
        return None
    result: GenerationResult[Any] = GenerationResult(
        response or "",
        multi_responses=list(candidates) if candidates else None,
        confidence=said.get("confidence"),
        abstained=abstained,
        metadata=metadata or None,
    )
    return recorded_outcome(result, seconds=seconds)


def _seconds(said: Mapping[str, Any], stage: str) -> float | None:
    seconds: float | None = said.get(f"{stage}seconds")
    thousandths: float | None = said.get(f"{stage}milliseconds")
    if seconds is None and thousandths is not None:
        seconds = thousandths / 1000
    return None if seconds is None or seconds < 0 else seconds
