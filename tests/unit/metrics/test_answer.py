"""Answers beside their references: exact and shared words, parts of texts, and correctness."""

from __future__ import annotations

import hashlib
import string
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import ragbench
from ragbench.core.outcome import Cell
from ragbench.metrics.answer import holds_answer, is_telling
from ragbench.metrics.correct import (
    AnswerBeside,
    answer_correct,
    probability,
    sure_verdict,
    verdict,
)
from ragbench.metrics.registry import parse_metrics
from ragbench.text.amounts import Agreement
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
    answer = generated(response, abstained=False)
    case = trace(references=[reference], generation=answer)

    assert value(metric, case) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    "metric",
    [
        "exact_match",
        "exact_match(normalise=none)",
        "token_f1",
        "token_f1(normalise=squad)",
        "edit_similarity",
    ],
)
def test_the_best_of_several_references_counts(metric: str) -> None:
    case = answered("Eiffel Tower", "Big Ben", "Eiffel Tower", "Tower")

    assert value(metric, case) == 1.0


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


@pytest.mark.extra("text")
@pytest.mark.parametrize("metric", ["rouge1", "rouge2", "rougeL", "bleu", "chrf"])
def test_further_references_lower_no_value(metric: str) -> None:
    response = "the cat lay on the mat"
    reference = "the cat sat on the mat"

    alone = value(metric, answered(response, reference))
    among_others = value(metric, answered(response, "else", reference, "?"))

    assert among_others >= alone - 1e-9


@pytest.mark.extra("text")
@pytest.mark.parametrize("metric", ["rouge1", "rouge2", "rougeL", "bleu", "chrf"])
@pytest.mark.parametrize(
    "text", ["the cat lay on the mat", "dog", "salt &amp; a lot of pepper", "北京是中国的首都"]
)
def test_no_value_is_above_one(metric: str, text: str) -> None:
    case = answered(text, text)

    # ROUGE reads no word in Chinese: such a reference is skipped.
    assert (cell(metric, case).value or 0.0) <= 1.0


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
    right = answered("5", "5")
    declined = answered("I don't know.", "5")
    traces = [right, *[declined] * 99]

    f1 = [row[0].value for row in cells("token_f1", *traces)]
    end_to_end = [row[0].value for row in cells("end_to_end_f1", *traces)]

    assert f1 == [1.0, *[None] * 99]  # the mean of one case would be 1
    assert end_to_end == [1.0, *[0.0] * 99]


@pytest.mark.parametrize(
    ("answerable", "response", "expected"),
    [
        (True, "I don't know.", Cell.measured(0.0)),
        (True, "5", Cell.skipped("no reference answer")),
        (None, "I don't know.", Cell.skipped("no reference answer")),
        (False, "I don't know.", Cell.measured(1.0)),
        (False, "5", Cell.measured(0.0)),
    ],
)
def test_end_to_end_without_a_reference(
    answerable: bool | None, response: str, expected: Cell
) -> None:
    case = trace(answerable=answerable, generation=generated(response))

    assert cell("end_to_end_em", case) == expected


# --- whether a chunk holds an answer, by its words alone

ALPHABET = "alpha bravo charlie delta echo foxtrot golf hotel india juliet kappa lima mike"
ELEVEN = "alpha bravo charlie delta echo foxtrot golf hotel india juliet kappa"


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
        ("juliet india hotel golf foxtrot echo delta charlie bravo alpha", ALPHABET, True),
        ("india hotel golf foxtrot echo delta charlie bravo alpha", ALPHABET, False),
        # Of up to 12, none but the whole will do.
        (f"lima {ELEVEN}", f"{ELEVEN} lima", False),
    ],
)
def test_when_a_chunk_holds_an_answer(chunk: str, answer: str, expected: bool) -> None:
    assert holds_answer(chunk, answer) is expected


@pytest.mark.parametrize("answer", ["four", "5 kg"])
def test_an_answer_that_says_something_is_telling(answer: str) -> None:
    assert is_telling(answer)


@pytest.mark.parametrize("answer", ["abc", "both", "none."])
def test_an_answer_that_is_too_short_or_stands_anywhere_is_not_telling(answer: str) -> None:
    assert not is_telling(answer)


