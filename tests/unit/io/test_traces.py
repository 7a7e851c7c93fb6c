"""Traces of every tool give the same cases, and nothing but documents is a context."""

import csv
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from ragbench import Turn, open_source
from ragbench.core.trace import Entry, Trace
from ragbench.errors import DataError
from ragbench.io.export import Scores
from ragbench.io.joined import open_dump
from ragbench.io.only import Only
from ragbench.io.people import write_labels
from tests.unit.io.trace_forms import FORMS, Record, TracedQuestion
from tests.unit.io.traces import lines, written

Queries = Callable[[Path, Only], list[str]]

OPENS = ("a", "At nine.")
NEVER = ("b", "Never.")
ASK = ("c", "Ask.")
ADA = ("d", "Ada runs it.")
FIRST = TracedQuestion(1, "When does it open?", [OPENS, NEVER, ASK], [2, 0], "9")
SECOND = TracedQuestion(2, "Who runs it?", [NEVER, ADA], [1], "Ada.", session="s-2")


def records(form: str) -> list[Record]:
    """Both traces as a tool writes them."""
    write = FORMS[form]
    return [*write(FIRST), *write(SECOND)]


def entries_of(path: Path) -> list[Entry]:
    with open_source(path) as source:
        assert source.info.form == "traces"
        return list(source)


def recorded(entry: Entry, stage: str) -> Any:
    return entry.recorded[stage].value


def documents(entry: Entry, stage: str) -> list[tuple[str, str]]:
    """Ids and texts of what a stage gave."""
    retrieval = recorded(entry, stage)
    return list(zip(retrieval.context_ids, retrieval.contexts, strict=True))


def assert_is_of(entry: Entry, traced: TracedQuestion) -> None:
    """The entry has all that the trace holds, each in its place."""
    assert entry.case.query == traced.question
    assert entry.case.cluster == traced.session
    assert documents(entry, "retrieve") == traced.documents
    reranked = [traced.documents[position] for position in traced.reranked]
    assert documents(entry, "post_retrieve") == reranked
    assert recorded(entry, "generate").response == traced.answer


def assert_are_both(entries: list[Entry]) -> None:
    """A source gave the first trace, then the second."""
    assert len(entries) == 2
    assert_is_of(entries[0], FIRST)
    assert_is_of(entries[1], SECOND)


# --- what a trace gives


