"""Files of records: what is read of each, which problems it has, and where they are said to be."""

from __future__ import annotations

import codecs
import gzip
import io
import json
import math
import sys
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragbench import Case, Document, Evidence, open_source, read_cases, read_documents
from ragbench.errors import ConfigError, DataError, MissingExtraError
from ragbench.io import json_files
from ragbench.io.encoding import guess_encoding
from ragbench.io.fields import case_fields, document_fields, entry_fields
from ragbench.io.json_files import array_elements
from ragbench.io.source import Problems, Source
from tests.unit.io.traces import lines, written

UTF8 = '{"query": "Größe?"}\r\n{"query": "大小？ 😀"}\n'
A, B = '{"query": "a"}', '{"query": "b"}'


def write(folder: Path, content: str | bytes, name: str = "cases.jsonl") -> Path:
    return written(folder / name, content)


def read(path: Path | str, **options: Any) -> tuple[list[Case], list[str]]:
    noted = Problems()
    cases = list(read_cases(path, problems=noted, **options))
    return cases, [str(problem).replace(f"{path}", "") for problem in noted]


@pytest.mark.parametrize(
    ("name", "content", "queries"),
    [
        ("x.jsonl", f"{A}\r\n{B}", "a b"),
        ("x.json", f"[{A}, {B}]", "a b"),
        ("x", f"[\n {A},\n {B}\n]", "a b"),
        ("x", f'{{"data": [{A}, {B}]}}', "a b"),
        ("x.json", f'{{"version": 1, "cases": [{A}], "data": []}}', "a"),
        ("x.json", f"{A}\n{B}\n", "a b"),
        ("x.json", A, "a"),
        ("x.csv", "query,answer\na,b\n", "a"),
        ("x", "query,answer\na,b\n", "a"),
        ("x.tsv", "query\tanswer\na\tb\n", "a"),
        ("x", gzip.compress(A.encode(), mtime=0), "a"),
        ("x.jsonl", UTF8, "Größe? 大小？ 😀"),
        ("x", codecs.BOM_UTF8 + UTF8.encode(), "Größe? 大小？ 😀"),
        ("x.jsonl", codecs.BOM_UTF16_LE + UTF8.rstrip().encode("utf-16-le"), "Größe? 大小？ 😀"),
        ("x", codecs.BOM_UTF16_BE + UTF8.encode("utf-16-be"), "Größe? 大小？ 😀"),
        ("x.csv", "User Input,answer\na,b\n", "a"),
        ("x.csv", "QUESTION,answer\na,b\n", "a"),
    ],
)
@pytest.mark.parametrize("is_stream", [False, True])
def test_containers_encodings_and_packing_are_recognised(
    tmp_path: Path, monkeypatch: Any, name: str, content: str | bytes, queries: str, is_stream: bool
) -> None:
    path: Path | str = write(tmp_path, content, name)
    if is_stream:
        stream = io.BytesIO(Path(path).read_bytes())
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream))
        path = "-"
    assert " ".join(case.query for case in read_cases(path)) == queries


