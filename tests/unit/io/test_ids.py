"""Ids made from content, and the register that keeps them unique."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ragbench.io.ids import IdRegister, derived_id


def test_an_id_depends_on_the_words_alone() -> None:
    assert derived_id("q", "Who is  Ada?") == derived_id("q", " who is\nada?")
    assert derived_id("q", "Who is Ada?") != derived_id("q", "Who is Ada")
    # Pinned: a changed id would orphan the results of stored runs.
    assert derived_id("q", "Who is Ada?") == "q-51bc88203a"
    assert len(derived_id("p", "x", digits=12)) == 14


@given(st.lists(st.text(max_size=3), max_size=60))
def test_the_register_agrees_with_a_dictionary(ids: list[str]) -> None:
    register = IdRegister()
    expected: dict[str, int] = {}
    for line, identifier in enumerate(ids, start=1):
        assert register.add(identifier, line) == expected.get(identifier)
        expected.setdefault(identifier, line)


def test_the_register_grows() -> None:
    register = IdRegister()
    assert all(register.add(f"id-{number}", number) is None for number in range(1, 5001))
    assert all(register.add(f"id-{number}", 9) == number for number in range(1, 5001))


def test_derived_ids_count_on_past_those_in_use() -> None:
    register = IdRegister()
    register.add("q-1-2", 1)
    assert [register.add_derived("q-1", line) for line in (2, 3, 4)] == ["q-1", "q-1-3", "q-1-4"]
