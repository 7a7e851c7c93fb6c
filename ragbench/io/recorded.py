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
from ragbench.safe_text import counted

_TOKEN_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
ERROR = "RecordedError"
"""Type of a failure of which the source has the message alone."""


def recorded_outcome(value: Any, *, seconds: float | None = None) -> Outcome[Any]:
    """A value that the source holds; an abstention where the source says that it is one."""
    status = Status.MEASURED
    if getattr(value, "abstained", None) is True:  # only an answer has this field
        status = Status.ABSTAINED
    return Outcome(status=status, value=value, seconds=seconds, known=Known.RECORDED)


def failed_outcome(stage: str, message: str, *, seconds: float | None = None) -> Outcome[Any]:
    """A failure of which the source holds the message: it counts as one, and not as unmeasured."""
    failure = Failure(type=ERROR, message=message, stage=stage)
    return Outcome(status=Status.FAILED, failure=failure, seconds=seconds, known=Known.RECORDED)


Texts = Callable[[Iterable[str]], Mapping[str, str]]
"""Looks up texts by id; ids that it does not know are left out."""


@dataclass(kw_only=True, slots=True)
class Retrieved:
    """Reads what was retrieved, where it is objects, or ids alone. Counts what a report notes."""

    fields: Mapping[str, str] = field(default_factory=dict[str, str])
    """What the user said of fields of a chunk; see `ragbench.io.fields.HIT_FIELDS`."""
    texts: Texts | None = None
    warnings: Counter[str] = field(default_factory=Counter[str])
    ids_alone: int = 0
    """Records with ids whose texts are not known."""
    looked_up: bool = False
    """Whether any text was looked up."""
    unknown_ids: int = 0
    decoder: Decoder | None = None
    """How a chunk's fields are found; None while none was read."""

    def of_objects(self, row: Row, source: str) -> RetrievalResult[Any]:
        """The retrieval of a row whose chunks are objects.

        Args:
            source: the field that holds them.

        Raises:
            ValueProblem: no chunks are recognised in it.
        """
        record = DumpRecord(row.path, row.line, row.values)
        if self.decoder is None:  # the first row shows how chunks that are objects are read
            self.decoder = self._guess_decoder(record, source)
        raw = next(self.decoder.raw(record), None)
        if raw is None:
            raise ValueProblem("no chunks are recognised")
        dump = self.decoder.retrieval(raw, "", "")
        has_ids = self.decoder.mapping.id is not None
        for warning in dump.warnings:
            # Where no chunk of the source has an id, nothing is missing.
            if has_ids or warning.kind is not WarningKind.MISSING_ID:
                self.warnings[str(warning.kind)] += warning.count
        return retrieved(dump, has_ids=has_ids)

    def _guess_decoder(self, record: DumpRecord, source: str) -> Decoder:
        """How a row's chunks are read, as its first record shows, and as the user said."""
        overrides = {"chunks": source}
        for name, path in self.fields.items():
            if name in HIT_FIELDS:
                overrides[HIT_FIELDS[name]] = path
        try:
            return guess_mapping([record], overrides=overrides)
        except DataError as error:
            # What follows its first sentence are options of the reader of dumps.
            reason = error.problems[0].message.partition(". ")[0]
            raise ValueProblem(reason) from error

    def complete_ids(self, ids: Sequence[str]) -> tuple[str, ...]:
        """Ids by rank; a chunk without an id is called by its rank, such as ``#3``, and counted."""
        if all(ids):
            return tuple(ids)
        self.warnings[str(WarningKind.MISSING_ID)] += sum(not id for id in ids)
        return tuple(id or f"#{rank}" for rank, id in enumerate(ids, start=1))

    def of_ids(self, ids: Sequence[str], scores: Sequence[float] | None) -> RetrievalResult[Any]:
        """The retrieval of ids; the text of one that is not known is empty."""
        texts: Mapping[str, str] = {}
        if self.texts is not None:
            self.looked_up = True
            texts = self.texts(ids)
            unknown_ids = [id for id in ids if id not in texts]
            self.unknown_ids += len(unknown_ids)
        elif ids:
            self.ids_alone += 1
        return RetrievalResult(
            [texts.get(id, "") for id in ids],
            context_ids=list(ids),
            scores=None if scores is None else list(scores),
        )


def retrieved(dump: RetrievalDump, *, has_ids: bool = True) -> RetrievalResult[Any]:
    """A query's chunks as a retrieval, as if a RAG had returned it just now.

    Args:
        has_ids: whether the chunks' ids are the source's, or only places that ragbench numbered.
    """
    result: RetrievalResult[Any] = RetrievalResult.from_chunks(dump.chunks)
    if not has_ids:
        result = replace(result, context_ids=None)
    if not any(result.context_metadata or ()):
        result = replace(result, context_metadata=None)
    return result