@pytest.mark.parametrize(
    ("name", "content", "queries", "problems"),
    [
        ("x.jsonl", f'{A}\n{{"query": 5}}\nno\n\n{B}\n[1]\n', "ab", [":2: field", ":3", ":6"]),
        (
            "x.jsonl",
            '{"id": true, "answerable": "perhaps", "query": "a"}',
            "",
            [
                ":1: field 'id': expected an id (text or a number), found true",
                ":1: field 'answerable': expected true or false, found 'perhaps'",
            ],
        ),
        ("x.jsonl", f'{A}\n{{"query": "b', "a", [":2: the last line is cut off"]),
        (
            "x.jsonl",
            '{"query": " "}\n{"query": null}',
            "",
            [":1: field 'query': expected the query as text, found nothing", ":2: field 'query'"],
        ),
        (
            "x.jsonl",
            '{"query": "\\u0000", "id": "\\u0000"}\n{"query": "\\ud800"}\n{"y": NaN}\n',
            "",
            [":1: field 'query': the text holds a NUL", ":2: not valid JSON", ":3: no "],
        ),
        ("x.jsonl", '{"id": 123456789012345678901234, "query": "a"}', "", [":1: field 'id'"]),
        (
            "x.jsonl",
            '{"id": "1", "query": "a"}\n{"id": 1.0, "query": "b"}',
            "a",
            [":2: field 'id': '1' is already the id of record 1; ids must be unique"],
        ),
        (
            "x.jsonl",
            '{"Frage": "a", "n": 1}\n{"Frage": "b", "n": 2}\n',
            "",
            [":1: no field for the query, here and in 1 further record (the fields are: Frage, n)"],
        ),
        (
            "x.jsonl",
            '{"query": "ok"}\n{"query": "Größe"}\n'.encode("latin-1"),
            "ok",
            [":2: byte 0xf6 at byte offset 29 is not UTF-8"],
        ),
        ("x.csv", "query\nok\nGröße\nfine\n".encode("latin-1"), "okfine", [":3: byte 0xf6"]),
        ("x.json", '[{"query": "Größe"}]'.encode("latin-1"), "", [":1: byte 0xf6"]),
        ("x.jsonl", codecs.BOM_UTF32_LE + UTF8.encode("utf-32-le"), "", [": the file is UTF-32"]),
        ("x.jsonl", A.encode("utf-16-le"), "", [":1: the line holds NUL bytes"]),
        (
            "x.jsonl",
            codecs.BOM_UTF16_LE + A.encode("utf-16-le") + b"\x00\xdc\x00\x00",
            "",
            [": broken UTF-16 at byte offset 30"],
        ),
        ("x.jsonl", "", "", [": the file is empty"]),
        ("x.jsonl", "\n \n", "", [": the file is empty"]),
        ("x.jsonl.gz", gzip.compress(b"{}\n" * 1000, mtime=0)[:-20], "", [": the gzip data"]),
        ("x.xyz", "Hello, world; nothing here\n", "", [": the format is not"]),
        ("x.json", '[{"query": "a"}', "", [": not valid JSON at column 16"]),
        ("x.json", '{\n"rows": []\n}', "", [": expected a JSON array"]),
        ("x.json", "[]", "", [": holds no cases"]),
        ("x.json", "[1]", "", [":1: expected a JSON object, found the number 1"]),
        ("x.json", "[" * 100_000, "", [": not valid JSON"]),
        ("x.json", f'[{A},\n{{"query": NaN}}]', "a", [":2: field 'query'"]),
        ("x.csv", 'query,answer\r\n"a\r\nb","x, ""y"""\r\n,none\r\n', "a\nb", [":4: field"]),
        (
            "x.csv",
            'query,answer\na,1\nb\nc,3,4\n\nd,"x"y\ne,5\n',
            "ae",
            [":3: expected 2 cells as in the header, found 1", ":4", ":6: not valid CSV"],
        ),
        ("x.csv", 'query,answer\na,1\nb,"never\nended,\n', "a", [":3: not valid CSV"]),
        ("x.csv", '"SEP=;"\r\nquery;answer\r\nA, b?;x\r\nB?;y;z\r\n', "A, b?", [":4: expected 2"]),
        ("x.csv", "query,a,a\nq,1,2\n", "", [":1: field 'a': the column appears twice"]),
        ("x.csv", "query,answer\ra,b\rc,d", "", [":1: not valid CSV: a lone carriage return"]),
        ("x.csv", 'query,relevant_ids\nq,"a, b"\n', "", [":2: field 'relevant_ids': holds"]),
        ("x.tsv", "query\tgrades\nq\t[1, 2\n", "", [":2: field 'grades': expected a JSON object"]),
    ],
)
def test_every_problem_has_its_place_and_hides_no_good_record(
    tmp_path: Path, name: str, content: str | bytes, queries: str, problems: list[str]
) -> None:
    path = write(tmp_path, content, name)
    cases, found = read(path)
    assert "".join(case.query for case in cases) == queries
    assert [text[: len(start)] for text, start in zip(found, problems, strict=True)] == problems
    seen: list[Case] = []
    with pytest.raises(DataError) as caught:
        seen.extend(read_cases(path))
    assert len(caught.value.problems) == len(problems)


def test_deep_nesting_never_crashes(tmp_path: Path) -> None:
    for depth, counts in ((150, (1, 0)), (500, (0, 1)), (5000, (0, 1))):
        path = write(tmp_path, '{"query": "a", "deep": ' + "[" * depth + "]" * depth + "}")
        cases, problems = read(path)
        assert (len(cases), len(problems)) == counts


def test_an_inserted_line_renames_no_other_case(tmp_path: Path) -> None:
    def ids(*queries: str) -> list[str]:
        rows = "\n".join(json.dumps({"query": query}) for query in queries)
        return [case.id for case in read_cases(write(tmp_path, rows))]

    first, other, second = ids("Who is it?", "Where?", "Who is  it?")
    assert (first[:2], len(first), second) == ("q-", 12, f"{first}-2")
    assert ids("Who is it?", "Where?", "who is it?", "New")[:3] == [first, other, second]
    assert ids("Who is it?", "New", "Where?", "who is it?")[2:] == [other, second]


