from __future__ import annotations

from typing import Any

import pytest

from ragbench import Case, Failure, GenerationResult, Outcome, RetrievalResult, Status, Trace
from ragbench.core.trace import SampleRow, sample_row

FAILED: Outcome[Any] = Outcome(
    status=Status.FAILED, failure=Failure(type="ValueError", message="boom", stage="retrieve")
)
SKIPPED: Outcome[Any] = Outcome(status=Status.SKIPPED, reason="no generator")


def measured(value: Any) -> Outcome[Any]:
    return Outcome(status=Status.MEASURED, value=value)


def test_every_field_of_a_full_trace_is_found_and_lists_are_not_copied() -> None:
    contexts, ids, candidates = ["one", "two"], ["1", "2"], ["a", "b"]
    facts = {"persona_name": "p", "query_style": "formal", "query_length": "short"}
    rubrics = {"score1": "bad"}
    case = Case(
        id="c",
        query="q",
        reference="a",
        reference_contexts=("one",),
        reference_context_ids=("1",),
        metadata={"rubrics": rubrics, **facts},
    )
    retrieval = measured(RetrievalResult(contexts, context_ids=ids))
    generation = measured(GenerationResult("a", multi_responses=candidates))
    made = sample_row(Trace(case=case, retrieval=retrieval, generation=generation))
    assert made == SampleRow(
        user_input="q",
        retrieved_contexts=["one", "two"],
        reference_contexts=("one",),
        retrieved_context_ids=["1", "2"],
        reference_context_ids=("1",),
        response="a",
        multi_responses=["a", "b"],
        reference="a",
        rubrics=rubrics,
        persona_name="p",
        query_style="formal",
        query_length="short",
    )
    assert made.retrieved_contexts is contexts
    assert made.multi_responses is candidates


def test_failed_and_skipped_stages_leave_none_and_nothing_found_leaves_an_empty_list() -> None:
    case = Case(id="c", query="q")
    made = sample_row(Trace(case=case, retrieval=FAILED, generation=SKIPPED))
    assert made == SampleRow(user_input="q")
    nothing = sample_row(
        Trace(
            case=case,
            retrieval=measured(RetrievalResult([])),
            generation=Outcome(status=Status.ABSTAINED, value=GenerationResult("")),
        )
    )
    assert nothing == SampleRow(user_input="q", retrieved_contexts=[], response="")


def test_what_generation_was_given_counts_as_retrieved() -> None:
    retrieval = measured(RetrievalResult(["a", "b"], context_ids=["1", "2"]))
    made = sample_row(
        Trace(
            case=Case(id="c", query="q"),
            retrieval=retrieval,
            post_retrieval=measured(RetrievalResult(["b"], context_ids=["2"])),
            generation=SKIPPED,
        )
    )
    assert made.retrieved_context_ids == ["2"]
    broken = Trace(
        case=Case(id="c", query="q"), retrieval=retrieval, post_retrieval=FAILED, generation=SKIPPED
    )
    assert sample_row(broken).retrieved_contexts is None


@pytest.mark.parametrize(
    ("case", "reference_ids", "reference"),
    [
        (Case(id="c", query="q", grades={"a": 2, "b": 0, "c": 1, "d": -1}), ["a", "c"], None),
        (Case(id="c", query="q", grades={"a": 2}, reference_context_ids=()), (), None),
        (Case(id="c", query="q", grades={"a": 0}), [], None),
        (Case(id="c", query="q", alternative_references=("x", "y")), None, "x"),
    ],
)
def test_grades_and_alternatives_stand_in(
    case: Case, reference_ids: object, reference: str | None
) -> None:
    made = sample_row(Trace(case=case, retrieval=SKIPPED, generation=SKIPPED))
    assert made.reference_context_ids == reference_ids
    assert made.reference == reference


def test_metadata_of_another_type_is_the_users_own() -> None:
    metadata = {"rubrics": ["x"], "persona_name": 3, "query_style": None, "query_length": 12}
    case = Case(id="c", query="q", metadata=metadata)
    made = sample_row(Trace(case=case, retrieval=SKIPPED, generation=SKIPPED))
    assert made == SampleRow(user_input="q")
