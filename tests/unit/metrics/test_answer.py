from __future__ import annotations

import hashlib
import math
import string
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import ragbench
from ragbench.core.outcome import Cell
from ragbench.metrics.answer import holds_answer, is_telling
from ragbench.metrics.correct import AnswerBeside, answer_correct, probability, sure_verdict
from ragbench.metrics.registry import parse_metrics
from ragbench.text.tokens import multilingual_tokens, squad_tokens
from tests.unit.metrics.builders import answered, cell, cells, generated, trace, value


@pytest.mark.parametrize(
    ("metric", "response", "reference", "expected"),
    [
        ("exact_match", "The Eiffel Tower!", "eiffel tower", 1.0),
        ("exact_match", "Eiffel", "eiffel tower", 0.0),
        ("exact_match(normalise=none)", "Eiffel tower", "eiffel tower", 0.0),
        ("exact_match", "北京。", "北京", 1.0),
        # shared: big, cat; precision 2/3, recall 2/4
        ("token_f1", "the big fat cat", "a big black sleepy cat", 4 / 7),
        # a repeated token counts as often as both have it: 2 of 3, 2 of 2
        ("token_f1", "x x x", "x x", 4 / 5),
        ("token_f1", "", "cat", 0.0),
        ("token_f1", "the", "a", 1.0),
        # characters in Chinese: 北京 of 北京市 and 在北京: 2 of 3, 2 of 3
        ("token_f1", "北京市", "在北京", 2 / 3),
        ("token_f1", "2008年", "2008 年。", 1.0),
        ("token_f1", "„Straße“", "straße", 1.0),
        ("token_f1(normalise=squad)", "„Straße“", "straße", 0.0),
        ("edit_similarity", "kitten", "sitting", 4 / 7),
        ("edit_similarity", "", "abc", 0.0),
    ],
)
def test_values_computed_by_hand(
    metric: str, response: str, reference: str, expected: float
) -> None:
    # An empty response is a declined answer unless the system says that it is none.
    said = generated(response, abstained=False)
    one = trace(references=[reference], generation=said)
    assert value(metric, one) == pytest.approx(expected, abs=1e-12)
    several = trace(references=[reference, response], generation=said)
    assert not response or value(metric, several) == 1.0  # the best reference counts


@given(st.text(st.sampled_from(string.printable), max_size=60))
def test_for_ascii_texts_both_normalisations_are_one(text: str) -> None:
    assert multilingual_tokens(text) == squad_tokens(text)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Das Gerät „X-1“ kostet 5 €.", ("das", "gerät", "x1", "kostet", "5", "€")),
        ("上海2号线，开通了。", ("上", "海", "2", "号", "线", "开", "通", "了")),
        ("東京タワー", ("東", "京", "タ", "ワ", "ー")),
        ("서울은 수도이다", ("서울은", "수도이다")),
        ("กา", ("ก", "า")),
        ("ＡＢＣ１", ("abc1",)),
        ("the — a", ()),
    ],
)
def test_tokens_of_several_scripts(text: str, tokens: tuple[str, ...]) -> None:
    assert multilingual_tokens(text) == tokens


# --- by optional packages


@pytest.mark.extra("text")
@pytest.mark.parametrize(
    ("metric", "response", "reference", "expected"),
    [
        # Lin 2004, 3: killed and kill have one stem. Else police, the, gunman: 3 of 4 and 3 of 4.
        ("rouge1", "police killed the gunman", "police kill the gunman", 1.0),
        ("rouge1(stemmer=false)", "police killed the gunman", "police kill the gunman", 3 / 4),
        ("rouge1", "The cat sat on the mat.", "A cat sat on a mat.", 2 / 3),
        # police killed: 1 of 2 pairs and 1 of 3
        ("rouge2", "police killed gunman", "police killed a man", 2 / 5),
        ("rouge2", "one two", "two one", 0.0),
        # longest common subsequence: police killed, or police gunman
        ("rougeL", "gunman police killed", "police killed gunman", 2 / 3),
        ("rougeL", "state-of-the-art", "state of the art", 1.0),
        ("bleu", "the cat sat on the mat", "the cat sat on the mat", 1.0),
        ("bleu", "dog", "cat", 0.0),
        # precisions 5/6 3/5 1/4 and, smoothed, 1/(2*3); no brevity penalty
        (
            "bleu",
            "the cat lay on the mat",
            "the cat sat on the mat",
            (5 / 6 * 3 / 5 * 1 / 4 * 1 / 6) ** 0.25,
        ),
        ("bleu", "北京是中国的首都", "北京是中国的首都", 1.0),
        ("bleu", "東京タワー", "東京タワー", 1.0),
        ("chrf", "cat", "cat", 1.0),
        ("chrf", "dog", "cat", 0.0),
        # The tokeniser 13a, unlike the Chinese one, takes &amp; for &.
        ("bleu", "salt &amp; a lot of pepper", "salt & a lot of pepper", 1.0),
    ],
)
def test_values_of_rouge_bleu_and_chrf(
    metric: str, response: str, reference: str, expected: float
) -> None:
    assert value(metric, answered(response, reference)) == pytest.approx(expected, abs=1e-9)
    assert value(metric, answered(response, "else", reference, "?")) >= expected - 1e-9
    assert value(metric, answered(response, response)) <= 1.0


