"""What retrieved chunks are of what is relevant: computed once, kept in the journal, read back."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from ragbench.core.case import Case
from ragbench.core.matched import Match, Matched, MatchedBy
from ragbench.core.metric import Skip
from ragbench.core.trace import Trace
from ragbench.metrics.matching import Matching, golds_of, match
from ragbench.metrics.window import Compared


def matches_of(trace: Trace, matching: Matching) -> dict[str, Compared]:
    """The chunks of a case compared with the gold, by the stage that gave them.

    ``"retrieve"``, and ``"post_retrieve"`` where the run has that stage. Metrics of the retriever
    read the last of them.
    """
    outcomes = {"retrieve": trace.retrieval}
    if trace.post_retrieval is not None:
        outcomes["post_retrieve"] = trace.post_retrieval
    return {
        stage: None if outcome.value is None else match(trace.case, outcome.value, matching)
        for stage, outcome in outcomes.items()
    }


def encode_matched(matches: Mapping[str, Compared]) -> list[tuple[str, bytes]]:
    """Stage and stored form of each retrieval that could be compared."""
    return [
        (stage, orjson.dumps(_stored(one)))
        for stage, one in matches.items()
        if one is not None and not isinstance(one, Skip)
    ]


def decode_matched(case: Case, body: bytes) -> Matched:
    """The reverse of `encode_matched`, for one stage of a case."""
    stored = orjson.loads(body)
    golds, grades = golds_of(case, is_by_id=stored["by_id"])
    return Matched(
        golds=golds,
        grades=grades,
        is_by_id=stored["by_id"],
        chunks=stored["chunks"],
        matches=tuple(
            Match(rank=rank, gold=gold, by=MatchedBy(by)) for rank, gold, by, _ in stored["matches"]
        ),
        repeated=tuple(stored["repeated"]),
    )


def _stored(matched: Matched) -> dict[str, object]:
    """Each match as rank, position of the gold, how it was recognised, and the gold's id."""
    return {
        "by_id": matched.is_by_id,
        "chunks": matched.chunks,
        "matches": [
            (one.rank, one.gold, one.by, matched.golds[one.gold] if matched.is_by_id else None)
            for one in matched.matches
        ],
        "repeated": matched.repeated,
    }
