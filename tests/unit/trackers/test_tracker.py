"""What every tracker is sent: names that it accepts, and no number for a score without a value."""

from pathlib import Path

import pytest

from ragbench.core.outcome import Cell, Failure
from ragbench.errors import RunMismatchError
from ragbench.trackers.receipt import Receipt
from ragbench.trackers.tracker import TrackedCase, case_values, figures_of, plain_names
from tests.behaviour.rags import NotingRAG, cases, run


def tracked_case(**cells: Cell) -> TrackedCase:
    return TrackedCase(
        id="c1",
        query="q",
        reference=None,
        answer="a",
        contexts=("text",),
        context_ids=None,
        cause="right",
        error=None,
        cells=cells,
        trace_id=None,
    )


@pytest.mark.parametrize(
    ("metric", "name"),
    [
        ("recall@5", "recall_at_5"),
        ("P(rel=2)@5", "P_rel_2_at_5"),
        ("ragas:faithfulness", "ragas_faithfulness"),
        ("my.py:score", "my_py_score"),
        ("answer-length", "answer_length"),
        ("5_words", "metric_5_words"),
        ("Maß", "Ma"),
        ("正", "metric"),
    ],
)
def test_a_metric_has_a_name_of_letters_and_digits(metric: str, name: str) -> None:
    assert plain_names([metric]) == {metric: name}


def test_metrics_whose_names_would_be_one_are_numbered() -> None:
    names = plain_names(["a:b", "a_b", "A.B", "a_b_2"])

    assert [*names.values()] == ["a_b", "a_b_2", "A_B_3", "a_b_2_2"]


def test_a_metric_without_a_value_has_counts_alone(tmp_path: Path) -> None:
    report = run(cases("lost"), NotingRAG(), tmp_path / "run", metrics="exact_match")

    figures = figures_of(report.summaries)

    assert figures == {
        "exact_match.measured": 0,
        "exact_match.abstained": 0,
        "exact_match.skipped": 0,
        "exact_match.failed": 1,
        "exact_match.unproved": 0,
    }


def test_a_score_without_a_value_has_its_status_and_no_number() -> None:
    failure = Failure(type="ValueError", message="no words", stage="generate")
    case = tracked_case(
        measured=Cell.measured(0.0),
        skipped=Cell.skipped("no reference"),
        abstained=Cell.abstained("declined"),
        failed=Cell.failed(failure),
    )

    values = case_values(case)

    assert case.values == {"measured": 0.0}
    assert case.unmeasured == {
        "skipped": "skipped: no reference",
        "abstained": "abstained: declined",
        "failed": "failed: generate: ValueError: no words",
    }
    assert values["skipped"] is None
    assert values["skipped status"] == "skipped"


# --- the receipt


def test_a_receipt_has_the_same_key_and_ids_at_the_next_export(tmp_path: Path) -> None:
    receipt = Receipt(tmp_path, "f1")
    receipt.keep("mlflow http://host", "run-1")

    next_receipt = Receipt(tmp_path, "f1")

    assert next_receipt.key == receipt.key
    assert next_receipt.id_at("mlflow http://host") == "run-1"
    assert next_receipt.derived_id("c1", "recall@5") == receipt.derived_id("c1", "recall@5")


def test_ids_differ_by_case_and_metric(tmp_path: Path) -> None:
    receipt = Receipt(tmp_path, "f1")

    ids = {
        receipt.derived_id("c1", "a"),
        receipt.derived_id("c1a", ""),
        receipt.derived_id("c1"),
    }

    assert len(ids) == 3


def test_another_run_in_the_same_folder_has_no_ids_yet(tmp_path: Path) -> None:
    receipt = Receipt(tmp_path, "f1")
    receipt.keep("mlflow http://host", "run-1")

    receipt_of_another_run = Receipt(tmp_path, "f2")

    assert receipt_of_another_run.key != receipt.key
    assert receipt_of_another_run.id_at("mlflow http://host") is None


@pytest.mark.parametrize(
    "text", ["", "[]", '{"key": 1}', '{"key": "x", "fingerprint": "f1"}', "\x00"]
)
def test_a_damaged_receipt_is_refused_with_its_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "trackers.json"
    path.write_text(text)

    with pytest.raises(RunMismatchError, match=r"trackers\.json: cannot be read: .*Delete it"):
        Receipt(tmp_path, "f1")