def outcomes(
    fields: dict[str, Any], row: Row, chunks: Retrieved, source: str | None, problems: Problems
) -> dict[str, Outcome[Any]]:
    """What a system did, by stage: it is taken out of a row's fields, and those of a case stay.

    Args:
        fields: values by the field of a case or of what a system did.
        source: the field of the row that holds what was retrieved.
    """
    values = {name: fields.pop(name) for name in outcome_fields() if name in fields}
    recorded: dict[str, Outcome[Any]] = {}
    seconds = _seconds(values, "retrieval_")
    error = values.get("retrieval_error")
    contexts = values.get("retrieved_contexts")
    ids = values.get("retrieved_context_ids")
    if ids is not None:
        ids = chunks.complete_ids(ids)
    if error:
        recorded["retrieve"] = failed_outcome("retrieve", error, seconds=seconds)
    elif contexts is not None or ids is not None:
        try:
            result = _retrieval(contexts, ids, values.get("retrieved_scores"), row, chunks, source)
            recorded["retrieve"] = recorded_outcome(result, seconds=seconds)
        except ValueProblem as problem:
            problems.add(str(problem), path=row.path, line=row.line, field=source)
    generation = _generation(values)
    if generation is not None:
        recorded["generate"] = generation
    # What a form of its own says knows more than single fields do.
    recorded.update(row.recorded)
    return recorded


def _retrieval(
    contexts: object,
    ids: Sequence[str] | None,
    scores: Sequence[float] | None,
    row: Row,
    chunks: Retrieved,
    source: str | None,
) -> RetrievalResult[Any]:
    """What was retrieved, as texts, as objects, or as ids alone.

    Args:
        contexts: a tuple of texts, or objects as they came; None where there are ids alone.
        row: the record, by which the form of objects is recognised.
        chunks: reads objects, and looks up the texts of ids.
        source: the field of the row that holds the contexts.

    Raises:
        ValueProblem: there are not as many ids or scores as texts, or others than objects hold.
    """
    if contexts is None:
        return chunks.of_ids(ids or (), scores)
    if not isinstance(contexts, tuple):
        result = chunks.of_objects(row, source or "")
        return _with_lists(result, ids, scores)
    texts = cast("tuple[str, ...]", contexts)
    for name, entries in (("ids", ids), ("scores", scores)):
        if entries is not None and len(entries) != len(texts):
            raise ValueProblem(
                f"found {counted(len(texts), 'text')} and {len(entries)} {name} for them"
            )
    return RetrievalResult(
        list(texts),
        context_ids=None if ids is None else list(ids),
        scores=None if scores is None else list(scores),
    )


def _with_lists(
    result: RetrievalResult[Any], ids: Sequence[str] | None, scores: Sequence[float] | None
) -> RetrievalResult[Any]:
    """A retrieval of objects with the ids and scores that are in lists beside them.

    Raises:
        ValueProblem: the objects hold others, or there are not as many of them.
    """
    if ids is not None:
        if result.context_ids is None:
            _check_count(result, ids, "ids")
            result = replace(result, context_ids=list(ids))
        # Objects with the same id are one chunk, so that its id is in the list several times.
        elif [*dict.fromkeys(ids)] != [*result.context_ids]:
            raise ValueProblem(
                "the chunks hold other ids than retrieved_context_ids; choose one: "
                "--field retrieved_context_ids= or --field chunk_id="
            )
    if scores is not None and result.scores is None:
        _check_count(result, scores, "scores")
        result = replace(result, scores=list(scores))
    return result


def _check_count(result: RetrievalResult[Any], entries: Sequence[object], name: str) -> None:
    """Refuses a list that has not an entry for each chunk: which is whose cannot be known."""
    count = len(result.contexts)
    if len(entries) != count:
        raise ValueProblem(f"found {count} different chunks and {len(entries)} {name} for them")


def _generation(values: Mapping[str, Any]) -> Outcome[Any] | None:
    """The answer or the failure that a row's fields tell of; None where they tell of neither."""
    seconds = _seconds(values, "")
    error = values.get("error")
    # A text beside an error is not an answer: it may be the error itself, or half an answer.
    if error:
        return failed_outcome("generate", error, seconds=seconds)
    candidates = values.get("multi_responses")
    abstained = values.get("abstained")
    response = values.get("response")
    if "response" not in values and candidates:
        response = candidates[0]
    if response is None and abstained is not True:
        return None
    metadata: dict[str, Any] = dict(values.get("usage") or {})
    for name in _TOKEN_COUNTS:
        count = values.get(name)
        if count is not None:
            # Numbers are read as floats: a count is shown without a point.
            metadata[name] = int(count) if count.is_integer() else count
    if "citations" in values:
        metadata[CITED_SOURCES] = list(values["citations"])
    result: GenerationResult[Any] = GenerationResult(
        response or "",
        multi_responses=list(candidates) if candidates else None,
        confidence=values.get("confidence"),
        abstained=abstained,
        metadata=metadata or None,
    )
    return recorded_outcome(result, seconds=seconds)


def _seconds(values: Mapping[str, Any], stage: str) -> float | None:
    """How long a stage took; None where it is not known, or cannot be true.

    Args:
        stage: what the fields' names begin with: ``retrieval_``, or nothing for the answer.
    """
    seconds: float | None = values.get(f"{stage}seconds")
    milliseconds: float | None = values.get(f"{stage}milliseconds")
    if seconds is None and milliseconds is not None:
        seconds = milliseconds / 1000
    if seconds is None or seconds < 0:
        return None
    return seconds
