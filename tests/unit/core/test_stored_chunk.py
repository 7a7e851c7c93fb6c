"""A chunk of what a store kept is the chunk that its constructor makes."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ragbench import Chunk
from ragbench.core.chunk import stored_chunk

OPTIONAL = st.fixed_dictionaries(
    {"chunk_id": st.text(), "text": st.text()},
    optional={
        "document_id": st.none() | st.text(),
        "start": st.none() | st.integers(),
        "end": st.none() | st.integers(),
        "metadata": st.dictionaries(st.text(), st.integers(), min_size=1),
    },
)


@given(OPTIONAL, st.none() | st.floats(allow_nan=False))
def test_it_equals_the_chunk_of_the_constructor(
    values: dict[str, Any], score: float | None
) -> None:
    made = stored_chunk(values, score)
    assert made == Chunk(id=values.pop("chunk_id"), **values, score=score)
    assert pickle.loads(pickle.dumps(made)) == made
    assert dataclasses.replace(made, text="other").text == "other"
