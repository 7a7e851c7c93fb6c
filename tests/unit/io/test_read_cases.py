"""Reading cases: what is understood, what is refused, and where errors are said to be."""

from __future__ import annotations

import gzip
import io
import json
import sys
from pathlib import Path

import pytest

from ragbench import Case, read_cases
from ragbench.errors import ConfigError, DataError
from ragbench.io.source import Problems


def write(folder: Path, content: str | bytes, name: str = "cases.jsonl") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def problems_of(path: Path, **options: str) -> list[str]:
    """The problems, each without the folder."""
    with pytest.raises(DataError) as caught:
        list(read_cases(path, **options))  # type: ignore[arg-type]
    return [str(problem).replace(f"{path}", path.name) for problem in caught.value.problems]


def test_every_field_of_ragbench_is_read(tmp_path: Path) -> None:
    row = {
        "id": 7,
        "query": "Who?",
        "reference": "Ada",
        "alternative_references": ["Ada L."],
        "reference_contexts": ["Ada did."],
        "reference_context_ids": [1, 2.0, "c"],
        "grades": {"1": 2, "9": 0},
        "evidence": [{"text": "Ada", "document_id": 1, "start": 0, "end": 3}],
        "answerable": True,
        "cluster": 4,
        "tags": ["people"],
        "language": "en",
        "metadata": {"level": 3},
        "origin": "handbook",
    }
    (case,) = read_cases(write(tmp_path, json.dumps(row)))
    assert (case.id, case.query, case.references) == ("7", "Who?", ("Ada", "Ada L."))
    assert case.reference_context_ids == ("1", "2", "c")
    assert case.judgements == {"1": 2, "9": 0}
    assert (case.evidence[0].document_id, case.evidence[0].end) == ("1", 3)
    assert (case.answerable, case.cluster, case.tags, case.language) == (
        True,
        "4",
        ("people",),
        "en",
    )
    assert case.metadata == {"level": 3, "origin": "handbook"}


def test_good_cases_are_yielded_before_all_problems_are_raised(tmp_path: Path) -> None:
    path = write(tmp_path, '{"query": "a"}\n{"query": 5}\nnot json\n\n{"query": "b"}\n[1]\n')
    seen: list[str] = []
    with pytest.raises(DataError) as caught:
        for case in read_cases(path):
            seen.append(case.query)
    assert seen == ["a", "b"]
    found = [(problem.line, problem.field) for problem in caught.value.problems]
    assert found == [(2, "query"), (3, None), (6, None)]
    noted = Problems()
    assert [case.query for case in read_cases(path, problems=noted)] == ["a", "b"]
    assert [problem.line for problem in noted] == [2, 3, 6]


def test_a_row_reports_each_of_its_wrong_fields(tmp_path: Path) -> None:
    path = write(tmp_path, '{"id": true, "query": 5, "answerable": "perhaps", "tags": [{}]}')
    assert problems_of(path) == [
        "cases.jsonl:1: field 'id': expected an id (text or a number), found true",
        "cases.jsonl:1: field 'query': expected text, found the number 5",
        "cases.jsonl:1: field 'answerable': expected true or false, found 'perhaps'",
        "cases.jsonl:1: field 'tags': expected an id (text or a number), found an object",
    ]


def test_nothing_known_is_none_and_known_to_be_none_is_empty(tmp_path: Path) -> None:
    rows = '{"query": "a", "reference": null, "relevant_ids": []}\n{"query": "b", "answer": " "}'
    first, second = read_cases(write(tmp_path, rows))
    assert (first.reference, first.reference_context_ids) == (None, ())
    assert (second.reference, second.reference_context_ids) == (None, None)


def test_nan_is_missing_and_infinity_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, '{"query": "a", "reference": NaN}\n{"query": "b", "score": Infinity}\n')
    noted = Problems()
    (case,) = read_cases(path, problems=noted)
    assert case.reference is None
    assert "Infinity is not a JSON number" in str(noted.items[0])


@pytest.mark.parametrize("query", ["", "   ", None])
def test_an_empty_query_is_a_problem(tmp_path: Path, query: str | None) -> None:
    path = write(tmp_path, json.dumps({"query": query}))
    assert problems_of(path) == [
        "cases.jsonl:1: field 'query': expected the query as text, found nothing"
    ]


def test_a_missing_query_field_is_said_once_with_the_fields_that_there_are(tmp_path: Path) -> None:
    path = write(tmp_path, '{"Frage": "a", "n": 1}\n{"Frage": "b", "n": 2}\n')
    (problem,) = problems_of(path)
    assert "no field for the query" in problem
    assert "here and in 1 further record (the fields are: Frage, n)" in problem
    assert "query=NAME" in problem


def test_nul_and_lone_surrogates_are_problems(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        '{"query": "a\\u0000b"}\n{"query": "\\ud800"}\n{"query": "x", "n": NaN, "y": "\\udc00"}\n',
    )
    first, second, third = problems_of(path)
    assert "field 'query': the text holds a NUL character" in first
    assert second.startswith("cases.jsonl:2: not valid JSON at column")
    assert third.startswith("cases.jsonl:3: not valid JSON: ")


