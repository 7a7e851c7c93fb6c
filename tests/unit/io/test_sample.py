from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragbench import prepare, to_dataset
from ragbench.core.trace import SampleRow, Trace, sample_row
from ragbench.io.ragas import to_sample
from tests.unit.io.traces import ALL, BARE, FULL, as_lists


def test_prepare_gives_a_row_for_every_trace_one_at_a_time() -> None:
    taken: list[str] = []

    def watched() -> Iterator[Trace]:
        for trace in ALL:
            taken.append(trace.case.id)
            yield trace

    rows = prepare(watched())
    assert next(rows) == sample_row(FULL)
    assert taken == ["full"]
    assert [row.user_input for row in rows] == [trace.case.query for trace in ALL[1:]]


def test_preparing_and_exporting_text_formats_imports_no_heavy_package(tmp_path: Path) -> None:
    code = """
import sys
from ragbench.io.export import export
from ragbench.io.ragas import prepare
from tests.unit.io.traces import FULL
list(prepare([FULL]))
for name in ("ragas", "jsonl", "trec", "csv"):
    export(name, [FULL], sys.argv[1] + "/out." + name)
heavy = {"ragas", "numpy", "pandas", "pyarrow", "datasets"} & sys.modules.keys()
sys.exit(f"imported {heavy}" if heavy else 0)
"""
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], cwd=root, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.extra("ragas")
@pytest.mark.extra("ragas")
def test_the_row_has_exactly_ragas_fields_in_ragas_order() -> None:
    sample = to_sample(SampleRow())
    assert list(type(sample).model_fields) == list(SampleRow().as_mapping())


@pytest.mark.extra("ragas")
@pytest.mark.parametrize("trace", ALL, ids=lambda trace: trace.case.id)
def test_a_sample_holds_what_the_row_holds(trace: Trace) -> None:
    row = sample_row(trace)
    assert to_sample(row).model_dump() == as_lists(row)


@pytest.mark.extra("ragas")
def test_a_dataset_holds_the_rows_in_order() -> None:
    dataset = to_dataset(prepare([BARE, FULL]))
    assert dataset.samples == [to_sample(sample_row(BARE)), to_sample(sample_row(FULL))]
    assert len(to_dataset([])) == 0
