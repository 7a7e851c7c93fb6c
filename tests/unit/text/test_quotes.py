"""Where a quote stands in a text, whatever the spelling of its letters, spaces and marks."""

import unicodedata

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ragbench.text.quotes import find_quote, locate_quote, says_enough


@pytest.mark.parametrize(
    ("quote", "text", "passage"),
    [
        ("founded in 1995", "It was founded in 1995.", "founded in 1995"),
        ("founded in 1995.", "It was  founded\n in\u00a01995!", "founded\n in\u00a01995"),
        ("the firm's - own", "So the firm’s\u2009–\u2009own rule", "the firm’s\u2009–\u2009own"),
        ("Café Zürich", "im Cafe\u0301 Zu\u0308rich heute", "Cafe\u0301 Zu\u0308rich"),
        ("final offer", "the \ufb01nal o\u00adffer stands", "\ufb01nal o\u00adffer"),
        ("THE FIRM", "the firm won", "the firm"),
        ("ＡＢＣ１２", "code abc12 here", "abc12"),
        ("straße", "in der Strasse", "Strasse"),
        ("한국", "남 한국 어", "한국"),
        ("2023年12月", "于2023年12月31日", "2023年12月"),
    ],
    ids=[
        "as it is",
        "white space",
        "quotes and dashes",
        "accents apart",
        "a ligature and a soft hyphen",
        "capitals",
        "full width",
        "sharp s",
        "Korean",
        "Chinese",
    ],
)
def test_a_quote_is_found_in_the_spelling_of_the_text(quote: str, text: str, passage: str) -> None:
    span = locate_quote(quote, text)

    assert span is not None
    assert text[span.start : span.end] == passage


@pytest.mark.parametrize(
    "quote",
    ["founded in 1996", "founded 1995", "founded in 199", "995", "", "...", '" "', "?"],
)
def test_a_quote_that_does_not_stand_in_a_text_is_not_found(quote: str) -> None:
    assert locate_quote(quote, "It was founded in 1995. x") is None


def compared_letters(text: str) -> list[str]:
    """Letters that are left out of a comparison, such as a soft hyphen, part no number."""
    left_out = ("Cf", "Cc", "Mn")
    plain = unicodedata.normalize("NFKD", text)
    return [letter for letter in plain if unicodedata.category(letter) not in left_out]


def has_digit_at_an_end(text: str) -> bool:
    letters = compared_letters(text)
    return letters != [] and (letters[0].isdigit() or letters[-1].isdigit())


@settings(deadline=None)
@given(st.text(max_size=60), st.data())
def test_every_slice_of_a_text_is_found_in_it(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    before, quote, after = text[:start], text[start:end], text[end:]
    # A slice may begin in the middle of a letter with marks: that is another letter.
    assume(not any(map(unicodedata.combining, quote[:1] + after[:1])))
    # Nor may it begin or end in the middle of a number.
    assume(not (has_digit_at_an_end(before) and has_digit_at_an_end(quote)))
    assume(not (has_digit_at_an_end(quote) and has_digit_at_an_end(after)))

    span = locate_quote(quote, text)

    letters = [letter for letter in unicodedata.normalize("NFKD", quote) if letter.isalnum()]
    # One letter alone is no quote.
    if len(letters) >= 2:
        assert span is not None
        assert 0 <= span.start < span.end <= len(text)


TEXTS = ["Cows eat.", "Bees  fly and sing in the queen's hive; fine weather"]


@pytest.mark.parametrize(
    ("quote", "passage"),
    [
        ("Bees fly", "Bees  fly"),
        ('"bees\nfly."', "Bees  fly"),
        ("bees ... sing", "Bees  fly and sing"),
        ("bees [...] sing … weather", "Bees  fly and sing in the queen's hive; fine weather"),
        ("… the queen’s hive …", "the queen's hive"),
        # A ligature.
        ("\ufb01ne weather", "fine weather"),
    ],
)
def test_a_quote_is_found_among_texts_also_where_words_are_left_out(
    quote: str, passage: str
) -> None:
    place = find_quote(quote, TEXTS)

    assert place is not None
    assert place.text == 1
    assert TEXTS[1][place.span.start : place.span.end] == passage


@pytest.mark.parametrize("quote", ["sing ... bees", "cows ... fly", "Bees swim", "", "...", "[…]"])
def test_parts_out_of_order_or_out_of_two_texts_are_no_quote(quote: str) -> None:
    assert find_quote(quote, TEXTS) is None


@pytest.mark.parametrize(
    ("quote", "text", "is_enough"),
    [
        pytest.param("The", "The fee is 27 euros.", False, id="an article"),
        pytest.param("27", "The fee is 27 euros.", False, id="a number"),
        pytest.param("27 euros", "The fee is 27 euros.", True, id="two words"),
        pytest.param("27", "27", True, id="there is no more to quote"),
        pytest.param("the fee", "The fee is 27 euros.", False, id="a word and an article"),
        pytest.param("年", "于2023年12月31日成立", False, id="a sign"),
        pytest.param("公司成立", "公司成立于1995年", True, id="several signs"),
    ],
)
def test_a_single_word_proves_nothing(quote: str, text: str, is_enough: bool) -> None:
    assert says_enough(quote, text) is is_enough