# --- whether an answer is right

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


@pytest.mark.parametrize(("query", "response", "reference", "reason"), CONTRADICTED)
def test_what_says_otherwise_is_wrong(
    query: str, response: str, reference: str, reason: str
) -> None:
    assert verdict(query, response, [reference]).reason == reason
    assert sure_verdict(answer_correct(query, response, [reference])) is False


@pytest.mark.parametrize(("query", "response", "reference", "reason"), CONTRADICTED)
def test_what_an_answer_cites_is_no_part_of_it(
    query: str, response: str, reference: str, reason: str
) -> None:
    citing = f"{response} [12]\nSources: 110 EUR"

    assert sure_verdict(answer_correct(query, citing, [reference])) is False


@pytest.mark.parametrize(("query", "response", "reference", "reason"), CONTRADICTED)
def test_an_answer_is_right_that_is_one_of_several_references(
    query: str, response: str, reference: str, reason: str
) -> None:
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
    comparison = AnswerBeside(query, response, reference).comparison

    assert comparison.agreement is not Agreement.DIFFERENT


IN_OTHER_WORDS = "The mayor owns two, a red car and a green one; nobody knows where either is."


def test_other_words_of_a_long_reference_are_not_sure() -> None:
    assert sure_verdict(answer_correct("", IN_OTHER_WORDS, [LONGER])) is None


def test_the_same_words_of_a_long_reference_are_sure() -> None:
    assert sure_verdict(answer_correct("", LONGER, [LONGER])) is True


def test_the_more_an_answer_shares_with_a_long_reference_the_more_probable_it_is() -> None:
    nothing = probability("", "nothing of it", LONGER)
    other_words = probability("", IN_OTHER_WORDS, LONGER)
    same_words = probability("", LONGER, LONGER)

    assert nothing < 0.3
    assert nothing <= other_words <= same_words


def test_right_words_are_probable() -> None:
    assert value("answer_correct", answered("27 days", "27 days")) > 0.95


def test_wrong_words_are_improbable() -> None:
    assert value("answer_correct", answered("26 days", "27 days")) < 0.1


@pytest.mark.parametrize(("reference", "chance"), [("27 days", 0.25), ("in the old mill", 0.22)])
def test_words_that_are_missing_make_no_answer_wrong(reference: str, chance: float) -> None:
    """Another wording may say the same: only what is compared, or a refusal, is wrong."""
    assert value("answer_correct", answered("blue", reference)) == chance


def test_other_weights_are_another_version() -> None:
    """Stored scores hold as long as the version does: who changes these files raises it."""
    package = Path(ragbench.__file__).parent
    digest = hashlib.sha256()
    for name in ("metrics/correct.toml", "text/amounts.toml", "text/units.toml"):
        text = package.joinpath(name).read_bytes()
        digest.update(text.replace(b"\r\n", b"\n"))

    [metric] = parse_metrics("answer_correct")

    assert (metric.definition.version, digest.hexdigest()[:12]) == (16, "1b40cc84bedf")


LARGE_NUMBER = ["9" * 310, "trillion"]
ODD_WORDS = ["no", "12", "May", "3rd", "€", "5,000", "Ann", "Lee", "万", "二", "-", ".", "m", "፩"]
ANY_TEXTS = st.text(max_size=40) | st.lists(st.sampled_from(ODD_WORDS + LARGE_NUMBER)).map(" ".join)


@example("How many?", "27 days", "9" * 400 + " trillion trillion")
@example("How many?", "a" * 100_000, "a" * 100_000 + " x")
@given(ANY_TEXTS, ANY_TEXTS, ANY_TEXTS)
def test_any_texts_give_a_probability(query: str, response: str, reference: str) -> None:
    assert 0 <= probability(query, response, reference) <= 1


@given(ANY_TEXTS, ANY_TEXTS.filter(lambda reference: reference.strip(" .-€")))
def test_no_text_differs_from_itself(query: str, reference: str) -> None:
    comparison = AnswerBeside(query, reference, reference).comparison

    assert comparison.agreement is not Agreement.DIFFERENT
