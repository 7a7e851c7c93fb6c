"""Language models as rerankers: what they are asked, and answers as they really come."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.core.chat import Message
from ragbench.errors import LLMReplyError
from ragbench.post.rerankers.llm import LlmListwiseReranker, LlmPointwiseReranker
from tests.unit.post.builders import Scripted, chunk, order, query, scored

THREE = [chunk("a"), chunk("b"), chunk("c")]


class SortingChat:
    """Orders passages by the number in their text, the highest first."""

    name = "sorting"

    def __init__(self) -> None:
        self.window_sizes: list[int] = []

    def complete(self, messages: Sequence[Message]) -> str:
        passages = re.findall(r"\[(\d+)\]\nvalue (\d+)", messages[-1].content)
        self.window_sizes.append(len(passages))
        best_first = sorted(passages, key=lambda passage: -int(passage[1]))
        return json.dumps({"order": [int(number) for number, _ in best_first]})


# --- listwise: the model orders passages


@pytest.mark.parametrize(
    ("numbers", "ids"),
    [
        pytest.param("[2, 3, 1]", ["b", "c", "a"], id="complete"),
        pytest.param("[3, 1]", ["c", "a", "b"], id="one left out comes last"),
        pytest.param("[2, 2, 9, 0, 1]", ["b", "a", "c"], id="repeated and unknown ones"),
    ],
)
def test_an_order_is_repaired(numbers: str, ids: list[str]) -> None:
    chat = Scripted(f'Sure! <{{"order": {numbers}}}>')
    reranker = LlmListwiseReranker(chat=chat)

    assert order(reranker, query(), THREE) == ids


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("I cannot\nsay", "holds no JSON"),
        ('{"order": [7]}', "named none of 3 passages"),
    ],
)
def test_an_answer_without_an_order_is_an_error(answer: str, message: str) -> None:
    reranker = LlmListwiseReranker(chat=Scripted(answer))

    with pytest.raises(LLMReplyError, match=message):
        reranker.score(query(), THREE)


def test_listwise_asks_once_about_few_chunks() -> None:
    chat = Scripted('{"order": [2, 1]}')
    chunks = [chunk("a", "red"), chunk("b", "blue")]

    scores = LlmListwiseReranker(chat=chat).score(query("which colour?"), chunks)

    assert list(scores) == [0.5, 1.0]
    (prompt,) = chat.heard
    assert "Question: which colour?\n\n[1]\nred\n\n[2]\nblue\n" in prompt


def test_listwise_does_not_ask_about_one_chunk() -> None:
    chat = Scripted()

    scores = LlmListwiseReranker(chat=chat).score(query(), [chunk("a", "red")])

    assert list(scores) == [1.0]
    assert chat.heard == []


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 25), st.integers(2, 8), st.integers(1, 8))
def test_every_candidate_is_shown_and_the_best_is_carried_to_the_front(
    size: int, window: int, step: int
) -> None:
    chat = SortingChat()
    chunks = [chunk(str(value), f"value {value}") for value in range(size)]
    reranker = LlmListwiseReranker(chat=chat, window=window, step=min(step, window - 1))

    ids = order(reranker, query(), chunks)

    assert ids[0] == str(size - 1)
    assert sorted(ids, key=int) == [chunk.id for chunk in chunks]
    assert max(chat.window_sizes, default=0) <= window


# --- pointwise: the model grades passages


def test_pointwise_asks_about_each_chunk() -> None:
    chat = Scripted('{"grade": 2}', '{"grade": 4}', '{"grade": 3}')

    scores = LlmPointwiseReranker(chat=chat, highest=4).score(query("why?"), THREE)

    assert list(scores) == [0.5, 1.0, 0.75]
    for prompt, text in zip(chat.heard, ["Text of a", "Text of b", "Text of c"], strict=True):
        assert "Question: why?" in prompt
        assert text in prompt
    assert "Text of a" not in chat.heard[1]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ('{"grade": 11}', "graded 11 on 0 to 4"),
        ('{"grade": true}', "'grade' is not a number"),
    ],
)
def test_a_grade_that_is_none_is_an_error(answer: str, message: str) -> None:
    reranker = LlmPointwiseReranker(chat=Scripted(answer), highest=4)

    with pytest.raises(LLMReplyError, match=message):
        reranker.score(query("why?"), [chunk("a")])


# --- both


def test_listwise_cuts_long_chunks_and_notes_it() -> None:
    chat = Scripted('{"order": [1]}')
    chunks = [chunk("a", "xxxxyyyy"), chunk("b", "zz")]

    scores = scored(LlmListwiseReranker(chat=chat, max_characters=4), query(), chunks)

    assert scores.notes == ("1 of 2 chunks were cut to 4 characters",)
    assert "[1]\nxxxx\n" in chat.heard[0]


def test_pointwise_cuts_long_chunks_and_notes_it() -> None:
    chat = Scripted('{"grade": 1}', '{"grade": 1}')
    chunks = [chunk("a", "xxxxyyyy"), chunk("b", "zz")]

    scores = scored(LlmPointwiseReranker(chat=chat, max_characters=4), query(), chunks)

    assert scores.notes == ("1 of 2 chunks were cut to 4 characters",)
    assert "xxxx" in chat.heard[0]
    assert "y" * 4 not in chat.heard[0]


def test_an_order_in_a_models_thoughts_is_not_its_answer() -> None:
    chat = Scripted('<think>{"order": [1, 2, 3]} is a draft</think>{"order": [3, 1, 2]}')
    reranker = LlmListwiseReranker(chat=chat)

    assert order(reranker, query(), THREE) == ["c", "a", "b"]


def test_a_grade_in_a_models_thoughts_is_not_its_answer() -> None:
    chat = Scripted('<think>{"grade": 9}</think>{"grade": 1}', '{"grade": 2}', '{"grade": 3}')
    reranker = LlmPointwiseReranker(chat=chat)

    assert order(reranker, query(), THREE) == ["c", "b", "a"]


def test_thoughts_without_an_answer_are_an_error() -> None:
    reranker = LlmPointwiseReranker(chat=Scripted("<think>hm 3"))

    with pytest.raises(LLMReplyError, match="empty"):
        reranker.score(query(), [chunk("a")])
