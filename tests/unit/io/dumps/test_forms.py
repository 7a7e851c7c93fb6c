"""Responses of real stores and frameworks are read as what they are.

``responses.jsonl`` holds them as the clients give them (qdrant-client 1.20 model_dump, chromadb 1.5
query, pymilvus 3.0 search, langchain-core 1.7 model_dump and dumpd, llama-index-core
NodeWithScore.to_dict, haystack-ai Document.to_dict), the servers' REST forms and those of search
services and tracers from their descriptions.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from ragbench import open_dump, open_source
from ragbench.core.validation import RetrievalDump, WarningKind
from ragbench.errors import ConfigError, DataError
from ragbench.io.dumps.form import ScoreKind
from ragbench.io.dumps.forms import forms
from tests.unit.io.traces import lines, written

LEAVE = "Everyone has 27 days of paid leave a year."
DESK = "The help desk is open from 8 to 17."
QUERY = "How many days of leave are there?"
TEXTS = [LEAVE, DESK]
KNOWN = [
    json.loads(line)
    for line in Path(__file__).with_name("responses.jsonl").read_text("utf-8").splitlines()
]


def of_kind(kind: str) -> pytest.MarkDecorator:
    chosen = [one for one in KNOWN if one["kind"] == kind]
    return pytest.mark.parametrize("known", chosen, ids=[one["name"] for one in chosen])


def read(path: Path, **options: Any) -> tuple[str, list[RetrievalDump], list[str]]:
    with open_dump(path, **options) as dump:
        found = list(dump)
        return dump.mapping.format, found, [str(problem) for problem in dump.problems]


def check(retrieval: RetrievalDump) -> None:
    assert [chunk.text for chunk in retrieval.chunks] == TEXTS[: len(retrieval.chunks)]
    assert retrieval.chunks
    assert len({chunk.id for chunk in retrieval.chunks}) == len(retrieval.chunks)
    scores = [chunk.score for chunk in retrieval.chunks if chunk.score is not None]
    assert scores == sorted(scores, reverse=True)


@of_kind("response")
def test_a_response_in_a_file_or_in_a_log_of_queries(tmp_path: Path, known: Any) -> None:
    for indent in (None, 2):
        path = written(tmp_path / "response.json", known["value"], indent=indent)
        form, (retrieval,), problems = read(path, query=QUERY)
        assert (form, retrieval.query, problems) == (known["form"], QUERY, [])
        check(retrieval)
    for key in ("response", "results", "output"):
        log = [{"query": f"{QUERY} {n}", "at": "2025-01-01", key: known["value"]} for n in range(2)]
        for path in (
            lines(tmp_path / "log.jsonl", log),
            written(tmp_path / "log.json", log, indent=1),
            written(tmp_path / "nested.json", {"queries": log}),
        ):
            form, found, problems = read(path)
            assert (form, problems) == (known["form"], []), path
            assert [retrieval.query for retrieval in found] == [record["query"] for record in log]
            assert len({retrieval.query_id for retrieval in found}) == 2
            for retrieval in found:
                check(retrieval)


@of_kind("record")
def test_records_that_hold_their_query(tmp_path: Path, known: Any) -> None:
    record = known["value"]
    log = lines(tmp_path / "log.jsonl", [record, record])
    listed = written(tmp_path / "log.json", [record, record], indent=1)
    for path, count in ((log, 2), (listed, 2), (written(tmp_path / "one.json", record), 1)):
        form, found, problems = read(path)
        assert (form, problems) == (known["form"], []), path
        assert [retrieval.query for retrieval in found] == [QUERY] * count
        for retrieval in found:
            check(retrieval)


@of_kind("batch")
def test_responses_of_a_batch_are_joined_with_queries_by_order(tmp_path: Path, known: Any) -> None:
    queries = written(tmp_path / "queries.tsv", f"q7\t{QUERY}\nq8\tWho won?\n")
    form, found, problems = read(written(tmp_path / "batch.json", known["value"]), queries=queries)
    assert (form, problems) == (known["form"], [])
    expected = [("q7", QUERY, 2), ("q8", "Who won?", 0)]
    assert [(r.query_id, r.query, len(r.chunks)) for r in found] == expected


@of_kind("empty")
def test_a_response_whose_texts_are_missing_is_recognised_too(tmp_path: Path, known: Any) -> None:
    form, (retrieval,), problems = read(written(tmp_path / "x.json", known["value"]))
    assert (form, [chunk.text for chunk in retrieval.chunks], problems) == (known["form"], [""], [])


def test_every_form_is_among_the_known_responses() -> None:
    assert {one["form"] for one in KNOWN} | {"pgvector"} == {*forms(), "deepeval"}


def test_one_query_serves_one_response(tmp_path: Path) -> None:
    points = {"points": [{"id": 1, "score": 0.9, "payload": {"text": LEAVE}}]}
    path = lines(tmp_path / "log.jsonl", [points] * 2)
    with pytest.raises(DataError, match="--query TEXT"):
        read(path)
    _, found, (problem,) = read(path, query=QUERY)
    assert len(found) == 1
    assert problem.startswith(f"{path}:2: --query names one query")


ROWS = """query_id,query,id,content,distance,cmetadata
q1,How many days?,leave,Everyone has 27 days of paid leave a year.,0.1,"{""page"": 1}"
q1,How many days?,desk,The help desk is open from 8 to 17.,0.4,
q2,Who won?,,,,
"""


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl"])
def test_rows_of_a_table(tmp_path: Path, suffix: str) -> None:
    rows = list(csv.DictReader(ROWS.splitlines()))
    table = ["\t".join(rows[0]).title(), *("\t".join(row.values()) for row in rows)]
    text = ROWS if suffix == "csv" else "\n".join(table)
    path = written(tmp_path / f"rows.{suffix}", text)
    if suffix == "jsonl":
        vector = {"embedding": [0.1, 0.2]}
        lines(path, [{**row, "distance": float(row["distance"]), **vector} for row in rows[:2]])
    form, found, problems = read(path)
    assert (form, problems) == ("pgvector", [])
    assert found[0].query_id == "q1"
    check(found[0])
    assert [chunk.score for chunk in found[0].chunks] == [-0.1, -0.4]
    assert [len(retrieval.chunks) for retrieval in found] == [2, 0][: 1 + (suffix != "jsonl")]


def test_rows_of_a_query_that_comes_back_are_a_problem(tmp_path: Path) -> None:
    rows = "query,content\nfirst one,a text\nother,a text\nfirst one,late\n"
    path = written(tmp_path / "rows.csv", rows)
    _, found, (problem,) = read(path)
    assert [retrieval.query for retrieval in found] == ["first one", "other", "first one"]
    assert problem.startswith(f"{path}:4: query 'first one' has rows at 2 already: sort the rows")


def corpus(folder: Path) -> Path:
    """A BEIR folder."""
    folder.mkdir()
    texts = {"leave": LEAVE, "desk": DESK}
    queries = {"q1": QUERY, "q2": "Who won?"}
    for name, values in (("corpus", texts), ("queries", queries)):
        lines(folder / f"{name}.jsonl", [{"_id": id, "text": text} for id, text in values.items()])
    return folder


RUN = "q1 Q0 desk 2 1.5 bm25\nq1 Q0 leave 1 2.5 bm25\nq2 Q0 gone 1 0.5 bm25\n"
TOPICS = """<top>\n<num> Number: q1\n<title> How many days of\nleave are there?\n<desc> Description:
Something.\n</top>\n<top><num>q2</num><title>Who won?</title></top>\n"""


def test_a_trec_run_and_beir_results_are_joined_with_corpus_and_topics(tmp_path: Path) -> None:
    path, folder = written(tmp_path / "bm25.run", RUN), corpus(tmp_path / "beir")
    topics = written(tmp_path / "topics.txt", TOPICS)
    for options in ({}, {"queries": topics}, {"format": "trec"}):
        form, found, problems = read(path, corpus=folder, **options)
        assert (form, problems) == ("trec", [])
        assert [(r.query_id, r.query) for r in found] == [("q1", QUERY), ("q2", "Who won?")]
        check(found[0])
        assert [chunk.score for chunk in found[0].chunks] == [2.5, 1.5]
        assert found[1].chunks[0].text == ""
    path = written(tmp_path / "results.json", {"q1": {"desk": 1.5, "leave": 2.5}, "q3": {"a": 1}})
    form, (retrieval,), problems = read(path, corpus=folder)
    check(retrieval)
    assert (form, problems) == ("beir", [f"{path}: field 'query': no query has the id 'q3'"])


def test_a_run_needs_its_texts_and_its_bad_lines_are_problems(tmp_path: Path) -> None:
    folder, bad = corpus(tmp_path / "beir"), "q2 Q0 a\nq2 Q0 b 1 high tag\nq1 Q0 leave 3 0.1 x\n"
    path = written(tmp_path / "bm25.run", RUN + bad)
    with pytest.raises(ConfigError, match="--corpus PATH"):
        read(path)
    for opened in (read, open_source):
        with pytest.raises(ConfigError, match="--queries FILE"):
            opened(path, corpus=folder / "corpus.jsonl")
    expected = "expected 'query Q0 document rank score tag'"
    assert read(path, corpus=folder)[2] == [
        f"{path}:4: {expected}, found 3 columns",
        f"{path}:5: {expected}, found 'high' as score, which is no finite number",
        f"{path}:6: document 'leave' appears twice in the ranking of query 'q1'",
    ]


# --- scores


@pytest.mark.parametrize(
    ("scores", "chosen", "kind", "first"),
    [
        ([0.9, 0.5, 0.5], None, ScoreKind.SIMILARITY, 0.9),
        ([0.1, 0.5, 0.5], None, ScoreKind.DISTANCE, -0.1),
        (["81.2", "12"], None, ScoreKind.SIMILARITY, 81.2),
        ([0.3], None, ScoreKind.DISTANCE, -0.3),  # without an order, by the name of the field
        ([0.3], ScoreKind.SIMILARITY, ScoreKind.SIMILARITY, 0.3),
    ],
)
def test_the_order_of_the_chunks_says_what_scores_are(
    tmp_path: Path, scores: list[Any], chosen: ScoreKind | None, kind: ScoreKind, first: float
) -> None:
    chunks = [{"id": str(n), "text": f"text {n}", "distance": s} for n, s in enumerate(scores)]
    path = lines(tmp_path / "d.jsonl", [{"query": "a b", "chunks": chunks}])
    with open_dump(path, scores=chosen) as dump:
        assert dump.mapping.scores is kind
        assert next(iter(dump)).chunks[0].score == first


# --- fields


def test_a_text_under_any_name_is_found_and_can_be_corrected(tmp_path: Path) -> None:
    payload = {"Inhalt": LEAVE, "Zusammenfassung": "It is about leave.", "titel": "Leave"}
    path = tmp_path / "d.jsonl"

    def mapped(payload: dict[str, str], **options: Any) -> tuple[str | None, Any]:
        point = {"id": 1, "score": 0.5, "payload": payload, "version": 1}
        with open_dump(lines(path, [{"query": QUERY, "points": [point]}]), **options) as dump:
            return dump.mapping.text, next(iter(dump)).chunks[0]

    assert mapped(payload)[0] == "payload.Inhalt"
    named = {"text": "payload.Zusammenfassung", "id": "payload.titel"}
    _, chunk = mapped(payload, overrides=named)
    assert (chunk.id, chunk.text) == ("Leave", "It is about leave.")
    where, chunk = mapped({"_node_content": json.dumps({"id_": "n", "text": LEAVE})})
    assert (where, chunk.text) == ("payload._node_content.text", LEAVE)


def test_what_is_not_understood_is_described(tmp_path: Path) -> None:
    stuff = {"q": QUERY, "stuff": {"items": [{"nr": 1, "inner": {"said": LEAVE}}]}}
    path = tmp_path / "d.jsonl"
    for record, said in (
        ({"query": QUERY, "sizes": [1]}, "the record is an object with query, sizes.*chunks=FIELD"),
        (
            {"query": QUERY, "chunks": [{"id": 1, "n": 2, "payload": {"x": 1}}]},
            "a chunk is an object with id, n, payload.*text=FIELD",
        ),
        ({"asked": QUERY, "said": LEAVE}, "--field query=FIELD --field text=FIELD"),
        (stuff, "--field chunks=stuff.items --field text=inner.said"),
    ):
        with pytest.raises(DataError, match=said):
            read(lines(path, [record]))
    _, (retrieval,), _ = read(path, overrides={"chunks": "stuff.items", "text": "inner.said"})
    assert retrieval.chunks[0].text == LEAVE


@pytest.mark.parametrize(
    "record",
    [
        {"test_cases": [{"input": "When does it open in the morning?", "actual": "At nine."}]},
        {"calls": [{"args": {"query": "When does it open in the morning?"}, "rets": []}]},
        {"citations": [{"generatedResponsePart": {"textResponsePart": {"text": "It opens."}}}]},
    ],
)
def test_no_hint_names_the_question_or_the_answer(tmp_path: Path, record: object) -> None:
    path = lines(tmp_path / "other.jsonl", [record])
    with pytest.raises(DataError, match="Say where they are: --field chunks=FIELD"):
        read(path)
    shown = r"no field for the query[^\n]*\n  \w+\[1\]: object"
    with pytest.raises(DataError, match=shown), open_source(path) as source:
        list(source)


def _vertex(id: str, data: Any) -> Any:
    return {"id": id, "document": {"id": id, "derivedStructData": data}}


@pytest.mark.parametrize(
    ("record", "form", "chunks"),
    [
        (
            {
                "results": [
                    _vertex(
                        "a",
                        {"extractive_answers": [{"content": "At nine."}, {"content": "Daily."}]},
                    ),
                    _vertex("b", {"extractive_segments": [{"content": "Closed."}], "snippets": []}),
                    {"chunk": {"id": "c", "content": "Tea.", "relevanceScore": 0.5}},
                ]
            },
            "vertex",
            [("a", "At nine.\nDaily.", None), ("b", "Closed.", None), ("c", "Tea.", 0.5)],
        ),
        # A reranker's order counts where the documents stand beside it.
        (
            {
                "documents": ["Closed.", "At nine."],
                "results": [
                    {"index": 1, "relevance_score": 0.9},
                    {"index": 0, "relevance_score": 0.2},
                ],
            },
            "cohere",
            [("1", "At nine.", 0.9), ("0", "Closed.", 0.2)],
        ),
        (
            {"contexts": ["At nine.", "Closed."], "ids": ["a", 2], "retrieved_scores": [0.9, 0.2]},
            "ragas",
            [("a", "At nine.", 0.9), ("2", "Closed.", 0.2)],
        ),
    ],
)
def test_texts_in_places_of_their_own(tmp_path: Path, record: Any, form: str, chunks: Any) -> None:
    found, (one,), _ = read(lines(tmp_path / "v.jsonl", [{"query": "when?", **record}]))
    assert (found, [(c.id, c.text, c.score) for c in one.chunks]) == (form, chunks)


# --- what is malformed


def test_malformed_lines_are_counted_and_the_others_follow(tmp_path: Path) -> None:
    good = json.dumps({"query": QUERY, "chunks": [{"id": "a", "text": LEAVE}]})
    rows = [
        good,
        '{"query": "x", "chunks": [',
        "[1, 2]",
        "null",
        '{"query": "no chunks"}',
        '{"query": 5, "chunks": []}',
        '{"chunks": []}',
        '{"query": "nothing", "chunks": null}',
        good.replace("How", "h\\u00f6w"),
        *["{"] * 500,
    ]
    path = written(tmp_path / "d.jsonl", "\n".join(rows))
    with open_dump(path) as dump:
        found = list(dump)
    assert [len(retrieval.chunks) for retrieval in found] == [1, 0, 1]
    assert (dump.malformed, len(dump.problems.items)) == (506, 100)  # that fill no memory
    assert [problem.line for problem in dump.problems][:7] == [2, 3, 4, 5, 6, 7, 10]
    assert str(dump.problems.items[3]) == (
        f"{path}:5: field 'chunks': expected a list of chunks, found none"
    )
    cut = '[{"query": "a b", "chunks": []}, {"query"'
    _, (_,), (problem,) = read(written(tmp_path / "cut.json", cut))
    assert "never ends" in problem


def test_chunks_are_mended_with_a_warning(tmp_path: Path) -> None:
    chunks: list[Any] = [
        {"id": "a", "text": LEAVE, "score": 0.9},
        {"id": "a", "text": DESK, "score": "high"},
        {"text": "no id here"},
        {"id": "b", "text": 7},
        5,
        {"id": "c", "metadata": {"page": 3}},
        {"id": {"x": 1}, "text": "an id that is none"},
        {"id": "p", "text": [{"text": "in"}, {"image": 1}, {"text": "parts"}]},
        {"id": "n", "text": [{"image": 1}]},
    ]
    path = lines(tmp_path / "d.jsonl", [{"query": QUERY, "chunks": chunks}])
    _, (retrieval,), _ = read(path)
    assert [chunk.id for chunk in retrieval.chunks] == ["a", "a#2", "#3", "c", "#7", "p"]
    assert [chunk.text for chunk in retrieval.chunks][3:] == ["", "an id that is none", "in\nparts"]
    assert {warning.kind: (warning.count, warning.chunk_ids) for warning in retrieval.warnings} == {
        WarningKind.DUPLICATE_ID: (1, ("a#2",)),
        WarningKind.INVALID_SCORE: (1, ("#2",)),
        WarningKind.MISSING_ID: (2, ("#3", "#7")),
        WarningKind.MALFORMED_CHUNK: (3, ("#4", "#5", "#9")),
    }


def test_labels_are_read(tmp_path: Path) -> None:
    chunks = [{"id": "a", "text": LEAVE, "relevant": True}, {"id": "b", "text": DESK}]
    record = {"query": QUERY, "answer_present": "yes", "answers": ["27"], "chunks": chunks}
    odd = {"query": "q", "chunks": chunks[1:], "relevant_chunk_ids": [True]}
    _, (labelled, unlabelled), _ = read(lines(tmp_path / "d.jsonl", [record, odd]))
    assert (labelled.answer_present, labelled.answers) == (True, ("27",))
    assert labelled.relevant_ids == frozenset({"a"})
    assert unlabelled.relevant_ids is None
