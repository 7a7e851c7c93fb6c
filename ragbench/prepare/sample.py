"""Sample rows as RAGAS' own objects. Only what is named ``to_...`` imports ragas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ragbench.extras_ragas import import_ragas
from ragbench.runs.sample_row import SampleRow, sample_row
from ragbench.runs.trace import Trace

if TYPE_CHECKING:
    from ragas import EvaluationDataset, SingleTurnSample

__all__ = ["prepare", "to_dataset", "to_sample"]


def prepare(traces: Iterable[Trace]) -> Iterator[SampleRow]:
    """A row for every trace, in order, one at a time.

    Raises:
        SampleRowError: a result holds something that is no string, naming field and case.
    """
    return map(sample_row, traces)


def to_sample(row: SampleRow) -> SingleTurnSample:
    """A row as ragas' ``SingleTurnSample``.

    Raises:
        MissingExtraError: ragas is not installed.
    """
    sample: SingleTurnSample = import_ragas().SingleTurnSample(**row.as_mapping())
    return sample


def to_dataset(rows: Iterable[SampleRow]) -> EvaluationDataset:
    """Rows as ragas' ``EvaluationDataset``, in order.

    ragas takes the first sample's known fields for those of the whole dataset, and an empty
    dataset can neither be printed nor evaluated.

    Raises:
        MissingExtraError: ragas is not installed.
    """
    ragas = import_ragas()
    # A list per field is made by ragas' validation; nothing is copied before that.
    samples = [ragas.SingleTurnSample(**row.as_mapping()) for row in rows]
    dataset: EvaluationDataset = ragas.EvaluationDataset(samples=samples)
    return dataset
