"""Stage 4 as a whole: a list of operators between retrieval and generation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from ragbench.errors import InputError, InterfaceError, LLMStoppedError, RagbenchError
from ragbench.postretrieval.contract import (
    Operator,
    OperatorInput,
    OperatorOutput,
    in_order,
    refuse,
)
from ragbench.postretrieval.memory_data import chunks_of, query_of, written_back
from ragbench.postretrieval.query import Query
from ragbench.postretrieval.ranked import RankedChunk, ranked
from ragbench.postretrieval.settings import one_of
from ragbench.records.cells import Failure
from ragbench.records.corpus import Chunk
from ragbench.settings.described import described

__all__ = ["POST_RETRIEVAL_VERSION", "PostRetrieval", "PostRetrieved", "Step"]

POST_RETRIEVAL_VERSION = 2
"""Raised whenever an operator gives something else for the same input: stored outcomes of the
stage are then not used again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """What one operator made of what stood before it."""

    operator: str
    """Its name."""
    given: tuple[tuple[str, float | None], ...]
    """Id and score of each chunk that it was given, in order."""
    left: tuple[tuple[str, float | None], ...]
    """Id and score of each chunk that it left, in order."""
    notes: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()

    @property
    def dropped(self) -> tuple[str, ...]:
        """Ids of chunks that it left out."""
        left = {id for id, _ in self.left}
        return tuple(id for id, _ in self.given if id not in left)


@dataclass(frozen=True, kw_only=True, slots=True)
class PostRetrieved:
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
class PostRetrieval:
    """Operators, applied one after the other.

    Built in Python, or from a file by `ragbench.postretrieval.config.load_post_retrieval`.

    Example:
        >>> from ragbench.postretrieval.filter.top_k import TopK
        >>> stage = PostRetrieval(operators=(TopK(k=1),))
        >>> chunks = [Chunk(id="a", text="First."), Chunk(id="b", text="Second.")]
        >>> stage.run(Query(text="Which?"), chunks).history_text
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
    score_field: str | None = None
    """Only for `execute`: the metadata key under which each item's final score is written."""

    def __post_init__(self) -> None:
        """Checks the settings."""
        refuse(one_of("on_error", self.on_error, ("keep", "raise")))

    def run(self, query: Query, chunks: Sequence[Chunk]) -> PostRetrieved:
        """Takes one question's chunks through every operator.

        Args:
            query: the question.
            chunks: what retrieval gave, best first; may be empty.

        Returns:
            The result, with what each operator did.

        Raises:
            RagbenchError: with ``on_error="raise"``, an operator failed.
        """
        state = OperatorInput(query=query, chunks=tuple(ranked(chunks)))
        steps: list[Step] = []
        for operator in self.operators:
            output = self._applied(operator, state)
            steps.append(
                Step(
                    operator=operator.name,
                    given=_snapshot(state.chunks),
                    left=_snapshot(output.chunks),
                    notes=output.notes,
                    failures=output.failures,
                )
            )
            written = state.history_text if output.history_text is None else output.history_text
            state = replace(state, chunks=output.chunks, history_text=written)
        text = state.history_text
        return PostRetrieved(
            chunks=state.chunks,
            history_text=_plain(state.chunks) if text is None else text,
            formatted=text is not None,
            steps=tuple(steps),
        )

    def execute(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """The same for mappings, as the operators document has it.

        Args:
            data: ``memory_data`` (a list of mappings with ``text`` and, where known, ``id`` or
                ``entry_id``, ``score`` and ``metadata``), ``question``, and where it is known
                ``query_embedding``. Other keys are handed on.

        Returns:
            A new mapping with the final ``memory_data``, and ``history_text``. What was given
            stays as it is.

        Raises:
            InputError: ``memory_data`` or an item in it is nothing of the kind.
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
            "operators": [described(operator) for operator in self.operators],
        }

    def _applied(self, operator: Operator, state: OperatorInput) -> OperatorOutput:
        try:
            output = _checked(operator.apply(state), operator)
            output = replace(output, chunks=in_order(output.chunks))
        except (InputError, LLMStoppedError):
            raise
        except Exception as error:
            if self.on_error == "raise":
                raise
            failure = Failure.of(error, stage=operator.name)
            return OperatorOutput(chunks=state.chunks, failures=(failure,))
        if output.failures and self.on_error == "raise":
            raise RagbenchError(str(output.failures[0]))
        return output


def _checked(output: object, operator: Operator) -> OperatorOutput:
    if isinstance(output, OperatorOutput):
        return output
    raise InterfaceError(
        f"{operator.name}.apply returned {type(output).__name__}, not an OperatorOutput"
    )


def _snapshot(chunks: Sequence[RankedChunk]) -> tuple[tuple[str, float | None], ...]:
    return tuple([(entry.chunk.id, entry.score) for entry in chunks])


def _plain(chunks: Sequence[RankedChunk]) -> str:
    return "\n\n".join(entry.chunk.text for entry in chunks)
