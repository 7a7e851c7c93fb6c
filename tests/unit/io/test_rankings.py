"""TREC runs, qrels and BEIR results count as trec_eval counts them; ids alone are enough."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import ir_measures
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ragbench import evaluate, join_answers, open_source
from ragbench.core.outcome import Status
from ragbench.core.record import replace
from ragbench.core.trace import Entry
from ragbench.errors import ConfigError, DataError
from ragbench.metrics.plan import Plan
from ragbench.metrics.registry import parse_metrics
from tests.unit.io.traces import lines, written
from tests.unit.metrics.builders import trace

Run = Mapping[str, Mapping[str, float]]
Judgements = Mapping[str, Mapping[str, int]]


def ranked_ids(source: Path, **options: Any) -> dict[str, list[str]]:
    """Retrieved ids by query."""
    with open_source(source, **options) as entries:
        return {entry.id: retrieved_ids(entry) for entry in entries}


def retrieved_ids(entry: Entry) -> list[str]:
    value = entry.recorded["retrieve"].value
    assert value is not None
    return list(value.context_ids)


# --- what a run says


@pytest.mark.parametrize(
    "run",
    [
        pytest.param("1 Q0 a 2 1.0 t\n1 Q0 c 1 1.0 t\n", id="the greater id is ranked first"),
        pytest.param("1 Q0 c 9 1.0 t\n1 Q0 a 1 1.0 t\n", id="the smaller id is ranked first"),
        pytest.param("1 Q0 a 1 1.000000001 t\n1 Q0 c 2 1.0 t\n", id="equal in single precision"),
    ],
)
def test_equal_scores_are_ordered_by_descending_id(tmp_path: Path, run: str) -> None:
    qrels = written(tmp_path / "qrels.txt", "1 0 c 1\n")
    path = written(tmp_path / "x.run", run)

    assert ranked_ids(path, qrels=qrels) == {"1": ["c", "a"]}


@pytest.mark.parametrize("second_column", ["Q0", "0", "1", "iter", "q0"])
def test_columns_of_a_run_lie_between_blanks_and_tabs(tmp_path: Path, second_column: str) -> None:
    qrels = written(tmp_path / "qrels.txt", "1 0 a 1\n")
    run = f"  1 {second_column}  b \t 1  .5e1 t\n\t1\t{second_column}\ta\t2\t-1e-3\tt\n\n"
    path = written(tmp_path / "x.run", run)

    assert ranked_ids(path, qrels=qrels) == {"1": ["b", "a"]}


def test_columns_of_judgements_lie_between_blanks_and_tabs(tmp_path: Path) -> None:
    qrels = written(tmp_path / "qrels.txt", "  1\t 0   a \t 1\n1 7 b -1\n")
    path = written(tmp_path / "x.run", "1 Q0 a 1 1 t\n")

    with open_source(path, qrels=qrels) as entries:
        (entry,) = entries

    assert entry.case.grades == {"a": 1, "b": -1}


def test_lines_of_a_query_need_not_be_together(tmp_path: Path) -> None:
    qrels = written(tmp_path / "qrels.txt", "1 0 a 1\n2 0 b 1\n")
    path = written(tmp_path / "x.run", "1 Q0 c 1 2 t\n2 Q0 b 1 2 t\n1 Q0 a 1 3 t\n")

    assert ranked_ids(path, qrels=qrels) == {"1": ["a", "c"], "2": ["b"]}


@pytest.mark.parametrize("score", ["high", "nan", "inf", "1,5"])
def test_a_score_that_is_no_finite_number_is_refused_with_its_line(
    tmp_path: Path, score: str
) -> None:
    qrels = written(tmp_path / "qrels.txt", "1 0 a 1\n")
    path = written(tmp_path / "x.run", f"1 Q0 a 1 2 t\n1 Q0 b 1 {score} t\n")

    with pytest.raises(DataError, match=rf"x.run:2: .*'{score}' as score"):
        ranked_ids(path, qrels=qrels)


def test_a_document_twice_for_one_query_is_refused(tmp_path: Path) -> None:
    qrels = written(tmp_path / "qrels.txt", "1 0 a 1\n")
    path = written(tmp_path / "x.run", "1 Q0 a 1 2 t\n1 Q0 a 2 1 t\n")

    with pytest.raises(DataError, match=r"x.run:2: document 'a' appears twice"):
        ranked_ids(path, qrels=qrels)


# --- queries that one side lacks


def beir_dataset(folder: Path) -> Path:
    """Two judged queries and a text."""
    folder.mkdir()
    lines(
        folder / "queries.jsonl",
        [{"_id": "q1", "text": "Query q1"}, {"_id": "q2", "text": "Query q2"}],
    )
    lines(folder / "corpus.jsonl", [{"_id": "a", "text": "Text"}])
    (folder / "qrels").mkdir()
    written(folder / "qrels" / "test.tsv", "query-id\tcorpus-id\tscore\nq1\ta\t1\nq2\tb\t1\n")
    return folder


def judgements_alone(folder: Path) -> Path:
    """Two judged queries, of which neither texts nor questions are known."""
    folder.mkdir()
    written(folder / "qrels.txt", "q1 0 a 1\nq2 0 b 1\n")
    return folder


@pytest.fixture(name="dataset", params=[beir_dataset, judgements_alone])
def dataset_of_two_judged_queries(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    dataset: Path = request.param(tmp_path / "data")
    return dataset


def joined(dataset: Path, outputs: Path) -> tuple[list[Entry], str]:
    """The dataset's entries with these outputs, and the notes of the join."""
    with open_source(dataset) as cases:
        answers = open_source(outputs, corpus=dataset, is_join=True)
        with join_answers(cases, answers) as entries:
            return list(entries), "\n".join(entries.info.notes)


