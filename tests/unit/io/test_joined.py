"""Recorded answers joined with a dataset; retrievals out of whatever holds them."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from ragbench import Chunk, RetrievalResult, join_answers, open_source
from ragbench.core.trace import Trace
from ragbench.core.validation import RetrievalDump
from ragbench.errors import DataError
from ragbench.io.entries import SourceInfo
from ragbench.io.export import export
from ragbench.io.joined import open_dump
from tests.unit.io.traces import ALL, FULL, SCORES, lines, measured, written

Rows = Iterable[Mapping[str, object]]


class Joined(NamedTuple):
    """What a dataset and a file of answers make together."""

    answers: list[str | None]
    """Of each case; None where nothing is recorded."""
    info: SourceInfo

    @property
    def notes(self) -> str:
        return "\n".join(self.info.notes)


def join(folder: Path, *, cases: Rows, answers: Rows) -> Joined:
    dataset = open_source(lines(folder / "cases.jsonl", cases))
    recorded = open_source(lines(folder / "said.jsonl", answers), is_join=True)
    with join_answers(dataset, recorded, keep_unanswered=True) as source:
        entries = list(source)
        assert list(source) == entries  # it can be read more than once
        texts: list[str | None] = []
        for entry in entries:
            outcome = entry.recorded.get("generate")
            if outcome is None or outcome.value is None:
                texts.append(None)
            else:
                texts.append(outcome.value.response)
        return Joined(texts, source.info)


# --- which answer belongs to which case


TWO_CASES: Rows = [{"id": 1, "query": "a"}, {"id": 2, "query": "b"}]


def test_answers_are_joined_by_id_in_whatever_order(tmp_path: Path) -> None:
    answers = [{"id": "2", "response": "B"}, {"id": "1", "query": " A ", "response": "A"}]

    joined = join(tmp_path, cases=TWO_CASES, answers=answers)

    assert joined.answers == ["A", "B"]
    assert "2 by id joined with 2 cases" in joined.notes


def test_answers_without_an_id_are_joined_by_the_exact_question(tmp_path: Path) -> None:
    cases = [{"id": 1, "query": "Who?"}, {"id": 2, "query": "who?"}]

    joined = join(tmp_path, cases=cases, answers=[{"query": "Who?", "response": "A"}])

    assert joined.answers == ["A", None]
    assert "1 by question joined with 2 cases" in joined.notes


def test_a_case_without_an_answer_is_counted_and_shown(tmp_path: Path) -> None:
    cases = [{"id": 1, "query": "Who?"}, {"id": 2, "query": "who?"}]

    joined = join(tmp_path, cases=cases, answers=[{"query": "Who?", "response": "A"}])

    assert "1 case without a recorded output" in joined.notes
    assert "a case without an output:  id '2', query 'who?'" in joined.notes


def test_an_id_of_a_case_that_asks_something_else_does_not_join(tmp_path: Path) -> None:
    """Two files that number their lines: nothing says that they are numbered alike."""
    answers: Rows = [
        {"id": 1, "query": "b", "response": "B"},
        {"id": 2, "query": "c", "response": 3},
    ]

    joined = join(tmp_path, cases=TWO_CASES, answers=answers)

    assert joined.answers == [None, "B"]
    assert (
        "2 outputs with the id of a case that asks something else: joined by the question"
    ) in joined.notes


def test_of_several_answers_for_a_case_the_first_counts(tmp_path: Path) -> None:
    answers: Rows = [
        {"id": 1, "response": "first"},
        {"id": 1, "response": "second"},
        {"query": "b", "response": "B"},
        {"query": "b", "response": "B again"},
    ]

    joined = join(tmp_path, cases=TWO_CASES, answers=answers)

    assert joined.answers == ["first", "B"]
    assert "1 by id and 1 by question joined with 2 cases" in joined.notes
    assert "2 outputs for a question that has one already: the first counts" in joined.notes


def test_an_answer_that_no_case_asks_for_is_counted(tmp_path: Path) -> None:
    answers: Rows = [
        {"query": "a", "response": "A"},
        {"query": "b", "response": "B"},
        {"query": "nobody asks", "response": "x"},
    ]

    joined = join(tmp_path, cases=TWO_CASES, answers=answers)

    assert joined.answers == ["A", "B"]
    assert "1 output of questions that no case asks: skipped" in joined.notes


def test_a_field_of_an_answer_in_outputs_is_the_systems(tmp_path: Path) -> None:
    """In a dataset ``answer`` is the reference."""
    answers = [{"query": "a", "answer": "A"}, {"query": "b", "answer": "B"}]

    assert join(tmp_path, cases=TWO_CASES, answers=answers).answers == ["A", "B"]


THREE_OF_A_QUESTION: Rows = [
    {"id": 1, "query": "a"},
    {"id": 2, "query": "a"},
    {"id": 3, "query": "a"},
]


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        pytest.param(
            [{"query": "a", "response": "A"}], ["A", "A", "A"], id="one answer serves all who ask"
        ),
        pytest.param(
            [
                {"query": "a", "response": "0"},
                {"query": "a", "response": "1"},
                {"query": "a", "response": "2"},
            ],
            ["0", "1", "2"],
            id="several are joined in order",
        ),
        pytest.param(
            [{"id": 2, "query": "a", "response": "A"}],
            [None, "A", None],
            id="one with an id serves the case of that id",
        ),
    ],
)
def test_answers_of_a_question_that_several_cases_ask(
    tmp_path: Path, answers: Rows, expected: list[str | None]
) -> None:
    assert join(tmp_path, cases=THREE_OF_A_QUESTION, answers=answers).answers == expected


def test_what_the_dataset_itself_has_recorded_is_not_used(tmp_path: Path) -> None:
    cases = [{"id": 1, "query": "a", "response": "old"}, {"id": 2, "query": "b"}]

    joined = join(tmp_path, cases=cases, answers=[{"id": 2, "response": "B"}])

    assert joined.answers == [None, "B"]
    assert "what the dataset itself has recorded (1 case) is not used" in joined.notes


def test_thousands_of_answers_in_reverse_order_reach_their_cases(tmp_path: Path) -> None:
    """More than are held in memory at once; every second case has no answer."""
    cases = [{"id": number, "query": f"q{number}"} for number in range(3000)]
    answers: list[dict[str, object]] = []
    expected: list[str | None] = []
    for number in range(3000):
        if number % 2:
            expected.append(None)
        else:
            expected.append(str(number))
            answers.append({"query": f"q{number}", "response": str(number)})
    answers.reverse()

    joined = join(tmp_path, cases=cases, answers=answers)

    assert joined.answers == expected
    assert joined.info.cases == 3000
    assert joined.info.recorded == {"generate": 1500}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        pytest.param(
            {"response": "whose?"}, r"said\.jsonl:1: no field for the query", id="no question"
        ),
        pytest.param(
            {"query": "a", "reply": "A"},
            r"said\.jsonl: no record holds an answer or a retrieval",
            id="no answer",
        ),
    ],
)
def test_answers_that_cannot_be_joined_are_refused_before_anything_runs(
    tmp_path: Path, row: Mapping[str, object], message: str
) -> None:
    with open_source(lines(tmp_path / "cases.jsonl", [{"query": "a"}])) as dataset:
        answers = open_source(lines(tmp_path / "said.jsonl", [row]), is_join=True)

        with pytest.raises(DataError, match=message):
            join_answers(dataset, answers)


# --- an export as a dump of retrievals


CUT = Trace(
    case=replace(FULL.case, id="cut"),
    retrieval=FULL.retrieval,
    post_retrieval=measured(RetrievalResult(["cut"], context_ids=["c"])),
    generation=FULL.generation,
)


@pytest.fixture(name="exported", params=["jsonl", "csv"])
def export_of_traces(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"o.{request.param}"
    export(request.param, (*ALL, CUT), path, scores=SCORES)
    return path


def retrievals_by_query(path: Path) -> dict[str, RetrievalDump]:
    with open_dump(path) as dump:
        assert dump.mapping.format == "export"
        return {retrieval.query_id: retrieval for retrieval in dump}


def test_a_retrieval_that_failed_or_never_was_is_a_problem_and_not_an_empty_one(
    exported: Path,
) -> None:
    with open_dump(exported) as dump:
        query_ids = [retrieval.query_id for retrieval in dump]

    assert query_ids == ["full", "bare", "none", "gf", "cut"]
    assert dump.malformed == 2
    assert [problem.message for problem in dump.problems] == [
        "case 'rf': retrieve: ValueError: boom <- KeyError: 'x'",
        "case 'og': the RAG only generates",
    ]


def test_a_retrieval_of_an_export_has_its_question_and_labels(exported: Path) -> None:
    full = retrievals_by_query(exported)["full"]

    assert full.query == FULL.case.query
    assert full.answers == ("In Switzerland",)
    assert full.relevant_ids == frozenset({"ch-1", "ch-2"})


def test_a_chunk_of_an_export_has_its_id_score_and_metadata(exported: Path) -> None:
    full = retrievals_by_query(exported)["full"]

    assert full.chunks[1] == Chunk(
        id="ch-9", text="Bern, the capital", score=0.25, metadata={"page": 2}
    )


def test_a_chunk_of_an_export_without_an_id_is_numbered(exported: Path) -> None:
    assert retrievals_by_query(exported)["bare"].chunks[0].id == "#1"


def test_a_retrieval_that_found_nothing_has_no_chunks(exported: Path) -> None:
    assert retrievals_by_query(exported)["none"].chunks == ()


def test_the_chunks_of_an_export_are_those_that_generation_got(exported: Path) -> None:
    chunks = retrievals_by_query(exported)["cut"].chunks

    assert [chunk.text for chunk in chunks] == ["cut"]


# --- old encodings


ROWS_IN_CP1252 = "query;text;score\nWo liegt Zürich?;größte Stadt;0.9\n".encode("cp1252")


def test_a_dump_in_an_old_encoding_is_read_with_a_note(tmp_path: Path) -> None:
    path = written(tmp_path / "rows.csv", ROWS_IN_CP1252)

    with open_dump(path) as dump:
        (retrieval,) = dump

    assert retrieval.query == "Wo liegt Zürich?"
    assert dump.notes == (f"'{path}' is not UTF-8 and is read as cp1252, a guess (--encoding)",)


def test_an_encoding_that_the_user_names_is_used_right_or_wrong(tmp_path: Path) -> None:
    path = written(tmp_path / "rows.csv", ROWS_IN_CP1252)

    with open_dump(path, encoding="cp1251") as dump:
        (retrieval,) = dump

    # In cp1251 the same byte is another letter.
    assert retrieval.query == "Wo liegt Zьrich?"
    assert dump.notes == ()


def test_queries_in_an_old_encoding_are_read_with_a_note(tmp_path: Path) -> None:
    queries = written(tmp_path / "topics.tsv", "q1\tWo liegt Zürich?\n".encode("cp1252"))
    path = lines(tmp_path / "d.jsonl", [{"query_id": "q1", "chunks": [{"id": "a", "text": "x"}]}])

    with open_dump(path, queries=queries) as dump:
        (retrieval,) = dump

    assert retrieval.query == "Wo liegt Zürich?"
    assert dump.notes == (f"'{queries}' is not UTF-8 and is read as cp1252, a guess (--encoding)",)


# --- ids that are called after the contexts


def recorded_ids(
    tmp_path: Path, record: Mapping[str, object], fields: Mapping[str, str] | None = None
) -> list[str] | None:
    """The ids of the retrieved contexts that a file of outputs records for its only case."""
    dataset = open_source(lines(tmp_path / "cases.jsonl", [{"id": 1, "query": "a"}]))
    output = lines(tmp_path / "outputs.jsonl", [{"id": 1, **record}])
    outputs = open_source(output, fields=fields or {}, is_join=True)
    with join_answers(dataset, outputs, keep_unanswered=True) as source:
        (entry,) = source
    retrieval = entry.recorded["retrieve"].value
    assert isinstance(retrieval, RetrievalResult)
    if retrieval.context_ids is None:
        return None
    return list(retrieval.context_ids)


@pytest.mark.parametrize(
    ("contexts", "ids"),
    [
        ("contexts", "context_ids"),
        ("chunks", "chunk_ids"),
        ("retrieval_context", "retrieval_context_ids"),
        ("sourceDocuments", "sourceDocumentIds"),
    ],
)
def test_ids_called_after_the_contexts_are_those_of_the_contexts(
    tmp_path: Path, contexts: str, ids: str
) -> None:
    record = {"answer": "b", contexts: ["one text", "another"], ids: ["d1", "d2"]}

    assert recorded_ids(tmp_path, record) == ["d1", "d2"]


def test_ids_called_after_a_field_that_the_user_names_are_those_of_its_contexts(
    tmp_path: Path,
) -> None:
    record = {"answer": "b", "hits": ["one text"], "hit_ids": ["d1"]}

    assert recorded_ids(tmp_path, record, {"retrieved_contexts": "hits"}) == ["d1"]


def test_ids_called_after_no_field_of_contexts_have_no_role(tmp_path: Path) -> None:
    record = {"answer": "b", "contexts": ["one text"], "document_ids": ["d1"]}

    assert recorded_ids(tmp_path, record) is None


def test_ids_called_after_the_contexts_are_left_out_where_the_user_says_so(tmp_path: Path) -> None:
    record = {"answer": "b", "contexts": ["one text"], "context_ids": ["d1"]}

    assert recorded_ids(tmp_path, record, {"retrieved_context_ids": ""}) is None


# --- chunks that are objects, with lists beside them


OBJECTS_WITH_IDS = {
    "answer": "b",
    "contexts": [{"id": "chunk 1", "text": "one text"}],
    "context_ids": ["d1"],
}


def test_ids_beside_objects_without_ids_are_theirs(tmp_path: Path) -> None:
    record = {"answer": "b", "contexts": [{"text": "t"}, {"text": "u"}], "context_ids": [1, 2]}

    assert recorded_ids(tmp_path, record) == ["1", "2"]


def test_scores_beside_objects_without_scores_are_theirs(tmp_path: Path) -> None:
    record = {"id": 1, "query": "a", "contexts": [{"text": "t"}], "retrieved_scores": [0.5]}

    with open_source(lines(tmp_path / "cases.jsonl", [record])) as source:
        (entry,) = source

    retrieval = entry.recorded["retrieve"].value
    assert isinstance(retrieval, RetrievalResult)
    assert retrieval.scores == [0.5]


def test_the_same_ids_in_objects_and_beside_them_are_no_disagreement(tmp_path: Path) -> None:
    chunk = {"id": "d1", "text": "one text"}
    record = {"answer": "b", "contexts": [chunk, chunk], "context_ids": ["d1", "d1"]}

    assert recorded_ids(tmp_path, record) == ["d1"]


def test_other_ids_in_objects_than_beside_them_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="chunks hold other ids than retrieved_context_ids"):
        recorded_ids(tmp_path, OBJECTS_WITH_IDS)


@pytest.mark.parametrize(
    ("switched_off", "ids"), [("retrieved_context_ids", ["chunk 1"]), ("chunk_id", ["d1"])]
)
def test_of_two_sorts_of_ids_the_user_can_switch_off_each(
    tmp_path: Path, switched_off: str, ids: list[str]
) -> None:
    assert recorded_ids(tmp_path, OBJECTS_WITH_IDS, {switched_off: ""}) == ids


def test_another_number_of_ids_than_of_objects_is_refused(tmp_path: Path) -> None:
    record = {"answer": "b", "contexts": [{"text": "t"}], "context_ids": ["d1", "d2"]}

    with pytest.raises(DataError, match="found 1 different chunks and 2 ids for them"):
        recorded_ids(tmp_path, record)