@pytest.mark.extra("text")
@pytest.mark.parametrize(
    ("response", "reference"),
    [
        ("北京是首都", "北京是中国的首都"),  # not one word, as without its own tokens
        ("สวัสดีครับ", "สวัสดีค่ะ"),
        ("東京タワーは高い", "東京タワーは低い"),
        ("red fox", "red fox"),  # fewer than four tokens
    ],
)
def test_bleu_counts_parts_of_texts_in_any_script(response: str, reference: str) -> None:
    assert 0.2 < value("bleu", answered(response, reference)) <= 1.0


# --- over all cases, as SQuAD 2.0's script


def test_declining_does_not_raise_the_end_to_end_score() -> None:
    answered_one = trace(references=["5"], generation=generated("5"))
    declined = [trace(references=["5"], generation=generated("I don't know.")) for _ in range(99)]
    rows = cells("token_f1, end_to_end_f1", answered_one, *declined)
    assert [row[0].value for row in rows].count(None) == 99
    assert math.fsum(row[1].value or 0.0 for row in rows) / 100 == 0.01


@pytest.mark.parametrize(
    ("answerable", "said", "expected"),
    [
        (True, "I don't know.", 0.0),
        (True, "5", None),
        (None, "I don't know.", None),
        (False, "I don't know.", 1.0),
        (False, "5", 0.0),
    ],
)
def test_end_to_end_without_a_reference(
    answerable: bool | None, said: str, expected: float | None
) -> None:
    found = cell("end_to_end_em", trace(answerable=answerable, generation=generated(said)))
    skipped = Cell.skipped("no reference answer")
    assert found == (skipped if expected is None else Cell.measured(expected))


# --- whether a chunk holds an answer, by its words alone

LONG = "alpha bravo charlie delta echo foxtrot golf hotel india juliet kappa lima mike"


@pytest.mark.parametrize(
    ("chunk", "answer", "expected"),
    [
        ("it opens at 9 daily", "9", True),
        ("it opens at 90 daily", "9", False),
        ("it opens at 19 daily", "9", False),
        ("the fox", "fox.", True),
        ("firefox and a fox", "fox", True),
        ("firefox", "fox", False),
        ("it opened on may 29, 2020, at noon", "may 29 2020", True),
        ("it opened on 2020-05-30", "may 29 2020", False),
        ("it opened in may 2020", "may 29 2020", False),
        ("it lasts 24 months", "two years", True),
        ("it lasts 25 months", "two years", False),
        ("fox and more", "fox", True),
        # Of 13 distinct tokens, at least 0.7: ten of them do, nine do not.
        (" ".join(reversed(LONG.split()[:10])), LONG, True),
        (" ".join(reversed(LONG.split()[:9])), LONG, False),
        # Of up to 12, none but the whole will do.
        ("lima " + " ".join(LONG.split()[:11]), " ".join(LONG.split()[:12]), False),
    ],
)
def test_when_a_chunk_holds_an_answer(chunk: str, answer: str, expected: bool) -> None:
    assert holds_answer(chunk, answer) is expected


def test_which_answers_say_something() -> None:
    assert list(filter(is_telling, ("four", "abc", "both", "none.", "5 kg"))) == ["four", "5 kg"]


WORDS = "the red car of the mayor stands behind the old mill and waits for its driver since noon"
LONGER = f"{WORDS}; a second one, green and dusty, was sold to a neighbour, who paints houses."


@pytest.mark.parametrize(
    ("query", "response", "reference"),
    [
        ("", "110 €", "€110"),
        ("", "It costs 110 euros.", "110 EUR"),
        ("", "5.000 €", "€5,000"),
        ("", "about 1.5 million", "1,500,000"),
        ("", "£50m", "50 million gbp"),
        ("", "2", "Two"),
        ("", "24 months", "two years"),
        ("", "ten calendar days", "10 days"),
        ("", "2024-03-12", "12 March 2024"),
        ("", "On March 12th, 2024.", "12 March 2024"),
        ("", "am 12. März 2024", "12 March 2024"),
        ("", "十五天", "15天"),
        ("", "百分之八十", "80%"),
        ("Who built it?", "It was built by Ann Lee in 1990, near the river.", "Ann Lee"),
        ("May I smoke?", "Yes, on the roof.", "yes"),
        ("", "It is [1, 3].", "[1, 3]"),
        ("May I smoke?", "Yes, on the roof.", "true"),
        ("May I?", "No, nowhere.", "False"),
        ("", "Ann Lee is not the mayor but the chair. It was Ann Lee.", "Ann Lee"),
    ],
)
def test_right_however_it_is_written(query: str, response: str, reference: str) -> None:
    assert sure_verdict(answer_correct(query, response, [reference])) is True


