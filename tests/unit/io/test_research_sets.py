"""SQuAD, RAGAS, and folders: BEIR, TREC, ragbench's own, plain text."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from ragbench import GenerationResult, RetrievalResult, read_cases, read_documents
from ragbench.errors import DataError
from ragbench.io.source import Problems
from tests.unit.io.traces import entries, lines, written

CONTEXT = "Ada Lovelace wrote the first program in 1843."


def squad(folder: Path, *questions: object, context: object = CONTEXT) -> Path:
    paragraphs = [{"context": context, "qas": list(questions)}, {"context": CONTEXT, "qas": []}]
    whole = {"version": "v2.0", "data": [{"title": "Ada", "paragraphs": paragraphs}]}
    return written(folder / "dev.json", whole)


def question(**values: Any) -> dict[str, Any]:
    answers = [("1843", 40), ("in 1843", 37), ("1843", 40)]
    listed = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": "q1", "question": "When?", "answers": listed, **values}


def flat(folder: Path, **values: object) -> Path:
    row = {"id": "q1", "context": CONTEXT, "question": "When?", **values}
    return lines(folder / "flat.jsonl", [row])


def test_squad_nested_and_flat_mean_the_same(tmp_path: Path) -> None:
    path = squad(tmp_path, question(is_impossible=False))
    (case,) = read_cases(path)
    (document,) = read_documents(path)
    assert (case.id, case.answerable, case.cluster) == ("q1", True, "Ada")
    assert (case.references, case.reference_contexts) == (("1843", "in 1843"), (CONTEXT,))
    assert case.reference_context_ids == (document.id,)
    assert (document.text, document.title) == (CONTEXT, "Ada")
    found = [(CONTEXT[s.start : s.end], s.document_id) for s in case.evidence]
    assert found == [("1843", document.id), ("in 1843", document.id)]
    answers = {"text": ["1843", "in 1843"], "answer_start": [40, 37]}
    assert list(read_cases(flat(tmp_path, title="Ada", answers=answers))) == [case]


def test_an_unanswerable_question_of_squad_has_no_gold(tmp_path: Path) -> None:
    plausible = [{"text": "Ada", "answer_start": 0}]
    path = squad(tmp_path, question(is_impossible=True, answers=[], plausible_answers=plausible))
    (nested,) = read_cases(path)
    (row,) = read_cases(flat(tmp_path, answers={"text": [], "answer_start": []}))
    for case in (nested, row):
        assert (case.answerable, case.reference, case.evidence) == (False, None, ())
        assert (case.reference_context_ids, case.reference_contexts) == ((), ())
    paragraph = next(iter(read_documents(path))).id
    assert nested.metadata == {"plausible_answers": plausible, "paragraph_id": paragraph}
    assert row.metadata == {"context": CONTEXT}


def test_an_offset_that_does_not_hold_is_left_out(tmp_path: Path) -> None:
    for start in (3, -1, None, "40", 10**9):
        answers = [{"text": "1843", "answer_start": start}]
        (case,) = read_cases(squad(tmp_path, question(answers=answers)))
        assert [(s.text, s.start, s.end) for s in case.evidence] == [("1843", None, None)]


def test_wrong_questions_and_paragraphs_are_reported_with_their_place(tmp_path: Path) -> None:
    path = squad(tmp_path, question(), 7, question(id="q2", answers=[{"start": 1}]), question())
    noted, place = Problems(), "data[0].paragraphs[0].qas"
    assert len(list(read_cases(path, problems=noted))) == 1
    found = [(problem.line, problem.field) for problem in noted]
    assert found == [(2, f"{place}[1]"), (3, f"{place}[2].answers"), (4, "id")]
    with pytest.raises(DataError, match=r"data\[0\]\.paragraphs\[0\]"):
        list(read_cases(squad(tmp_path, question(), context=5)))


RAGAS: dict[str, Any] = {
    "user_input": "Who?",
    "retrieved_contexts": ["said"],
    "response": "Bob",
    "reference": "Ada",
    "reference_contexts": ["Ada did.", "It's 1843."],
    "reference_context_ids": [1, "b"],
    "retrieved_context_ids": None,
    "rubrics": None,
}


def check_ragas(*paths: Path) -> None:
    for path in paths:
        (entry,) = entries(path)
        case = entry.case
        assert [case] == list(read_cases(path))
        assert (case.query, case.reference) == ("Who?", "Ada")
        assert case.reference_contexts == ("Ada did.", "It's 1843.")
        assert case.reference_context_ids == ("1", "b")
        # What a system said is not part of the case: another system is asked the same one.
        assert case.metadata.keys() <= {"synthesizer_name"}
        assert entry.recorded["generate"].value == GenerationResult("Bob")
        assert entry.recorded["retrieve"].value == RetrievalResult(["said"])


def test_files_of_ragas(tmp_path: Path) -> None:
    whole = written(tmp_path / "a.json", [RAGAS])
    sample = {"eval_sample": RAGAS, "synthesizer_name": "single_hop"}
    check_ragas(lines(tmp_path / "a.jsonl", [RAGAS]), whole, lines(tmp_path / "b.jsonl", [sample]))


@pytest.mark.extra("ragas")
@pytest.mark.filterwarnings("ignore")
def test_what_ragas_itself_writes(tmp_path: Path) -> None:
    schema: Any = pytest.importorskip("ragas.dataset_schema")
    dataset = schema.EvaluationDataset(samples=[schema.SingleTurnSample(**RAGAS)])
    dataset.to_jsonl(tmp_path / "a.jsonl")
    dataset.to_csv(tmp_path / "a.csv")
    check_ragas(tmp_path / "a.jsonl", tmp_path / "a.csv")


QUERIES = '{"_id": "1", "text": "one", "metadata": {"x": 1}}\n{"_id": "2", "text": "two"}\n'
CORPUS = '{"_id": "a", "title": "A", "text": "text a"}\n{"_id": "b", "title": "", "text": ""}\n'


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        written(folder / name, text)
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
    found = [(d.id, d.title, d.text) for d in read_documents(folder)]
    assert found == [("a", "A", "text a"), ("b", None, "")]
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
    with pytest.raises(DataError, match="no split 'train'; there are: dev, test"):
        list(read_cases(folder, split="train"))


def test_trec(tmp_path: Path) -> None:
    write(tmp_path, {"topics.txt": "1 no tab\n2\ttwo\n"})
    with pytest.raises(DataError, match="no folder 'qrels'"):
        list(read_cases(tmp_path))
    write(tmp_path, {"qrels.txt": "1 0 a 2\n1 0 b -1\n"})
    with pytest.raises(DataError, match=r"topics.txt:1: expected an id, a tab and the query"):
        list(read_cases(tmp_path))
    with pytest.raises(DataError, match=r"the folder has none of collection\.tsv"):
        list(read_documents(tmp_path, format="trec"))
    texts = "a\ttext\twith tab\nb\t\n"
    (tmp_path / "topics.txt").unlink()
    write(tmp_path, {"queries.tsv": '1\twho said "x"\n2\ttwo\n', "collection.tsv": texts})
    (case,) = read_cases(tmp_path)
    assert (case.id, case.query) == ("1", 'who said "x"')
    assert (case.grades, case.reference_context_ids) == ({"a": 2, "b": -1}, ("a",))
    documents = list(read_documents(tmp_path, format="trec"))
    assert [(d.id, d.text) for d in documents] == [("a", "text\twith tab"), ("b", "")]


def test_text_files(tmp_path: Path) -> None:
    text = "intro\n# The title \ntext"
    write(tmp_path, {".git/x.md": "hidden", "b/z.md": text, "a.txt": "# not a title"})
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


def test_a_folder_that_is_something_else(tmp_path: Path) -> None:
    for form, expected in (
        ("beir", "the BEIR folder has no queries.jsonl"),
        ("ragbench", "the folder has no cases.jsonl"),
        ("trec", "no folder .qrels. with the judgements"),
        ("text", "text files hold documents"),
    ):
        with pytest.raises(DataError, match=expected):
            list(read_cases(tmp_path, format=form))