def test_what_cannot_be_opened_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(tmp_path / "none.jsonl")[1] == [": no such file or folder"]
    assert "in a form that is recognised" in read(tmp_path)[1][0]
    assert read(tmp_path, format="jsonl")[1] == [": expected a file, found a folder"]
    with pytest.raises(ConfigError, match="Did you mean 'jsonl'"):
        read_cases(tmp_path, format="jsnl")
    with pytest.raises(ConfigError, match="Did you mean 'query'"):
        read_cases(tmp_path, fields={"qery": "Frage"})
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"query": 1}\n')))
    with pytest.raises(DataError, match=r"^<stdin>:1: field 'query'"):
        list(read_cases("-", format="jsonl"))
    path = write(tmp_path, A)

    # The tests may run as a user who may read everything.
    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)
    assert read(path)[1] == [": cannot be read: Permission denied"]


def test_reading_is_lazy_closes_its_file_and_keeps_every_problem(tmp_path: Path) -> None:
    path = write(tmp_path, f"{A}\n" + '{"query": 1}\n' * 5000)
    assert len(read(path)[1]) == 5000
    cases = read_cases(path)
    assert isinstance(next(cases), Case)
    del cases  # an unclosed file would be a ResourceWarning, which fails the test


# --- fields: names of other tools, those the user gives, and disagreement

Row = Mapping[str, object]


def read_row(folder: Path, row: Row, fields: Mapping[str, str] | None = None) -> Case:
    path = lines(folder / "row.jsonl", [{"query": "q", **row}])
    (case,) = read_cases(path, fields=fields, format="jsonl")
    return case


