"""Cases, documents and runs are written whole, and what ragbench wrote is read back."""

from __future__ import annotations

import errno
import gzip
import json
import os
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
from ragbench.core.outcome import Known
from ragbench.core.trace import Entry, Trace
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
metadata = st.dictionaries(texts, values, max_size=4)


def tuples(items: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(items, max_size=3).map(tuple)


def _relevant(case: Case) -> tuple[str, ...]:
    """What the grades say: a case that says it twice comes back from a table with the grades."""
    grades = {"no id": 1} if case.grades is None else case.grades
    return tuple([id for id, grade in grades.items() if grade > 0])


places = st.lists(st.integers(0, 200), min_size=2, max_size=2).map(sorted)
turns = st.builds(Turn, role=st.sampled_from(["user", "assistant"]), text=visible)
evidence = st.builds(
    lambda text, document, at: Evidence(text=text, document_id=document, start=at[0], end=at[1]),
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
).filter(lambda case: _relevant(case) != case.reference_context_ids)


def test_the_same_cases_give_the_same_bytes_without_what_is_not_known(tmp_path: Path) -> None:
    for name in ("a.jsonl.gz", "b.jsonl.gz"):
        write_cases([Case(id="1", query="q", reference_context_ids=())], tmp_path / name)
    content = (tmp_path / "a.jsonl.gz").read_bytes()
    assert content == (tmp_path / "b.jsonl.gz").read_bytes()
    assert gzip.decompress(content) == b'{"id":"1","query":"q","reference_context_ids":[]}\n'


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        (Case(id="1", query="b"), r"cases.jsonl:2: field 'id': '1' is already the id of record 1"),
        (Case(id=" ", query="b"), "field 'id': the id is empty"),
        (Case(id="2", query=""), "field 'query': the query is empty"),
        (Case(id="2", query="\ud800"), "cannot be written as JSON"),
        (Case(id="2", query="b", metadata={"x": object()}), "cannot be written as JSON"),
    ],
)
def test_a_wrong_case_leaves_the_old_file(tmp_path: Path, second: Case, expected: str) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text("old", encoding="utf-8")
    with pytest.raises(DataError, match=expected):
        write_cases([Case(id="1", query="a"), second], path)
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "target.jsonl").touch()
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "target.jsonl")
    write_cases([Case(id="1", query="a")], tmp_path / "link.jsonl")
    assert (tmp_path / "link.jsonl").is_symlink()
    assert len(list(read_cases(tmp_path / "target.jsonl"))) == 1


# --- files and folders that appear whole


def test_a_full_disk_is_an_error_that_names_the_output(tmp_path: Path) -> None:
    folder = folder_written_whole(tmp_path / "o", replaceable=lambda _: False)
    with pytest.raises(InputError, match=r"/o: cannot be written: No space"), folder:
        raise OSError(errno.ENOSPC, "No space left on device")
    whole = written_whole(tmp_path / "o.txt", is_text=False)
    with pytest.raises(InputError, match=r"o\.txt: cannot be written: No space"), whole as file:
        os.dup2(os.open("/dev/full", os.O_RDWR), file.fileno())
        file.write(b"seen when it is closed")
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "new" / "o.txt"
    with written_whole(target, make_folders=True) as file:
        file.write(b"old")
        assert not target.exists()
    with pytest.raises(KeyboardInterrupt), written_whole(target) as file:
        file.write(b"new")
        raise KeyboardInterrupt
    with pytest.raises(FileNotFoundError), written_whole(target):
        (tmp_path / "missing").read_bytes()  # which is not the output's fault
    assert [path.read_bytes() for path in target.parent.iterdir()] == [b"old"]


STAGES = {"retrieve": "retrieval", "post_retrieve": "post_retrieval", "generate": "generation"}
UNASKED = Trace(
    case=Case(id="new", query="q"),
    retrieval=skipped("not recorded"),
    generation=skipped("not asked yet: the run was interrupted"),
)


def expected(trace: Trace) -> Entry:
    """A trace as a source that has it recorded."""
    outcomes = {stage: getattr(trace, name) for stage, name in STAGES.items()}
    there = {stage: outcome for stage, outcome in outcomes.items() if outcome is not None}
    recorded = {stage: replace(one, known=Known.RECORDED) for stage, one in there.items()}
    return Entry(case=trace.case, recorded=recorded)


