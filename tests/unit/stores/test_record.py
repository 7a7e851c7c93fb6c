"""A chunk as stores keep it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ragbench import Chunk
from ragbench.stores.record import chunk_digest, decode, encode

texts = st.text(st.characters(), max_size=20)  # lone surrogates and NUL included
ids = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)
numbers = st.floats(allow_nan=False, allow_infinity=False)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


@given(ids, texts, st.dictionaries(texts, json_values, max_size=3))
def test_a_chunk_comes_back_unchanged(id: str, text: str, metadata: dict[str, Any]) -> None:
    chunk = Chunk(id=id, text=text, document_id=text, start=0, end=len(text), metadata=metadata)
    stored = encode(chunk)
    assert repr(decode(stored.body)) == repr(chunk)
    assert stored.digest == chunk_digest(chunk) == encode(replace(chunk, score=0.5)).digest


def test_the_digest_sees_every_field() -> None:
    chunk = Chunk(id="a", text="b", document_id="c", start=0, end=1, metadata={"d": 1})
    changes: list[dict[str, Any]] = [
        {"id": "x"}, {"text": "x"}, {"document_id": None}, {"start": 1}, {"end": 2},
        {"metadata": {"d": 1.0}}, {"metadata": {"d": True}}, {"metadata": {}},
    ]  # fmt: skip
    digests = {chunk_digest(replace(chunk, **change)) for change in changes}
    assert len(digests | {chunk_digest(chunk)}) == len(changes) + 1
