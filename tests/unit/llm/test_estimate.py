"""What calls will take, before any is made."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from ragbench.llm.estimate import Estimator, most_prompt_tokens
from ragbench.text.token_counter import APPROXIMATE
from tests.unit.llm.builders import asked, endpoint


class Words:
    """A token a word: numbers that a hand can check."""

    name = "words"
    approximate = True

    def count(self, text: str) -> int:
        return len(text.split())


def test_calls_tokens_and_a_price_range() -> None:
    estimator = Estimator(endpoint(), Words())
    estimator.add(asked("one two three"), answer_tokens=(10, 100), purpose="a")
    estimator.add(asked("one two"), answer_tokens=(10, 10_000), purpose="b")
    estimator.add(asked("one two"), answer_tokens=(10, 10_000), purpose="b")  # asked once
    estimator.guess("b", calls=2, prompt_tokens=50, answer_tokens=(1, 2))
    found = estimator.estimate()
    first, second = found.lines
    assert (first.purpose, first.calls, first.prompt_tokens) == ("a", 1, 3 + 4)
    assert first.cost == (Decimal("0.000027"), Decimal("0.000207"))  # 7 + 2 x 10, 7 + 2 x 100
    assert (second.calls, second.guessed, second.prompt_tokens) == (3, 2, 6 + 100)
    assert second.answer_tokens == (12, 4096 + 4)  # no answer is longer than max_tokens
    assert (found.calls, found.cached, found.prompt_tokens) == (4, 0, 113)
    assert found.cost == (Decimal("0.000157"), Decimal("0.008513"))
    assert (found.counter, found.approximate, found.price_origin) == ("words", True, "settings")


@given(st.lists(st.text(), min_size=1, max_size=4))
def test_no_prompt_has_more_tokens_than_its_bound(texts: list[str]) -> None:
    """What a cap on cost rests on, against the vocabularies at hand."""
    payload = {"model": "m", "messages": [{"role": "user", "content": text} for text in texts]}
    bound = most_prompt_tokens(payload)
    assert bound >= sum(len(text.encode("utf-8", "replace")) for text in texts)
    assert bound >= sum(APPROXIMATE.count(text) + 4 for text in texts)