def test_a_trec_run_comes_back_with_its_qrels(tmp_path: Path) -> None:
    ids = ["a b", "50%25"]
    some = trace_of(["x", "y"], case="q 1", ids=ids, scores=[2.5, 1.5], grades={"a b": 2})
    none = trace_of([], case="none", ids=[], grades={"z": 1})
    export("trec", [some, none], tmp_path / "o.run", scores=SCORES)
    rows = [{"id": "a b", "text": "x"}, {"id": "50%25", "text": "y"}]
    corpus = lines(tmp_path / "corpus.jsonl", rows)
    queries = written(tmp_path / "queries.tsv", "q 1\tFirst?\nnone\tSecond?\n")
    first, second = entries(tmp_path / "o.run", corpus=corpus, queries=queries)
    assert first.case.grades == {"a b": 2}
    assert first.recorded["retrieve"].value == RetrievalResult(
        ["x", "y"], context_ids=["a b", "50%25"], scores=[2.5, 1.5]
    )
    # In our run a query that is judged alone is one for which nothing was found.
    assert second.recorded["retrieve"].value == RetrievalResult([], context_ids=[], scores=[])
    foreign = written(tmp_path / "foreign.run", "q%201 Q0 a 1 2.5 bm25\n")
    with pytest.raises(DataError, match="no query has the id 'q%201'"):
        entries(foreign, corpus=corpus, queries=queries)


numbers = st.floats(allow_nan=False, allow_infinity=False, width=32)


@st.composite
def traces(draw: Any) -> Trace:
    """A case with a retrieval and an answer, as far as they are there."""
    contexts = draw(st.lists(texts, max_size=3))
    some = partial(st.lists, min_size=len(contexts), max_size=len(contexts))
    ids = draw(st.none() | some(visible.map(str.strip), unique=True))
    falling = some(numbers).map(lambda found: sorted(found, reverse=True))
    given = {"context_ids": ids, "scores": draw(st.none() | falling)}
    found: RetrievalResult[Any] = RetrievalResult(contexts, **given, metadata=draw(noted))
    said: GenerationResult[Any] = GenerationResult(
        f"It is {draw(texts)}.", confidence=draw(st.none() | st.floats(0, 1)), metadata=draw(noted)
    )
    ended = st.sampled_from([measured(found), failed("retrieve"), skipped("no retrieval")])
    answered = st.sampled_from([measured(said), failed("generate"), skipped("no generation")])
    return Trace(case=draw(cases), retrieval=draw(ended), generation=draw(answered))


noted = st.none() | st.dictionaries(texts, values, min_size=1, max_size=2)
WRITTEN = ("cases", "jsonl", "csv", "parquet", "hf", "run", "run as cases", "dump")


@pytest.mark.parametrize("form", WRITTEN)
@settings(max_examples=10, deadline=None)
@given(drawn=st.lists(traces(), min_size=1, max_size=3, unique_by=lambda trace: trace.case.id))
@example(drawn=[])
def test_whatever_is_written_comes_back_with_nothing_lost(
    tmp_path_factory: pytest.TempPathFactory, form: str, drawn: list[Trace]
) -> None:
    """Gold, references, tags, cluster, history, metadata; and what was recorded where it is."""
    if form in ("parquet", "hf"):
        pytest.importorskip("pyarrow")
    folder = tmp_path_factory.mktemp("written")
    wanted, at = [*map(expected, (*drawn, *ALL))], folder / "o"
    if form == "dump":
        held = [(one.case, one.retrieval.value) for one in drawn if one.retrieval.value is not None]
        chunks = [(case, found.to_chunks()) for case, found in held]
        rows = [dump_row(case.id, case.query, found) for case, found in chunks]
        write_retrieval_dump(at, rows)
        if rows:
            with open_dump(at) as dump:
                assert [(one.query_id, one.query, [*one.chunks]) for one in dump] == [
                    (case.id, case.query, found) for case, found in chunks
                ]
        return
    if form == "cases":
        write_cases([one.case for one in wanted], at)
    elif form in ("jsonl", "csv", "parquet", "hf"):
        export(form, (*drawn, *ALL, UNASKED), at, scores=SCORES)
        wanted.append(Entry(case=UNASKED.case, recorded={}))
    else:  # where an empty answer counts as declined, and a case as answerable by its reference
        clear = [(one, bool(one.case.answerable)) for one in wanted if one.case.id != "bare"]
        wanted = [replace(one, case=replace(one.case, answerable=can)) for one, can in clear]
        evaluate(wanted, None, out=at, metrics=[])
    if form == "run as cases":
        write_dataset(at, select_cases(report_of(at), limit=None)[1], folder / "new")
        at = folder / "new"
    found = entries(at)
    if "cases" in form:
        assert [strip(one.case) for one in found] == [one.case for one in wanted]
    else:
        plain = [[json.loads(json_bytes(one)) for one in many] for many in (found, wanted)]
        assert plain[0] == plain[1]


def strip(case: Case) -> Case:
    """Without what says which labels a case needs."""
    needed = {name: value for name, value in case.metadata.items() if name != "needs"}
    return replace(case, metadata=needed)


def test_a_file_of_another_version_is_a_problem_and_no_crash(tmp_path: Path) -> None:
    line = {"id": "1", "query": "q", "retrieval": {"status": "odd"}, "generation": None}
    path = lines(tmp_path / "o.jsonl", [{**line, "scores": {}}])
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
