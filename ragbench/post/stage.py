"""Post-retrieval as a whole: operators in order, what each did, and what a result keeps of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, cast

import msgspec

from ragbench.core.biography import POST_RETRIEVE, Step
from ragbench.core.calling import bears_calls
from ragbench.core.checked import Checked
from ragbench.core.chunk import Chunk
from ragbench.core.outcome import Failure
from ragbench.core.readable_metadata import DERIVED
from ragbench.core.record import Record
from ragbench.core.result import RetrievalResult
from ragbench.errors import InputError, InterfaceError, LLMStoppedError, RagbenchError, warn
from ragbench.io.values import as_list, as_object
from ragbench.ledger.identity import described
from ragbench.ledger.scores import ScoreStore
from ragbench.post.chunks import chunks_of, query_of, written_back
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

POST_RETRIEVAL_VERSION = 6
"""Raised whenever an operator gives something else for the same input: stored outcomes of the
stage are then not used again."""


class PostRetrieved(Record):
    """The result of post-retrieval for one question."""

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
        """The failures of all operators that were made up for, so that the chunks went on.

        A report counts them: with many, the numbers are not those of the operators.
        """
        failures: list[Failure] = []
        for step in self.steps:
            failures += step.failures
        return tuple(failures)

    @property
    def texts(self) -> list[str]:
        """The texts that generation is given: the formatted one alone, or those of the chunks.

        A formatted text is one text, in which the chunks are no longer apart.
        """
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
        """Whether an operator of the stage, or a reranker within one, reads the time.

        For such a stage a run sets a date, from which the ages of chunks are counted.
        """
        steps = (*self.operators, *rerankers_of(self))
        return any(getattr(step, "reads_now", False) for step in steps)

    @property
    def bears_calls(self) -> bool:
        """Whether several questions may be on their way through the operators at once.

        So it is where one of them waits for a language model and each of the others only computes:
        code of the user's, a service and a model on this machine may not be made for several
        threads.
        """
        is_waited_for = False
        for step in (*self.operators, *rerankers_of(self)):
            # Asked first: what waits for a model says itself that it bears several calls.
            if bears_calls(step):
                is_waited_for = True
            elif not _only_computes(step):
                return False
        return is_waited_for

    def dated(self, now: datetime) -> PostRetrieval:
        """The stage with a time that ages are counted from, if an operator reads one.

        A time that is set already stays. Without a set time, the same run on another day would give
        other ages.
        """
        if self.now is None and self.reads_now:
            return replace(self, now=now)
        return self

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
        # A time that comes with the question counts before that of the stage.
        if query.now is None and self.now is not None:
            query = replace(query, now=self.now)
        state = OperatorInput(query=query, chunks=tuple(ranked(chunks)))
        steps: list[Step] = []
        for operator in self.operators:
            output = self._applied(operator, state)
            steps.append(_step_of_operator(operator.name, state.chunks, output))
            # The next operator gets what this one left; the text stays until another one writes it.
            state = replace(state, chunks=output.chunks)
            if output.history_text is not None:
                state = replace(state, history_text=output.history_text)
        text = state.history_text
        formatted = text is not None
        if text is None:
            text = "\n\n".join(entry.chunk.text for entry in state.chunks)
        return PostRetrieved(
            chunks=state.chunks,
            history_text=text,
            formatted=formatted,
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
            A new mapping with the final ``memory_data``, ``history_text``, and ``steps``: of each
            operator its name (``operator``), whether it changed anything for generation
            (``acted``), its ``notes``, and its ``failures`` as texts. What was given stays as it
            is. A failure is a `RagbenchWarning`, too, and so is a step that did nothing and notes
            why.

        Raises:
            InputError: ``memory_data``, an item in it or ``now`` is nothing of the kind.
            RagbenchError: with ``on_error="raise"``, an operator failed.
        """
        chunks = chunks_of(data)
        result = self.run(query_of(data), chunks)
        items = written_back(data, chunks, result.chunks, self.score_field)
        steps: list[dict[str, Any]] = []
        for step in result.steps:
            steps.append(_step_item(step))
            _warn_of(step)
        return {
            **data,
            "memory_data": items,
            "history_text": result.history_text,
            "steps": steps,
        }

    @property
    def identity(self) -> dict[str, Any]:
        """All that the stage's results depend on besides its input, as plain values.

        A stored result is used again only for the same values, so they are part of what a run
        stores.
        """
        identity: dict[str, Any] = {
            "version": POST_RETRIEVAL_VERSION,
            "on_error": self.on_error,
        }
        # The date is left out where none is set: results that read no ages stay usable on another
        # day.
        if self.now is not None:
            identity["now"] = self.now.isoformat()
        identity["operators"] = [described(operator) for operator in self.operators]
        return identity

    def _applied(self, operator: Operator, state: OperatorInput) -> OperatorOutput:
        """The output of one operator for the chunks; after a failure that is kept, these stay.

        An error that would fail every question is raised.
        """
        try:
            returned = operator.apply(state)
            output = _checked_output(operator, returned)
        except Exception as error:
            # The two would fail, or stop, every question.
            if self.on_error == "raise" or isinstance(error, (InputError, LLMStoppedError)):
                raise
            failure = Failure.of(error, stage=operator.name)
            return OperatorOutput(chunks=state.chunks, failures=(failure,))
        # What an operator made up for by itself is an error, too, to whoever wants errors raised.
        if output.failures and self.on_error == "raise":
            raise RagbenchError(str(output.failures[0]))
        return output


