"""Samples for RAGAS: as rows in memory, as its own dataset, and as a file (`ragbench export`).

Three properties of ragas 0.4.3 shape the file:

- It has no status "failed": ``ExactMatch`` scores a missing response as 0.0. So cases with a failed
  stage are skipped, and counted.
- It takes the fields of the first row that are not null for the fields of the whole file, and
  ``evaluate`` refuses a metric that needs another one. So the row with the most such fields is the
  first of the file; the others follow in the order of the run.
- It opens the file in the locale's encoding. So everything beyond ASCII is escaped.
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
    """A row for every trace, or case of a run (`ragbench.open_traces`), in order.

    A row has the fields of RAGAS' samples, so that RAGAS can evaluate what ragbench ran.
    """
    for trace in traces:
        if isinstance(trace, RunCase):
            trace = trace.trace
        yield sample_row(trace)


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

    One sample per line, all twelve fields on each, null where unknown. Scores have no place in a
    sample and are not written. The line with the most fields comes first, as ragas takes its fields
    for those of all: the lines wait in a temporary file until it is known.
    """
    del scores
    tally = Exported(paths=(path,))
    # Beside the target: the system's temporary folder may be too small for a large run.
    with written_whole(path, make_folders=True) as file, TemporaryFile(dir=path.parent) as lines:
        fullest_position, fullest_line = _write_lines(traces, lines, tally)
        file.write(fullest_line)
        lines.seek(0)
        # The position and not the text decides: equal lines are both kept.
        for position, line in enumerate(lines):
            if position != fullest_position:
                file.write(line)
    return tally


def _write_lines(traces: Iterable[Trace], lines: BinaryIO, tally: Exported) -> tuple[int, bytes]:
    """Writes a line for each case that no stage failed for, in order, and counts the others.

    ragas takes the first line's fields for those of all lines, so that the fullest one is noted.

    Args:
        lines: the file of the lines.
        tally: takes the counts.

    Returns:
        Position and text of the line with the most fields that are not null, the first of several;
        -1 and nothing where there is no line.
    """
    most_fields = 0
    fullest_position = -1
    fullest_line = b""
    for trace in traces:
        stage = failed_stage(trace)
        if stage is not None:
            tally.leave_out(f"{stage} failed")
            continue
        row = sample_row(trace).as_mapping()
        # `default` is called for sequences and mappings other than list and dict.
        text = json.dumps(row, default=_plain_container, separators=(",", ":"))
        line = text.encode("ascii") + b"\n"
        lines.write(line)
        fields = sum(value is not None for value in row.values())
        # Only more counts, so that of equal lines the first is taken.
        if fields > most_fields:
            most_fields = fields
            # The position of the line among those that are written: cases left out have none.
            fullest_position = tally.written
            fullest_line = line
        tally.written += 1
    return fullest_position, fullest_line


def _plain_container(value: Sequence[str] | Mapping[str, str]) -> object:
    """A mapping or sequence of a sample as the dict or list that JSON can be written of.

    `json.dumps` calls this for whatever it cannot write itself.
    """
    if isinstance(value, Mapping):
        return dict(value)
    return list(value)