@pytest.fixture(name="traces", params=FORMS)
def traces_of_a_tool(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return lines(tmp_path / "traces.jsonl", records(request.param))


def test_each_form_gives_the_same_cases_and_retrievals(traces: Path) -> None:
    entries = entries_of(traces)

    assert_are_both(entries)


def test_each_form_names_its_cases_after_its_traces(traces: Path) -> None:
    first_entry, second_entry = entries_of(traces)

    assert first_entry.case.id == "t-1"
    assert second_entry.case.id == "t-2"


def test_each_form_gives_the_seconds_of_a_stage(traces: Path) -> None:
    recorded_outcomes = entries_of(traces)[0].recorded

    assert recorded_outcomes["retrieve"].seconds == 1.0
    assert recorded_outcomes["post_retrieve"].seconds == 1.0
    assert recorded_outcomes["generate"].seconds == 1.0


def test_a_dump_of_traces_is_of_the_documents_that_the_model_got(traces: Path) -> None:
    with open_dump(traces) as dump:
        first_retrieval, second_retrieval = dump
        assert dump.malformed == 0

    assert first_retrieval.query == "When does it open?"
    assert [chunk.id for chunk in first_retrieval.chunks] == ["c", "a"]
    assert second_retrieval.query == "Who runs it?"
    assert [chunk.id for chunk in second_retrieval.chunks] == ["d"]


def test_the_traces_of_a_session_are_a_conversation_in_the_order_of_time(tmp_path: Path) -> None:
    third = FIRST._replace(number=3)
    rows: list[Record] = []
    for traced in (SECOND, FIRST, third):
        rows += FORMS["otlp"](traced._replace(session="s"))

    entries = entries_of(lines(tmp_path / "t.jsonl", rows))

    cases = {entry.case.id: entry.case for entry in entries}
    assert cases["t-1"].tags[-1] == "turn-1"
    assert cases["t-1"].history == ()
    first_turns = (
        Turn(role="user", text="When does it open?"),
        Turn(role="assistant", text="9"),
    )
    assert cases["t-2"].tags[-1] == "turn-2"
    assert cases["t-2"].history == first_turns
    second_turns = (
        Turn(role="user", text="Who runs it?"),
        Turn(role="assistant", text="Ada."),
    )
    assert cases["t-3"].tags[-1] == "turn-3"
    assert cases["t-3"].history == first_turns + second_turns


# --- feedback


# Of each tool: the field of a record, and a person's feedback and a model's in it.
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


@pytest.fixture(name="with_feedback", params=FEEDBACK)
def traces_with_feedback(request: pytest.FixtureRequest, tmp_path: Path) -> list[Entry]:
    """Both traces; the first has feedback of a person and of a model."""
    form = request.param
    field, feedback = FEEDBACK[form]
    rows = FORMS[form](FIRST)
    if form == "mlflow":
        rows[-1]["info"][field] = feedback
    else:
        rows[-1][field] = feedback
    return entries_of(lines(tmp_path / "traces.jsonl", [*rows, *FORMS[form](SECOND)]))


def test_feedback_becomes_metadata_of_its_case(with_feedback: list[Entry]) -> None:
    first_entry, second_entry = with_feedback

    names = [feedback["name"] for feedback in first_entry.case.metadata["feedback"]]
    assert names == ["thumbs", "right"]
    assert "feedback" not in second_entry.case.metadata


def trace_of(entry: Entry) -> Trace:
    return Trace(
        case=entry.case,
        retrieval=entry.recorded["retrieve"],
        post_retrieval=entry.recorded["post_retrieve"],
        generation=entry.recorded["generate"],
    )


def test_feedback_of_people_becomes_labels(with_feedback: list[Entry], tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"

    export = write_labels([trace_of(entry) for entry in with_feedback], path, scores=Scores())

    (label,) = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    # Only a record of MLflow says who gave it.
    assert label.pop("by") in (None, "ada")
    assert label == {
        "case": "t-1",
        "question": "When does it open?",
        "contexts": ["Ask.", "At nine."],
        "answer": "9",
        "metric": "thumbs",
        "value": 1.0,
    }
    assert export.written == 1
    assert export.left_out == {"the feedback is a model's": 1, "nobody gave feedback": 1}


def test_a_label_names_the_person_whom_the_feedback_names(tmp_path: Path) -> None:
    rows = FORMS["mlflow"](FIRST)
    rows[-1]["info"]["assessments"] = FEEDBACK["mlflow"][1]
    (entry,) = entries_of(lines(tmp_path / "traces.jsonl", rows))

    write_labels([trace_of(entry)], tmp_path / "labels.jsonl", scores=Scores())

    assert json.loads((tmp_path / "labels.jsonl").read_text("utf-8"))["by"] == "ada"


# --- some records of a source


@pytest.mark.parametrize(
    ("only", "ids"),
    [
        pytest.param({"since": "2026-09-21T00:00:20"}, ["t-2"], id="since a time"),
        pytest.param({"until": "2026-09-21T00:00:19.5Z"}, ["t-1"], id="until a time"),
        pytest.param(
            {"since": "2026-09-21", "until": "2026-09-21"}, ["t-1", "t-2"], id="a whole day"
        ),
        pytest.param({"where": {"cluster": "s-2"}}, ["t-2"], id="a field"),
        pytest.param(
            {"where": {"env": "prod", "build.number": "7"}}, ["t-1"], id="values of metadata"
        ),
    ],
)
def test_traces_are_chosen_by_time_and_value(
    only: dict[str, Any], ids: list[str], tmp_path: Path
) -> None:
    spans = FORMS["sdk"](FIRST)
    spans[-1]["attributes"]["metadata"] = '{"env": "prod", "build": {"number": 7}}'
    path = lines(tmp_path / "traces.jsonl", [*spans, *FORMS["sdk"](SECOND)])

    with open_source(path, only=Only(**only)) as source:
        cases = [entry.case for entry in source]
        info = source.info
    with open_dump(path, only=Only(**only)) as dump:
        query_ids = [retrieval.query_id for retrieval in dump]

    assert [case.id for case in cases] == ids
    assert info.cases == len(ids)
    assert f"Only records {Only(**only).described} are taken" in info.notes
    assert query_ids == ids


# The last one names no time.
DATED = [
    {"query": "a?", "created_at": "2026-01-01", "contexts": [{"text": "x", "score": 1}], "n": 1},
    {"query": "b?", "created_at": "1769904000000.0", "contexts": [{"text": "y"}], "n": 2},
    {"query": "c?", "contexts": [{"text": "z", "score": 1}], "n": 2.0},
]


def queries_of_cases(path: Path, only: Only) -> list[str]:
    with open_source(path, only=only) as source:
        return [entry.case.query for entry in source]


def queries_of_dump(path: Path, only: Only) -> list[str]:
    with open_dump(path, only=only) as dump:
        queries = [retrieval.query for retrieval in dump]
        if dump.malformed:
            raise DataError(dump.problems.items)
    return queries


@pytest.fixture(name="queries", params=[queries_of_cases, queries_of_dump])
def queries_of_a_source(request: pytest.FixtureRequest) -> Queries:
    """Cases and dumps are chosen by the same rules as traces."""
    queries: Queries = request.param
    return queries


def test_a_number_is_the_same_however_it_is_written(queries: Queries, tmp_path: Path) -> None:
    path = lines(tmp_path / "dump.jsonl", DATED)

    assert queries(path, Only(where={"n": "2"})) == ["b?", "c?"]


def test_a_value_that_no_record_has_is_refused(queries: Queries, tmp_path: Path) -> None:
    path = lines(tmp_path / "dump.jsonl", DATED)

    message = r"none of 3 records is taken \(where n=9\): 'n' is "
    with pytest.raises(DataError, match=message):
        queries(path, Only(where={"n": "9"}))


def test_a_time_is_read_however_it_is_written(queries: Queries, tmp_path: Path) -> None:
    path = lines(tmp_path / "dump.jsonl", DATED[:2])

    # 1,769,904,000 seconds are the start of February.
    assert queries(path, Only(since="2026-01-15")) == ["b?"]


def test_a_record_without_a_time_is_an_error(queries: Queries, tmp_path: Path) -> None:
    path = lines(tmp_path / "dump.jsonl", DATED)

    with pytest.raises(DataError, match="says no time: --since and --until"):
        queries(path, Only(since="2026-01-15"))


# --- how the spans are stored


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(records("langsmith"), id="an array"),
        pytest.param({"runs": records("langsmith")}, id="runs of LangSmith"),
        pytest.param(
            {"data": records("langfuse"), "meta": {"page": 1}}, id="a page of Langfuse's API"
        ),
        pytest.param(
            {"resourceSpans": [row["resourceSpans"][0] for row in records("otlp")]}, id="OTLP"
        ),
    ],
)
def test_spans_in_a_single_document_are_read(content: object, tmp_path: Path) -> None:
    path = written(tmp_path / "traces.json", content, indent=1)

    assert_are_both(entries_of(path))


