"""RAGAS samples: the retrieved contexts of each, with their ids where there are some.

Source: ragas ``SingleTurnSample``; early files say ``question`` and ``contexts``.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragbench.data.dumps.form import DumpForm, Hits, is_list, is_object

__all__ = ["FORM"]


def _unwrap(value: object) -> Sequence[Hits] | None:
    if not is_object(value):
        return None
    inner = value.get("eval_sample")
    sample = inner if is_object(inner) else value
    if "user_input" not in sample and not {"question", "contexts"} <= sample.keys():
        return None
    contexts = sample.get("retrieved_contexts", sample.get("contexts"))
    if contexts is None and "retrieved_contexts" in sample:
        contexts = list[object]()
    if not is_list(contexts) or any(is_object(item) for item in contexts[:1]):
        return None
    ids = sample.get("retrieved_context_ids")
    if not is_list(ids) or len(ids) != len(contexts):
        return [[{"text": text} for text in contexts]]
    return [[{"id": id, "text": text} for id, text in zip(ids, contexts, strict=True)]]


FORM = DumpForm(
    name="ragas",
    summary="RAGAS datasets: user_input with retrieved_contexts; also question with contexts.",
    example='{"user_input": "...", "retrieved_contexts": ["..."], "retrieved_context_ids": ["a"]}',
    unwrap=_unwrap,
    is_hit=lambda _: False,
)