CONTRADICTED: list[tuple[str, str, str, str]] = [
    ("", "Yes, half", "No, half", "yes for no, or no for yes"),
    ("", "3 weeks", "3 days", "another amount"),
    ("", "ten working days", "10 days", "another amount"),
    (
        "",
        "15 weeks full salary, then 60 percent",
        "12 weeks full salary, then 60 percent",
        "another amount",
    ),
    ("", "Tuesday 13:00", "Tuesday 10:00", "another amount"),
    ("", "It costs 120 euros", "110 EUR", "another amount"),
    ("", "13 March 2024", "12 March 2024", "another date"),
    ("When?", "In 1951, say most.", "1954 or so", "another amount"),
    ("Who?", "Jane Smith", "John Smith", "another person of that family name"),
    ("Who leads it?", "The CEO is not Ann Lee.", "Ann Lee", "the answer is denied"),
    ("How cold is it?", "20 °C", "-20 °C", "another amount"),
    ("When is it due?", "after the fair", "before the fair", "the opposite"),
]


@pytest.mark.parametrize(("query", "response", "reference", "what"), CONTRADICTED)
def test_what_says_otherwise_is_wrong(query: str, response: str, reference: str, what: str) -> None:
    assert AnswerBeside(query, response, reference).contradiction() == what
    assert sure_verdict(answer_correct(query, response, [reference])) is False
    # What it cites is no part of it; of several references the best one counts.
    citing = f"{response} [12]\nSources: 110 EUR"
    assert sure_verdict(answer_correct(query, citing, [reference])) is False
    assert sure_verdict(answer_correct(query, response, [reference, response])) is True


@pytest.mark.parametrize(
    ("query", "response", "reference"),
    [
        ("Give a year of his reign.", "1141", "1135-1154"),
        ("Who?", "J. Smith", "John Smith"),
        ("Who?", "President Smith", "John Smith"),
        ("Is it not Ann Lee?", "It is not Ann Lee.", "Ann Lee"),
        ("Before or after the fair?", "after it, not before", "before the fair"),
        ("", "It is 4 days, or 3 days.", "3 days"),
        # words that are numbers or units in another language only
        ("When did it shake?", "In 1990 an earthquake struck.", "1990"),
        ("How many wins?", "He once won 3, due to rain.", "3 wins"),
        ("How many came?", "In 2008 two friends came.", "2"),
        ("In 1951?", "It was in 1951.", "not in 1951"),
        ("", f"{WORDS} 5", f"{LONGER} 6"),  # beside a long reference no word is proof
    ],
)
def test_what_is_no_contradiction(query: str, response: str, reference: str) -> None:
    assert AnswerBeside(query, response, reference).contradiction() is None


def test_words_of_a_long_reference_are_rarely_sure() -> None:
    some = "The mayor owns two, a red car and a green one; nobody knows where either of them is."
    assert sure_verdict(answer_correct("", some, [LONGER])) is None
    assert sure_verdict(answer_correct("", LONGER, [LONGER])) is True
    values = [probability("", text, LONGER) for text in ("nothing of it", some, LONGER)]
    assert values == sorted(values) and values[0] < 0.3


def test_right_and_wrong_words_are_probable_and_improbable() -> None:
    assert value("answer_correct", answered("27 days", "27 days")) > 0.95
    assert value("answer_correct", answered("26 days", "27 days")) < 0.1


def test_words_that_are_missing_make_no_answer_wrong() -> None:
    """Another wording may say the same: only what is compared, or a refusal, is wrong."""
    assert value("answer_correct", answered("blue", "27 days")) == 0.25
    assert value("answer_correct", answered("blue", "in the old mill")) == 0.22


def test_other_weights_are_another_version() -> None:
    """Stored scores hold as long as the version does: who changes these files raises it."""
    files = ("metrics/correct.toml", "text/amounts.toml", "text/units.toml")
    texts = (Path(ragbench.__file__).parent.joinpath(name).read_bytes() for name in files)
    digest = hashlib.sha256(b"".join(text.replace(b"\r\n", b"\n") for text in texts))
    (metric,) = parse_metrics("answer_correct")
    assert (metric.definition.version, digest.hexdigest()[:12]) == (15, "a3760440c2d0")


WORD = st.sampled_from(
    [
        "no",
        "12",
        "May",
        "3rd",
        "€",
        "5,000",
        "Ann",
        "Lee",
        "万",
        "二",
        "-",
        ".",
        "m",
        "9" * 310,
        "trillion",
        "፩",
    ]
)
ANY_TEXTS = st.text(max_size=40) | st.lists(WORD).map(" ".join)


@example("How many?", "27 days", "9" * 400 + " trillion trillion")
@example("How many?", "a" * 100_000, "a" * 100_000 + " x")
@given(ANY_TEXTS, ANY_TEXTS, ANY_TEXTS)
def test_any_texts_give_a_probability(query: str, response: str, reference: str) -> None:
    assert 0 <= probability(query, response, reference) <= 1
    if reference.strip(" .-€"):
        assert AnswerBeside(query, reference, reference).contradiction() is None
