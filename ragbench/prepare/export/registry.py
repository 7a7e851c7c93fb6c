"""The formats by name, and the one call that writes any of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ragbench.prepare.export.base import Export, Exported, Scores
from ragbench.registry import Registry
from ragbench.runs.trace import Trace

__all__ = ["EXPORTS", "export"]

EXPORTS = Registry(
    kind="exports",
    builtin={
        "ragas": "ragbench.prepare.export.ragas:write",
        "jsonl": "ragbench.prepare.export.jsonl:write",
        "trec": "ragbench.prepare.export.trec:write",
        "csv": "ragbench.prepare.export.csv_table:write",
        "parquet": "ragbench.prepare.export.parquet:write",
        "hf": "ragbench.prepare.export.hf:write",
    },
)
"""Formats that a run can be written in. Others come by the entry-point group
``ragbench.exports``; each is a function of the shape `Export`."""


def export(
    name: str, traces: Iterable[Trace], path: Path | str, *, scores: Scores | None = None
) -> Exported:
    """Writes a run in a format.

    Example:
        ``export("ragas", traces, "samples.jsonl").written`` is the number of samples in the file.

    Args:
        name: a format's name, such as ``"ragas"``.
        traces: the cases and what each stage gave for them; read once, in order.
        path: the file or folder to write. What is there is replaced, in one step at the end.
        scores: what the metrics gave, for the formats that have a place for it.

    Raises:
        ConfigError: no such format; the message lists those that exist.
        InputError: the path cannot be written, or a value has no place in the format.
        MissingExtraError: a package that the format needs is not installed.
    """
    write: Export = EXPORTS.load(name)
    return write(traces, Path(path), scores=Scores() if scores is None else scores)
