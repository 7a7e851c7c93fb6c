import unicodedata

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ragbench.text.quotes import find_quote, locate_quote, says_enough


def test_a_quote_is_found_in_its_own_form() -> None:
    for quote, text, found in (
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
    ):
        span = locate_quote(quote, text)
        assert span is not None
        assert text[span.start : span.end] == found


def test_what_does_not_stand_there_is_not_found() -> None:
    for quote in ("founded in 1996", "founded 1995", "founded in 199", "995", "", "...", '" "'):
        assert locate_quote(quote, "It was founded in 1995. x") is None
    assert locate_quote("?", "It was founded in 1995. x") is None


def ends_in_digit(text: str) -> bool:
    """Letters that are left out of a comparison, such as a soft hyphen, part no number."""
    plain = unicodedata.normalize("NFKD", text)
    kept = [letter for letter in plain if unicodedata.category(letter) not in ("Cf", "Cc", "Mn")]
    return any(letter.isdigit() for letter in (kept[:1] + kept[-1:]))


@settings(deadline=None)
@given(st.text(max_size=60), st.data())
def test_every_slice_of_a_text_is_found_in_it(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    quote = text[start:end]
    # A slice may begin in the middle of a letter with marks: that is another letter.
    assume(not any(map(unicodedata.combining, quote[:1] + text[end : end + 1])))
    # Nor may it begin or end in the middle of a number.
    assume(not (ends_in_digit(text[:start]) and ends_in_digit(quote[::-1])))
    assume(not (ends_in_digit(quote) and ends_in_digit(text[end:][::-1])))
    span = locate_quote(quote, text)
    if sum(letter.isalnum() for letter in unicodedata.normalize("NFKD", quote)) >= 2:
        assert span is not None
        assert 0 <= span.start < span.end <= len(text)


TEXTS = ["Cows eat.", "Bees  fly and sing in the queen's hive; fine weather"]


def test_a_quote_is_found_among_texts_also_where_words_are_left_out() -> None:
    for quote, found in (
        ("Bees fly", "Bees  fly"),
        ('"bees\nfly."', "Bees  fly"),
        ("bees ... sing", "Bees  fly and sing"),
        ("bees [...] sing … weather", "Bees  fly and sing in the queen's hive; fine weather"),
        ("… the queen’s hive …", "the queen's hive"),
        ("ﬁne weather", "fine weather"),  # a ligature
    ):
        place = find_quote(quote, TEXTS)
        assert place is not None and place.text == 1
        assert TEXTS[1][slice(*place.span)] == found


def test_parts_out_of_order_or_out_of_two_texts_are_no_quote() -> None:
    for quote in ("sing ... bees", "cows ... fly", "Bees swim", "", "...", "[…]"):
        assert find_quote(quote, TEXTS) is None


def test_a_single_word_proves_nothing() -> None:
    for quote, text, enough in (
        ("The", "The fee is 27 euros.", False),
        ("27", "The fee is 27 euros.", False),
        ("27 euros", "The fee is 27 euros.", True),
        ("27", "27", True),  # there is no more to quote
        ("the fee", "The fee is 27 euros.", False),  # an article says nothing
        ("年", "于2023年12月31日成立", False),
        ("公司成立", "公司成立于1995年", True),
    ):
        assert says_enough(quote, text) is enough
