"""Post-retrieval as a whole: operators in order, what each did, and what a result keeps of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, cast

import msgspec

from ragbench.core.biography import POST_RETRIEVE, Step
from ragbench.core.checked import Checked
from ragbench.core.chunk import Chunk
from ragbench.core.outcome import Failure
from ragbench.core.record import Record
from ragbench.core.result import RetrievalResult
from ragbench.errors import InputError, InterfaceError, LLMStoppedError, RagbenchError
from ragbench.io.values import as_list, as_object
from ragbench.ledger.identity import described
from ragbench.ledger.scores import ScoreStore
from ragbench.post.chunks import DERIVED, chunks_of, query_of, written_back
from ragbench.post.operator import (
    Operator,
    OperatorInput,
    OperatorOutput,
    Query,
    RankedChunk,
    as_query,
    in_order,
    ranked,
)
from ragbench.post.rerank import Rerank, Reranker, stored, with_members

POST_RETRIEVAL_VERSION = 5
"""Raised whenever an operator gives something else for the same input: stored outcomes of the
stage are then not used again."""


class PostRetrieved(Record):
    """What stands between retrieval and generation for one question."""

    chunks: tuple[RankedChunk, ...]
    """The final chunks, best first (or in the order that a format operator gave), ranks from 1."""
    history_text: str
    """The text for generation: what the last format operator wrote, or else the chunks' texts with
    an empty line between them."""
    formatted: bool
    """Whether a format operator wrote the text."""
    steps: tuple[Step, ...]
    """What each operator did, in order."""

    @property
    def failures(self) -> tuple[Failure, ...]:
        """Everything that went wrong and was made up for."""
        return tuple(failure for step in self.steps for failure in step.failures)

    @property
    def texts(self) -> list[str]:
        """What generation is given: the formatted text alone, or the chunks' texts."""
        if self.formatted:
            return [self.history_text]
        return [entry.chunk.text for entry in self.chunks]


