"""Everything that is known, one case a line: inputs, results, statuses, failures, scores."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

from ragbench.data.atomic import written_whole
from ragbench.prepare.export.base import Exported, Scores, Tally
from ragbench.prepare.export.json_text import in_case, json_bytes
from ragbench.records.cells import Cell
from ragbench.runs.trace import Trace

__all__ = ["write"]


def write(traces: Iterable[Trace], path: Path, *, scores: Scores) -> Exported:
    """Writes one JSON object a line, in UTF-8.

    The case's fields stand at the top level under their own names, so that the file is also a
    case file. Beside them stand ``retrieval``, ``post_retrieval``, ``generation`` (each an
    outcome: status, value, reason, failure, seconds) and ``scores`` (metric to cell). Null means
    not known or not given, an empty list known to be none.

    Raises:
        InputError: the path cannot be written, or metadata holds something without a JSON form.
    """
    tally = Tally()
    with written_whole(path, make_folders=True) as file:
        for trace in traces:
            with in_case(trace.case.id):
                line = json_bytes(_record(trace, scores.of(trace.case.id)))
            file.write(line + b"\n")
            tally.written += 1
    return tally.exported(path)


def _record(trace: Trace, cells: Iterable[tuple[str, Cell | None]]) -> dict[str, Any]:
    case = trace.case
    return {
        **{field.name: getattr(case, field.name) for field in fields(case)},
        "retrieval": trace.retrieval,
        "post_retrieval": trace.post_retrieval,
        "generation": trace.generation,
        "scores": {metric: cell for metric, cell in cells if cell is not None},
    }
