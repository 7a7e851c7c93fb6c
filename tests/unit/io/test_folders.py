"""Folders: BEIR, TREC, ragbench's own, plain text, and those that are none of them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from ragbench import read_cases, read_documents
from ragbench.errors import DataError
from ragbench.io.source import Problems

QUERIES = '{"_id": "1", "text": "one", "metadata": {"x": 1}}\n{"_id": "2", "text": "two"}\n'
CORPUS = '{"_id": "a", "title": "A", "text": "text a"}\n{"_id": "b", "title": "", "text": ""}\n'


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def beir(folder: Path, **splits: str) -> Path:
    head = "query-id\tcorpus-id\tscore\n"
    qrels = {f"qrels/{split}.tsv": head + rows for split, rows in splits.items()}
    return write(folder, {"queries.jsonl": QUERIES, "corpus.jsonl": CORPUS, **qrels})


def test_beir(tmp_path: Path) -> None:
    folder = beir(tmp_path, test="1\ta\t1\n1\tb\t3\n1\tc\t0\n", dev="2\ta\t1\n")
    (case,) = read_cases(folder)
    assert (case.id, case.query) == ("1", "one")
    assert case.grades == {"a": 1, "b": 3, "c": 0}
    assert case.reference_context_ids == ("b", "a")
    assert case.metadata == {"x": 1}
    assert [case.id for case in read_cases(folder, split="dev")] == ["2"]
    assert [(d.id, d.title, d.text) for d in read_documents(folder)] == [
        ("a", "A", "text a"),
        ("b", None, ""),
    ]
    (folder / "queries.jsonl").unlink()
    (folder / "queries.jsonl.gz").write_bytes(gzip.compress(QUERIES.encode()))
    assert [case.id for case in read_cases(folder)] == ["1"]


def test_beir_problems(tmp_path: Path) -> None:
    folder = beir(tmp_path, test="1\ta\t1\n9\ta\t1\n1\ta\t2\n2\tb\thigh\n", dev="")
    noted = Problems()
    assert len(list(read_cases(folder, problems=noted))) == 1
    assert [str(problem).removeprefix(f"{folder}/") for problem in noted] == [
        "qrels/test.tsv:4: 'a' for query '1' has another grade at line 2",
        "qrels/test.tsv:5: expected a whole number as grade, found 'high'",
        "qrels/test.tsv:3: field 'query-id': no query has the id '9'",
    ]
    with pytest.raises(DataError, match="no judgements for split 'train'; there are: dev, test"):
        list(read_cases(folder, split="train"))


def test_trec(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "queries.tsv": '1\twho said "x"\n2\ttwo\n',
            "qrels.txt": "1 0 a 2\n1 0 b -1\n",
            "collection.tsv": "a\ttext\twith tab\nb\t\n",
        },
    )
    (case,) = read_cases(tmp_path)
    assert (case.id, case.query) == ("1", 'who said "x"')
    assert (case.grades, case.reference_context_ids) == ({"a": 2, "b": -1}, ("a",))
    documents = list(read_documents(tmp_path, format="trec"))
    assert [(d.id, d.text) for d in documents] == [("a", "text\twith tab"), ("b", "")]


def test_trec_problems(tmp_path: Path) -> None:
    write(tmp_path, {"topics.txt": "1 no tab\n2\ttwo\n"})
    with pytest.raises(DataError, match="no folder 'qrels'"):
        list(read_cases(tmp_path))
    write(tmp_path, {"qrels.txt": "2 0 a 1\n"})
    with pytest.raises(DataError, match=r"topics.txt:1: expected an id, a tab and the query"):
        list(read_cases(tmp_path))
    with pytest.raises(DataError, match=r"the folder has none of collection\.tsv"):
        list(read_documents(tmp_path, format="trec"))


def test_text_files(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            ".git/x.md": "hidden",
            "b/z.md": "intro\n# The title \ntext",
            "a.txt": "# not a title",
        },
    )
    (tmp_path / "c.txt").write_bytes("Größe".encode("latin-1"))
    noted = Problems()
    documents = list(read_documents(tmp_path, problems=noted))
    assert [(d.id, d.title) for d in documents] == [("a.txt", None), ("b/z.md", "The title")]
    assert [problem.path for problem in noted] == [f"{tmp_path}/c.txt"]
    (single,) = read_documents(tmp_path / "a.txt")
    assert (single.id, single.text) == ("a.txt", "# not a title")
    data = write(tmp_path / "data", {"README.md": "hello", "questions.csv": "query\n"})
    with pytest.raises(DataError, match="the folder holds no documents"):
        list(read_documents(data))  # a README beside data is no corpus


@pytest.mark.parametrize(
    ("format_name", "expected"),
    [
        ("beir", "the BEIR folder has no queries.jsonl"),
        ("ragbench", "the folder has no cases.jsonl"),
        ("trec", "the folder has none of queries.tsv"),
        ("text", "text files hold documents"),
    ],
)
def test_a_folder_that_is_not_what_it_is_said_to_be(
    tmp_path: Path, format_name: str, expected: str
) -> None:
    with pytest.raises(DataError, match=expected):
        list(read_cases(tmp_path, format=format_name))