@dataclass(frozen=True, kw_only=True, slots=True)
class PostRetrieval(Checked):
    """Operators, applied one after the other.

    Built in Python, or from a file by `ragbench.post.build.load_post_retrieval`.

    Example:
        >>> from ragbench import build_operator
        >>> first = build_operator({"action": "filter", "type": "top_k", "k": 1})
        >>> stage = PostRetrieval(operators=(first,))
        >>> chunks = [Chunk(id="a", text="First."), Chunk(id="b", text="Second.")]
        >>> stage.run("Which?", chunks).history_text
        'First.'

    Raises:
        ConfigError: ``on_error`` is neither word.
    """

    operators: tuple[Operator, ...] = ()
    """None of them leaves everything as retrieval gave it."""
    on_error: Literal["keep", "raise"] = "keep"
    """``"keep"``: an operator that raises is passed over, and the failure stands on the result.
    ``"raise"``: what it raised is raised. `InputError` (a package that is not installed, a model
    that does not exist) is always raised: it would fail for every question."""
    now: datetime | None = None
    """The point in time that ages are counted from, where a query does not bring its own. A run
    sets its date, where an operator reads it (``reads_now``) and none is given; it is recorded."""
    score_field: str | None = None
    """Only for `execute`: the metadata key under which each item's final score is written."""

    @property
    def reads_now(self) -> bool:
        """Whether an operator, or a reranker within one, says that it reads the time."""
        steps = (*self.operators, *rerankers_of(self))
        return any(getattr(step, "reads_now", False) for step in steps)

    def dated(self, now: datetime) -> PostRetrieval:
        """The same with a time that ages are counted from, where that matters and none is set."""
        return replace(self, now=now) if self.now is None and self.reads_now else self

    def run(self, query: Query | str, chunks: Sequence[Chunk]) -> PostRetrieved:
        """Takes one question's chunks through every operator.

        Args:
            query: the question, with embeddings where they are known.
            chunks: what retrieval gave, best first; may be empty.

        Returns:
            The result, with what each operator did.

        Raises:
            RagbenchError: with ``on_error="raise"``, an operator failed.
        """
        query = as_query(query)
        if query.now is None and self.now is not None:
            query = replace(query, now=self.now)
        state = OperatorInput(query=query, chunks=tuple(ranked(chunks)))
        steps: list[Step] = []
        for operator in self.operators:
            output = self._applied(operator, state)
            steps.append(_step(operator.name, state.chunks, output))
            text = state.history_text if output.history_text is None else output.history_text
            state = replace(state, chunks=output.chunks, history_text=text)
        written = state.history_text
        plain = "\n\n".join(one.chunk.text for one in state.chunks)
        return PostRetrieved(
            chunks=state.chunks,
            history_text=plain if written is None else written,
            formatted=written is not None,
            steps=tuple(steps),
        )

    def execute(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """The same for mappings, as the operators document has it.

        Args:
            data: ``memory_data`` (a list of mappings with ``text`` and, where known, ``id`` or
                ``entry_id``, ``score`` and ``metadata``), ``question``, and where they are known
                ``query_embedding`` and ``now`` (a time, or a text that names one). Other keys are
                handed on.

        Returns:
            A new mapping with the final ``memory_data``, and ``history_text``. What was given
            stays as it is.

        Raises:
            InputError: ``memory_data``, an item in it or ``now`` is nothing of the kind.
            RagbenchError: with ``on_error="raise"``, an operator failed.
        """
        chunks = chunks_of(data)
        result = self.run(query_of(data), chunks)
        items = written_back(data, chunks, result.chunks, self.score_field)
        return {**data, "memory_data": items, "history_text": result.history_text}

    @property
    def identity(self) -> dict[str, Any]:
        """All that the stage's results depend on besides its input, as plain values."""
        return {
            "version": POST_RETRIEVAL_VERSION,
            "on_error": self.on_error,
            **({} if self.now is None else {"now": self.now.isoformat()}),
            "operators": [described(operator) for operator in self.operators],
        }

    def _applied(self, operator: Operator, state: OperatorInput) -> OperatorOutput:
        try:
            given = cast("object", operator.apply(state))
            left = given.chunks if isinstance(given, OperatorOutput) else given
            is_list = isinstance(left, Sequence) and not isinstance(left, str)
            chunks = [*cast("Sequence[RankedChunk]", left)] if is_list else []
            if not is_list or any(type(one) is not RankedChunk for one in chunks):
                raise InterfaceError(
                    f"{operator.name}.apply returned {type(given).__name__}: expected the entries "
                    "of context.chunks that are left, or an OperatorOutput"
                )
            output = given if isinstance(given, OperatorOutput) else OperatorOutput(chunks=())
            output = replace(output, chunks=in_order(chunks))
        except Exception as error:
            if self.on_error == "raise" or isinstance(error, (InputError, LLMStoppedError)):
                raise
            failure = Failure.of(error, stage=operator.name)
            return OperatorOutput(chunks=state.chunks, failures=(failure,))
        if output.failures and self.on_error == "raise":
            raise RagbenchError(str(output.failures[0]))
        return output


def rerankers_of(stage: PostRetrieval) -> list[Reranker]:
    """The rerankers of a stage, those within others too."""
    found = (getattr(one, "reranker", None) for one in stage.operators)
    return [member for one in found if one is not None for member in with_members(one)]


def with_stored_scores(stage: PostRetrieval, store: ScoreStore) -> PostRetrieval:
    """The stage with a store before each reranker that is slow or paid."""
    operators = tuple(
        replace(one, reranker=stored(one.reranker, store)) if isinstance(one, Rerank) else one
        for one in stage.operators
    )
    return replace(stage, operators=operators)


def _step(operator: str, before: Sequence[RankedChunk], output: OperatorOutput) -> Step:
    texts: dict[str, set[str]] = {}
    for entry in before:
        texts.setdefault(entry.chunk.id, set()).add(entry.chunk.text)
    rewrote: list[tuple[str, str | None]] = []
    made: list[tuple[str, tuple[str, ...]]] = []
    for chunk in (entry.chunk for entry in output.chunks):
        if chunk.id not in texts:
            # The chunks that it was made of, as `ragbench.post.chunks` notes them.
            last = [None, *as_list(chunk.metadata.get(DERIVED))][-1]
            made.append((chunk.id, tuple(map(str, as_list(as_object(last).get("from"))))))
        elif chunk.text not in texts[chunk.id]:
            rewrote.append((chunk.id, chunk.text))
    return Step(
        operator=operator,
        given=tuple([(entry.chunk.id, entry.score) for entry in before]),
        left=tuple([(entry.chunk.id, entry.score) for entry in output.chunks]),
        notes=output.notes,
        failures=output.failures,
        rewrote=tuple(rewrote),
        made=tuple(made),
        wrote_text=output.history_text is not None,
    )


def post_retrieved(
    stage: PostRetrieval, query: str, result: RetrievalResult[Any]
) -> RetrievalResult[Any]:
    given: Mapping[str, Any] = as_object(result.metadata)
    asked = Query(text=query, embedding=given.get("query_embedding"))
    done = stage.run(asked, result.to_chunks())
    chunks = [entry.chunk for entry in done.chunks]
    scores = [entry.score for entry in done.chunks if entry.score is not None]
    metadata = [dict(chunk.metadata) for chunk in chunks]
    return RetrievalResult(
        [chunk.text for chunk in chunks],
        context_ids=None if result.context_ids is None else [chunk.id for chunk in chunks],
        scores=scores if len(scores) == len(chunks) else None,
        context_metadata=metadata if any(metadata) else None,
        metadata={POST_RETRIEVE: _step_object(done, result)},
    )


def _step_object(done: PostRetrieved, given_result: RetrievalResult[Any]) -> dict[str, Any]:
    """What the operators did. An operator that left all as it was has no chunks of its own."""
    steps: list[dict[str, Any]] = []
    texts = {chunk.id: chunk.text for chunk in given_result.to_chunks()}
    final = {entry.chunk.id: entry.chunk.text for entry in done.chunks}
    for step in done.steps:
        rewrote = tuple(
            (id, None if text == final.get(id) or texts.get(id, "\0") in (text or "") else text)
            for id, text in step.rewrote
        )
        texts.update((id, text) for id, text in step.rewrote if text is not None)
        # No traceback: it is stored with every result, and names ragbench's own code only.
        failures = tuple(replace(failure, traceback=None) for failure in step.failures)
        plain = msgspec.to_builtins(replace(step, rewrote=rewrote, failures=failures))
        same = {"given"} if step.left != step.given else {"given", "left"}
        steps.append({k: v for k, v in plain.items() if (v or k == "left") and k not in same})
    record: dict[str, Any] = {"given": done.steps[0].given if done.steps else (), "steps": steps}
    return {**record, "text": done.history_text} if done.formatted else record