def _only_computes(step: object) -> bool:
    """Whether an operator or a reranker is one of ours that asks neither a service nor a model.

    Such a step may run in several threads.
    """
    is_ours = type(step).__module__.startswith("ragbench.")
    return is_ours and not hasattr(step, "service") and not getattr(step, "asks_elsewhere", False)


def _checked_output(operator: Operator, returned: object) -> OperatorOutput:
    """The output of an operator, which may be a user's, with ranks set anew.

    Args:
        returned: what its `apply` returned.

    Raises:
        InterfaceError: it is no sequence of entries and no output.
    """
    if isinstance(returned, OperatorOutput):
        output = returned
        chunks: object = output.chunks
    else:
        # An output without chunks: those that the operator returned are checked and put in below.
        output = OperatorOutput(chunks=())
        chunks = returned
    if isinstance(chunks, Sequence) and not isinstance(chunks, str):
        entries = list(cast("Sequence[RankedChunk]", chunks))
        if all(type(entry) is RankedChunk for entry in entries):
            return replace(output, chunks=in_order(entries))
    raise InterfaceError(
        f"{operator.name}.apply returned {type(returned).__name__}: expected the entries "
        "of context.chunks that are left, or an OperatorOutput"
    )


def rerankers_of(stage: PostRetrieval) -> list[Reranker]:
    """The rerankers of a stage's operators, those within other rerankers included.

    What the stage needs, such as a model or the time, is asked of each of them.
    """
    rerankers: list[Reranker] = []
    for operator in stage.operators:
        reranker = getattr(operator, "reranker", None)
        if reranker is not None:
            rerankers += with_members(reranker)
    return rerankers


def with_stored_scores(stage: PostRetrieval, store: ScoreStore) -> PostRetrieval:
    """The stage with a store of scores before each reranker that is slow or paid.

    So variants that rerank the same chunks pay once.
    """
    operators: list[Operator] = []
    for operator in stage.operators:
        if isinstance(operator, Rerank):
            operator = replace(operator, reranker=stored(operator.reranker, store))
        operators.append(operator)
    return replace(stage, operators=tuple(operators))


def _step_of_operator(operator: str, before: Sequence[RankedChunk], output: OperatorOutput) -> Step:
    """The record of what one operator did to the chunks before it.

    Reports make of such records the way of each chunk to generation.

    Args:
        before: the chunks before the operator.
    """
    texts_before: dict[str, set[str]] = {}  # a list may hold an id twice
    for entry in before:
        texts_before.setdefault(entry.chunk.id, set()).add(entry.chunk.text)
    rewrote: list[tuple[str, str | None]] = []
    made: list[tuple[str, tuple[str, ...]]] = []
    for entry in output.chunks:
        chunk = entry.chunk
        if chunk.id not in texts_before:
            made.append((chunk.id, _ids_of_origins(chunk)))
        elif chunk.text not in texts_before[chunk.id]:
            rewrote.append((chunk.id, chunk.text))
    scores_before = [(entry.chunk.id, entry.score) for entry in before]
    scores_now = [(entry.chunk.id, entry.score) for entry in output.chunks]
    return Step(
        operator=operator,
        given=tuple(scores_before),
        left=tuple(scores_now),
        notes=output.notes,
        failures=output.failures,
        rewrote=tuple(rewrote),
        made=tuple(made),
        wrote_text=output.history_text is not None,
    )


def _step_item(step: Step) -> dict[str, Any]:
    """An operator's step as an item of the result of `PostRetrieval.execute`.

    Users' programs read these keys.
    """
    return {
        "operator": step.operator,
        "acted": step.acted,
        "notes": list(step.notes),
        "failures": [str(failure) for failure in step.failures],
    }


