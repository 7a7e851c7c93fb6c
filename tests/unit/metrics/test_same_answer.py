from __future__ import annotations

import pytest

from ragbench.metrics.same_answer import answer_is_right, holds_answer, is_telling

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
