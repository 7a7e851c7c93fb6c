"""What is kept of an exception, and what a row of a sample holds of its stages."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from ragbench import Case, Failure, GenerationResult, Outcome, RetrievalResult, Status, Trace
from ragbench.core.trace import SampleRow, sample_row
from tests.unit.io.traces import failed, measured, skipped

# --- failures


def failure_of(error: BaseException) -> Failure:
    """The record of an error, which is raised first so that it has a traceback."""
    try:
        raise error
    except BaseException as raised:  # noqa: BLE001  # whatever a RAG may raise
        return Failure.of(raised, stage="generate")


@pytest.fixture
def chained() -> Failure:
    """An error that was raised from another one, while a third one was handled."""
    try:
        try:
            try:
                raise OSError("connection refused")
            except OSError as error:
                raise LookupError("no index") from error
        except LookupError:
            raise ValueError("no answer")  # noqa: B904  # the chain by context is what is tested
    except ValueError as error:
        return Failure.of(error, stage="retrieve")


def test_the_chain_of_causes_is_kept(chained: Failure) -> None:
    assert chained.cause == "LookupError: no index <- OSError: connection refused"


def test_a_failure_is_written_as_its_stage_its_error_and_its_causes(chained: Failure) -> None:
    assert str(chained) == (
        "retrieve: ValueError: no answer <- LookupError: no index <- OSError: connection refused"
    )


def test_a_chain_of_causes_that_is_a_circle_ends() -> None:
    question = ValueError("question")
    answer = ValueError("answer")
    question.__cause__ = answer
    answer.__cause__ = question

    assert Failure.of(question, stage="retrieve").cause == "ValueError: answer"


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\x00", "\x1b[31m", "名", ""])
def test_any_message_can_be_written_down(text: str) -> None:
    failure = failure_of(ValueError(text))

    assert failure.traceback is not None
    failure.message.encode()
    failure.traceback.encode()
    str(failure).encode()
    msgspec.json.encode(failure)


class BrokenError(Exception):
    """An error whose message cannot be made."""

    def __str__(self) -> str:
        raise RuntimeError("nested")


def test_a_message_that_cannot_be_made_is_reported() -> None:
    failure = failure_of(BrokenError())

    assert failure.message == "(its message cannot be read: RuntimeError)"


def test_a_cause_whose_message_cannot_be_made_is_reported() -> None:
    error = ValueError("outer")
    error.__cause__ = BrokenError()

    failure = failure_of(error)

    assert failure.cause == "BrokenError: (its message cannot be read: RuntimeError)"


@pytest.fixture(scope="module")
def failure_with_huge_message() -> Failure:
    return failure_of(ValueError("begin" + "x" * 5_000_000 + "end"))


def test_a_huge_message_keeps_its_ends(failure_with_huge_message: Failure) -> None:
    message = failure_with_huge_message.message

    assert re.fullmatch(r"begin.*\(4,990,008 characters\).*end", message, re.S)
    assert len(message) < 11_000


def test_the_traceback_of_a_huge_message_is_short(failure_with_huge_message: Failure) -> None:
    traceback = failure_with_huge_message.traceback

    assert traceback is not None
    assert len(traceback) < 11_000


# --- rows of samples

NO_GENERATOR = skipped("no generator")
FAILED_RETRIEVAL = failed("retrieve")


def row(
    retrieval: Outcome[Any] = NO_GENERATOR,
    generation: Outcome[Any] = NO_GENERATOR,
    post_retrieval: Outcome[Any] | None = None,
    **facts: Any,
) -> SampleRow:
    """The row of a case with these facts, after these stages."""
    case = Case(id="c", query="q", **facts)
    trace = Trace(
        case=case, retrieval=retrieval, generation=generation, post_retrieval=post_retrieval
    )
    return sample_row(trace)


def test_every_field_of_a_full_trace_is_found() -> None:
    sample = row(
        measured(RetrievalResult(["one", "two"], context_ids=["1", "2"])),
        measured(GenerationResult("a", multi_responses=["a", "b"])),
        reference="a",
        reference_contexts=("one",),
        reference_context_ids=("1",),
        metadata={
            "rubrics": {"score1": "bad"},
            "persona_name": "p",
            "query_style": "formal",
            "query_length": "short",
        },
    )

    assert sample == SampleRow(
        user_input="q",
        retrieved_contexts=["one", "two"],
        retrieved_context_ids=["1", "2"],
        response="a",
        multi_responses=["a", "b"],
        reference="a",
        reference_contexts=("one",),
        reference_context_ids=("1",),
        rubrics={"score1": "bad"},
        persona_name="p",
        query_style="formal",
        query_length="short",
    )


def test_lists_are_not_copied() -> None:
    contexts = ["one", "two"]
    candidates = ["a", "b"]

    sample = row(
        measured(RetrievalResult(contexts)),
        measured(GenerationResult("a", multi_responses=candidates)),
    )

    assert sample.retrieved_contexts is contexts
    assert sample.multi_responses is candidates


def test_failed_and_skipped_stages_leave_none() -> None:
    assert row(FAILED_RETRIEVAL, NO_GENERATOR) == SampleRow(user_input="q")


def test_an_empty_retrieval_leaves_an_empty_list_and_a_declined_answer_its_text() -> None:
    declined = Outcome(status=Status.ABSTAINED, value=GenerationResult(""))

    sample = row(measured(RetrievalResult([])), declined)

    assert sample == SampleRow(user_input="q", retrieved_contexts=[], response="")


RETRIEVED = measured(RetrievalResult(["a", "b"], context_ids=["1", "2"]))


def test_what_generation_was_given_counts_as_retrieved() -> None:
    reranked = measured(RetrievalResult(["b"], context_ids=["2"]))

    sample = row(RETRIEVED, post_retrieval=reranked)

    assert sample.retrieved_context_ids == ["2"]


def test_where_the_stage_after_retrieval_failed_generation_was_given_nothing() -> None:
    sample = row(RETRIEVED, post_retrieval=FAILED_RETRIEVAL)

    assert sample.retrieved_contexts is None


@pytest.mark.parametrize(
    ("facts", "reference_ids"),
    [
        ({"grades": {"a": 2, "b": 0, "c": 1, "d": -1}}, ["a", "c"]),
        ({"grades": {"a": 2}, "reference_context_ids": ()}, ()),
        ({"grades": {"a": 0}}, []),
    ],
    ids=["grades from 1 on", "ids come first", "no relevant grade"],
)
def test_grades_stand_in_for_ids(facts: dict[str, Any], reference_ids: object) -> None:
    sample = row(**facts)

    assert sample.reference_context_ids == reference_ids
    assert sample.reference is None


def test_an_alternative_reference_stands_in_for_the_reference() -> None:
    sample = row(alternative_references=("x", "y"))

    assert sample.reference == "x"
    assert sample.reference_context_ids is None


def test_metadata_of_another_type_is_the_users_own() -> None:
    metadata = {"rubrics": ["x"], "persona_name": 3, "query_style": None, "query_length": 12}

    assert row(metadata=metadata) == SampleRow(user_input="q")
