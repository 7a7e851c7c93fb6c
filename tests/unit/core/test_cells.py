"""What is kept of an exception, and what a row of a sample holds of its stages."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from ragbench import Case, Failure, GenerationResult, Outcome, RetrievalResult, Status, Trace
from ragbench.core.trace import SampleRow, sample_row
from tests.unit.io.traces import failed, measured, skipped


def failure_of(error: BaseException) -> Failure:
    try:
        raise error
    except BaseException as raised:  # noqa: BLE001  # whatever a RAG may raise
        return Failure.of(raised, stage="generate")


def test_the_chain_of_causes_is_kept_and_ends() -> None:
    try:
        try:
            try:
                raise OSError("connection refused")
            except OSError as error:
                raise LookupError("no index") from error
        except LookupError:
            raise ValueError("no answer")  # noqa: B904  # the chain by context is what is tested
    except ValueError as error:
        failure = Failure.of(error, stage="retrieve")
    assert failure.cause == "LookupError: no index <- OSError: connection refused"
    assert str(failure) == f"retrieve: ValueError: no answer <- {failure.cause}"
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    assert Failure.of(one, stage="retrieve").cause == "ValueError: two"


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\x00", "\x1b[31m", "名", ""])
def test_any_message_can_be_written_down(text: str) -> None:
    failure = failure_of(ValueError(text))
    for part in (failure.message, failure.traceback, str(failure)):
        assert part is not None
        part.encode()
    msgspec.json.encode(failure)


def test_a_message_that_cannot_be_made_is_reported() -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError("nested")

    said = "(its message cannot be read: RuntimeError)"
    assert failure_of(Broken()).message == said
    error = ValueError("outer")
    error.__cause__ = Broken()
    assert failure_of(error).cause == f"Broken: {said}"


def test_a_huge_message_keeps_its_ends() -> None:
    failure = failure_of(ValueError("begin" + "x" * 5_000_000 + "end"))
    assert re.fullmatch(r"begin.*\(4,990,008 characters\).*end", failure.message, re.S)
    assert failure.traceback is not None
    assert max(len(failure.message), len(failure.traceback)) < 11_000


SKIPPED, FAILED = skipped("no generator"), failed("retrieve")


def row(
    retrieval: Outcome[Any] = SKIPPED,
    generation: Outcome[Any] = SKIPPED,
    post_retrieval: Outcome[Any] | None = None,
    **facts: Any,
) -> SampleRow:
    case = Case(id="c", query="q", **facts)
    stages: Any = {} if post_retrieval is None else {"post_retrieval": post_retrieval}
    return sample_row(Trace(case=case, retrieval=retrieval, generation=generation, **stages))


def test_every_field_of_a_full_trace_is_found_and_lists_are_not_copied() -> None:
    contexts, candidates = ["one", "two"], ["a", "b"]
    facts = {"persona_name": "p", "query_style": "formal", "query_length": "short"}
    own: Any = {"reference_contexts": ("one",), "reference_context_ids": ("1",), "reference": "a"}
    found: Any = {"retrieved_contexts": ["one", "two"], "retrieved_context_ids": ["1", "2"]}
    made = row(
        measured(RetrievalResult(contexts, context_ids=["1", "2"])),
        measured(GenerationResult("a", multi_responses=candidates)),
        metadata={"rubrics": {"score1": "bad"}, **facts},
        **own,
    )
    assert made == SampleRow(
        user_input="q",
        response="a",
        multi_responses=["a", "b"],
        rubrics={"score1": "bad"},
        **own,
        **found,
        **facts,
    )
    assert made.retrieved_contexts is contexts and made.multi_responses is candidates


def test_failed_and_skipped_stages_leave_none_and_nothing_found_leaves_an_empty_list() -> None:
    assert row(FAILED) == SampleRow(user_input="q")
    declined = Outcome(status=Status.ABSTAINED, value=GenerationResult(""))
    nothing = row(measured(RetrievalResult([])), declined)
    assert nothing == SampleRow(user_input="q", retrieved_contexts=[], response="")


def test_what_generation_was_given_counts_as_retrieved() -> None:
    retrieval = measured(RetrievalResult(["a", "b"], context_ids=["1", "2"]))
    kept = measured(RetrievalResult(["b"], context_ids=["2"]))
    assert row(retrieval, post_retrieval=kept).retrieved_context_ids == ["2"]
    assert row(retrieval, post_retrieval=FAILED).retrieved_contexts is None


@pytest.mark.parametrize(
    ("facts", "reference_ids", "reference"),
    [
        ({"grades": {"a": 2, "b": 0, "c": 1, "d": -1}}, ["a", "c"], None),
        ({"grades": {"a": 2}, "reference_context_ids": ()}, (), None),
        ({"grades": {"a": 0}}, [], None),
        ({"alternative_references": ("x", "y")}, None, "x"),
    ],
)
def test_grades_and_alternatives_stand_in(
    facts: dict[str, Any], reference_ids: object, reference: str | None
) -> None:
    made = row(**facts)
    assert (made.reference_context_ids, made.reference) == (reference_ids, reference)


def test_metadata_of_another_type_is_the_users_own() -> None:
    metadata = {"rubrics": ["x"], "persona_name": 3, "query_style": None, "query_length": 12}
    assert row(metadata=metadata) == SampleRow(user_input="q")
