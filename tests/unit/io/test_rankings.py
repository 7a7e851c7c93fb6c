"""TREC runs, qrels and BEIR results count as trec_eval counts them; ids alone are enough."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ir_measures
import pytest
from hypothesis import given, settings
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


def test_equal_scores_are_ordered_by_descending_id_whatever_ranks_and_lines_say(
    tmp_path: Path,
) -> None:
    qrels = written(tmp_path / "qrels.txt", "1 0 c 1\n")
    for number, run in enumerate(
        ("1 Q0 a 2 1.0 t\n1 Q0 c 1 1.0 t\n", "1 Q0 c 9 1.0 t\n1 Q0 a 1 1.0 t\n")
    ):
        path = written(tmp_path / f"{number}.run", run)
        assert ranked_ids(path, qrels=qrels) == {"1": ["c", "a"]}


def test_scores_that_are_equal_in_single_precision_are_equal(tmp_path: Path) -> None:
    qrels = written(tmp_path / "qrels.txt", "1 0 a 1\n")
    path = written(tmp_path / "x.run", "1 Q0 a 1 1.000000001 t\n1 Q0 b 2 1.0 t\n")
    assert ranked_ids(path, qrels=qrels) == {"1": ["b", "a"]}


@pytest.mark.parametrize("second", ["Q0", "0", "1", "iter", "q0"])
def test_columns_lie_between_runs_of_blanks_and_tabs(tmp_path: Path, second: str) -> None:
    qrels = written(tmp_path / "qrels.txt", "  1\t 0   a \t 1\n1 7 b -1\n")
    run = f"  1 {second}  b \t 1  .5e1 t\n\t1\t{second}\ta\t2\t-1e-3\tt\n\n"
    path = written(tmp_path / "x.run", run)
    assert ranked_ids(path, qrels=qrels) == {"1": ["b", "a"]}
    with open_source(path, qrels=qrels) as entries:
        assert [entry.case.grades for entry in entries] == [{"a": 1, "b": -1}]


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
    with (
        open_source(path, qrels=qrels) as entries,
        pytest.raises(DataError, match=rf"x.run:2: .*'{score}' as score"),
    ):
        list(entries)


def test_a_document_twice_for_one_query_is_refused(tmp_path: Path) -> None:
    qrels = written(tmp_path / "qrels.txt", "1 0 a 1\n")
    path = written(tmp_path / "x.run", "1 Q0 a 1 2 t\n1 Q0 a 2 1 t\n")
    with (
        open_source(path, qrels=qrels) as entries,
        pytest.raises(DataError, match=r"x.run:2: document 'a' appears twice"),
    ):
        list(entries)


# --- queries that one side lacks


def dataset_of(folder: Path, form: str) -> Path:
    """Two judged queries in a folder: of BEIR, or judgements alone."""
    if form == "beir":
        lines(folder / "queries.jsonl", [{"_id": id, "text": f"Query {id}"} for id in ("q1", "q2")])
        lines(folder / "corpus.jsonl", [{"_id": "a", "text": "Text"}])
        qrels = folder / "qrels" / "test.tsv"
        qrels.parent.mkdir()
        written(qrels, "query-id\tcorpus-id\tscore\nq1\ta\t1\nq2\tb\t1\n")
    else:
        written(folder / "qrels.txt", "q1 0 a 1\nq2 0 b 1\n")
    return folder


def joined(dataset: Path, outputs: Path) -> tuple[list[Entry], tuple[str, ...]]:
    with open_source(dataset) as cases:
        answers = open_source(outputs, corpus=dataset, is_join=True)
        with join_answers(cases, answers) as both:
            return list(both), both.info.notes


@pytest.mark.parametrize("form", ["beir", "qrels"])
@pytest.mark.parametrize("name", ["x.run", "x.json"])
def test_a_judged_query_without_lines_retrieved_nothing(
    tmp_path: Path, form: str, name: str
) -> None:
    (tmp_path / "data").mkdir()
    dataset = dataset_of(tmp_path / "data", form)
    text = json.dumps({"q1": {"a": 1.5}}) if name == "x.json" else "q1 Q0 a 1 1.5 t\n"
    entries, notes = joined(dataset, written(tmp_path / name, text))
    assert [retrieved_ids(entry) for entry in entries] == [["a"], []]
    assert any(note.startswith("1 judged query (such as 'q2') has no lines") for note in notes)


@pytest.mark.parametrize("form", ["beir", "qrels"])
def test_a_ranking_of_other_queries_is_refused(tmp_path: Path, form: str) -> None:
    (tmp_path / "data").mkdir()
    dataset = dataset_of(tmp_path / "data", form)
    path = written(tmp_path / "x.run", "7 Q0 a 1 1.5 t\n")
    with pytest.raises(DataError, match=r"(?s)none of its 1 record.*id 'q1'.*id '7'"):
        joined(dataset, path)
    with pytest.raises(DataError, match=r"'7'.*judged queries \(such as 'q1'\)"):
        open_source(path, corpus=dataset)


def test_a_run_needs_judgements_or_queries(tmp_path: Path) -> None:
    path = written(tmp_path / "x.run", "1 Q0 a 1 2 t\n")
    with pytest.raises(ConfigError, match="--qrels FILE"):
        open_source(path)


def test_a_query_of_beir_does_not_retrieve_itself_unless_it_is_judged(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    dataset = dataset_of(tmp_path / "data", "beir")
    path = written(tmp_path / "x.run", "q1 Q0 q1 1 9 t\nq1 Q0 a 2 8 t\nq2 Q0 b 1 1 t\n")
    entries, notes = joined(dataset, path)
    assert [retrieved_ids(entry) for entry in entries] == [["a"], ["b"]]
    assert any("ignore_identical_ids" in note for note in notes)
    assert ranked_ids(path, corpus=dataset) == {"q1": ["a"], "q2": ["b"]}
    written(dataset / "qrels" / "test.tsv", "q1\tq1\t1\nq2\tb\t1\n")
    assert retrieved_ids(joined(dataset, path)[0][0]) == ["q1", "a"]


# --- ids alone


@pytest.mark.parametrize(
    "row",
    [
        {"retrieved_context_ids": ["b", "a"], "reference_context_ids": ["a"]},
        {"retrieved_ids": ["b", "a"], "relevant_ids": ["a"]},
    ],
)
def test_ids_alone_are_scored_by_metrics_of_ids_and_skipped_by_those_of_texts(
    tmp_path: Path, row: dict[str, Any]
) -> None:
    facts = {"reference_contexts": ["Relevant text."], "reference": "42", "response": "42 [1]"}
    path = lines(tmp_path / "x.jsonl", [{"query": "Why?", **row, **facts}])
    metrics = "MRR, recall@5, token_f1, numbers_supported, citation_attribution"
    with open_source(path) as source:
        report = evaluate(source, None, out=tmp_path / "run", metrics=metrics)
    assert [one.score for one in report.summaries] == [0.5, 1.0, 2 / 3, None, None]


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
    seed=st.randoms(use_true_random=False),
)
def test_files_are_scored_as_trec_eval_scores_them(run: Run, qrels: Judgements, seed: Any) -> None:
    if run.keys().isdisjoint(qrels):
        return  # refused
    rows = [
        f"{query} {seed.choice(['Q0', '0'])}\t{document}  {seed.randint(1, 9)} {score!r} tag"
        for query, scores in run.items()
        for document, score in scores.items()
    ]
    seed.shuffle(rows)
    judged = [f"{q} 0 {d} {grade}" for q, grades in qrels.items() for d, grade in grades.items()]
    with TemporaryDirectory() as folder:
        run_path = written(Path(folder, "x.run"), "\n".join(rows) + "\n")
        qrels_path = written(Path(folder, "judged.txt"), "\n".join(judged) + "\n")
        expected = of_trec_eval(run_path, qrels_path)
        with open_source(run_path, qrels=qrels_path) as source:
            entries = list(source)
    plan = Plan(parse_metrics(", ".join(MEASURES)))
    for entry in entries:
        cells = plan.score(
            [replace(trace(), case=entry.case, retrieval=entry.recorded["retrieve"])]
        )[0]
        for (name, measure), cell in zip(MEASURES.items(), cells, strict=True):
            if entry.id not in qrels:
                assert cell.status is Status.SKIPPED
            else:
                wanted = expected.get((entry.id, measure), 0.0)
                assert cell.value == pytest.approx(wanted, abs=1e-12), (entry.id, name)


def of_trec_eval(run: Path, qrels: Path) -> dict[tuple[str, str], float]:
    trec: Any = ir_measures  # untyped
    measures = [trec.parse_measure(name) for name in MEASURES.values()]
    judged = list(trec.read_trec_qrels(str(qrels)))
    # Its nDCG reads foreign memory for a grade below 0, which counts as none, and where a query has
    # no relevant document, which counts 0.
    measurable = {one.query_id for one in judged if one.relevance > 0}
    known = [one for one in judged if one.query_id in measurable and one.relevance >= 0]
    if not known:
        return {}
    evaluator = trec.pytrec_eval.evaluator(measures, known)
    found = evaluator.iter_calc(list(trec.read_trec_run(str(run))))
    return {(one.query_id, str(one.measure)): one.value for one in found}
