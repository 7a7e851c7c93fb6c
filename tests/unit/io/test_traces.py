"""Traces of every tool give the same cases, and nothing but documents is a context."""

import csv
import gzip
import json
from pathlib import Path
from typing import Any, cast

import hypothesis
import pytest
from hypothesis import strategies as st

from ragbench import open_source
from ragbench.core.trace import STAGES, Entry, Trace
from ragbench.errors import DataError
from ragbench.io.export import Scores
from ragbench.io.joined import open_dump
from ragbench.io.only import Only
from ragbench.io.people import write_labels
from tests.unit.io.trace_forms import FORMS, Asked, Record
from tests.unit.io.traces import lines, written

FOUND = [("a", "At nine."), ("b", "Never."), ("c", "Ask."), ("d", "Ada runs it.")]
ASKED = [
    Asked(1, "When does it open?", FOUND[:3], [2, 0], "9"),
    Asked(2, "Who runs it?", [FOUND[1], FOUND[3]], [1], "Ada.", session="s-2"),
]


def records(form: str) -> list[Record]:
    return [row for one in ASKED for row in FORMS[form](one)]


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
def test_each_form_gives_the_same_cases_and_retrievals(form: str, tmp_path: Path) -> None:
    path = lines(tmp_path / "traces.jsonl", records(form))
    found = entries_of(path)
    assert [shown(entry) for entry in found] == [expected(one) for one in ASKED]
    assert [entry.case.id for entry in found] == ["t-1", "t-2"]
    seconds = {stage: one.seconds for stage, one in found[0].recorded.items()}
    assert seconds == {"retrieve": 1.0, "post_retrieve": 1.0, "generate": 1.0}

    with open_dump(path) as dump:  # what the model was given
        given_to = [(one.query, [chunk.id for chunk in one.chunks]) for one in dump]
        assert dump.malformed == 0
    assert given_to == [("When does it open?", ["c", "a"]), ("Who runs it?", ["d"])]


def test_the_traces_of_a_session_are_a_conversation(tmp_path: Path) -> None:
    """By time, not by their order in the file."""
    asked = [one._replace(session="s") for one in (*ASKED[::-1], ASKED[0]._replace(number=3))]
    rows = [row for one in asked for row in FORMS["otlp"](one)]
    found = {one.id: one.case for one in entries_of(lines(tmp_path / "t.jsonl", rows))}
    assert {id: case.tags[-1] for id, case in found.items()} == {
        f"t-{number}": f"turn-{number}" for number in (1, 2, 3)
    }
    first = [("user", ASKED[0].question), ("assistant", ASKED[0].answer)]
    said = {id: [(t.role, t.text) for t in case.history] for id, case in found.items()}
    assert said["t-1"] == []
    assert said["t-2"] == first
    assert said["t-3"] == [*first, ("user", ASKED[1].question), ("assistant", ASKED[1].answer)]


FEEDBACK: dict[str, tuple[str, list[Record]]] = {
    "sdk": (
        "annotations",
        [
            {"name": "thumbs", "annotator_kind": "HUMAN", "result": {"label": "thumbs_up"}},
            {"name": "right", "annotator_kind": "LLM", "result": {"score": 0.2}},
        ],
    ),
    "langfuse": (
        "scores",
        [
            {"name": "thumbs", "value": 1, "source": "API", "comment": "yes!"},
            {"name": "right", "value": 0.2, "source": "EVAL"},
        ],
    ),
    "langsmith": (
        "feedback",
        [
            {"key": "thumbs", "score": True},
            {"key": "right", "score": 0.2, "feedback_source": {"type": "model"}},
        ],
    ),
    "mlflow": (
        "assessments",
        [
            {
                "assessment_name": "thumbs",
                "feedback": {"value": True},
                "source": {"source_id": "ada"},
            },
            {"assessment_name": "expected", "expectation": {"value": "9"}},
            {
                "assessment_name": "right",
                "feedback": {"value": 0.2},
                "source": {"source_type": "LLM_JUDGE"},
            },
        ],
    ),
}


