import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.validation.locate_quote import locate_quote


@pytest.mark.parametrize(
    ("quote", "text", "found"),
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
)
def test_a_quote_is_found_in_its_own_form(quote: str, text: str, found: str) -> None:
    span = locate_quote(quote, text)
    assert span is not None
    assert text[span.start : span.end] == found


@pytest.mark.parametrize("quote", ["founded in 1996", "founded 1995", "", "...", '" "', "?"])
def test_what_does_not_stand_there_is_not_found(quote: str) -> None:
    assert locate_quote(quote, "It was founded in 1995. x") is None


@settings(deadline=None)
@given(st.text(max_size=60), st.data())
def test_every_slice_of_a_text_is_found_in_it(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    quote = text[start:end]
    # A slice may begin in the middle of a letter with marks: that is another letter.
    if end < len(text) and unicodedata.combining(text[end]):
        return
    if quote and unicodedata.combining(quote[0]):
        return
    span = locate_quote(quote, text)
    if sum(letter.isalnum() for letter in unicodedata.normalize("NFKD", quote)) >= 2:
        assert span is not None
        assert 0 <= span.start < span.end <= len(text)
