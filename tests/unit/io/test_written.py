"""Cases, documents and runs are written whole, and what ragbench wrote is read back."""

from __future__ import annotations

import errno
import gzip
import json
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ragbench import (
    Case,
    Evidence,
    GenerationResult,
    RetrievalResult,
    Turn,
    evaluate,
    read_cases,
    report_of,
    write_cases,
)
from ragbench.core.outcome import Known, Outcome
from ragbench.core.readable_metadata import readable_metadata
from ragbench.core.trace import STAGES, Entry, Trace
from ragbench.errors import DataError, InputError
from ragbench.io.atomic import folder_written_whole, written_whole
from ragbench.io.dumps.read import dump_row, write_retrieval_dump
from ragbench.io.export import export
from ragbench.io.joined import open_dump
from ragbench.io.json_text import json_bytes
from ragbench.verbs.cases import select_cases, write_dataset
from tests.unit.io.traces import (
    ALL,
    SCORES,
    entries,
    failed,
    lines,
    measured,
    skipped,
    trace_of,
    written,
)

# Blank text means "not known" in a file, NUL is refused, and a carriage return is read as a line
# feed: none is part of a sound record.
characters = st.characters(codec="utf-8", exclude_characters="\x00\r")
texts = st.text(characters, max_size=20)
visible = texts.filter(lambda text: bool(text.strip()))
integers = st.integers(-(2**63), 2**64 - 1)
floats = st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | integers | floats | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
metadata = st.dictionaries(texts, values, max_size=4).map(readable_metadata)
"""Without names that tables leave out, such as those that begin with an underscore."""


