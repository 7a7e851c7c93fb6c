"""RAGAS samples, prepared and written.

Three things about ragas 0.4.3 shape the file:

- It cannot say "failed": ``ExactMatch`` gives a missing response 0.0. Cases of which a stage
  failed are left out, and counted.
- It takes the first row's known fields for those of the whole file, and ``evaluate`` refuses a
  metric when one is missing there. The first of the rows that know most stands first; the others
  follow in the order of the run.
- It opens the file in the locale's encoding. Everything beyond ASCII is escaped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, BinaryIO

from ragbench.core.trace import RunCase, SampleRow, Trace, sample_row
from ragbench.io.atomic import written_whole
from ragbench.io.export import Exported, Scores, failed_stage
from ragbench.plugins import import_ragas

if TYPE_CHECKING:
    from ragas import EvaluationDataset


def prepare(traces: Iterable[Trace | RunCase]) -> Iterator[SampleRow]:
    """A row for every trace, or case of a run (`ragbench.open_traces`), in order."""
    return (sample_row(one.trace if isinstance(one, RunCase) else one) for one in traces)


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


def write(traces: Iterable[Trace], path: Path, *, scores: Scores) -> Exported:
    """RAGAS samples as JSONL that ragas' own ``EvaluationDataset.from_jsonl`` loads.

    One sample per line, all twelve fields on each, null where unknown.

    Scores have no place in a sample and are not written.
    """
    del scores
    tally = Exported(paths=(path,))
    with written_whole(path, make_folders=True) as file, TemporaryFile(dir=path.parent) as lines:
        first, fullest = _write_lines(traces, lines, tally)
        file.write(fullest)
        lines.seek(0)
        file.writelines(line for at, line in enumerate(lines) if at != first)
    return tally


def _write_lines(traces: Iterable[Trace], lines: BinaryIO, tally: Exported) -> tuple[int, bytes]:
    """Writes the lines in order; returns the first of the fullest, and its place."""
    most, fullest = 0, (-1, b"")
    for trace in traces:
        stage = failed_stage(trace)
        if stage is not None:
            tally.leave_out(f"{stage} failed")
            continue
        row = sample_row(trace).as_mapping()
        # `default` meets the sequences and mappings that are no list and no dict.
        text = json.dumps(row, default=_container, separators=(",", ":"))
        line = text.encode("ascii") + b"\n"
        lines.write(line)
        known = sum(value is not None for value in row.values())
        if known > most:
            most, fullest = known, (tally.written, line)
        tally.written += 1
    return fullest


def _container(value: Sequence[str] | Mapping[str, str]) -> object:
    return dict(value) if isinstance(value, Mapping) else list(value)