def test_every_field_has_its_own_name_and_no_name_means_two_fields() -> None:
    given = {one.name for one in fields(Case) if one.init}
    assert case_fields().keys() - given == {"answers", "unanswerable", "expected_behavior"}
    assert given <= case_fields().keys()
    assert set(Document.__dataclass_fields__) == document_fields().keys()
    for recognised in (entry_fields(), document_fields()):
        assert all(target in names for target, names in recognised.items())
        names = [name for names in recognised.values() for name in names]
        assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("row", "field", "value"),
    [
        *(({name: "Ada"}, "references", ("Ada",)) for name in ("answer", "ideal", "ground_truth")),
        *(
            (given, "references", ("a", "b"))
            for given in (
                {"answers": ["a", "b", "a"]},
                {"ground_truths": ["a", "b"]},
                {"golden_answers": ["a", "b"]},
                {"answer": "a", "answers": ["b", "a"]},
                {"answers": [{"text": "a", "answer_start": 3}, {"text": "b"}]},
                {"reference": "a", "alternative_references": ["b"]},
            )
        ),
        ({"expectedAnswer": "Ada"}, "reference", "Ada"),
        ({"answer": 42}, "references", ("42",)),
        ({"answers": []}, "references", ()),
        ({"alternative_references": "b"}, "references", ("b",)),
        ({"answer": [["July 21", "21 July"]]}, "references", ("July 21", "21 July")),
        ({"answer": [["Ada", "A. M."], ["1843"]]}, "references", ("Ada, 1843", "A. M., 1843")),
        *(({"reference": unknown}, "references", ()) for unknown in (None, " ", math.nan)),
        ({"is_impossible": True}, "answerable", False),
        ({"unanswerable": 0}, "answerable", True),
        ({"answerable": "UNANSWERABLE"}, "answerable", False),
        ({}, "answerable", None),
        ({"answerable": 1.0}, "answerable", True),
        ({"relevant_ids": [1, 2.0, "c"]}, "reference_context_ids", ("1", "2", "c")),
        ({"relevant_ids": []}, "reference_context_ids", ()),  # known to be none
        ({"gold_contexts": ["Ada did."]}, "reference_contexts", ("Ada did.",)),
        (
            {"evidence": [{"text": "Ada", "document_id": 1, "start": 0, "end": 3}]},
            "evidence",
            (Evidence(text="Ada", document_id="1", start=0, end=3),),
        ),
        ({"cluster": 4}, "cluster", "4"),
        ({"grades": {"1": 2, "9": 0}}, "grades", {"1": 2, "9": 0}),
        ({"id": 1, "qid": "1", "question": "q"}, "id", "1"),
        ({"a": 1, "b": 2, "metadata": {"b": 2, "c": 3}}, "metadata", {"a": 1, "b": 2, "c": 3}),
    ],
)
def test_what_a_field_means(tmp_path: Path, row: Row, field: str, value: object) -> None:
    assert getattr(read_row(tmp_path, row), field) == value


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        *(
            ({"answers": wrong}, "field 'answers': expected")
            for wrong in (True, {"a": 1}, [[["a"]]], [["a"], 1], [{"txt": "a"}])
        ),
        *(
            ({"grades": wrong}, "field 'grades'")
            for wrong in ({"a": 1.5}, {"a": True}, {"a": "high"}, ["a"])
        ),
        ({"evidence": [{"txt": "a"}]}, "found unknown key 'txt'"),
        ({"evidence": [{"start": 1}]}, "found no text"),
        ({"evidence": [{"text": "a", "start": 5, "end": 2}]}, "0 <= start <= end"),
        ({"evidence": [[1]]}, "expected text, found a list"),
        ({"answerable": True, "is_impossible": True}, "contradict"),
        ({"answer": "a", "ground_truth": "b"}, "both hold the reference"),
        (
            {"b": 2, "a": 1, "c": 3, "metadata": {"a": 5, "b": 5, "c": 5}},
            r"(?s)field 'b': stands in the record and in its 'metadata'.*'a': .*'c': ",
        ),
    ],
)
def test_what_cannot_be_is_a_problem(tmp_path: Path, row: Row, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        read_row(tmp_path, row)


def test_given_names_win_and_an_empty_name_switches_a_field_off(tmp_path: Path) -> None:
    row = {"Frage": "Wer?", "evidence": [[1, 2]], "pid": 3, "answer": "a", "ground_truth": "b"}
    fields = {"query": "Frage", "evidence": "", "reference_context_ids": "pid"}
    case = read_row(tmp_path, row, fields | {"reference": "ground_truth"})
    assert (case.query, case.reference_context_ids, case.reference) == ("Wer?", ("3",), "b")
    assert case.metadata == {"query": "q", "evidence": [[1, 2]], "answer": "a"}
    with pytest.raises(DataError, match="no record has the field that the mapping reference=x"):
        read_row(tmp_path, {}, {"reference": "x"})
    # What a system said is not taken for gold.
    said = {"answer": "said", "contexts": ["c"], "ground_truth": "right"}
    case = read_row(tmp_path, said)
    assert (case.reference, case.reference_contexts, case.metadata) == ("right", None, {})


def test_documents(tmp_path: Path) -> None:
    rows = [
        {"pid": 1, "contents": "text", "title": "", "year": 2023},
        {"_id": "b", "text": "", "title": "Empty"},
        {"text": "no id"},
        {"id": "c"},
    ]
    noted = Problems()
    first, second, third = read_documents(lines(tmp_path / "corpus.jsonl", rows), problems=noted)
    assert first == Document(id="1", text="text", title=None, metadata={"year": 2023})
    assert second == Document(id="b", text="", title="Empty")
    assert third.id.startswith("d-")
    (problem,) = noted
    assert (problem.line, "no field for the text" in problem.message) == (4, True)
    table = write(tmp_path, 'id\ttitle\ttext\n1\t\tone "quoted"\n2\tT\t\n', "corpus.tsv")
    found = [(d.id, d.title, d.text) for d in read_documents(table)]
    assert found == [("1", None, 'one "quoted"'), ("2", "T", "")]
    value = '{"documents": [{"document_id": "a", "text": "one"}]}'
    assert [d.id for d in read_documents(write(tmp_path, value, "corpus.json"))] == ["a"]


# --- cells of tables


@pytest.mark.parametrize(
    ("cell", "ids"),
    [
        ('["a", "b,c"]', ("a", "b,c")),
        ("['a', 'b']", ("a", "b")),
        ("[]", ()),
        ("", None),
        ("['a' 'b'\n 'c']", ("a", "b", "c")),
        ("""["it's" 'b']""", ("it's", "b")),
        ("[1, 'b', None]", ("1", "b")),
        ("[1 2]", ("1", "2")),
        ("a; b", ("a", "b")),
        ("a|b", ("a", "b")),
        ("a", ("a",)),
    ],
)
def test_lists_of_ids_in_a_cell(tmp_path: Path, cell: str, ids: tuple[str, ...] | None) -> None:
    quoted = cell.replace('"', '""')
    (case,), _ = read(write(tmp_path, f'query,relevant_ids\nq,"{quoted}"\n', "x.csv"))
    assert case.reference_context_ids == ids


def test_other_fields_of_cells(tmp_path: Path) -> None:
    text = (
        ";query;answer;grades;answerable;tags;evidence;metadata;note\n"  # pandas: numbers of rows
        '0;q;[citation needed];"{""d1"": 2}";no;a, b;"[{""text"": ""x""}]";"{""n"": 1}";hi\n'
        f"1;r;{'x' * 3_000_000};;;;;;\n"
    )
    (case, other), _ = read(write(tmp_path, text, "x.csv"))
    assert other.reference is not None and len(other.reference) == 3_000_000
    assert case == Case(
        id=case.id,
        query="q",
        reference="[citation needed]",
        grades={"d1": 2},
        answerable=False,
        tags=("a", "b"),
        evidence=(Evidence(text="x"),),
        metadata={"n": 1, "note": "hi"},
    )


# --- arrays of JSON in blocks, keys that stand twice

KEYS = st.sampled_from(["k", '"', "\\", "]", '{"'])
JSON: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([None, True, -17, 1.5]) | st.text(alphabet='a"\\[]{},: \n€', max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=2),
    max_leaves=6,
)