def tuples(items: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(items, max_size=3).map(tuple)


def relevant_ids(case: Case) -> tuple[str, ...]:
    """The ids that the grades call relevant."""
    if case.grades is None:
        return ("no id",)
    return tuple([chunk_id for chunk_id, grade in case.grades.items() if grade > 0])


places = st.lists(st.integers(0, 200), min_size=2, max_size=2).map(sorted)
"""Where evidence begins and ends."""
turns = st.builds(Turn, role=st.sampled_from(["user", "assistant"]), text=visible)
evidence = st.builds(
    lambda text, document, place: Evidence(
        text=text, document_id=document, start=place[0], end=place[1]
    ),
    texts,
    st.none() | texts,
    st.just((None, None)) | places,
)
cases = st.builds(
    Case,
    id=visible.map("case {}".format),
    query=visible,
    reference=st.none() | visible,
    metadata=metadata,
    history=tuples(turns),
    alternative_references=tuples(texts),
    reference_contexts=st.none() | tuples(texts),
    reference_context_ids=st.none() | tuples(texts),
    evidence=tuples(evidence),
    tags=tuples(texts),
    grades=st.none() | st.dictionaries(texts, st.integers(-2, 4), max_size=3),
    answerable=st.none() | st.booleans(),
    cluster=st.none() | visible,
    language=st.none() | visible,
)
# A case that says the same by grades and by ids comes back from a table with the grades alone.
cases = cases.filter(lambda case: relevant_ids(case) != case.reference_context_ids)


# --- cases


def test_a_field_that_is_not_known_is_not_written(tmp_path: Path) -> None:
    write_cases([Case(id="1", query="q", reference_context_ids=())], tmp_path / "cases.jsonl.gz")

    content = gzip.decompress((tmp_path / "cases.jsonl.gz").read_bytes())
    assert content == b'{"id":"1","query":"q","reference_context_ids":[]}\n'


def test_the_same_cases_give_the_same_bytes(tmp_path: Path) -> None:
    write_cases([Case(id="1", query="q")], tmp_path / "a.jsonl.gz")
    write_cases([Case(id="1", query="q")], tmp_path / "b.jsonl.gz")

    assert (tmp_path / "a.jsonl.gz").read_bytes() == (tmp_path / "b.jsonl.gz").read_bytes()


@pytest.mark.parametrize(
    ("second", "message"),
    [
        pytest.param(
            Case(id="1", query="b"),
            r"cases.jsonl:2: field 'id': '1' is already the id of record 1",
            id="an id used twice",
        ),
        pytest.param(
            Case(id=" ", query="b"), "field 'id': the id is empty", id="an id without a letter"
        ),
        pytest.param(Case(id="2", query=""), "field 'query': the query is empty", id="no query"),
        pytest.param(
            Case(id="2", query="\ud800"), "cannot be written as JSON", id="half a character"
        ),
        pytest.param(
            Case(id="2", query="b", metadata={"x": object()}),
            "cannot be written as JSON",
            id="metadata without a form in JSON",
        ),
    ],
)
def test_a_wrong_case_leaves_the_old_file(tmp_path: Path, second: Case, message: str) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text("old", encoding="utf-8")

    with pytest.raises(DataError, match=message):
        write_cases([Case(id="1", query="a"), second], path)

    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target = tmp_path / "target.jsonl"
    target.touch()
    link = tmp_path / "link.jsonl"
    link.symlink_to(target)

    write_cases([Case(id="1", query="a")], link)

    assert link.is_symlink()
    assert len(list(read_cases(target))) == 1


# --- files and folders that appear whole


def test_a_folder_that_a_full_disk_cuts_is_an_error_that_names_it(tmp_path: Path) -> None:
    whole = folder_written_whole(tmp_path / "o", replaceable=lambda _: False)

    with pytest.raises(InputError, match=r"/o: cannot be written: No space"), whole:
        raise OSError(errno.ENOSPC, "No space left on device")

    assert list(tmp_path.iterdir()) == []


def test_a_file_that_a_full_disk_cuts_is_an_error_that_names_it(tmp_path: Path) -> None:
    whole = written_whole(tmp_path / "o.txt", is_text=False)

    with pytest.raises(InputError, match=r"o\.txt: cannot be written: No space"), whole as file:
        os.dup2(os.open("/dev/full", os.O_RDWR), file.fileno())
        file.write(b"seen when it is closed")

    assert list(tmp_path.iterdir()) == []


def test_a_file_is_there_only_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "o.txt"

    with written_whole(path, make_folders=True) as file:
        file.write(b"content")
        assert not path.exists()

    assert path.read_bytes() == b"content"


def test_an_interrupt_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "o.txt"
    path.write_bytes(b"old")

    with pytest.raises(KeyboardInterrupt), written_whole(path) as file:
        file.write(b"new")
        raise KeyboardInterrupt

    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_that_is_not_the_outputs_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "o.txt"
    path.write_bytes(b"old")

    with pytest.raises(FileNotFoundError), written_whole(path):
        (tmp_path / "missing").read_bytes()

    assert path.read_bytes() == b"old"


# --- TREC runs


@pytest.fixture(name="trec")
def trec_run(tmp_path: Path) -> Path:
    """A folder with a run of two queries, its qrels, its corpus and its queries."""
    found_two = trace_of(
        ["x", "y"], case="q 1", ids=["a b", "50%25"], scores=[2.5, 1.5], grades={"a b": 2}
    )
    found_none = trace_of([], case="none", ids=[], grades={"z": 1})
    export("trec", [found_two, found_none], tmp_path / "o.run", scores=SCORES)
    lines(tmp_path / "corpus.jsonl", [{"id": "a b", "text": "x"}, {"id": "50%25", "text": "y"}])
    written(tmp_path / "queries.tsv", "q 1\tFirst?\nnone\tSecond?\n")
    return tmp_path


def read_run(folder: Path, name: str) -> list[Entry]:
    return entries(folder / name, corpus=folder / "corpus.jsonl", queries=folder / "queries.tsv")


def test_a_trec_run_comes_back_with_its_qrels(trec: Path) -> None:
    entry = read_run(trec, "o.run")[0]

    assert entry.case.grades == {"a b": 2}
    assert entry.recorded["retrieve"].value == RetrievalResult(
        ["x", "y"], context_ids=["a b", "50%25"], scores=[2.5, 1.5]
    )


def test_a_query_that_found_nothing_comes_back_from_a_trec_run(trec: Path) -> None:
    """The run has no line of it: it is in the qrels alone."""
    entry = read_run(trec, "o.run")[1]

    assert entry.recorded["retrieve"].value == RetrievalResult([], context_ids=[], scores=[])


def test_an_id_of_a_foreign_run_is_not_unescaped(trec: Path) -> None:
    written(trec / "foreign.run", "q%201 Q0 a 1 2.5 bm25\n")

    with pytest.raises(DataError, match="no query has the id 'q%201'"):
        read_run(trec, "foreign.run")


# --- whatever is written comes back


def as_recorded(trace: Trace) -> Entry:
    """A trace as a source gives it that has it recorded."""
    recorded: dict[str, Outcome[Any]] = {}
    for stage, field in STAGES.items():
        outcome = getattr(trace, field)
        if outcome is not None:
            recorded[stage] = replace(outcome, known=Known.RECORDED)
    return Entry(case=trace.case, recorded=recorded)


numbers = st.floats(allow_nan=False, allow_infinity=False, width=32)
result_metadata = st.none() | (
    st.dictionaries(texts, values, min_size=1, max_size=2).map(readable_metadata).filter(bool)
)


@st.composite
def retrievals(draw: st.DrawFn, context: st.SearchStrategy[str] = texts) -> RetrievalResult[Any]:
    """Contexts, maybe with ids that differ, and with scores that fall."""
    contexts = draw(st.lists(context, max_size=3))
    per_context = partial(st.lists, min_size=len(contexts), max_size=len(contexts))
    ids = per_context(visible.map(str.strip), unique=True)
    falling_scores = per_context(numbers).map(lambda scores: sorted(scores, reverse=True))
    return RetrievalResult(
        contexts,
        context_ids=draw(st.none() | ids),
        scores=draw(st.none() | falling_scores),
        metadata=draw(result_metadata),
    )


generations = st.builds(
    GenerationResult[Any],
    texts.map("It is {}.".format),
    confidence=st.none() | st.floats(0, 1),
    metadata=result_metadata,
)
traces = st.builds(
    Trace,
    case=cases,
    retrieval=st.just(failed("retrieve"))
    | st.just(skipped("no retrieval"))
    | retrievals().map(measured),
    generation=st.just(failed("generate"))
    | st.just(skipped("no generation"))
    | generations.map(measured),
)
trace_lists = st.lists(traces, max_size=3, unique_by=lambda trace: trace.case.id)
few_examples = settings(max_examples=10, deadline=None)


@pytest.fixture(name="out", scope="module")
def output_paths(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """A function that names a new output: a property is tried on several lists of traces."""
    return lambda: tmp_path_factory.mktemp("written") / "o"


@few_examples
@given(drawn=trace_lists)
@example(drawn=[])
def test_cases_come_back_from_a_file_of_cases(out: Callable[[], Path], drawn: list[Trace]) -> None:
    path = out()
    all_cases = [trace.case for trace in (*drawn, *ALL)]

    write_cases(all_cases, path)

    assert [entry.case for entry in entries(path)] == all_cases


UNASKED = Trace(
    case=Case(id="new", query="q"),
    retrieval=skipped("not recorded"),
    generation=skipped("not asked yet: the run was interrupted"),
)


def plain(written_entries: list[Entry]) -> list[Any]:
    """Entries in the values of JSON: a table gives tuples and numbers of other types."""
    return [json.loads(json_bytes(entry)) for entry in written_entries]


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet", "hf"])
@few_examples
@given(drawn=trace_lists)
@example(drawn=[])
def test_traces_come_back_from_an_export(
    out: Callable[[], Path], form: str, drawn: list[Trace]
) -> None:
    if form in ("parquet", "hf"):
        pytest.importorskip("pyarrow")
    path = out()

    export(form, (*drawn, *ALL, UNASKED), path, scores=SCORES)

    expected = [as_recorded(trace) for trace in (*drawn, *ALL)]
    # What a run was not yet asked is not recorded: it is asked when the export is evaluated.
    expected.append(Entry(case=UNASKED.case, recorded={}))
    assert plain(entries(path)) == plain(expected)


def run_entries(drawn: list[Trace]) -> list[Entry]:
    """Entries as a run keeps them.

    A run counts an empty answer as declined and a case as answerable by its reference, so the
    trace with an empty answer is not among them, and each case says whether it can be answered.
    """
    entries: list[Entry] = []
    for trace in (*drawn, *ALL):
        if trace.case.id != "bare":
            case = replace(trace.case, answerable=bool(trace.case.answerable))
            entries.append(as_recorded(replace(trace, case=case)))
    return entries


@few_examples
@given(drawn=trace_lists)
@example(drawn=[])
def test_traces_come_back_from_a_run(out: Callable[[], Path], drawn: list[Trace]) -> None:
    path = out()
    expected = run_entries(drawn)

    evaluate(expected, None, out=path, metrics=[])

    assert plain(entries(path)) == plain(expected)


@few_examples
@given(drawn=trace_lists)
@example(drawn=[])
def test_cases_come_back_from_the_selected_cases_of_a_run(
    out: Callable[[], Path], drawn: list[Trace]
) -> None:
    path = out()
    recorded = run_entries(drawn)
    evaluate(recorded, None, out=path, metrics=[])

    _, selected = select_cases(report_of(path), limit=None)
    write_dataset(path, selected, path.with_name("selected"))

    # Which labels a selected case lacks is added to its metadata.
    labelled = [entry.case for entry in entries(path.with_name("selected"))]
    selected_cases: list[Case] = []
    for case in labelled:
        metadata = dict(case.metadata)
        metadata.pop("missing_labels", None)
        selected_cases.append(replace(case, metadata=metadata))
    assert selected_cases == [entry.case for entry in recorded]


# A dump of which no chunk has a visible text is refused: it is read in the wrong place.
dumped = st.tuples(cases, retrievals(visible))


@few_examples
@given(drawn=st.lists(dumped, min_size=1, max_size=3, unique_by=lambda pair: pair[0].id))
def test_retrievals_come_back_from_a_dump(
    out: Callable[[], Path], drawn: list[tuple[Case, RetrievalResult[Any]]]
) -> None:
    path = out()
    expected: list[tuple[str, str, list[Any]]] = []
    rows: list[dict[str, Any]] = []
    for case, retrieval in drawn:
        chunks = retrieval.to_chunks()
        expected.append((case.id, case.query, list(chunks)))
        rows.append(dump_row(case.id, case.query, chunks))

    write_retrieval_dump(path, rows)

    with open_dump(path) as dump:
        retrievals_read = [(row.query_id, row.query, list(row.chunks)) for row in dump]
    assert retrievals_read == expected


# --- what cannot be read as it was written


def test_a_file_of_another_version_is_a_problem_and_no_crash(tmp_path: Path) -> None:
    row = {
        "id": "1",
        "query": "q",
        "retrieval": {"status": "odd"},
        "generation": None,
        "scores": {},
    }
    path = lines(tmp_path / "o.jsonl", [row])

    with pytest.raises(DataError, match="not what this ragbench writes"):
        entries(path)


def test_a_verdict_that_failed_comes_back_as_a_failure(tmp_path: Path) -> None:
    verdict = {
        "query_id": "q2",
        "relevant_chunk_ids": ["a"],
        "relevance": {"a": 0.9},
        "answer_present": True,
        "answer_probability": 0.93,
        "evidence": [],
        "warnings": [],
        "retrieval_quality": None,
        "message": "Failed: ValueError: no luck",
        "validator": "lexical",
    }

    (entry,) = entries(lines(tmp_path / "v.jsonl", [verdict]), is_join=True)

    assert str(entry.recorded["validate"].failure) == "validate: ValueError: no luck"
