"""SQuAD, RAGAS, and folders: BEIR, TREC, ragbench's own, plain text."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from ragbench import Case, GenerationResult, RetrievalResult, read_cases, read_documents
from ragbench.errors import DataError
from ragbench.io.source import Problems
from tests.unit.io.traces import entries, lines, written


def write_files(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        written(folder / name, text)
    return folder


# --- SQuAD


CONTEXT = "Ada Lovelace wrote the first program in 1843."


def nested(folder: Path, *questions: object, context: object = CONTEXT) -> Path:
    """Questions in their paragraph, as SQuAD is published; a second one has no question."""
    paragraphs = [{"context": context, "qas": list(questions)}, {"context": CONTEXT, "qas": []}]
    content = {"version": "v2.0", "data": [{"title": "Ada", "paragraphs": paragraphs}]}
    return written(folder / "dev.json", content)


def flat(folder: Path, **values: object) -> Path:
    """A question on a line, as datasets store SQuAD."""
    row = {"id": "q1", "context": CONTEXT, "question": "When?", **values}
    return lines(folder / "flat.jsonl", [row])


ANSWERS = [
    {"text": "1843", "answer_start": 40},
    {"text": "in 1843", "answer_start": 37},
    {"text": "1843", "answer_start": 40},
]


def question(**values: Any) -> dict[str, Any]:
    return {"id": "q1", "question": "When?", "answers": ANSWERS, **values}


def test_a_question_of_squad_is_a_case(tmp_path: Path) -> None:
    (case,) = read_cases(nested(tmp_path, question(is_impossible=False)))

    assert case.id == "q1"
    assert case.cluster == "Ada"
    assert case.answerable is True
    assert case.references == ("1843", "in 1843")


def test_a_paragraph_of_squad_is_a_document_and_gold(tmp_path: Path) -> None:
    path = nested(tmp_path, question())

    (case,) = read_cases(path)
    (document,) = read_documents(path)

    assert document.text == CONTEXT
    assert document.title == "Ada"
    assert case.reference_contexts == (CONTEXT,)
    assert case.reference_context_ids == (document.id,)


def test_answers_of_squad_are_evidence_in_their_paragraph(tmp_path: Path) -> None:
    path = nested(tmp_path, question())

    (case,) = read_cases(path)
    (document,) = read_documents(path)

    first_span, second_span = case.evidence
    assert (first_span.start, first_span.end) == (40, 44)
    assert CONTEXT[40:44] == "1843"
    assert (second_span.start, second_span.end) == (37, 44)
    assert CONTEXT[37:44] == "in 1843"
    assert first_span.document_id == document.id
    assert second_span.document_id == document.id


def test_squad_nested_and_flat_mean_the_same(tmp_path: Path) -> None:
    answers = {"text": ["1843", "in 1843"], "answer_start": [40, 37]}

    (nested_case,) = read_cases(nested(tmp_path, question(is_impossible=False)))
    (flat_case,) = read_cases(flat(tmp_path, title="Ada", answers=answers))

    assert flat_case == nested_case


def assert_has_no_gold(case: Case) -> None:
    assert case.answerable is False
    assert case.reference is None
    assert case.evidence == ()
    assert case.reference_context_ids == ()
    assert case.reference_contexts == ()


def test_an_unanswerable_question_of_squad_has_no_gold(tmp_path: Path) -> None:
    plausible = [{"text": "Ada", "answer_start": 0}]
    path = nested(tmp_path, question(is_impossible=True, answers=[], plausible_answers=plausible))

    (case,) = read_cases(path)

    assert_has_no_gold(case)
    (document,) = read_documents(path)
    assert case.metadata == {"plausible_answers": plausible, "paragraph_id": document.id}


def test_an_unanswerable_question_of_flat_squad_has_no_gold(tmp_path: Path) -> None:
    (case,) = read_cases(flat(tmp_path, answers={"text": [], "answer_start": []}))

    assert_has_no_gold(case)
    assert case.metadata == {"context": CONTEXT}


@pytest.mark.parametrize("start", [3, -1, None, "40", 10**9])
def test_an_offset_at_which_the_answer_is_not_is_left_out(tmp_path: Path, start: object) -> None:
    answers = [{"text": "1843", "answer_start": start}]

    (case,) = read_cases(nested(tmp_path, question(answers=answers)))

    (span,) = case.evidence
    assert span.text == "1843"
    assert (span.start, span.end) == (None, None)


def test_wrong_questions_of_squad_are_reported_with_their_place(tmp_path: Path) -> None:
    path = nested(tmp_path, question(), 7, question(id="q2", answers=[{"start": 1}]), question())
    problems = Problems()

    cases = list(read_cases(path, problems=problems))

    assert [case.id for case in cases] == ["q1"]
    assert [(problem.line, problem.field) for problem in problems] == [
        (2, "data[0].paragraphs[0].qas[1]"),
        (3, "data[0].paragraphs[0].qas[2].answers"),
        (4, "id"),  # which the first has
    ]


def test_a_wrong_paragraph_of_squad_is_reported_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"data\[0\]\.paragraphs\[0\]"):
        list(read_cases(nested(tmp_path, question(), context=5)))


# --- Ragas


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


def assert_is_the_sample(path: Path) -> None:
    (entry,) = entries(path)
    case = entry.case
    assert case.query == "Who?"
    assert case.reference == "Ada"
    assert case.reference_contexts == ("Ada did.", "It's 1843.")
    assert case.reference_context_ids == ("1", "b")
    # What a system said is not part of the case: another system is asked the same one.
    assert case.metadata.keys() <= {"synthesizer_name"}
    assert list(read_cases(path)) == [case]
    assert entry.recorded["generate"].value == GenerationResult("Bob")
    assert entry.recorded["retrieve"].value == RetrievalResult(["said"])


def test_samples_of_ragas_on_lines_are_read(tmp_path: Path) -> None:
    assert_is_the_sample(lines(tmp_path / "a.jsonl", [RAGAS]))


def test_samples_of_ragas_in_an_array_are_read(tmp_path: Path) -> None:
    assert_is_the_sample(written(tmp_path / "a.json", [RAGAS]))


def test_samples_of_a_test_set_of_ragas_are_read(tmp_path: Path) -> None:
    sample = {"eval_sample": RAGAS, "synthesizer_name": "single_hop"}

    assert_is_the_sample(lines(tmp_path / "b.jsonl", [sample]))


@pytest.mark.extra("ragas")
@pytest.mark.filterwarnings("ignore")
def test_files_that_ragas_itself_writes_are_read(tmp_path: Path) -> None:
    schema: Any = pytest.importorskip("ragas.dataset_schema")
    dataset = schema.EvaluationDataset(samples=[schema.SingleTurnSample(**RAGAS)])
    dataset.to_jsonl(tmp_path / "a.jsonl")
    dataset.to_csv(tmp_path / "a.csv")

    assert_is_the_sample(tmp_path / "a.jsonl")
    assert_is_the_sample(tmp_path / "a.csv")


# --- BEIR


QUERIES = '{"_id": "1", "text": "one", "metadata": {"x": 1}}\n{"_id": "2", "text": "two"}\n'
CORPUS = '{"_id": "a", "title": "A", "text": "text a"}\n{"_id": "b", "title": "", "text": ""}\n'


def beir(folder: Path, **splits: str) -> Path:
    """A folder with two queries, two documents and judgements by split."""
    files = {"queries.jsonl": QUERIES, "corpus.jsonl": CORPUS}
    for split, rows in splits.items():
        files[f"qrels/{split}.tsv"] = f"query-id\tcorpus-id\tscore\n{rows}"
    return write_files(folder, files)


def test_a_judged_query_of_beir_is_a_case(tmp_path: Path) -> None:
    (case,) = read_cases(beir(tmp_path, test="1\ta\t1\n1\tb\t3\n1\tc\t0\n"))

    assert case.id == "1"
    assert case.query == "one"
    assert case.grades == {"a": 1, "b": 3, "c": 0}
    assert case.reference_context_ids == ("b", "a")  # the best first
    assert case.metadata == {"x": 1}


def test_a_split_of_beir_can_be_named(tmp_path: Path) -> None:
    folder = beir(tmp_path, test="1\ta\t1\n", dev="2\ta\t1\n")

    (case,) = read_cases(folder, split="dev")

    assert case.id == "2"


def test_documents_of_beir_are_read(tmp_path: Path) -> None:
    titled, empty = read_documents(beir(tmp_path, test="1\ta\t1\n"))

    assert (titled.id, titled.title, titled.text) == ("a", "A", "text a")
    assert (empty.id, empty.title, empty.text) == ("b", None, "")


def test_queries_of_beir_may_be_compressed(tmp_path: Path) -> None:
    folder = beir(tmp_path, test="1\ta\t1\n")
    (folder / "queries.jsonl").unlink()
    (folder / "queries.jsonl.gz").write_bytes(gzip.compress(QUERIES.encode()))

    (case,) = read_cases(folder)

    assert case.id == "1"


def test_wrong_judgements_of_beir_are_reported_with_their_line(tmp_path: Path) -> None:
    folder = beir(tmp_path, test="1\ta\t1\n9\ta\t1\n1\ta\t2\n2\tb\thigh\n")
    problems = Problems()

    cases = list(read_cases(folder, problems=problems))

    assert len(cases) == 1
    assert [str(problem).removeprefix(f"{folder}/") for problem in problems] == [
        "qrels/test.tsv:4: 'a' for query '1' has another grade at line 2",
        "qrels/test.tsv:5: expected a whole number as grade, found 'high'",
        "qrels/test.tsv:3: field 'query-id': no query has the id '9'",
    ]


def test_a_split_of_beir_that_is_not_there_is_refused_with_those_that_are(
    tmp_path: Path,
) -> None:
    folder = beir(tmp_path, test="1\ta\t1\n", dev="")

    with pytest.raises(DataError, match="no split 'train'; there are: dev, test"):
        list(read_cases(folder, split="train"))


# --- TREC


TREC = {
    "queries.tsv": '1\twho said "x"\n2\ttwo\n',
    "qrels.txt": "1 0 a 2\n1 0 b -1\n",
    "collection.tsv": "a\ttext\twith tab\nb\t\n",
}


def test_a_judged_query_of_trec_is_a_case(tmp_path: Path) -> None:
    (case,) = read_cases(write_files(tmp_path, TREC))

    assert case.id == "1"
    assert case.query == 'who said "x"'
    assert case.grades == {"a": 2, "b": -1}
    assert case.reference_context_ids == ("a",)


def test_documents_of_trec_are_read(tmp_path: Path) -> None:
    with_tab, empty = read_documents(write_files(tmp_path, TREC), format="trec")

    assert (with_tab.id, with_tab.text) == ("a", "text\twith tab")
    assert (empty.id, empty.text) == ("b", "")


def test_a_folder_of_topics_without_judgements_is_refused(tmp_path: Path) -> None:
    write_files(tmp_path, {"topics.txt": "1\tone\n"})

    with pytest.raises(DataError, match="no folder 'qrels'"):
        list(read_cases(tmp_path))


def test_a_topic_without_a_tab_is_refused_with_its_line(tmp_path: Path) -> None:
    write_files(tmp_path, {"topics.txt": "1 no tab\n2\ttwo\n", "qrels.txt": "1 0 a 2\n"})

    with pytest.raises(DataError, match=r"topics.txt:1: expected an id, a tab and the query"):
        list(read_cases(tmp_path))


def test_a_folder_of_trec_without_a_collection_holds_no_documents(tmp_path: Path) -> None:
    write_files(tmp_path, {"topics.txt": "1\tone\n", "qrels.txt": "1 0 a 2\n"})

    with pytest.raises(DataError, match=r"the folder has none of collection\.tsv"):
        list(read_documents(tmp_path, format="trec"))


# --- text files


def test_text_files_of_a_folder_are_documents(tmp_path: Path) -> None:
    write_files(
        tmp_path,
        {
            ".git/x.md": "hidden",
            "b/z.md": "intro\n# The title \ntext",
            "a.txt": "# not a title",
        },
    )

    plain, markdown = read_documents(tmp_path)

    assert (plain.id, plain.title) == ("a.txt", None)
    assert (markdown.id, markdown.title) == ("b/z.md", "The title")


def test_a_text_file_that_is_no_utf_8_is_a_problem(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.txt": "text"})
    (tmp_path / "c.txt").write_bytes("Größe".encode("latin-1"))
    problems = Problems()

    documents = list(read_documents(tmp_path, problems=problems))

    assert [document.id for document in documents] == ["a.txt"]
    (problem,) = problems
    assert problem.path == f"{tmp_path}/c.txt"


def test_a_text_file_alone_is_a_document(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.txt": "# not a title"})

    (document,) = read_documents(tmp_path / "a.txt")

    assert document.id == "a.txt"
    assert document.text == "# not a title"


def test_a_readme_beside_data_is_no_corpus(tmp_path: Path) -> None:
    write_files(tmp_path, {"README.md": "hello", "questions.csv": "query\n"})

    with pytest.raises(DataError, match="the folder holds no documents"):
        list(read_documents(tmp_path))


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("beir", "the BEIR folder has no queries.jsonl"),
        ("ragbench", "the folder has no cases.jsonl"),
        ("trec", "no folder .qrels. with the judgements"),
        ("text", "text files hold documents"),
    ],
)
def test_an_empty_folder_is_refused_with_what_its_form_needs(
    tmp_path: Path, form: str, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        list(read_cases(tmp_path, format=form))
