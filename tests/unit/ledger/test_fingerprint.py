from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ragbench.ledger.fingerprint import digest, fingerprint


@given(st.lists(st.binary(max_size=4), max_size=4), st.lists(st.binary(max_size=4), max_size=4))
def test_where_parts_end_matters(one: list[bytes], other: list[bytes]) -> None:
    assert (digest(one) == digest(other)) == (one == other)


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.integers(0, 9)))
def test_the_order_of_keys_does_not_matter(value: dict[str, int]) -> None:
    assert fingerprint(value) == fingerprint(dict(reversed(value.items())))