# One file that every example writes anew: a folder an example costs more than the example.
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.dictionaries(KEYS, JSON, max_size=2), max_size=3),
    indent=st.sampled_from([None, 1]),
    size=st.integers(1, 40),
    nested=st.booleans(),
)
def test_elements_are_those_of_the_array_in_blocks_of_any_size(
    tmp_path: Path, rows: list[Any], indent: int | None, size: int, nested: bool
) -> None:
    value = {"other": [[1], {"rows": []}], "rows": rows, "time": 1} if nested else rows
    path = write(tmp_path, json.dumps(value, indent=indent, ensure_ascii=False))
    problems = Problems()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_files, "_BLOCK_BYTES", size)
        found = list(array_elements(Source.of(path), "rows" if nested else None, problems))
    assert not problems.count
    assert [json.loads(element.raw) for element in found] == rows


# --- encodings that are guessed

GERMAN = "query;reference\nWie lange dauert die Kündigungsfrist?;drei Monate\nWie groß?;20 m²\n"
CHINESE = "query,reference\n员工每年有多少天年假？,二十天\n公司成立于哪一年？,1998年\n"
TAIWANESE = "query\n公司成立於哪一年？由誰成立？\n費用由誰負擔？何時可以退貨？\n"
JAPANESE = "query\n会社はいつ設立されましたか？\n保証期間はどのくらいですか？\n"
RUSSIAN = "query\nКогда была основана компания?\nСколько длится гарантия?\n"


@pytest.mark.parametrize(
    ("head", "guess"),
    [
        (GERMAN.encode("cp1252"), "cp1252"),
        ("query\nWhat’s the price – in total?,20 €\n".encode("cp1252"), "cp1252"),
        ("query\n¿Cuándo se fundó la compañía?\n".encode("cp1252"), "cp1252"),
        (CHINESE.encode("gbk"), "gb18030"),
        (TAIWANESE.encode("big5") * 2, "big5"),
        (JAPANESE.encode("sjis"), "shift_jis"),
        (RUSSIAN.encode("cp1251"), "cp1251"),
        (b"", None),
        (GERMAN.encode(), None),
        ("\ufeffquery\nü\n".encode("utf-16"), None),
        ('{"query": "Wie groß?"}'.encode("cp1252"), None),  # JSON is UTF-8
        ("query\n大小？\n".encode("gbk"), None),  # as good as several others
        (GERMAN.encode()[:-12] + "ü".encode()[:1], None),  # cut within a letter
        (GERMAN.encode() + b"\xff\n", None),  # damaged
        (b"PK\x03\x04\x00\xff", None),
    ],
)
def test_an_old_encoding_is_guessed(head: bytes, guess: str | None) -> None:
    assert guess_encoding(head) == guess


def test_a_guess_is_reported(tmp_path: Path) -> None:
    path = write(tmp_path, CHINESE.encode("gbk"), "x.csv")
    for encoding, notes in ((None, 1), ("gbk", 0)):
        with open_source(path, encoding=encoding) as source:
            assert next(iter(source)).case.query == "员工每年有多少天年假？"
            assert len(source.info.notes) == notes


def test_what_is_a_database_or_needs_a_package_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = write(tmp_path, b"SQLite format 3\x00" + bytes(80), "x.db")
    assert "it is an SQLite file" in read(database)[1][0]
    monkeypatch.delitem(sys.modules, "pyarrow.parquet", raising=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'ragbench\[hf\]'"):
        read(write(tmp_path, b"PAR1" + bytes(80) + b"PAR1", "x.parquet"))