def test_a_cut_off_last_line_is_said_to_be_one(tmp_path: Path) -> None:
    path = write(tmp_path, '{"query": "a"}\n{"query": "b')
    (problem,) = problems_of(path)
    assert problem.startswith("cases.jsonl:2: the last line is cut off or is not valid JSON")


def test_a_last_line_without_line_end_is_fine(tmp_path: Path) -> None:
    assert len(list(read_cases(write(tmp_path, '{"query": "a"}\r\n{"query": "b"}')))) == 2


@pytest.mark.parametrize("depth", [150, 500, 5000])
def test_deep_nesting_never_crashes(tmp_path: Path, depth: int) -> None:
    path = write(tmp_path, '{"query": "a", "deep": ' + "[" * depth + "]" * depth + "}")
    if depth < 200:
        assert len(list(read_cases(path))) == 1
    else:
        assert len(problems_of(path)) == 1


def test_a_very_long_line_is_read(tmp_path: Path) -> None:
    (case,) = read_cases(write(tmp_path, json.dumps({"query": "a", "reference": "x" * 3_000_000})))
    assert case.reference is not None
    assert len(case.reference) == 3_000_000


def test_an_id_number_too_large_to_be_exact_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, '{"id": 123456789012345678901234, "query": "a"}')
    (problem,) = problems_of(path)
    assert "too large to be exact" in problem


def test_the_same_id_twice_names_both_lines(tmp_path: Path) -> None:
    path = write(tmp_path, '{"id": "1", "query": "a"}\n{"id": 1.0, "query": "b"}\n')
    assert problems_of(path) == [
        "cases.jsonl:2: field 'id': '1' is already the id of record 1; ids must be unique"
    ]


def test_an_inserted_line_renames_no_other_case(tmp_path: Path) -> None:
    def ids(*queries: str) -> list[str]:
        rows = "\n".join(json.dumps({"query": query}) for query in queries)
        return [case.id for case in read_cases(write(tmp_path, rows))]

    before = ids("Who is it?", "Where?", "Who is  it?")
    assert before[0].startswith("q-")
    assert len(before[0]) == 12
    assert before[2] == f"{before[0]}-2"
    assert ids("Who is it?", "New", "Where?", "who is it?") == [
        before[0],
        ids("New")[0],
        before[1],
        before[2],
    ]


def test_unreadable_sources_are_one_clear_problem(tmp_path: Path) -> None:
    empty = write(tmp_path, "", "empty.jsonl")
    blank = write(tmp_path, "\n \n", "blank.jsonl")
    cut = write(tmp_path, gzip.compress(b'{"query": "a"}\n' * 1000)[:-20], "cut.jsonl.gz")
    assert problems_of(tmp_path / "none.jsonl") == ["none.jsonl: no such file or folder"]
    assert "the file is empty" in problems_of(empty)[0]
    assert "the file is empty" in problems_of(blank)[0]
    assert "gzip data is damaged or cut off" in problems_of(cut)[0]
    assert "in a form that is recognised" in problems_of(tmp_path)[0]
    assert problems_of(tmp_path, format="jsonl") == [
        f"{tmp_path.name}: expected a file, found a folder"
    ]


def test_permission_denied_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The tests may run as a user who may read everything.
    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = write(tmp_path, '{"query": "a"}')
    monkeypatch.setattr(Path, "open", denied)
    assert problems_of(path) == ["cases.jsonl: cannot be read: Permission denied"]


def test_gzip_is_recognised_by_its_bytes(tmp_path: Path) -> None:
    packed = gzip.compress(b'{"query": "a"}\n')
    for name in ("cases.jsonl.gz", "cases.jsonl", "cases"):
        assert [case.query for case in read_cases(write(tmp_path, packed, name))] == ["a"]


@pytest.mark.parametrize(
    ("content", "query"),
    [
        (b'{"query": "from jsonl"}\n{"query": "b"}\n', "from jsonl"),
        (b'[{"query": "from json"}]', "from json"),
        (b"query,answer\nfrom csv,b\n", "from csv"),
        (gzip.compress(b'{"query": "packed"}\n', mtime=0), "packed"),
    ],
)
def test_standard_input_is_recognised_and_read_once(
    content: bytes, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert next(iter(read_cases("-"))).query == query


def test_problems_of_standard_input_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"query": 1}\n')))
    with pytest.raises(DataError, match=r"^<stdin>:1: field 'query'"):
        list(read_cases("-", format="jsonl"))


def test_a_wrong_format_or_field_is_refused_at_the_call(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Did you mean 'jsonl'"):
        read_cases(tmp_path, format="jsnl")
    with pytest.raises(ConfigError, match="Did you mean 'query'"):
        read_cases(tmp_path, fields={"qery": "Frage"})


def test_many_problems_are_all_kept(tmp_path: Path) -> None:
    path = write(tmp_path, '{"query": 1}\n' * 5000 + '{"query": "good"}\n')
    noted = Problems()
    assert [case.query for case in read_cases(path, problems=noted)] == ["good"]
    assert [problem.line for problem in noted] == list(range(1, 5001))


def test_reading_is_lazy_and_closes_its_file(tmp_path: Path) -> None:
    path = write(tmp_path, '{"query": "a"}\n' * 10_000)
    cases = read_cases(path)
    first = next(cases)
    assert isinstance(first, Case)
    del cases  # an unclosed file would be a ResourceWarning, which fails the test