def test_spans_in_a_compressed_file_are_read(tmp_path: Path) -> None:
    plain = lines(tmp_path / "spans.jsonl", records("langfuse"))
    path = written(tmp_path / "spans.jsonl.gz", gzip.compress(plain.read_bytes()))

    assert_are_both(entries_of(path))


def as_cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value)


@pytest.mark.parametrize("form", FORMS)
def test_spans_in_a_table_are_read(form: str, tmp_path: Path) -> None:
    rows = records(form)
    columns: dict[str, None] = {}
    for row in rows:
        columns.update(dict.fromkeys(row))
    path = tmp_path / "spans.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        for row in rows:
            writer.writerow({name: as_cell(value) for name, value in row.items()})

    assert_are_both(entries_of(path))


def test_spans_in_the_files_of_a_folder_are_read(tmp_path: Path) -> None:
    lines(tmp_path / "0.jsonl", FORMS["sdk"](FIRST))
    lines(tmp_path / "1.jsonl", FORMS["sdk"](SECOND))

    assert_are_both(entries_of(tmp_path))


def test_the_spans_of_a_trace_may_stand_anywhere(tmp_path: Path) -> None:
    mixed = sorted(records("sdk"), key=lambda row: str(row["context"]["span_id"]))

    entries = entries_of(lines(tmp_path / "mixed.jsonl", mixed))

    assert_are_both(sorted(entries, key=lambda entry: entry.case.id))


