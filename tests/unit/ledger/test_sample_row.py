from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench import Case, GenerationResult, RetrievalResult
from ragbench.core.outcome import Failure, Outcome, Status
from ragbench.core.trace import SampleRow, SampleRowError, Trace, normalise_id, sample_row
from ragbench.errors import InputError

TEXT_FIELDS = [
    "user_input", "response", "reference", "persona_name", "query_style", "query_length",
]  # fmt: skip
LIST_FIELDS = ["retrieved_contexts", "reference_contexts", "multi_responses"]
ID_FIELDS = ["retrieved_context_ids", "reference_context_ids"]

FAILED: Outcome[Any] = Outcome(
    status=Status.FAILED, failure=Failure(type="ValueError", message="boom", stage="retrieve")
)
SKIPPED: Outcome[Any] = Outcome(status=Status.SKIPPED, reason="no generator")

not_text = st.one_of(
    st.integers(), st.floats(), st.binary(), st.booleans(), st.lists(st.text()), st.just({})
)
not_id = st.one_of(st.booleans(), st.floats(), st.none(), st.binary())


def measured(value: Any) -> Outcome[Any]:
    return Outcome(status=Status.MEASURED, value=value)


def row(**values: Any) -> SampleRow:
    return SampleRow(**values)


def test_everything_is_unknown_at_first_and_nothing_can_be_changed() -> None:
    empty = SampleRow()
    assert set(empty.as_mapping().values()) == {None}
    assert len(empty.as_mapping()) == 12
    with pytest.raises(FrozenInstanceError):
        empty.response = "x"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("field", TEXT_FIELDS)
@given(value=not_text)
def test_a_text_field_takes_only_text(field: str, value: object) -> None:
    with pytest.raises(SampleRowError, match=f"field '{field}': must be a string"):
        row(**{field: value})


@pytest.mark.parametrize("field", LIST_FIELDS + ID_FIELDS)
@given(
    value=st.one_of(
        st.text(), st.binary(), st.integers(), st.just({"a"}), st.just({"a": 1}), st.floats()
    )
)
def test_a_list_field_takes_only_lists(field: str, value: object) -> None:
    with pytest.raises(SampleRowError, match=f"field '{field}': must be a list"):
        row(**{field: value})


@pytest.mark.parametrize("field", LIST_FIELDS + ID_FIELDS)
@given(before=st.lists(st.text(), max_size=3), wrong=st.one_of(st.none(), not_text))
def test_a_list_field_names_the_element_that_is_no_string(
    field: str, before: list[str], wrong: object
) -> None:
    with pytest.raises(SampleRowError, match=f"element {len(before)} must be a string"):
        row(**{field: [*before, wrong]})


@given(contexts=st.lists(st.text()), ids=st.lists(st.text()))
def test_retrieved_ids_and_contexts_pair_up(contexts: list[str], ids: list[str]) -> None:
    if len(contexts) == len(ids):
        made = row(retrieved_contexts=contexts, retrieved_context_ids=ids)
        assert made.retrieved_contexts is contexts
        assert made.retrieved_context_ids is ids
    else:
        with pytest.raises(SampleRowError, match=f"has {len(ids)} ids for {len(contexts)}"):
            row(retrieved_contexts=contexts, retrieved_context_ids=ids)


def test_ids_without_contexts_and_contexts_without_ids_are_both_fine() -> None:
    assert row(retrieved_context_ids=["a"]).retrieved_contexts is None
    assert row(retrieved_contexts=["a"]).retrieved_context_ids is None


@pytest.mark.parametrize("value", [["a"], {"a": 1}, {1: "a"}, {"a": None}, "text"])
def test_rubrics_map_strings_to_strings(value: object) -> None:
    with pytest.raises(SampleRowError, match="field 'rubrics'"):
        row(rubrics=value)
    assert row(rubrics={"a": "b"}).rubrics == {"a": "b"}


def test_a_subclass_of_str_is_a_string() -> None:
    texts = [np.str_("a")]
    assert row(retrieved_contexts=texts).retrieved_contexts is texts


@given(value=st.one_of(st.text(), st.integers()))
def test_ids_become_strings(value: str | int) -> None:
    assert normalise_id(value) == str(value)
    assert SampleRow.from_mapping({"reference_context_ids": [value]}).reference_context_ids == [
        str(value)
    ]


def test_numpy_whole_numbers_are_ids() -> None:
    assert normalise_id(np.int64(7)) == "7"


@given(wrong=not_id)
def test_what_is_no_id_is_refused(wrong: object) -> None:
    with pytest.raises(TypeError, match="whole number"):
        normalise_id(wrong)
    with pytest.raises(SampleRowError, match=r"case 'line 3'.*element 1: an id must be"):
        SampleRow.from_mapping({"retrieved_context_ids": ["a", wrong]}, case="line 3")


@pytest.mark.parametrize(
    ("key", "hint"), [("rubric", "Did you mean 'rubrics'"), ("zzz", "Known: user_input")]
)
def test_unknown_keys_are_refused(key: str, hint: str) -> None:
    with pytest.raises(SampleRowError, match=hint) as caught:
        SampleRow.from_mapping({"user_input": "q", key: "x"}, case="c1")
    assert (caught.value.field, caught.value.case) == (key, "c1")
    assert isinstance(caught.value, InputError)


@given(
    st.fixed_dictionaries(
        {},
        optional={name: st.text() for name in TEXT_FIELDS}
        | {name: st.lists(st.text()) for name in ["reference_contexts", "multi_responses"]}
        | {"reference_context_ids": st.lists(st.text())}
        | {"rubrics": st.dictionaries(st.text(), st.text())},
    )
)
def test_a_mapping_comes_back_as_it_went_in(values: dict[str, Any]) -> None:
    back = SampleRow.from_mapping(values).as_mapping()
    assert {name: value for name, value in back.items() if value is not None} == values
    assert all(back[name] is value for name, value in values.items())


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


def test_an_error_names_the_case_and_the_field() -> None:
    wrong: Any = ["a", None]
    trace = Trace(
        case=Case(id="c7", query="q"),
        retrieval=measured(RetrievalResult(wrong)),
        generation=SKIPPED,
    )
    with pytest.raises(SampleRowError) as caught:
        sample_row(trace)
    assert str(caught.value) == (
        "case 'c7': field 'retrieved_contexts': element 1 must be a string, not None"
    )


def test_whole_number_ids_of_a_rag_become_strings() -> None:
    ids: Any = [7, "8"]
    trace = Trace(
        case=Case(id="c", query="q"),
        retrieval=measured(RetrievalResult(["a", "b"], context_ids=ids)),
        generation=SKIPPED,
    )
    assert sample_row(trace).retrieved_context_ids == ["7", "8"]
