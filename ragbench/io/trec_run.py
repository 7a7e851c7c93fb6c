"""A TREC run file with its qrels, written for trec_eval, ir_measures, ranx and their like.

A run's line is ``query Q0 document rank score tag``, a qrels' line ``query 0 document grade``.
Formats: https://github.com/usnistgov/trec_eval
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import isfinite
from pathlib import Path
from urllib.parse import quote, unquote

from ragbench.core.trace import Trace, sample_row
from ragbench.errors import InputError
from ragbench.io.atomic import written_whole
from ragbench.io.export import Exported, Scores, Tally, failed_stage

TAG = "ragbench"
"""What ragbench calls its runs."""
# White space and control characters end a column or a line; a byte order mark may be eaten at the
# start of a file; a per cent sign counts only where it would be read as an escape.
_UNSAFE = re.compile(r"[\s\x00-\x1f\x7f-\x9f\ufeff]|%(?=[0-9A-Fa-f]{2})")


def write(traces: Iterable[Trace], path: Path, *, scores: Scores) -> Exported:
    """A TREC run file with its qrels, for trec_eval, ir_measures, ranx and their like.

    Writes the run to ``path`` and the qrels next to it, as the same name with ``.qrels``.

    The order is the RAG's, rank 1 first. Tools sort by score and break ties by id, so the RAG's
    scores are written only where they fall strictly, in single precision, in which trec_eval
    reads them; where they do not, or there are none, the scores count down to 1. Of an id that was
    retrieved twice, the first stands.

    A case whose retrieval failed or was skipped stands in neither file: in the qrels it would
    count as 0. A case for which nothing was found stands in the qrels alone, and does count so.

    Metric scores have no place in these files and are not written.
    """
    del scores
    qrels = path.with_suffix(".qrels")
    if qrels == path:
        raise InputError(f"'{path}' is where the qrels go; name the run file, such as out.run")
    tally = Tally()
    with (
        written_whole(path, make_folders=True) as run_file,
        written_whole(qrels, make_folders=True) as qrels_file,
    ):
        for trace in traces:
            reason = _left_out(trace)
            if reason is not None:
                tally.leave_out(reason)
                continue
            run_file.writelines(_run_lines(trace))
            qrels_file.writelines(_qrels_lines(trace))
            tally.written += 1
    return tally.exported(path, qrels)


def escape_id(id_: str) -> str:
    """An id as one TREC column: white space and control characters as ``%XX`` of their UTF-8.

    A per cent sign becomes ``%25`` only where two hexadecimal digits follow it. Ids without any
    of these stay as they are; `unescape_id` gives back every id.
    """
    if not id_:
        raise ValueError("is empty")
    try:
        id_.encode()
    except UnicodeEncodeError:
        raise ValueError("holds a lone surrogate") from None
    return _UNSAFE.sub(lambda match: quote(match[0], safe=""), id_)


def unescape_id(text: str) -> str:
    """The id that `escape_id` made the text of."""
    return unquote(text)


def _left_out(trace: Trace) -> str | None:
    stage = failed_stage(trace)
    if stage is not None and stage != "generation":
        return f"{stage} failed"
    return "retrieval skipped" if trace.context.value is None else None


def _run_lines(trace: Trace) -> list[bytes]:
    case = trace.case.id
    row = sample_row(trace)
    ids = row.retrieved_context_ids
    if ids is None:
        if row.retrieved_contexts:
            raise InputError(
                f"case '{case}': its contexts have no ids, and a TREC run is made of ids; return "
                "context_ids from retrieve_with_metadata, or export to another format"
            )
        return []
    query = _column(case, case)
    retrieved = trace.context.value
    scores = None if retrieved is None else retrieved.scores
    first = {id_: position for position, id_ in reversed([*enumerate(ids)])}
    places = sorted(first.values())
    given = _falling([float(scores[place]) for place in places]) if scores else None
    return [
        f"{query} Q0 {_column(ids[place], case)} {rank} "
        f"{len(places) - rank + 1 if given is None else repr(given[rank - 1])} {TAG}\n".encode()
        for rank, place in enumerate(places, 1)
    ]


def _qrels_lines(trace: Trace) -> list[bytes]:
    case = trace.case.id
    query = _column(case, case)
    judgements = trace.case.judgements or {}
    return [
        f"{query} 0 {_column(id_, case)} {grade}\n".encode() for id_, grade in judgements.items()
    ]


def _falling(scores: Sequence[float]) -> Sequence[float] | None:
    """The scores when each is finite and below the one before, also in single precision."""
    single = array("f", scores)
    finite = all(isfinite(score) for score in single)
    return scores if finite and all(high > low for high, low in pairwise(single)) else None


def _column(id_: str, case: str) -> str:
    try:
        return escape_id(id_)
    except ValueError as error:
        raise InputError(f"case '{case}': the id {id_!r} {error}; TREC has no such id") from None
