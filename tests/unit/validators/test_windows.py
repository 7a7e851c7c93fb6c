from hypothesis import given
from hypothesis import strategies as st

from ragbench.text.sentences import windows_of


def test_a_text_that_fits_is_one_window() -> None:
    assert [tuple(one) for one in windows_of(" One. Two. ", characters=40)] == [(1, 10)]


def test_neighbouring_windows_share_a_sentence() -> None:
    text = "One is here. Two is here. Three is here. Four is here."
    found = [text[slice(*one)] for one in windows_of(text, characters=30)]
    assert found == [
        "One is here. Two is here.",
        "Two is here. Three is here.",
        "Three is here. Four is here.",
    ]


@given(st.text(st.sampled_from("ab. \n。é"), max_size=300), st.integers(5, 80))
def test_windows_hold_every_word_and_are_never_too_long(text: str, characters: int) -> None:
    found = windows_of(text, characters=characters)
    held = {at for one in found for at in range(one.start, one.end)}
    assert all(at in held for at, letter in enumerate(text) if not letter.isspace())
    assert all(one.end - one.start <= characters for one in found)
