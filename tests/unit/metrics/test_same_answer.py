from __future__ import annotations

import pytest

from ragbench.metrics.answer import answer_is_right, holds_answer, is_telling

LONG = "one two three four five six seven eight nine ten eleven twelve thirteen"


@pytest.mark.parametrize(
    ("chunk", "answer", "expected"),
    [
        ("it opens at 9 daily", "9", True),
        ("it opens at 90 daily", "9", False),
        ("it opens at 19 daily", "9", False),
        ("the fox", "fox.", True),
        ("firefox and a fox", "fox", True),
        ("firefox", "fox", False),
        ("fox and more", "fox", True),
        # Of 13 distinct tokens, at least 0.7: ten of them do, nine do not.
        ("ten nine eight seven six five four three two one", LONG, True),
        ("nine eight seven six five four three two one", LONG, False),
        # Of up to 12, none but the whole will do.
        ("twelve " + " ".join(LONG.split()[:11]), " ".join(LONG.split()[:12]), False),
    ],
)
def test_when_a_chunk_holds_an_answer(chunk: str, answer: str, expected: bool) -> None:
    assert holds_answer(chunk, answer) is expected


@pytest.mark.parametrize(
    ("response", "reference", "expected"),
    [
        # Half of the tokens of both: F1 of 2/4, and of 2/5.
        ("red cat", "red fox", True),
        ("red cat sat", "red fox", False),
        ("the answer is red fox now", "red fox", True),
        ("red 5", "red 6", False),
        ("red 6 or 5", "red 6", True),
        ("", "", True),
        ("", "red", False),
        ("yes", "yes", True),
        ("no", "yes", False),
        ("it depends", "yes", None),
        ("it depends", LONG, False),
        # Of a long reference, from 0.15 of its tokens on: two of 13.
        ("one two and so on", LONG, None),
        ("one and so on", LONG, False),
    ],
)
def test_when_an_answer_is_right(response: str, reference: str, expected: bool | None) -> None:
    assert answer_is_right(response, reference) is expected


def test_which_answers_say_something() -> None:
    assert [is_telling(one) for one in ("four", "abc", "both", "none.", "5 kg")] == [
        True, False, False, False, True,
    ]  # fmt: skip


def named(prefix: str, count: int) -> list[str]:
    """Words that only this prefix has, without numbers in them."""
    return [f"{prefix}{chr(97 + number // 26)}{chr(97 + number % 26)}" for number in range(count)]


@pytest.mark.parametrize(
    ("of_the_reference", "shared", "others", "expected"),
    [
        (7, 4, 5, True),  # F1 is 8 / 16
        (7, 4, 6, False),  # 8 / 17
        (20, 14, 30, True),  # of a long reference 7 in 10 are there
        (20, 13, 30, None),
        (20, 3, 7, None),  # 3 in 20: a paraphrase might
        (20, 2, 8, False),
        (13, 3, 20, None),  # more than 12 words are long
        (12, 3, 20, False),
    ],
)
def test_shares_of_words_decide_at_their_thresholds(
    of_the_reference: int, shared: int, others: int, expected: bool | None
) -> None:
    reference = named("ref", of_the_reference)
    response = [*reference[:shared], *named("other", others)]
    assert answer_is_right(" ".join(response), " ".join(reference)) is expected


@pytest.mark.parametrize(("there", "expected"), [(14, True), (13, False)])
def test_a_long_answer_is_held_from_seven_in_ten_of_its_words(there: int, expected: bool) -> None:
    answer = named("word", 20)
    chunk = [*answer[:there], *named("other", 50)]
    assert holds_answer(" ".join(reversed(chunk)), " ".join(answer)) is expected


@pytest.mark.parametrize(
    ("response", "reference", "expected"),
    [
        ("well yes", "yes", True),  # it is there, word for word
        ("it depends, no", "yes", None),  # only how an answer begins says yes or no
        ("no idea, yes", "no", True),
        ("no ceiling", "no limit", True),  # not a plain no: half of the words are the same
        ("something", "?!", False),
        ("?!", "something", False),
        ("?!", "...", True),  # neither says anything
    ],
)
def test_short_answers(response: str, reference: str, expected: bool | None) -> None:
    assert answer_is_right(response, reference) is expected
