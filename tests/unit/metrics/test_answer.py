from __future__ import annotations

import re
import string
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.text.tokens import multilingual_tokens, squad_tokens
from tests.unit.metrics.builders import answered, generated, trace, value


@pytest.mark.parametrize(
    ("metric", "response", "reference", "expected"),
    [
        ("exact_match", "The Eiffel Tower!", "eiffel tower", 1.0),
        ("exact_match", "Eiffel", "eiffel tower", 0.0),
        ("exact_match(normalise=none)", "Eiffel tower", "eiffel tower", 0.0),
        ("exact_match(normalise=none)", "eiffel tower", "eiffel tower", 1.0),
        ("exact_match", "北京。", "北京", 1.0),
        # shared: big, cat; precision 2/3, recall 2/4
        ("token_f1", "the big fat cat", "a big black sleepy cat", 4 / 7),
        ("token_f1", "dog", "cat", 0.0),
        ("token_f1", "cat", "The cat.", 1.0),
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
        ("edit_similarity", "same", "same", 1.0),
        ("edit_similarity", "abc", "xyz", 0.0),
        ("edit_similarity", "", "abc", 0.0),
    ],
)
def test_values_computed_by_hand(
    metric: str, response: str, reference: str, expected: float
) -> None:
    # An empty response is a declined answer unless the system says that it is none.
    one = trace(references=[reference], generation=generated(response, abstained=False))
    assert value(metric, one) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("metric", ["exact_match", "token_f1", "edit_similarity"])
def test_the_best_reference_counts(metric: str) -> None:
    assert value(metric, answered("Lyon", "Paris", "Lyon")) == 1.0
    assert value(metric, answered("Lyon", "Paris", "Rome")) < 1.0


# SQuAD's official evaluation, written down again from its definition.


def squad_normalised(text: str) -> str:
    lowered = "".join(c for c in text.lower() if c not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", lowered).split())


def squad_f1(answer: str, reference: str) -> float:
    given, wanted = squad_normalised(answer).split(), squad_normalised(reference).split()
    if not given or not wanted:
        return float(given == wanted)
    shared = sum((Counter(given) & Counter(wanted)).values())
    if shared == 0:
        return 0.0
    precision, recall = shared / len(given), shared / len(wanted)
    return 2 * precision * recall / (precision + recall)


SENTENCES = st.lists(
    st.sampled_from(
        ["a", "The", "an", "cat", "Cat.", "naïve", "it's", "–", "“x”", "北京", "$5", "a-b"]
    ),
    max_size=8,
).map(" ".join)


@given(SENTENCES, SENTENCES)
def test_squad_normalisation_is_squads(answer: str, reference: str) -> None:
    assert squad_tokens(answer) == tuple(squad_normalised(answer).split())
    if answer:
        one = answered(f"{answer} zebra", reference)
        assert value("token_f1(normalise=squad)", one) == squad_f1(f"{answer} zebra", reference)
        assert value("exact_match(normalise=squad)", one) == float(
            squad_normalised(f"{answer} zebra") == squad_normalised(reference)
        )


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
        # shared words: police, gunman, the -> without articles 2 of 3 and 2 of 3
        ("rouge(variant=rouge1)", "police killed the gunman", "police kill the gunman", 2 / 3),
        ("rouge(variant=rouge2)", "police killed gunman", "police killed a man", 1 / 2),
        ("rouge(variant=rouge2)", "one two", "two one", 0.0),
        # longest common subsequence: police gunman
        ("rouge", "gunman police killed", "police killed gunman", 2 / 3),
        ("rouge", "北京是首都", "首都是北京", 2 / 5),
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
    ],
)
def test_values_of_rouge_bleu_and_chrf(
    metric: str, response: str, reference: str, expected: float
) -> None:
    assert value(metric, answered(response, reference)) == pytest.approx(expected, abs=1e-9)


@pytest.mark.extra("text")
@pytest.mark.parametrize("metric", ["rouge", "bleu", "chrf"])
def test_rouge_bleu_and_chrf_take_several_references(metric: str) -> None:
    one = answered("four words are here", "something else entirely", "four words are here")
    assert value(metric, one) == pytest.approx(1.0)
