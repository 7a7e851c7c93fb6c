"""Language models as rerankers: what they are asked, and answers as they really come."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.core.chat import Message
from ragbench.errors import LLMReplyError
from ragbench.post.rerankers.llm import LlmListwiseReranker, LlmPointwiseReranker
from tests.unit.post.builders import Scripted, chunk, order, query, scored


class SortingChat:
    """Orders passages by the number in their text, the highest first."""

    name = "sorting"

    def __init__(self) -> None:
        self.windows: list[int] = []

    def complete(self, messages: Sequence[Message]) -> str:
        shown = re.findall(r"\[(\d+)\]\nvalue (\d+)", messages[-1].content)
        self.windows.append(len(shown))
        best = sorted(shown, key=lambda pair: -int(pair[1]))
        return f'{{"order": [{", ".join(number for number, _ in best)}]}}'


@pytest.mark.parametrize(
    ("numbers", "found"),
    [
        ("[2, 3, 1]", "bca"),
        ("[3, 1]", "cab"),
        ("[2, 2, 9, 0, 1]", "bac"),
    ],
)
def test_an_order_is_repaired(numbers: str, found: str) -> None:
    chat = Scripted(f'Sure! <{{"order": {numbers}}}>')
    reranker = LlmListwiseReranker(chat=chat)
    assert "".join(order(reranker, query(), [chunk(id) for id in "abc"])) == found


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("I cannot\nsay", "holds no JSON"),
        ('{"order": [7]}', "named none of 3 passages"),
    ],
)
def test_an_answer_without_an_order_is_an_error(answer: str, message: str) -> None:
    with pytest.raises(LLMReplyError, match=message):
        LlmListwiseReranker(chat=Scripted(answer)).score(query(), [chunk(id) for id in "abc"])


def test_listwise_asks_once_for_few_and_not_about_one() -> None:
    chat = Scripted('{"order": [2, 1]}')
    chunks = [chunk("a", "red"), chunk("b", "blue")]
    reranker = LlmListwiseReranker(chat=chat)
    assert list(reranker.score(query("which colour?"), chunks)) == [0.5, 1.0]
    assert "Question: which colour?\n\n[1]\nred\n\n[2]\nblue\n" in chat.heard[0]
    assert list(reranker.score(query(), chunks[:1])) == [1.0]


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 25), st.integers(2, 8), st.integers(1, 8))
def test_every_candidate_is_shown_and_the_best_is_carried_to_the_front(
    size: int, window: int, step: int
) -> None:
    chat = SortingChat()
    chunks = [chunk(str(value), f"value {value}") for value in range(size)]
    reranker = LlmListwiseReranker(chat=chat, window=window, step=min(step, window - 1))
    ordered = order(reranker, query(), chunks)
    assert ordered[0] == str(size - 1)
    assert all(shown <= window for shown in chat.windows)
    assert sorted(ordered, key=int) == [one.id for one in chunks]


def test_long_chunks_are_cut_and_that_is_noted() -> None:
    chunks = [chunk("a", "xxxxyyyy"), chunk("b", "zz")]
    chat = Scripted('{"order": [1]}', '{"grade": 1}', '{"grade": 1}')
    for made in (LlmListwiseReranker, LlmPointwiseReranker):
        reranker = made(chat=chat, max_characters=4)
        assert scored(reranker, query(), chunks).notes == (
            "1 of 2 chunks were cut to 4 characters",
        )
    assert "[1]\nxxxx\n" in chat.heard[0]


def test_what_a_model_thinks_is_not_its_answer() -> None:
    chunks = [chunk("a"), chunk("b"), chunk("c")]
    thinks = '<think>{"order": [1, 2, 3]} is a draft</think>{"order": [3, 1, 2]}'
    reranker = LlmListwiseReranker(chat=Scripted(thinks))
    assert order(reranker, query(), chunks) == ["c", "a", "b"]
    grades = Scripted('<think>{"grade": 9}</think>{"grade": 1}', '{"grade": 2}', '{"grade": 3}')
    assert order(LlmPointwiseReranker(chat=grades), query(), chunks) == ["c", "b", "a"]
    with pytest.raises(LLMReplyError, match="empty"):
        LlmPointwiseReranker(chat=Scripted("<think>hm 3")).score(query(), [chunk("a")])


def test_pointwise_asks_about_each() -> None:
    chat = Scripted(*(f'{{"grade": {grade}}}' for grade in (2, 4, 3, 11, "true")))
    chunks = [chunk("a"), chunk("b"), chunk("c")]
    reranker = LlmPointwiseReranker(chat=chat, highest=4)
    assert list(reranker.score(query("why?"), chunks)) == [0.5, 1.0, 0.75]
    assert ["Text of a" in asked for asked in chat.heard] == [True, False, False]
    assert all("Question: why?" in asked for asked in chat.heard)
    for message in ("graded 11 on 0 to 4", "'grade' is not a number"):
        with pytest.raises(LLMReplyError, match=message):
            reranker.score(query("why?"), chunks[:1])
