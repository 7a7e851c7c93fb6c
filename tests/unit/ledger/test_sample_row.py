from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ragbench import Case, Failure, GenerationResult, Outcome, RetrievalResult, Status, Trace
from ragbench.core.trace import SampleRow, SampleRowError, normalise_id, sample_row

TEXT_FIELDS = [
    "user_input", "response", "reference", "persona_name", "query_style", "query_length",
]  # fmt: skip
LIST_FIELDS = [
    "retrieved_contexts", "reference_contexts", "multi_responses", "retrieved_context_ids",
    "reference_context_ids",
]  # fmt: skip

FAILED: Outcome[Any] = Outcome(
    status=Status.FAILED, failure=Failure(type="ValueError", message="boom", stage="retrieve")
)
SKIPPED: Outcome[Any] = Outcome(status=Status.SKIPPED, reason="no generator")


def measured(value: Any) -> Outcome[Any]:
    return Outcome(status=Status.MEASURED, value=value)


def test_everything_is_unknown_at_first() -> None:
    assert set(SampleRow().as_mapping().values()) == {None}
    assert len(SampleRow().as_mapping()) == 12


@pytest.mark.parametrize(
    ("values", "message"),
    [
        *(({name: wrong}, f"field '{name}': must be a string")
          for name in TEXT_FIELDS for wrong in (3, b"a", ["a"])),
        *(({name: wrong}, f"field '{name}': must be a list")
          for name in LIST_FIELDS for wrong in ("a", 3, {"a": 1}, {"a"})),
        *(({name: ["a", wrong]}, "element 1 must be a string")
          for name in LIST_FIELDS for wrong in (None, 3, b"a")),
        *(({"rubrics": wrong}, "field 'rubrics'")
          for wrong in (["a"], {"a": 1}, {1: "a"}, {"a": None}, "text")),
        ({"retrieved_contexts": ["a"], "retrieved_context_ids": []}, "has 0 ids for 1"),
    ],
)  # fmt: skip
def test_a_field_of_another_type_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(SampleRowError, match=message):
        SampleRow(**values)


def test_lists_and_subclasses_of_str_are_kept_as_they_are() -> None:
    texts, ids = [np.str_("a")], ["1"]
    made = SampleRow(retrieved_contexts=texts, retrieved_context_ids=ids, rubrics={"a": "b"})
    assert made.retrieved_contexts is texts
    assert made.retrieved_context_ids is ids


@pytest.mark.parametrize(("given", "kept"), [("7", "7"), (7, "7"), (np.int64(7), "7")])
def test_ids_become_strings(given: Any, kept: str) -> None:
    assert normalise_id(given) == kept
    found = SampleRow.from_mapping({"reference_context_ids": [given]})
    assert found.reference_context_ids == [kept]


@pytest.mark.parametrize("wrong", [True, 1.0, None, b"a"])
def test_an_id_of_another_type_is_refused(wrong: object) -> None:
    with pytest.raises(SampleRowError, match=r"case 'line 3'.*element 1: an id must be"):
        SampleRow.from_mapping({"retrieved_context_ids": ["a", wrong]}, case="line 3")


@pytest.mark.parametrize(
    ("key", "hint"), [("rubric", "Did you mean 'rubrics'"), ("zzz", "Known: user_input")]
)
def test_unknown_keys_are_refused(key: str, hint: str) -> None:
    with pytest.raises(SampleRowError, match=hint) as caught:
        SampleRow.from_mapping({"user_input": "q", key: "x"}, case="c1")
    assert (caught.value.field, caught.value.case) == (key, "c1")


def test_every_field_of_a_full_trace_is_found_and_lists_are_not_copied() -> None:
    contexts, ids, candidates = ["one", "two"], ["1", "2"], ["a", "b"]
    case = Case(
        id="c",
        query="q",
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
    made = sample_row(
        Trace(
            case=case,
            retrieval=measured(RetrievalResult(contexts, context_ids=ids)),
            generation=measured(GenerationResult("a", multi_responses=candidates)),
        )
    )
    assert made == SampleRow(
        user_input="q",
        retrieved_contexts=["one", "two"],
        reference_contexts=("one",),
        retrieved_context_ids=["1", "2"],
        reference_context_ids=("1",),
        response="a",
        multi_responses=["a", "b"],
        reference="a",
        rubrics={"score1": "bad"},
        persona_name="p",
        query_style="formal",
        query_length="short",
    )
    assert made.retrieved_contexts is contexts
    assert made.retrieved_context_ids is ids
    assert made.multi_responses is candidates
    assert made.reference_contexts is case.reference_contexts
    assert made.rubrics is case.metadata["rubrics"]


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


def test_whole_number_ids_of_a_rag_become_strings() -> None:
    ids: Any = [7, "8"]
    trace = Trace(
        case=Case(id="c", query="q"),
        retrieval=measured(RetrievalResult(["a", "b"], context_ids=ids)),
        generation=SKIPPED,
    )
    assert sample_row(trace).retrieved_context_ids == ["7", "8"]
