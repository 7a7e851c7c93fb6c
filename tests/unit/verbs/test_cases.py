"""Cases of a run as a dataset: what the run knew of them comes back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench import Case, RetrievalResult, evaluate, open_source, report_of
from ragbench.core.trace import Entry
from ragbench.errors import ConfigError
from ragbench.io.entries import EntrySource, SourceInfo
from ragbench.io.recorded import recorded_outcome
from ragbench.verbs.cases import select_cases, write_dataset
from tests.unit.io.test_written import cases as any_case


def answered(cases: list[Case]) -> EntrySource:
    """The cases with a retrieval that is recorded, so that no system is asked."""
    retrieved = recorded_outcome(RetrievalResult(["A text."], context_ids=["a"]))
    entries = [Entry(case=case, recorded={"retrieve": retrieved}) for case in cases]
    info = SourceInfo(path="here", form="jsonl", mapping={}, recorded={"retrieve": len(entries)})
    return EntrySource(info=info, read=lambda: iter(entries))


def test_a_selected_case_keeps_that_it_needs_all_its_gold(tmp_path: Path) -> None:
    needing_all = Case(
        id="q1",
        query="Who owns the cafe and the bar?",
        reference_contexts=("Ann owns the cafe.", "Ann owns the bar."),
        metadata={"needs": "all"},
    )
    evaluate(answered([needing_all]), None, out=tmp_path / "run", metrics=["recall@5"])
    _, selected = select_cases(report_of(tmp_path / "run"), limit=None)

    write_dataset(tmp_path / "run", selected, tmp_path / "regress")

    with open_source(tmp_path / "regress") as source:
        [case] = [entry.case for entry in source]
    assert case.needs_all
    assert case.metadata["missing_labels"] == ["reference"]


@settings(max_examples=2, deadline=None)
@given(st.lists(any_case, min_size=1, max_size=4, unique_by=lambda case: case.id))
def test_nothing_is_lost_from_a_run_to_a_dataset(
    tmp_path_factory: pytest.TempPathFactory, cases: list[Case]
) -> None:
    run = tmp_path_factory.mktemp("cases") / "run"
    evaluate(answered(cases), None, out=run, metrics=["recall@5"])
    _, rows = select_cases(report_of(run), limit=None)
    folder = run.parent / "regress"

    missing_labels = write_dataset(run, rows, folder)

    with open_source(folder) as source:
        written_cases = {entry.case.id: entry.case for entry in source}
    for case in cases:
        written_case = written_cases[case.id]
        metadata = dict(written_case.metadata)
        if "missing_labels" not in case.metadata:
            metadata.pop("missing_labels", None)
        assert replace(written_case, metadata=metadata) == case
    assert set(missing_labels) <= {"reference", "reference_context_ids"}
    lines = (folder / "provenance.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    assert {json.loads(line)["id"] for line in lines} == written_cases.keys()

    with pytest.raises(ConfigError, match="is there already"):
        write_dataset(run, rows, folder)
