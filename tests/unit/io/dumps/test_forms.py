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

from ragbench import open_dump
from ragbench.core.validation import RetrievalDump, WarningKind
from ragbench.errors import ConfigError, DataError
from ragbench.io.dumps.form import ScoreKind
from ragbench.io.dumps.records import count_lines

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


def written(path: Path, value: Any, *, lines: bool = False, indent: int | None = None) -> Path:
    text = (
        "".join(f"{json.dumps(v)}\n" for v in value) if lines else json.dumps(value, indent=indent)
    )
    path.write_text(text, encoding="utf-8")
    return path


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
            written(tmp_path / "log.jsonl", log, lines=True),
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
    for path, count in (
        (written(tmp_path / "log.jsonl", [record, record], lines=True), 2),
        (written(tmp_path / "log.json", [record, record], indent=1), 2),
        (written(tmp_path / "one.json", record, indent=1), 1),
    ):
        form, found, problems = read(path)
        assert (form, problems) == (known["form"], []), path
        assert [retrieval.query for retrieval in found] == [QUERY] * count
        for retrieval in found:
            check(retrieval)


@of_kind("batch")
def test_responses_of_a_batch_are_joined_with_queries_by_order(tmp_path: Path, known: Any) -> None:
    queries = tmp_path / "queries.tsv"
    queries.write_text(f"q7\t{QUERY}\nq8\tWho won?\n", encoding="utf-8")
    form, found, problems = read(written(tmp_path / "batch.json", known["value"]), queries=queries)
    assert (form, problems) == (known["form"], [])
    assert [(r.query_id, r.query, len(r.chunks)) for r in found] == [
        ("q7", QUERY, 2),
        ("q8", "Who won?", 0),
    ]


@of_kind("empty")
def test_a_response_whose_texts_are_missing_is_recognised_all_the_same(
    tmp_path: Path, known: Any
) -> None:
    form, (retrieval,), problems = read(written(tmp_path / "x.json", known["value"]))
    assert (form, [chunk.text for chunk in retrieval.chunks], problems) == (known["form"], [""], [])


def test_every_form_is_among_the_known_responses() -> None:
    from ragbench.io.dumps.forms import forms

    assert {one["form"] for one in KNOWN} | {"pgvector"} == forms().keys()


def test_one_query_does_not_serve_two_responses_and_none_serves_none(tmp_path: Path) -> None:
    points = {"points": [{"id": 1, "score": 0.9, "payload": {"text": LEAVE}}]}
    path = written(tmp_path / "log.jsonl", [points] * 2, lines=True)
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
    path = tmp_path / f"rows.{suffix}"
    path.write_text(ROWS, encoding="utf-8")
    if suffix != "csv":
        rows = list(csv.DictReader(ROWS.splitlines()))
        lines = ["\t".join(rows[0])] + ["\t".join(row.values()) for row in rows]
        if suffix == "jsonl":
            lines = [
                json.dumps(
                    {**row, "distance": float(row["distance"] or 0), "embedding": [0.1, 0.2]}
                )
                for row in rows[:2]
            ]
        path.write_text("\n".join(lines), encoding="utf-8")
    form, found, problems = read(path)
    assert (form, problems) == ("pgvector", [])
    assert found[0].query_id == "q1"
    check(found[0])
    assert [chunk.score for chunk in found[0].chunks] == [-0.1, -0.4]
    if suffix != "jsonl":
        assert [len(retrieval.chunks) for retrieval in found] == [2, 0]


