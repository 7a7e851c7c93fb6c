"""A stored run, handed to prepare for export."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ragbench.core.biography import POST_RETRIEVE
from ragbench.core.outcome import Cell
from ragbench.core.record import replace
from ragbench.core.result import RetrievalResult
from ragbench.core.trace import RunCase, Trace
from ragbench.io.export import EXPORTS, Exported, Scores, export
from ragbench.ledger.folder import RunFolder, path_of, read_manifest
from ragbench.verbs.report import open_traces

_SUFFIXES = {"ragas": ".ragas.jsonl", "hf": ".hf", "trec": ".run", "labels": ".labels.jsonl"}


def export_run(run: str | Path, to: str, out: str | Path | None = None) -> Exported:
    """Writes a stored run in another tool's format.

    Args:
        run: the run's folder.
        to: a format's name; see `ragbench.io.export`.
        out: the file or folder to write; by default ``samples`` in the run's folder, with the
            format's usual suffix.

    Raises:
        RunMismatchError: there is no run in the folder.
        ConfigError: no such format.
        InputError: the path cannot be written, or a value has no place in the format.
        MissingExtraError: a package that the format needs is not installed.
    """
    run, out = path_of(run), None if out is None else path_of(out)
    EXPORTS.load(to)  # an unknown name is refused before the run is read
    manifest = read_manifest(RunFolder(path=run).manifest)
    names = tuple(metric.name for metric in manifest.metrics)
    latest: dict[str, dict[str, Cell]] = {}
    """The cells of the case that was read last: an export asks for those of one case at a time."""

    def traces() -> Iterator[Trace]:
        for traced in open_traces(run):
            cells = zip(names, traced.cells, strict=True)
            latest.clear()
            latest[traced.case.id] = {name: cell for name, cell in cells if cell is not None}
            yield _as_ranked(traced) if to == "trec" else traced.trace

    target = out or run / f"samples{_SUFFIXES.get(to, f'.{to}')}"
    return export(to, traces(), target, scores=Scores(metrics=names, cells=latest))


def _as_ranked(traced: RunCase) -> Trace:
    """A case with its chunks named as rank metrics count them, for tools that know ids alone.

    A chunk that was recognised as a relevant document has that document's id, and what has no place
    of its own, such as a further chunk of a document, is left out: over the run and its qrels these
    tools find the figures that the report has.
    """
    trace = traced.trace
    result = trace.context.value
    matched = traced.matches.get("retrieve" if trace.post_retrieval is None else POST_RETRIEVE)
    ids = None if result is None else result.context_ids
    if result is None or ids is None or matched is None or not matched.is_by_id:
        return trace
    named = {match.rank: matched.golds[match.gold] for match in reversed(matched.matches)}
    kept = [rank for rank in range(1, len(ids) + 1) if rank not in matched.repeated]
    ranked = RetrievalResult(
        [result.contexts[rank - 1] for rank in kept],
        context_ids=[named.get(rank, ids[rank - 1]) for rank in kept],
        scores=None if result.scores is None else [result.scores[rank - 1] for rank in kept],
    )
    if trace.post_retrieval is None:
        return replace(trace, retrieval=replace(trace.retrieval, value=ranked))
    return replace(trace, post_retrieval=replace(trace.post_retrieval, value=ranked))