# --- notes and problems


@pytest.fixture(name="with_health_check")
def notes_of_a_trace_and_a_health_check(tmp_path: Path) -> list[str]:
    """A trace, and a span that is no question: its attributes and its time are odd, too."""
    health_check = {
        **FORMS["sdk"](FIRST)[-1],
        "parent_id": None,
        "context": {"trace_id": "other", "span_id": "1"},
        "attributes": {"load": float("nan")},
        "start_time": 1e300,  # beyond all years
    }
    path = lines(tmp_path / "traces.jsonl", [*FORMS["sdk"](FIRST), health_check])
    with open_source(path) as source:
        assert len(list(source)) == 1
        return list(source.info.notes)


def test_notes_count_what_was_read(with_health_check: list[str]) -> None:
    notes = " ".join(with_health_check)

    assert "2 traces of 6 spans" in notes
    assert "1 with a question, 1 with retrieval (1 search), 1 with an answer" in notes


def test_a_note_counts_traces_without_a_question(with_health_check: list[str]) -> None:
    assert "1 trace without a question: left out" in " ".join(with_health_check)


def test_a_note_warns_of_texts_that_a_limit_has_cut(tmp_path: Path) -> None:
    long_document = ("a", "x" * 300)
    rows = FORMS["sdk"](TracedQuestion(1, "Why?", [long_document], [0], "Because."))
    for row in rows:
        attributes = row["attributes"]
        row["attributes"] = {name: text[:128] for name, text in attributes.items()}

    with open_source(lines(tmp_path / "traces.jsonl", rows)) as source:
        notes = " ".join(source.info.notes)

    assert "cut at 128 characters" in notes


@pytest.mark.parametrize(
    "record",
    [
        pytest.param({"traceID": "1", "spans": [], "processes": {}}, id="Jaeger"),
        pytest.param(
            {"trace_id": "1", "span_id": "2", "body": {"question": "x"}}, id="an unknown tool"
        ),
        pytest.param({"traceId": "1", "id": "2", "localEndpoint": {}, "tags": {}}, id="Zipkin"),
    ],
)
def test_spans_of_no_known_form_are_refused_by_name(record: Record, tmp_path: Path) -> None:
    path = lines(tmp_path / "traces.jsonl", [record])

    with pytest.raises(DataError, match=r"traces\.jsonl: it holds (spans|traces) .*OTLP JSON"):
        open_source(path)


def test_a_search_that_failed_is_not_an_empty_one(tmp_path: Path) -> None:
    rows = FORMS["sdk"](FIRST)
    for row in rows:
        for name in list(row["attributes"]):
            if "documents" in name or "output.value" in name:
                del row["attributes"][name]
        row["status"] = {"status_code": "ERROR", "description": f"{row['name']} broke"}

    (entry,) = entries_of(lines(tmp_path / "traces.jsonl", rows))

    assert "search broke" in str(entry.recorded["retrieve"].failure)
    assert "chain broke" in str(entry.recorded["generate"].failure)


# --- whatever the texts are


texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1).map(
    lambda text: f"w {text} w"
)


@hypothesis.settings(max_examples=40)
@hypothesis.given(texts, st.lists(texts, min_size=1, max_size=4, unique=True), texts)
def test_an_answer_is_never_a_context(
    tmp_path_factory: pytest.TempPathFactory, question: str, contexts: list[str], answer: str
) -> None:
    path = tmp_path_factory.mktemp("traces") / "traces.jsonl"
    numbered = [(f"d{number}", text) for number, text in enumerate(contexts)]
    traced = TracedQuestion(7, question, numbered, [0], f"ANSWER {answer}")

    for write in FORMS.values():
        (entry,) = entries_of(lines(path, write(traced)))

        assert_is_of(entry, traced)
        assert "ANSWER" not in " ".join(recorded(entry, "retrieve").contexts)
        assert "ANSWER" not in " ".join(recorded(entry, "post_retrieve").contexts)