@pytest.mark.parametrize("form", FEEDBACK)
def test_feedback_is_kept_and_that_of_people_becomes_labels(form: str, tmp_path: Path) -> None:
    field, given_by = FEEDBACK[form]
    rows = FORMS[form](ASKED[0])
    last = rows[-1]["info"] if form == "mlflow" else rows[-1]
    last[field] = given_by
    entry, other = entries_of(lines(tmp_path / "t.jsonl", [*rows, *FORMS[form](ASKED[1])]))
    assert [one["name"] for one in entry.case.metadata["feedback"]] == ["thumbs", "right"]
    assert "feedback" not in other.case.metadata
    done = write_labels(map(traced, (entry, other)), tmp_path / "labels.jsonl", scores=Scores())
    (label,) = map(json.loads, (tmp_path / "labels.jsonl").read_text("utf-8").splitlines())
    by = "ada" if form == "mlflow" else None
    assert label == {
        "case": "t-1",
        "question": "When does it open?",
        "contexts": ["Ask.", "At nine."],
        "answer": "9",
        "metric": "thumbs",
        "value": 1.0,
        "by": by,
    }
    left_out = {"the feedback is a model's": 1, "nobody gave feedback": 1}
    assert (done.written, done.left_out) == (1, left_out)


def traced(entry: Entry) -> Trace:
    held = {STAGES[stage]: outcome for stage, outcome in entry.recorded.items()}
    return Trace(case=entry.case, **cast("Any", held))


@pytest.mark.parametrize(
    ("only", "ids"),
    [
        ({"since": "2026-09-21T00:00:20"}, ["t-2"]),
        ({"until": "2026-09-21T00:00:19.5Z"}, ["t-1"]),
        ({"since": "2026-09-21", "until": "2026-09-21"}, ["t-1", "t-2"]),
        ({"where": {"cluster": "s-2"}}, ["t-2"]),
        ({"where": {"env": "prod", "build.number": "7"}}, ["t-1"]),
    ],
)
def test_traces_are_taken_by_time_and_value(
    only: dict[str, Any], ids: list[str], tmp_path: Path
) -> None:
    first, second = map(FORMS["sdk"], ASKED)
    first[-1]["attributes"]["metadata"] = '{"env": "prod", "build": {"number": 7}}'
    path = lines(tmp_path / "traces.jsonl", [*first, *second])
    with open_source(path, only=Only(**only)) as source:
        assert [entry.case.id for entry in source] == ids
        assert source.info.cases == len(ids)
        assert f"Only records {Only(**only).described} are taken" in source.info.notes
    with open_dump(path, only=Only(**only)) as dump:
        assert [one.query_id for one in dump] == ids


DATED = [
    {"query": "a?", "created_at": "2026-01-01", "contexts": [{"text": "x", "score": 1}], "n": 1},
    {"query": "b?", "created_at": "1769904000000.0", "contexts": [{"text": "y"}], "n": 2},
    {"query": "c?", "contexts": [{"text": "z", "score": 1}], "n": 2.0},
]


@pytest.mark.parametrize("opened", [open_source, open_dump])
def test_other_sources_are_taken_by_the_same_rules(opened: Any, tmp_path: Path) -> None:
    path = lines(tmp_path / "dump.jsonl", DATED)

    def queries(**only: Any) -> list[str]:
        with opened(path, only=Only(**only)) as source:
            found = [*source]
            assert not getattr(source, "malformed", 0), source.problems.items
        return [getattr(one, "case", one).query for one in found]

    assert queries(where={"n": "2"}) == ["b?", "c?"]
    with pytest.raises(DataError, match=r"none of 3 records is taken \(where n=9\): 'n' is "):
        queries(where={"n": "9"})
    with pytest.raises((DataError, AssertionError), match="says no time: --since and --until"):
        queries(since="2026-01-15")
    lines(path, DATED[:2])
    assert queries(since="2026-01-15") == ["b?"]


def as_cell(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)


