"""Recorded answers joined with a dataset; retrievals out of whatever holds them."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from ragbench import Chunk, RetrievalResult, join_answers, open_source
from ragbench.errors import DataError
from ragbench.io.entries import SourceInfo
from ragbench.io.export import export
from ragbench.io.joined import open_dump
from tests.unit.io.traces import ALL, FULL, SCORES, lines, measured, written

Rows = Iterable[Mapping[str, object]]
CASES: Rows = [{"id": 1, "query": "a"}, {"id": 2, "query": "b"}]
ALIKE: Rows = [{"id": n, "query": "a"} for n in (1, 2, 3)]


def joined(tmp_path: Path, cases: Rows, answers: Rows) -> tuple[list[str | None], SourceInfo]:
    """What each case was answered, None where nothing is recorded, and what is said of it."""
    dataset = open_source(lines(tmp_path / "cases.jsonl", cases))
    said = open_source(lines(tmp_path / "said.jsonl", answers), is_join=True)
    with join_answers(dataset, said, keep_unanswered=True) as source:
        once, again = list(source), list(source)
        assert once == again
        found = [entry.recorded.get("generate") for entry in once]
        said_of = [None if o is None or o.value is None else o.value.response for o in found]
        return said_of, source.info


@pytest.mark.parametrize(
    ("cases", "answers", "found", "notes"),
    [
        # By id in whatever order, else by the exact question.
        (
            CASES,
            [{"id": "2", "response": "B"}, {"id": "1", "query": " A ", "response": "A"}],
            ["A", "B"],
            ["2 by id joined with 2 cases"],
        ),
        (
            [{"id": 1, "query": "Who?"}, {"id": 2, "query": "who?"}],
            [{"query": "Who?", "response": "A"}],
            ["A", None],
            [
                "1 by question joined with 2 cases",
                "1 case without a recorded output",
                "a case without an output:  id '2', query 'who?'",
            ],
        ),
        # Two files that number their lines: nothing says that they are numbered alike.
        (
            CASES,
            [{"id": 1, "query": "b", "response": "B"}, {"id": 2, "query": "c", "response": 3}],
            [None, "B"],
            ["2 outputs with the id of a case that asks something else: joined by the question"],
        ),
        (
            CASES,
            [
                {"id": 1, "response": "first"},
                {"id": 1, "response": "second"},
                {"query": "b", "response": "B"},
                {"query": "b", "response": "B again"},
                {"query": "nobody asks", "response": "x"},
            ],
            ["first", "B"],
            [
                "1 by id and 1 by question joined with 2 cases",
                "2 outputs for a question that has one already: the first counts",
                "1 output of questions that no case asks: skipped",
            ],
        ),
        (CASES, [{"query": "a", "answer": "A"}, {"query": "b", "answer": "B"}], ["A", "B"], []),
        # In order where there are several; one answer serves all who ask, or whose id it has.
        (ALIKE, [{"query": "a", "response": "A"}], ["A", "A", "A"], []),
        (ALIKE, [{"query": "a", "response": str(n)} for n in range(3)], ["0", "1", "2"], []),
        (ALIKE, [{"id": 2, "query": "a", "response": "A"}], [None, "A", None], []),
        (
            [{"id": 1, "query": "a", "response": "old"}, {"id": 2, "query": "b"}],
            [{"id": 2, "response": "B"}],
            [None, "B"],
            ["what the dataset itself has recorded (1 case) is not used"],
        ),
        (
            [{"id": n, "query": f"q{n}"} for n in range(3000)],
            [{"query": f"q{n}", "response": str(n)} for n in reversed(range(0, 3000, 2))],
            [None if n % 2 else str(n) for n in range(3000)],
            [],
        ),
    ],
)
def test_answers_find_their_cases_and_all_of_it_is_counted(
    tmp_path: Path, cases: Rows, answers: Rows, found: list[str | None], notes: list[str]
) -> None:
    answered, info = joined(tmp_path, cases, answers)
    assert answered == found
    said = [note.split("said.jsonl: ")[-1] for note in info.notes]
    assert all(any(note in one for one in said) for note in notes), said
    recorded = sum(1 for one in found if one is not None)
    assert (info.cases, info.recorded) == (len(found), {"generate": recorded})


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"response": "whose?"}, r"said\.jsonl:1: no field for the query"),
        ({"query": "a", "reply": "A"}, r"said\.jsonl: no record holds an answer or a retrieval"),
    ],
)
def test_what_is_wrong_with_the_answers_is_reported_before_anything_runs(
    tmp_path: Path, row: Mapping[str, object], message: str
) -> None:
    dataset = open_source(lines(tmp_path / "cases.jsonl", [{"query": "a"}]))
    said = open_source(lines(tmp_path / "said.jsonl", [row]), is_join=True)
    with pytest.raises(DataError, match=message):
        join_answers(dataset, said)
    dataset.close()


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_an_export(tmp_path: Path, form: str) -> None:
    path, cut = tmp_path / f"o.{form}", RetrievalResult(["cut"], context_ids=["c"])
    after = replace(FULL, case=replace(FULL.case, id="cut"), post_retrieval=measured(cut))
    export(form, (*ALL, after), path, scores=SCORES)
    with open_dump(path) as dump:
        found = {retrieval.query_id: retrieval for retrieval in dump}
    # A retrieval that failed or never was is no empty one.
    assert found.keys() == {"full", "bare", "none", "gf", "cut"}
    assert (dump.mapping.format, dump.malformed) == ("export", 2)
    assert [problem.message for problem in dump.problems] == [
        "case 'rf': retrieve: ValueError: boom <- KeyError: 'x'",
        "case 'og': the RAG only generates",
    ]
    full, bern = found["full"], "Bern, the capital"
    assert (full.query, full.answers) == (FULL.case.query, ("In Switzerland",))
    assert full.chunks[1] == Chunk(id="ch-9", text=bern, score=0.25, metadata={"page": 2})
    assert full.relevant_ids == frozenset({"ch-1", "ch-2"})
    assert (found["none"].chunks, found["bare"].chunks[0].id) == ((), "#1")
    assert [chunk.text for chunk in found["cut"].chunks] == ["cut"]  # what generation was given


def test_a_dump_or_its_queries_may_be_in_an_old_encoding(tmp_path: Path) -> None:
    guess = "is not UTF-8 and is read as cp1252, a guess (--encoding)"
    rows = "query;text;score\nWo liegt Zürich?;größte Stadt;0.9\n"
    path = written(tmp_path / "rows.csv", rows.encode("cp1252"))
    # Who says it is believed, right or wrong: in cp1251 the same bytes are other letters.
    said = ((None, "Wo liegt Zürich?", (f"'{path}' {guess}",)), ("cp1251", "Wo liegt Zьrich?", ()))
    for encoding, query, notes in said:
        with open_dump(path, encoding=encoding) as dump:
            assert ([one.query for one in dump], dump.notes) == ([query], notes)
    queries = written(tmp_path / "topics.tsv", "q1\tWo liegt Zürich?\n".encode("cp1252"))
    path = lines(tmp_path / "d.jsonl", [{"query_id": "q1", "chunks": [{"id": "a", "text": "x"}]}])
    with open_dump(path, queries=queries) as dump:
        (found,) = dump
    assert (found.query, dump.notes) == ("Wo liegt Zürich?", (f"'{queries}' {guess}",))


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
    return [*retrieval.context_ids]


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
