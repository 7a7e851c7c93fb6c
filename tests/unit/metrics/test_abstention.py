from __future__ import annotations

import pytest

from ragbench.core.outcome import Cell, Outcome, Status
from ragbench.core.result import GenerationResult
from ragbench.metrics.abstention import abstained
from tests.unit.metrics.builders import answered, cell, cells, generated, trace

DECLINED = [
    "",
    " \n",
    "I don't know.",
    "I don’t know the answer.",
    "I'm sorry, but I cannot answer this question.",
    "I am unable to answer that based on the provided context.",
    "Unfortunately, I don't have enough information to answer.",
    "The provided context does not contain information about the budget of 2031.",
    "This question cannot be answered from the given documents.",
    "It cannot be determined.",
    "No answer found.",
    "There is no information available.",
    "No relevant information found in retrieved data.",
    "Not enough information",
    "Unanswerable",
    "我不知道。",
    "抱歉，我无法回答这个问题。",
    "根据提供的资料无法确定。",
    "未找到相关信息。",
    "わかりません。",
    "모르겠습니다.",
    "Das weiß ich nicht.",
    "Ich kann die Frage nicht beantworten.",
    "Je ne sais pas.",
    "No lo sé.",
    "Non lo so.",
    "Não sei.",
    "Я не знаю.",
    "Недостаточно информации.",
]
ANSWERED = [
    "Paris",
    "No.",
    "None",
    "Unknown Pleasures",
    "Nothing Compares 2 U",
    "not before 3 May",
    "I don't know the exact figure, but the limit is about 300 seconds.",
    "The context does not mention it, however the default is 5.",
    "The gateway does not contain a battery.",
    "The handbook says the connection cannot be restored. Use the console.",
    "There is no information desk in building 4; ask at the gate.",
    "不知道火舞是游戏角色。",
    "资料中没有提到价格，但是官网写明为五元。",
    "Nicht vor dem 3. Mai",
    "I don't know. " * 20,
]


@pytest.mark.parametrize("response", DECLINED)
def test_a_declined_answer_is_recognised(response: str) -> None:
    assert abstained(GenerationResult(response))


@pytest.mark.parametrize("response", ANSWERED)
def test_an_answer_is_not_taken_for_a_declined_one(response: str) -> None:
    assert not abstained(GenerationResult(response))


def test_what_the_system_says_itself_counts() -> None:
    assert abstained(GenerationResult("Paris", abstained=True))
    assert not abstained(GenerationResult("I don't know.", abstained=False))


@pytest.mark.parametrize(
    ("response", "answerable", "expected"),
    [
        # accuracy, answer rate, abstention recall, abstention precision
        ("Paris", True, [1.0, 1.0, None, None]),
        ("I don't know.", True, [0.0, 0.0, None, 0.0]),
        ("Paris", False, [0.0, None, 0.0, None]),
        ("I don't know.", False, [1.0, None, 1.0, 1.0]),
    ],
)
def test_the_table_of_answering(
    response: str, answerable: bool, expected: list[float | None]
) -> None:
    one = trace(answerable=answerable, generation=generated(response))
    names = "abstention_accuracy, answer_rate, abstention_recall, abstention_precision"
    row = cells(names, one)[0]
    assert [c.value for c in row] == expected
    assert all(c.reason for c in row if c.value is None)


@pytest.mark.parametrize(
    "metric", ["token_f1", "exact_match", "edit_similarity", "best_of_n", "brier", "ECE"]
)
def test_a_declined_answer_is_no_wrong_answer(metric: str) -> None:
    with_reference = answered("I don't know.", "Paris")
    without = trace(answerable=False, generation=generated("I don't know."))
    abstention = Cell.abstained("the system declined to answer")
    assert cell(metric, with_reference) == cell(metric, without) == abstention


def test_an_outcome_that_is_an_abstention_counts_whatever_it_says() -> None:
    value: GenerationResult = GenerationResult("see above")
    one = trace(references=["x"], generation=Outcome(status=Status.ABSTAINED, value=value))
    assert cell("token_f1", one).status is Status.ABSTAINED


def test_a_long_response_is_an_answer() -> None:
    padded = "I don't know." + " " * 187
    assert len(padded) == 200
    assert abstained(GenerationResult(padded))
    assert not abstained(GenerationResult(f"{padded} "))