def test_rows_of_a_query_that_comes_back_are_told(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(
        "query,content\nfirst one,some text here\nother,a text\nfirst one,late text\n",
        encoding="utf-8",
    )
    _, found, problems = read(path)
    assert [retrieval.query for retrieval in found] == ["first one", "other", "first one"]
    assert problems == [
        f"{path}:4: query 'first one' has rows at 2 already: sort the rows by query. These are "
        "judged as another retrieval"
    ]


def corpus(folder: Path) -> Path:
    """A BEIR folder."""
    folder.mkdir()
    written(
        folder / "corpus.jsonl",
        [{"_id": "leave", "title": "", "text": LEAVE}, {"_id": "desk", "text": DESK}],
        lines=True,
    )
    written(
        folder / "queries.jsonl",
        [{"_id": "q1", "text": QUERY}, {"_id": "q2", "text": "Who won?"}],
        lines=True,
    )
    return folder


RUN = "q1 Q0 desk 2 1.5 bm25\nq1 Q0 leave 1 2.5 bm25\nq2 Q0 gone 1 0.5 bm25\n"
TOPICS = """<top>
<num> Number: q1
<title> How many days of
leave are there?
<desc> Description:
Something.
</top>
<top><num>q2</num><title>Who won?</title></top>
"""


def test_a_trec_run_is_joined_with_corpus_and_topics(tmp_path: Path) -> None:
    path, topics = tmp_path / "bm25.run", tmp_path / "topics.txt"
    path.write_text(RUN, encoding="utf-8")
    topics.write_text(TOPICS, encoding="utf-8")
    folder = corpus(tmp_path / "beir")
    for options in ({}, {"queries": topics}, {"format": "trec"}):
        form, found, problems = read(path, corpus=folder, **options)
        assert (form, problems) == ("trec", [])
        assert [(r.query_id, r.query) for r in found] == [("q1", QUERY), ("q2", "Who won?")]
        check(found[0])
        assert [chunk.score for chunk in found[0].chunks] == [2.5, 1.5]
        assert found[1].chunks[0].text == ""


def test_ids_that_ragbench_escaped_in_its_own_runs_find_their_texts(tmp_path: Path) -> None:
    folder = tmp_path / "beir"
    folder.mkdir()
    written(
        folder / "corpus.jsonl", [{"_id": "paid leave", "title": "", "text": LEAVE}], lines=True
    )
    written(folder / "queries.jsonl", [{"_id": "q 1", "text": QUERY}], lines=True)
    path = tmp_path / "own.run"
    line = "q%201 Q0 paid%20leave 1 2.5"
    path.write_text(f"{line} ragbench\n", encoding="utf-8")
    _, (retrieval,), problems = read(path, corpus=folder)
    assert (retrieval.query_id, retrieval.chunks[0].text, problems) == ("q 1", LEAVE, [])
    path.write_text(f"{line} bm25\n", encoding="utf-8")  # whose ids are what they look like
    with pytest.raises(DataError, match="no query has the id 'q%201'"):
        read(path, corpus=folder)


def test_beir_results_are_joined_with_the_folder(tmp_path: Path) -> None:
    path = written(
        tmp_path / "results.json", {"q1": {"desk": 1.5, "leave": 2.5}, "q3": {"leave": 1}}
    )
    form, found, problems = read(path, corpus=corpus(tmp_path / "beir"))
    assert form == "beir"
    (retrieval,) = found
    check(retrieval)
    assert problems == [f"{path}: field 'query': no query has the id 'q3'"]


def test_a_run_without_its_texts_says_what_is_needed(tmp_path: Path) -> None:
    path = tmp_path / "bm25.run"
    path.write_text(RUN, encoding="utf-8")
    with pytest.raises(ConfigError, match="--corpus PATH"):
        read(path)
    with pytest.raises(ConfigError, match="--queries FILE"):
        read(path, corpus=corpus(tmp_path / "beir") / "corpus.jsonl")


def test_bad_lines_of_a_run_are_told(tmp_path: Path) -> None:
    path = tmp_path / "bm25.run"
    path.write_text(RUN + "q2 Q0 a\nq2 Q0 b 1 high tag\nq1 Q0 leave 3 0.1 x\n", encoding="utf-8")
    _, _, problems = read(path, corpus=corpus(tmp_path / "beir"))
    expected = "expected 'query Q0 document rank score tag'"
    assert problems == [
        f"{path}:4: {expected}, found 3 columns",
        f"{path}:5: {expected}, found 'high' as score",
        f"{path}:6: query 'q1' has lines at 1 already: sort the run by query",
    ]


# --- scores


@pytest.mark.parametrize(
    ("scores", "kind", "first"),
    [
        ([0.9, 0.5, 0.5], ScoreKind.SIMILARITY, 0.9),
        ([0.1, 0.5, 0.5], ScoreKind.DISTANCE, -0.1),
        (["81.2", "12"], ScoreKind.SIMILARITY, 81.2),
    ],
)
def test_the_order_of_the_chunks_tells_what_scores_are(
    tmp_path: Path, scores: list[Any], kind: ScoreKind, first: float
) -> None:
    chunks = [{"id": str(n), "text": f"text {n}", "distance": s} for n, s in enumerate(scores)]
    path = written(tmp_path / "d.jsonl", [{"query": "a b", "chunks": chunks}], lines=True)
    with open_dump(path) as dump:
        assert dump.mapping.scores is kind
        assert next(iter(dump)).chunks[0].score == first


def test_without_an_order_the_name_tells_and_the_user_has_the_last_word(tmp_path: Path) -> None:
    chunks = [{"id": "a", "text": "one text", "distance": 0.3}]
    path = written(tmp_path / "d.jsonl", [{"query": "a b", "chunks": chunks}], lines=True)
    with open_dump(path) as dump:
        assert dump.mapping.scores is ScoreKind.DISTANCE
    with open_dump(path, scores=ScoreKind.SIMILARITY) as dump:
        assert next(iter(dump)).chunks[0].score == 0.3


# --- fields


def test_a_text_under_any_name_is_found_and_can_be_corrected(tmp_path: Path) -> None:
    payload = {"Inhalt": LEAVE, "Zusammenfassung": "It is about leave.", "titel": "Leave"}
    point = {"id": 1, "score": 0.5, "payload": payload, "version": 1}
    path = written(tmp_path / "d.jsonl", [{"query": QUERY, "points": [point]}], lines=True)
    with open_dump(path) as dump:
        assert dump.mapping.text == "payload.Inhalt"
    with open_dump(
        path, overrides={"text": "payload.Zusammenfassung", "id": "payload.titel"}
    ) as dump:
        (chunk,) = next(iter(dump)).chunks
    assert (chunk.id, chunk.text) == ("Leave", "It is about leave.")


def test_text_inside_of_json_inside_of_a_payload(tmp_path: Path) -> None:
    payload = {"_node_content": json.dumps({"id_": "n", "text": LEAVE})}
    point = {"id": 1, "score": 0.5, "payload": payload, "version": 1}
    path = written(tmp_path / "d.jsonl", [{"query": QUERY, "points": [point]}], lines=True)
    with open_dump(path) as dump:
        assert dump.mapping.text == "payload._node_content.text"
        assert next(iter(dump)).chunks[0].text == LEAVE


def test_what_is_not_understood_is_described(tmp_path: Path) -> None:
    path = written(tmp_path / "d.jsonl", [{"query": QUERY, "sizes": [1, 2]}], lines=True)
    with pytest.raises(DataError, match=r"the record is an object with query, sizes.*--map chunks"):
        read(path)
    bad = [{"query": QUERY, "chunks": [{"id": 1, "n": 2, "payload": {"x": 1}}]}]
    path = written(tmp_path / "e.jsonl", bad, lines=True)
    with pytest.raises(DataError, match=r"a chunk is an object with id, n, payload.*--map text"):
        read(path)
    with pytest.raises(ConfigError, match=r"no such field\. Did you mean 'text'"):
        read(path, overrides={"txt": "n"})
    with pytest.raises(ConfigError, match="no dump format 'qdrannt'"):
        read(path, format="qdrannt")


# --- what is malformed


def test_malformed_lines_are_counted_and_the_others_follow(tmp_path: Path) -> None:
    good = json.dumps({"query": QUERY, "chunks": [{"id": "a", "text": LEAVE}]})
    lines = [good, '{"query": "x", "chunks": [', "[1, 2]", "null", '{"query": "no chunks"}',
             '{"query": 5, "chunks": []}', '{"chunks": []}', '{"query": "nothing", "chunks": null}',
             good.replace("How", "h\\u00f6w")]  # fmt: skip
    path = tmp_path / "d.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    with open_dump(path) as dump:
        found = list(dump)
    assert [len(retrieval.chunks) for retrieval in found] == [1, 0, 1]
    assert dump.malformed == 6
    assert [problem.line for problem in dump.problems] == [2, 3, 4, 5, 6, 7]
    assert str(dump.problems.items[3]) == (
        f"{path}:5: field 'chunks': expected a list of chunks, found none"
    )


def test_problems_fill_no_memory(tmp_path: Path) -> None:
    good = json.dumps({"query": QUERY, "chunks": [{"id": "a", "text": LEAVE}]})
    path = tmp_path / "d.jsonl"
    path.write_text("\n".join([good, *["{"] * 500, good]), encoding="utf-8")
    with open_dump(path) as dump:
        assert len(list(dump)) == 2
        assert (dump.malformed, len(dump.problems)) == (500, 100)


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
    path = written(tmp_path / "d.jsonl", [{"query": QUERY, "chunks": chunks}], lines=True)
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
    chunks = [
        {"id": "a", "text": LEAVE, "relevant": True},
        {"id": "b", "text": DESK, "relevant": 0},
    ]
    record = {"query": QUERY, "answer_present": "yes", "answers": ["27"], "chunks": chunks}
    _, (retrieval,), _ = read(written(tmp_path / "d.jsonl", [record], lines=True))
    assert retrieval.answer_present is True
    assert retrieval.relevant_ids == frozenset({"a"})
    assert retrieval.answers == ("27",)


def test_ids_that_repeat_are_counted(tmp_path: Path) -> None:
    record = {"query_id": "q", "query": QUERY, "chunks": []}
    with open_dump(written(tmp_path / "d.jsonl", [record] * 3, lines=True)) as dump:
        assert [retrieval.query_id for retrieval in dump] == ["q", "q", "q"]
    assert (dump.repeated, dump.repeated_ids) == (2, ["q", "q"])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.jsonl", "", "the file is empty"),
        ("words.txt", "just some words\n", "not recognised"),
        ("broken.json", '[{"query": "a b", "chunks": []}, {"query"', "never ends"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, name: str, content: str, message: str) -> None:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    if name == "broken.json":
        _, found, problems = read(path)
        assert len(found) == 1
        assert message in problems[0]
        return
    with pytest.raises(DataError, match=message):
        read(path)


def test_lines_are_counted_where_they_tell(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text('{"a": 1}\n{"b": 2}', encoding="utf-8")
    assert count_lines(path) == 2
    path.write_text("", encoding="utf-8")
    assert count_lines(path) == 0
    assert count_lines("-") is None
    assert count_lines(tmp_path / "gone.jsonl") is None


def test_labels_that_are_no_ids_are_no_labels(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(
        '{"query": "q", "chunks": [{"id": "a", "text": "x"}], "relevant_chunk_ids": [true]}\n',
        encoding="utf-8",
    )
    with open_dump(path) as dump:
        (retrieval,) = dump
    assert retrieval.relevant_ids is None


def test_what_is_not_recognised_is_shown_with_the_options_that_would_read_it(
    tmp_path: Path,
) -> None:
    record = {"q": QUERY, "stuff": {"items": [{"nr": 1, "inner": {"said": LEAVE}}]}}
    path = written(tmp_path / "dump.jsonl", [record], lines=True)
    with pytest.raises(DataError) as caught, open_dump(path):
        pass
    assert "--map chunks=stuff.items --map text=inner.said" in str(caught.value)
    assert "items[1]: object" in str(caught.value)
    _, (retrieval,), _ = read(path, overrides={"chunks": "stuff.items", "text": "inner.said"})
    assert retrieval.chunks[0].text == LEAVE
