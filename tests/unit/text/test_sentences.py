"""Where sentences end, and the windows of sentences that a long text is read in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.text.sentences import split_sentences, windows_of


def sentences(text: str) -> list[str]:
    return [text[start:end] for start, end in split_sentences(text)]


def windows(text: str, *, characters: int) -> list[str]:
    return [text[start:end] for start, end in windows_of(text, characters=characters)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ('"Why?" she asked. He left.', ['"Why?" she asked.', "He left."]),
        ("Known.[12] New.", ["Known.[12]", "New."]),
        ("He died in 1066. The end.", ["He died in 1066.", "The end."]),
        ("One.\r\nTwo.\r\n", ["One.", "Two."]),
    ],
)
def test_a_sentence_ends_at_its_mark(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Dr. Smith met J. R. Jones. They spoke.", ["Dr. Smith met J. R. Jones.", "They spoke."]),
        ("The answer is no. Then No. 5 came.", ["The answer is no.", "Then No. 5 came."]),
        ("It costs 3.50 now. Pay.", ["It costs 3.50 now.", "Pay."]),
        ("He said e.g. Peter did. Yes.", ["He said e.g. Peter did.", "Yes."]),
        ("Am 3. Oktober kam er. Gut.", ["Am 3. Oktober kam er.", "Gut."]),
        ("Es gibt z. B. Haus und Hof. Gut.", ["Es gibt z. B. Haus und Hof.", "Gut."]),
    ],
)
def test_a_point_of_an_abbreviation_or_a_number_ends_no_sentence(
    text: str, expected: list[str]
) -> None:
    assert sentences(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "苹果是水果。香蕉也是！版本3.5好吗？好",
            ["苹果是水果。", "香蕉也是！", "版本3.5好吗？", "好"],
        ),
        ("他说：“是的。”我走了。", ["他说：“是的。”", "我走了。"]),
    ],
)
def test_marks_of_chinese_need_no_space(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Title\n\nText here", ["Title", "Text here"]),
        ("- first\n- second\n1. Third", ["- first", "- second", "1. Third"]),
        ("# Head\nBody", ["# Head", "Body"]),
        ("Short line\nAnother one", ["Short line", "Another one"]),
    ],
    ids=["a title", "a list", "a heading", "short lines"],
)
def test_a_line_that_is_no_prose_is_a_sentence(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "a line that goes\non below",
        "This line is as long as lines are when an editor has wrapped them before\nPeter came.",
    ],
    ids=["before a small letter", "a long line before a name"],
)
def test_a_wrapped_line_stays_one_sentence(text: str) -> None:
    assert sentences(text) == [text]


@given(st.text(alphabet=st.sampled_from('ab A1.!?。\n"-#)] zB')) | st.text())
def test_spans_are_in_order_trimmed_and_leave_out_only_white_space(text: str) -> None:
    spans = split_sentences(text)

    end = 0
    for span in spans:
        assert end <= span.start < span.end
        assert text[end : span.start].strip() == ""
        sentence = text[span.start : span.end]
        assert sentence == sentence.strip()
        end = span.end
    assert text[end:].strip() == ""


def test_a_short_text_is_one_window_without_the_white_space_around_it() -> None:
    assert windows(" One. Two. ", characters=40) == ["One. Two."]


def test_neighbouring_windows_share_a_sentence() -> None:
    text = "One is here. Two is here. Three is here. Four is here."

    assert windows(text, characters=30) == [
        "One is here. Two is here.",
        "Two is here. Three is here.",
        "Three is here. Four is here.",
    ]


TEXTS = st.text(st.sampled_from("ab. \n。é"), max_size=300)


@given(TEXTS, st.integers(5, 80))
def test_windows_hold_every_letter(text: str, characters: int) -> None:
    covered: set[int] = set()
    for start, end in windows_of(text, characters=characters):
        covered.update(range(start, end))

    letters = {position for position, letter in enumerate(text) if not letter.isspace()}
    assert letters <= covered


@given(TEXTS, st.integers(5, 80))
def test_no_window_is_too_long(text: str, characters: int) -> None:
    lengths = [len(window) for window in windows(text, characters=characters)]

    assert max(lengths, default=0) <= characters