@pytest.mark.parametrize(
    ("name", "content"),
    [("x.run", "q1 Q0 a 1 1.5 t\n"), ("x.json", '{"q1": {"a": 1.5}}')],
    ids=["a TREC run", "results of BEIR"],
)
def test_a_judged_query_without_lines_retrieved_nothing(
    tmp_path: Path, dataset: Path, name: str, content: str
) -> None:
    entries, notes = joined(dataset, written(tmp_path / name, content))

    assert [retrieved_ids(entry) for entry in entries] == [["a"], []]
    assert "1 judged query (such as 'q2') has no lines" in notes


def test_a_ranking_of_other_queries_is_not_joined(tmp_path: Path, dataset: Path) -> None:
    path = written(tmp_path / "x.run", "7 Q0 a 1 1.5 t\n")

    with pytest.raises(DataError, match=r"(?s)none of its 1 record.*id 'q1'.*id '7'"):
        joined(dataset, path)


def test_a_ranking_of_other_queries_is_refused_with_an_id_of_each(
    tmp_path: Path, dataset: Path
) -> None:
    path = written(tmp_path / "x.run", "7 Q0 a 1 1.5 t\n")

    with pytest.raises(DataError, match=r"'7'.*judged queries \(such as 'q1'\)"):
        open_source(path, corpus=dataset)


def test_a_run_needs_judgements_or_queries(tmp_path: Path) -> None:
    path = written(tmp_path / "x.run", "1 Q0 a 1 2 t\n")

    with pytest.raises(ConfigError, match="--qrels FILE"):
        open_source(path)


# --- queries that are documents of the corpus


RUN_WITH_QUERY_AS_DOCUMENT = "q1 Q0 q1 1 9 t\nq1 Q0 a 2 8 t\nq2 Q0 b 1 1 t\n"


def test_a_query_of_beir_does_not_retrieve_itself(tmp_path: Path) -> None:
    dataset = beir_dataset(tmp_path / "data")
    path = written(tmp_path / "x.run", RUN_WITH_QUERY_AS_DOCUMENT)

    entries, notes = joined(dataset, path)

    assert [retrieved_ids(entry) for entry in entries] == [["a"], ["b"]]
    assert "ignore_identical_ids" in notes


def test_in_a_run_of_its_own_a_query_does_not_retrieve_itself_either(tmp_path: Path) -> None:
    dataset = beir_dataset(tmp_path / "data")
    path = written(tmp_path / "x.run", RUN_WITH_QUERY_AS_DOCUMENT)

    assert ranked_ids(path, corpus=dataset) == {"q1": ["a"], "q2": ["b"]}


def test_a_query_that_is_judged_for_itself_may_retrieve_itself(tmp_path: Path) -> None:
    dataset = beir_dataset(tmp_path / "data")
    written(dataset / "qrels" / "test.tsv", "q1\tq1\t1\nq2\tb\t1\n")
    path = written(tmp_path / "x.run", RUN_WITH_QUERY_AS_DOCUMENT)

    entries, _ = joined(dataset, path)

    assert retrieved_ids(entries[0]) == ["q1", "a"]


# --- ids alone


@pytest.mark.parametrize(
    "ids",
    [
        {"retrieved_context_ids": ["b", "a"], "reference_context_ids": ["a"]},
        {"retrieved_ids": ["b", "a"], "relevant_ids": ["a"]},
    ],
    ids=["names of Ragas", "short names"],
)
def test_ids_alone_are_scored_by_metrics_of_ids_and_skipped_by_those_of_texts(
    tmp_path: Path, ids: dict[str, Any]
) -> None:
    texts = {"reference_contexts": ["Relevant text."], "reference": "42", "response": "42 [1]"}
    path = lines(tmp_path / "x.jsonl", [{"query": "Why?", **ids, **texts}])
    metrics = "MRR, recall@5, token_f1, numbers_supported, citation_attribution"

    with open_source(path) as source:
        report = evaluate(source, None, out=tmp_path / "run", metrics=metrics)

    # The answer has the mark of citation beside the reference: 2 * (1/2) / (1 + 1/2).
    scores = [summary.score for summary in report.summaries]
    assert scores == [0.5, 1.0, 2 / 3, None, None]


