from __future__ import annotations

import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from ragbench.ledger.fingerprint import digest, fingerprint


@given(st.lists(st.binary(max_size=4), max_size=4), st.lists(st.binary(max_size=4), max_size=4))
def test_where_parts_end_matters(one: list[bytes], other: list[bytes]) -> None:
    assert (digest(one) == digest(other)) == (one == other)


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.integers(0, 9)))
def test_the_order_of_keys_does_not_matter(value: dict[str, int]) -> None:
    assert fingerprint(value) == fingerprint(dict(reversed(value.items())))


def test_a_set_has_the_same_fingerprint_in_every_process() -> None:
    script = (
        "from ragbench.ledger.fingerprint import fingerprint\n"
        "print(fingerprint({'words': {str(n) for n in range(50)}, 'kind': object()}))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