def _warn_of(step: Step) -> None:
    """Warns the caller of `PostRetrieval.execute` of a step that failed, or did nothing.

    A step that changed nothing is only warned of if it notes why. The chunks look the same as
    without the operator: a caller who does not read the steps would not see that it had no part in
    them.
    """
    # Failures come first: a failing operator changes nothing either.
    problems = [f"{failure.type}: {failure.message}" for failure in step.failures]
    if problems:
        outcome = "failed, and the chunks went on without it"
    elif step.notes and not step.acted:
        outcome = "changed nothing"
        problems = list(step.notes)
    else:
        return
    # The third caller up is the line that called `execute`.
    warn(f"{step.operator} {outcome}: {'; '.join(problems)}", level=3)


def _ids_of_origins(chunk: Chunk) -> tuple[str, ...]:
    """Ids of the chunks that a chunk was made of, as `ragbench.post.chunks` notes them.

    Empty for a chunk that was retrieved, or came from a service.
    """
    changes = as_list(chunk.metadata.get(DERIVED))
    if not changes:
        return ()
    last_change = as_object(changes[-1])
    origin_ids = as_list(last_change.get("from"))
    return tuple(str(origin_id) for origin_id in origin_ids)


def post_retrieved(
    stage: PostRetrieval, query: str, result: RetrievalResult[Any]
) -> RetrievalResult[Any]:
    """A retrieval as the stage leaves it; its metadata hold what each operator did.

    Journals store it in this form, and `ragbench.core.biography` reads it.
    """
    result_metadata: Mapping[str, Any] = as_object(result.metadata)
    embedding = result_metadata.get("query_embedding")
    question = Query(text=query, embedding=embedding)
    outcome = stage.run(question, result.to_chunks())
    chunks = [entry.chunk for entry in outcome.chunks]
    ids = None
    # Where the system gave no ids, those of the chunks are made up and mean nothing to others.
    if result.context_ids is not None:
        ids = [chunk.id for chunk in chunks]
    scores = [entry.score for entry in outcome.chunks if entry.score is not None]
    # A result has a score for each of its chunks, or none.
    are_scored = len(scores) == len(chunks)
    metadata = [dict(chunk.metadata) for chunk in chunks]
    return RetrievalResult(
        [chunk.text for chunk in chunks],
        context_ids=ids,
        scores=scores if are_scored else None,
        context_metadata=metadata if any(metadata) else None,
        metadata={POST_RETRIEVE: _stored_steps(outcome, result)},
    )


def _stored_steps(outcome: PostRetrieved, retrieved: RetrievalResult[Any]) -> dict[str, Any]:
    """The operators' steps as they are stored beside the chunks, without what these hold already.

    `ragbench.core.biography.steps_of` reads this form: a change makes stored runs unreadable.

    Args:
        retrieved: the retrieval that the operators began with.
    """
    final_texts = {entry.chunk.id: entry.chunk.text for entry in outcome.chunks}
    texts = {chunk.id: chunk.text for chunk in retrieved.to_chunks()}
    steps: list[dict[str, Any]] = []
    for step in outcome.steps:
        steps.append(_stored_step(step, texts, final_texts))
        # What the next step is given.
        for id, text in step.rewrote:
            if text is not None:
                texts[id] = text
    first_input = outcome.steps[0].given if outcome.steps else ()
    record: dict[str, Any] = {"given": first_input, "steps": steps}
    if outcome.formatted:
        record["text"] = outcome.history_text
    return record


def _stored_step(
    step: Step, texts: Mapping[str, str], final_texts: Mapping[str, str]
) -> dict[str, Any]:
    """One operator's step as it is stored, without what the other steps or the chunks hold.

    `ragbench.core.biography.steps_of` reads this form: a change makes stored runs unreadable.

    Args:
        texts: of the chunks before it, by id.
        final_texts: of the chunks that are left in the end.
    """
    rewrote: list[tuple[str, str | None]] = []
    for id, text in step.rewrote:
        # The text that a step wrote is left out where it is the chunk's final text, or holds the
        # chunk's whole text from before the step.
        before = texts.get(id)
        is_final = text == final_texts.get(id)
        holds_before = before is not None and before in (text or "")
        if is_final or holds_before:
            rewrote.append((id, None))
        else:
            rewrote.append((id, text))
    # No traceback: it is stored with every result, and names ragbench's own code only.
    failures = [replace(failure, traceback=None) for failure in step.failures]
    stored_step = replace(step, rewrote=tuple(rewrote), failures=tuple(failures))
    values: dict[str, Any] = msgspec.to_builtins(stored_step)
    # A step is given what the one before it left.
    del values["given"]
    if step.left == step.given:
        del values["left"]
    # An empty value is the default; but a list of no chunks says that all were dropped.
    return {key: value for key, value in values.items() if value or key == "left"}