def test_an_empty_list_of_ids_is_a_zero(tmp_path: Path) -> None:
    row = {"query": "q", "retrieved_context_ids": [], "reference_context_ids": ["a"]}

    with open_source(lines(tmp_path / "x.jsonl", [row])) as source:
        report = evaluate(source, None, out=tmp_path / "run", metrics="recall@5")

    assert report.summaries[0].score == 0.0


# --- trec_eval

MEASURES = {
    "nDCG@3": "nDCG@3",
    "nDCG@1000": "nDCG@1000",
    "MAP": "AP",
    "MRR": "RR",
    "precision@3": "P@3",
    "precision@200": "P@200",
    "recall@3": "R@3",
    "recall@1000": "R@1000",
    "hit_rate@1": "Success@1",
    "hit_rate@5": "Success@5",
}
QUERIES = ("1", "10", "2")
DOCUMENTS = ("a", "A", "b-1", "b_1", "é", "10", "9", "z#0", "Ω")


@settings(max_examples=60, deadline=None)
@given(
    run=st.dictionaries(
        st.sampled_from(QUERIES),
        st.dictionaries(
            st.sampled_from(DOCUMENTS),
            st.sampled_from([3.0, 1.0, 1.00000001, 0.5, 0.0, -2.0, 1e-3]),
            min_size=1,
        ),
        min_size=1,
    ),
    qrels=st.dictionaries(
        st.sampled_from(QUERIES),
        st.dictionaries(st.sampled_from(DOCUMENTS), st.integers(-2, 3), min_size=1),
        min_size=1,
    ),
    source=st.randoms(use_true_random=False),
)
def test_files_are_scored_as_trec_eval_scores_them(
    run: Run, qrels: Judgements, source: Random
) -> None:
    assume(not run.keys().isdisjoint(qrels))  # else the run is refused
    with TemporaryDirectory() as folder:
        run_path = written(Path(folder, "x.run"), run_file(run, source))
        qrels_path = written(Path(folder, "judged.txt"), qrels_file(qrels))
        expected = of_trec_eval(run_path, qrels_path)
        with open_source(run_path, qrels=qrels_path) as entry_source:
            entries = list(entry_source)
    plan = Plan(parse_metrics(", ".join(MEASURES)))

    for entry in entries:
        case = replace(trace(), case=entry.case, retrieval=entry.recorded["retrieve"])
        (cells,) = plan.score([case])

        is_judged = entry.id in qrels
        for measure, cell in zip(MEASURES.values(), cells, strict=True):
            if is_judged:
                score = expected.get((entry.id, measure), 0.0)
                assert cell.value == pytest.approx(score, abs=1e-12)
            else:
                assert cell.status is Status.SKIPPED


def run_file(run: Run, source: Random) -> str:
    """The lines of a run in any order, with ranks that say nothing."""
    rows: list[str] = []
    for query, scores in run.items():
        for document, score in scores.items():
            second_column = source.choice(["Q0", "0"])
            rank = source.randint(1, 9)
            rows.append(f"{query} {second_column}\t{document}  {rank} {score!r} tag\n")
    source.shuffle(rows)
    return "".join(rows)


def qrels_file(qrels: Judgements) -> str:
    rows: list[str] = []
    for query, grades in qrels.items():
        for document, grade in grades.items():
            rows.append(f"{query} 0 {document} {grade}\n")
    return "".join(rows)


def of_trec_eval(run: Path, qrels: Path) -> dict[tuple[str, str], float]:
    """The scores of trec_eval, by query and measure."""
    trec: Any = ir_measures  # untyped
    judgements = list(trec.read_trec_qrels(str(qrels)))
    # Its nDCG reads foreign memory for a grade below 0, which counts as none, and where a query has
    # no relevant document, which counts 0.
    measurable = {judgement.query_id for judgement in judgements if judgement.relevance > 0}
    counted: list[Any] = []
    for judgement in judgements:
        if judgement.query_id in measurable and judgement.relevance >= 0:
            counted.append(judgement)
    if not counted:
        return {}
    measures = [trec.parse_measure(name) for name in MEASURES.values()]
    evaluator = trec.pytrec_eval.evaluator(measures, counted)
    scores: dict[tuple[str, str], float] = {}
    for score in evaluator.iter_calc(list(trec.read_trec_run(str(run)))):
        scores[score.query_id, str(score.measure)] = score.value
    return scores