def test_arrays_envelopes_gzip_csv_and_folders(tmp_path: Path) -> None:
    observations = records("langfuse")
    spans = [row["resourceSpans"][0] for row in records("otlp")]
    wholes = {
        "array.json": records("langsmith"),
        "runs.json": {"runs": records("langsmith")},
        "api.json": {"data": observations, "meta": {"page": 1}},
        "otlp.json": {"resourceSpans": spans},
    }
    for name, whole in wholes.items():
        written(tmp_path / name, whole, indent=1)
    packed = lines(tmp_path / "spans.jsonl", observations).read_bytes()
    written(tmp_path / "spans.jsonl.gz", gzip.compress(packed))
    for form in FORMS:
        rows = records(form)
        with (tmp_path / f"{form}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, dict.fromkeys(name for row in rows for name in row))
            writer.writeheader()
            writer.writerows({n: as_cell(v) for n, v in row.items()} for row in rows)
    (tmp_path / "folder").mkdir()
    for number, one in enumerate(ASKED):
        lines(tmp_path / "folder" / f"{number}.jsonl", FORMS["sdk"](one))
    for name in (*wholes, *(f"{form}.csv" for form in FORMS), "spans.jsonl.gz", "folder"):
        assert [*map(shown, entries_of(tmp_path / name))] == [*map(expected, ASKED)], name
    # The spans of a trace may stand anywhere.
    mixed = sorted(records("sdk"), key=lambda row: str(row["context"]["span_id"]))
    found = map(shown, entries_of(lines(tmp_path / "mixed.jsonl", mixed)))
    assert sorted(map(repr, found)) == sorted(map(repr, map(expected, ASKED)))


def test_what_was_read_is_said(tmp_path: Path) -> None:
    health = {**FORMS["sdk"](ASKED[0])[-1], "parent_id": None}
    health["context"] = {"trace_id": "other", "span_id": "1"}
    health |= {"attributes": {"load": float("nan")}, "start_time": 1e300}  # beyond all years
    path = lines(tmp_path / "traces.jsonl", [*FORMS["sdk"](ASKED[0]), health])
    with open_source(path) as source:
        notes = " ".join(source.info.notes)
        assert len([*source]) == 1
    assert "2 traces of 6 spans" in notes
    assert "1 with a question, 1 with retrieval (1 search), 1 with an answer" in notes
    assert "1 trace without a question: left out" in notes


def test_a_text_that_a_limit_cut_is_told(tmp_path: Path) -> None:
    rows = FORMS["sdk"](Asked(1, "Why?", [("a", "x" * 300)], [0], "Because."))
    for row in rows:
        row["attributes"] = {name: value[:128] for name, value in row["attributes"].items()}
    with open_source(lines(tmp_path / "traces.jsonl", rows)) as source:
        assert any("cut at 128 characters" in note for note in source.info.notes)


def test_spans_of_no_known_form_are_refused_by_name(tmp_path: Path) -> None:
    for record in (
        {"traceID": "1", "spans": [], "processes": {}},
        {"trace_id": "1", "span_id": "2", "body": {"question": "x"}},
        {"traceId": "1", "id": "2", "localEndpoint": {}, "tags": {}},
    ):
        with pytest.raises(DataError, match=r"traces\.jsonl: it holds (spans|traces) .*OTLP JSON"):
            open_source(lines(tmp_path / "traces.jsonl", [record]))


def test_a_search_that_failed_is_no_empty_one(tmp_path: Path) -> None:
    rows = FORMS["sdk"](ASKED[0])
    for row in rows:
        held, left_out = row["attributes"], ("documents", "output.value")
        row["attributes"] = {n: v for n, v in held.items() if not any(out in n for out in left_out)}
        row["status"] = {"status_code": "ERROR", "description": f"{row['name']} broke"}
    (entry,) = entries_of(lines(tmp_path / "traces.jsonl", rows))
    messages = {stage: str(one.failure) for stage, one in entry.recorded.items()}
    assert "search broke" in messages["retrieve"]
    assert "chain broke" in messages["generate"]


texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1).map(
    lambda text: f"w {text} w"
)


@hypothesis.settings(max_examples=40)
@hypothesis.given(texts, st.lists(texts, min_size=1, max_size=4, unique=True), texts)
def test_an_answer_is_never_a_context(
    tmp_path_factory: pytest.TempPathFactory, question: str, documents: list[str], answer: str
) -> None:
    found, path = [*enumerate(documents)], tmp_path_factory.mktemp("traces") / "traces.jsonl"
    asked = Asked(7, question, [(f"d{n}", text) for n, text in found], [0], f"ANSWER {answer}")
    for form in FORMS.values():
        (entry,) = entries_of(lines(path, form(asked)))
        assert shown(entry) == expected(asked)
        for stage in ("retrieve", "post_retrieve"):
            assert not any("ANSWER" in text for text in given(entry, stage).contexts)
