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
    """The outcome of a stage whose result the source holds: measured, or an abstention.

    The outcome is marked as recorded, so that reports do not show it as measured just now.

    Args:
        seconds: how long the stage took; None leaves the time unmeasured.
    """
    status = Status.MEASURED
    if getattr(value, "abstained", None) is True:  # only an answer has this field
        status = Status.ABSTAINED
    return Outcome(status=status, value=value, seconds=seconds, known=Known.RECORDED)


def failed_outcome(stage: str, message: str, *, seconds: float | None = None) -> Outcome[Any]:
    """The outcome of a stage that failed when the source was recorded.

    Such an outcome counts as a failure, and not as unmeasured: a system's errors may not improve
    its scores.

    Args:
        stage: ``"retrieve"`` or ``"generate"``.
        message: what the source says of the error, whose type it does not say.
    """
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
        """The retrieval of a row whose chunks are objects, in any form that a store or tool writes.

        The first row decides how the chunks of all rows of the source are read.

        Args:
            source: the field that holds the chunks.

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
        """The reader of a source's chunks.

        By the fields that the user named, else by the first row.

        Stores and tools write chunks in many forms, and no user should have to describe his.

        Args:
            source: the field of a row that holds the chunks.

        Raises:
            ValueProblem: no form of chunks fits.
        """
        overrides = {"chunks": source}
        for name, path in self.fields.items():
            if name in HIT_FIELDS:
                overrides[HIT_FIELDS[name]] = path
        try:
            return guess_mapping([record], overrides=overrides)
        except DataError as error:
            # After its first sentence the message names options that only dumps have.
            reason = error.problems[0].message.partition(". ")[0]
            raise ValueProblem(reason) from error

    def complete_ids(self, ids: Sequence[str]) -> tuple[str, ...]:
        """The ids of retrieved chunks by rank, with a made one such as ``#3`` for a missing one.

        Two chunks without ids would otherwise count as one. Missing ids are counted for a note.
        """
        if all(ids):
            return tuple(ids)
        self.warnings[str(WarningKind.MISSING_ID)] += sum(not id for id in ids)
        return tuple(id or f"#{rank}" for rank, id in enumerate(ids, start=1))

    def of_ids(self, ids: Sequence[str], scores: Sequence[float] | None) -> RetrievalResult[Any]:
        """The retrieval of ids without texts; these are looked up in the corpus where there is one.

        The text of an unknown id is empty: rank metrics need the ids alone. What is missing is
        counted for a note.

        Args:
            ids: the chunks' ids by rank.
            scores: as many as ids, or None.
        """
        texts: Mapping[str, str] = {}
        if self.texts is not None:
            # True also where the corpus knows none of the ids: the report says that it was used.
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
    """A query's chunks from a retrieval log as a retrieval, as if a RAG had returned it just now.

    So recorded chunks are scored like measured ones. Metadata that no chunk has becomes None.

    Args:
        has_ids: whether the chunks' ids are the source's. If they are only places that ragbench
            numbered, they are dropped: they must not match a case's relevant ids.
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
    """What a system did, by stage (``retrieve``, ``generate``), as the fields of a row record it.

    What a case is and what a system did stay apart: the fields of outcomes are taken out of
    `fields`, so that the rest makes the case. What is wrong is noted, and that outcome is missing.

    Args:
        fields: values by the field of a case or of what a system did; changed in place.
        chunks: reads chunks that are objects, and looks texts up by id.
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
    # An error counts before chunks: a search that failed has no result to measure.
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
    # Outcomes that the reader of the row's format has made itself, such as that of traces, know
    # more than single fields do.
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
    """What a row says was retrieved, which it may hold as texts, as objects, or as ids alone.

    The ids and scores of the chunks may be in lists of their own, which have to fit the chunks one
    by one.

    Args:
        contexts: a tuple of texts, or objects as they came; None where there are ids alone.
        ids: the chunks' ids by rank, where the row has a list of them.
        scores: the chunks' scores by rank, where the row has a list of them.
        row: the record, by which the form of objects is recognised.
        chunks: reads objects, and looks up the texts of ids.
        source: the field of the row that holds the contexts.

    Raises:
        ValueProblem: there are not as many ids or scores as texts, or others than objects hold.
    """
    if contexts is None:
        return chunks.of_ids(ids or (), scores)
    # Texts have come as a tuple (`as_contexts`); a list or an object holds objects.
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
    """A retrieval of chunks that are objects, with ids and scores from lists beside the objects.

    The objects' own scores count before a list of them.

    Raises:
        ValueProblem: the objects hold other ids, or a list has not an entry for each of them.
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
    """Refuses a list of ids or scores without one entry for each chunk: which is whose is unknown.

    Args:
        name: ``"ids"`` or ``"scores"``, for the message.
    """
    count = len(result.contexts)
    if len(entries) != count:
        raise ValueProblem(f"found {count} different chunks and {len(entries)} {name} for them")


def _generation(values: Mapping[str, Any]) -> Outcome[Any] | None:
    """The recorded answer or failure of a row; None where its fields hold neither.

    A null response is no answer, while an empty text is one, and an abstention needs no text. Of
    several candidates the first is the response where the row names none.

    Args:
        values: by field of what a system did.
    """
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
    """How long a recorded stage took; None where the row does not say it, or it cannot be true.

    Seconds count before milliseconds. A negative time becomes unmeasured rather than zero: it would
    falsify means.

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
