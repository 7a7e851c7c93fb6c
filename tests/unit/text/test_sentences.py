from hypothesis import given
from hypothesis import strategies as st

from ragbench.text.sentences import split_sentences, windows_of


def sentences(text: str) -> list[str]:
    return [text[start:end] for start, end in split_sentences(text)]


def test_sentences() -> None:
    for text, expected in (
        ("", []),
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ('"Why?" she asked. He left.', ['"Why?" she asked.', "He left."]),
        ("Dr. Smith met J. R. Jones. They spoke.", ["Dr. Smith met J. R. Jones.", "They spoke."]),
        ("The answer is no. Then No. 5 came.", ["The answer is no.", "Then No. 5 came."]),
        ("It costs 3.50 now. Pay.", ["It costs 3.50 now.", "Pay."]),
        ("He said e.g. Peter did. Yes.", ["He said e.g. Peter did.", "Yes."]),
        ("Known.[12] New.", ["Known.[12]", "New."]),
        ("Am 3. Oktober kam er. Gut.", ["Am 3. Oktober kam er.", "Gut."]),
        ("Es gibt z. B. Haus und Hof. Gut.", ["Es gibt z. B. Haus und Hof.", "Gut."]),
        ("He died in 1066. The end.", ["He died in 1066.", "The end."]),
        (
            "苹果是水果。香蕉也是！版本3.5好吗？好",
            ["苹果是水果。", "香蕉也是！", "版本3.5好吗？", "好"],
        ),
        ("他说：“是的。”我走了。", ["他说：“是的。”", "我走了。"]),
        ("Title\n\nText here", ["Title", "Text here"]),
        ("- first\n- second\n1. Third", ["- first", "- second", "1. Third"]),
        ("# Head\nBody", ["# Head", "Body"]),
        ("Short line\nAnother one", ["Short line", "Another one"]),
        ("a line that goes\non below", ["a line that goes\non below"]),
        ("One.\r\nTwo.\r\n", ["One.", "Two."]),
    ):
        assert sentences(text) == expected


def test_a_long_line_that_is_wrapped_before_a_name_stays_one_sentence() -> None:
    text = "This line is as long as lines are when an editor has wrapped them before\nPeter came."
    assert sentences(text) == [text]


@given(st.text(alphabet=st.sampled_from('ab A1.!?。\n"-#)] zB')) | st.text())
def test_spans_are_in_order_trimmed_and_leave_out_only_white_space(text: str) -> None:
    spans = split_sentences(text)
    end = 0
    for span in spans:
        assert end <= span.start < span.end
        assert text[end : span.start].strip() == ""
        assert text[span.start : span.end] == text[span.start : span.end].strip()
        end = span.end
    assert text[end:].strip() == ""


def test_neighbouring_windows_share_a_sentence() -> None:
    assert [tuple(one) for one in windows_of(" One. Two. ", characters=40)] == [(1, 10)]
    text = "One is here. Two is here. Three is here. Four is here."
    assert [text[slice(*one)] for one in windows_of(text, characters=30)] == [
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
