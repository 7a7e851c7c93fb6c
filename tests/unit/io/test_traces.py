"""Traces of every tool give the same cases, and nothing but documents is a context."""

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from ragbench import open_source
from ragbench.core.trace import Entry
from ragbench.errors import DataError
from ragbench.io.joined import open_retrievals
from tests.unit.io.trace_forms import FORMS, Asked, Record

ASKED = [
    Asked(
        1, "When does it open?", [("a", "At nine."), ("b", "Never."), ("c", "Ask.")], [2, 0], "9"
    ),
    Asked(2, "Who runs it?", [("b", "Never."), ("d", "Ada runs it.")], [1], "Ada.", session="s-2"),
]


def written(path: Path, records: list[Record]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def entries_of(path: Path) -> list[Entry]:
    with open_source(path) as source:
        assert source.info.form == "traces"
        return [*source]


def given(entry: Entry, stage: str) -> Any:
    return entry.recorded[stage].value


def shown(entry: Entry) -> tuple[object, ...]:
    retrieve, post = given(entry, "retrieve"), given(entry, "post_retrieve")
    return (
        entry.case.query,
        entry.case.cluster,
        list(zip(retrieve.context_ids, retrieve.contexts, strict=True)),
        list(zip(post.context_ids, post.contexts, strict=True)),
        given(entry, "generate").response,
    )


def expected(asked: Asked) -> tuple[object, ...]:
    kept = [asked.documents[at] for at in asked.kept]
    return asked.question, asked.session, asked.documents, kept, asked.answer


@pytest.mark.parametrize("form", FORMS)
def test_each_form_gives_the_same_cases(form: str, tmp_path: Path) -> None:
    path = written(tmp_path / "traces.jsonl", [r for one in ASKED for r in FORMS[form](one)])
    found = entries_of(path)
    assert [shown(entry) for entry in found] == [expected(one) for one in ASKED]
    assert [entry.case.id for entry in found] == ["t-1", "t-2"]
    seconds = {stage: one.seconds for stage, one in found[0].recorded.items()}
    assert seconds == {"retrieve": 1.0, "post_retrieve": 1.0, "generate": 1.0}


def test_the_traces_of_a_session_are_a_conversation(tmp_path: Path) -> None:
    """By time, not by their order in the file."""
    asked = [one._replace(session="s") for one in (*ASKED[::-1], ASKED[0]._replace(number=3))]
    records = [r for one in asked for r in FORMS["otlp"](one)]
    found = {one.id: one.case for one in entries_of(written(tmp_path / "t.jsonl", records))}
    assert {id: case.tags[-1] for id, case in found.items()} == {
        f"t-{number}": f"turn-{number}" for number in (1, 2, 3)
    }
    first = [("user", ASKED[0].question), ("assistant", ASKED[0].answer)]
    said = {id: [(t.role, t.text) for t in case.history] for id, case in found.items()}
    assert said["t-1"] == []
    assert said["t-2"] == first
    assert said["t-3"] == [*first, ("user", ASKED[1].question), ("assistant", ASKED[1].answer)]


@pytest.mark.parametrize("form", FORMS)
def test_validate_reads_what_the_model_was_given(form: str, tmp_path: Path) -> None:
    path = written(tmp_path / "traces.jsonl", [r for one in ASKED for r in FORMS[form](one)])
    with open_retrievals(path) as dump:
        found = [(one.query, [chunk.id for chunk in one.chunks]) for one in dump]
        assert dump.malformed == 0
    assert found == [("When does it open?", ["c", "a"]), ("Who runs it?", ["d"])]


def test_spans_of_a_trace_may_stand_anywhere(tmp_path: Path) -> None:
    first, second = (FORMS["sdk"](one) for one in ASKED)
    mixed = [row for pair in zip(first, second, strict=True) for row in pair]
    found = entries_of(written(tmp_path / "traces.jsonl", mixed[::-1]))
    assert sorted(map(repr, map(shown, found))) == sorted(repr(expected(one)) for one in ASKED)


def test_arrays_envelopes_gzip_csv_and_folders(tmp_path: Path) -> None:
    runs = [row for one in ASKED for row in FORMS["langsmith"](one)]
    observations = [row for one in ASKED for row in FORMS["langfuse"](one)]
    spans = [row["resourceSpans"][0] for one in ASKED for row in FORMS["otlp"](one)]
    wholes = {
        "array.json": runs,
        "runs.json": {"runs": runs},
        "api.json": {"data": observations, "meta": {"page": 1}},
        "otlp.json": {"resourceSpans": spans},
    }
    for name, whole in wholes.items():
        (tmp_path / name).write_text(json.dumps(whole, indent=1), encoding="utf-8")
    with gzip.open(tmp_path / "spans.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in observations)
    with (tmp_path / "spans.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, observations[0].keys())
        writer.writeheader()
        writer.writerows(observations)
    folder = tmp_path / "folder"
    folder.mkdir()
    for number, one in enumerate(ASKED):
        written(folder / f"{number}.jsonl", FORMS["sdk"](one))
    for name in (*wholes, "spans.jsonl.gz", "spans.csv", "folder"):
        assert [*map(shown, entries_of(tmp_path / name))] == [*map(expected, ASKED)], name


def test_what_was_read_is_said(tmp_path: Path) -> None:
    health = {**FORMS["sdk"](ASKED[0])[-1], "parent_id": None}
    health["context"] = {"trace_id": "other", "span_id": "1"}
    health["attributes"] = {"http.method": "GET"}
    path = written(tmp_path / "traces.jsonl", [*FORMS["sdk"](ASKED[0]), health])
    with open_source(path) as source:
        notes = " ".join(source.info.notes)
        assert len([*source]) == 1
    assert "2 traces of 6 spans" in notes
    assert "1 with a question, 1 with retrieval (1 search), 1 with an answer" in notes
    assert "1 trace without a question: left out" in notes


def test_a_text_that_a_limit_cut_is_told(tmp_path: Path) -> None:
    long = Asked(1, "Why?", [("a", "x" * 300)], [0], "Because.")
    rows = FORMS["sdk"](long)
    for row in rows:
        row["attributes"] = {name: value[:128] for name, value in row["attributes"].items()}
    with open_source(written(tmp_path / "traces.jsonl", rows)) as source:
        assert any("cut at 128 characters" in note for note in source.info.notes)


@pytest.mark.parametrize(
    "record",
    [
        {"traceID": "1", "spans": [], "processes": {}},
        {"trace_id": "1", "span_id": "2", "body": {"question": "x"}},
        {"traceId": "1", "id": "2", "localEndpoint": {}, "tags": {}},
    ],
)
def test_spans_of_no_known_form_are_refused_by_name(record: Record, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"traces\.jsonl: it holds (spans|traces) .*OTLP JSON"):
        open_source(written(tmp_path / "traces.jsonl", [record]))


def test_a_search_that_failed_is_no_empty_one(tmp_path: Path) -> None:
    rows = FORMS["sdk"](ASKED[0])
    for row in rows:
        row["attributes"] = {
            name: value for name, value in row["attributes"].items() if "documents" not in name
        }
        row["attributes"].pop("output.value")
        row["status"] = {"status_code": "ERROR", "description": f"{row['name']} broke"}
    (entry,) = entries_of(written(tmp_path / "traces.jsonl", rows))
    messages = {stage: str(one.failure) for stage, one in entry.recorded.items()}
    assert "search broke" in messages["retrieve"]
    assert "chain broke" in messages["generate"]


texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1).map(
    lambda text: f"w {text} w"
)


@hypothesis.given(
    question=texts,
    documents=st.lists(texts, min_size=1, max_size=4, unique=True),
    answer=texts,
    form=st.sampled_from([*FORMS]),
)
def test_an_answer_is_never_a_context(
    question: str,
    documents: list[str],
    answer: str,
    form: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    leaked = f"ANSWER {answer}"
    asked = Asked(7, question, [(f"d{n}", text) for n, text in enumerate(documents)], [0], leaked)
    path = tmp_path_factory.mktemp("traces") / "traces.jsonl"
    (entry,) = entries_of(written(path, FORMS[form](asked)))
    assert shown(entry) == expected(asked)
    for stage in ("retrieve", "post_retrieve"):
        assert not any("ANSWER" in text for text in given(entry, stage).contexts)
