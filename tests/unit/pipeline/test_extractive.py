from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench import GenerationResult
from ragbench.errors import ConfigError
from ragbench.pipeline.extractive import ExtractiveGenerator

CONTEXTS = [
    "The harbour opened in 1887. It was built by Ada Moran. Ships came from everywhere.",
    "The lighthouse stands on the northern cliff. The lighthouse was built by Tom Reed in 1901.",
]


def details(result: GenerationResult) -> dict[str, Any]:
    assert result.metadata is not None
    return dict(result.metadata)


LIGHTHOUSE = "When was the lighthouse built?"


@pytest.mark.parametrize(
    ("query", "contexts", "part", "whole"),
    [
        (LIGHTHOUSE, CONTEXTS, "1901", "The lighthouse was built by Tom Reed in 1901."),
        (
            "总部位于哪里？",
            ["公司成立于1998年。总部位于上海。"],
            "总部位于上海。",
            "总部位于上海。",
        ),
        (
            "年假有多少天？",
            ["员工每年有二十天年假。"],
            "二十天",
            "员工每年有二十天年假。",
        ),
        (
            "Wie viele Tage Urlaub gibt es?",
            ["Der Urlaub beträgt 28 Tage. Er wird im Portal beantragt."],
            "28",
            "Der Urlaub beträgt 28 Tage.",
        ),
    ],
)
def test_the_answer_is_the_best_sentence_or_what_of_it_was_asked_for(
    query: str, contexts: list[str], part: str, whole: str
) -> None:
    found = ExtractiveGenerator().generate(query, contexts)
    sentence = ExtractiveGenerator(answer="sentence").generate(query, contexts)
    assert (found.response, found.abstained) == (part, False)
    assert (sentence.response, sentence.abstained) == (whole, False)


def test_the_evidence_is_where_the_answer_stands() -> None:
    part = ExtractiveGenerator().generate(LIGHTHOUSE, CONTEXTS)
    whole = ExtractiveGenerator(answer="sentence").generate(LIGHTHOUSE, CONTEXTS)
    wider, narrow = details(whole)["evidence"], details(part)["evidence"]
    assert narrow["context_index"] == wider["context_index"] == 1
    assert CONTEXTS[1][narrow["start"] : narrow["end"]] == part.response
    assert CONTEXTS[1][wider["start"] : wider["end"]] == whole.response
    assert narrow["sentence"] == {"start": wider["start"], "end": wider["end"]}
    assert details(part)["support"] == details(whole)["support"]
    assert (part.confidence or 0) < (whole.confidence or 0), "a part is less sure than the whole"


def test_candidates_are_different_and_best_first() -> None:
    contexts = ["The gate is red.", "THE GATE IS RED.", "A gate."]
    result = ExtractiveGenerator(max_candidates=2).generate("Is the gate red?", contexts)
    assert result.multi_responses == ["The gate is red.", "A gate."]
    assert result.response == "The gate is red."
    supports = [one["support"] for one in details(result)["candidates"]]
    assert supports == sorted(supports, reverse=True)


@pytest.mark.parametrize("contexts", [[], [""], ["Nothing to see."]])
def test_it_abstains_when_nothing_supports_an_answer(contexts: list[str]) -> None:
    result = ExtractiveGenerator().generate("Who paints zebras?", contexts)
    assert (result.response, result.abstained) == ("I don't know.", True)
    assert result.multi_responses == ["I don't know."]
    found = details(result)
    assert (found["support"], found["evidence"], found["candidates"]) == (0, None, [])


def test_the_threshold_decides() -> None:
    query = "Who built the enormous harbour bridge across the channel?"
    support = details(ExtractiveGenerator(threshold=0).generate(query, CONTEXTS))["support"]
    assert 0 < support < 1
    assert ExtractiveGenerator(threshold=support).generate(query, CONTEXTS).abstained is False
    above = ExtractiveGenerator(threshold=support + 0.01).generate(query, CONTEXTS)
    assert above.abstained is True
    assert details(above)["candidates"][0]["support"] == support


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("合同何时到期？", "我不知道。"),
        ("Wie viele Tage sind das?", "Ich weiß es nicht."),
        ("¿Dónde está el puerto?", "No lo sé."),
    ],
)
def test_it_abstains_in_the_language_of_the_question(query: str, sentence: str) -> None:
    assert ExtractiveGenerator().generate(query, []).response == sentence


@pytest.mark.parametrize(("heavy", "wanted"), [("common", "A common thing."), ("zebra", "Zebra.")])
def test_term_weights_can_come_from_a_corpus(heavy: str, wanted: str) -> None:
    generator = ExtractiveGenerator(weight=lambda token: 9.0 if token == heavy else 1.0)
    assert generator.generate("common zebra", ["A common thing.", "Zebra."]).response == wanted


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"threshold": -0.1}, "threshold"),
        ({"threshold": 2}, "threshold"),
        ({"max_candidates": 0}, "max_"),
        ({"answer": "word"}, "answer must be one of span, sentence, not 'word'"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any], name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        ExtractiveGenerator(**settings)


@given(
    st.text(max_size=30),
    st.lists(st.text(max_size=80) | st.text(alphabet="ab 。.\n水果1", max_size=80), max_size=4),
)
def test_every_candidate_is_an_exact_slice(query: str, contexts: list[str]) -> None:
    generator = ExtractiveGenerator(threshold=0)
    result = generator.generate(query, contexts)
    assert result == generator.generate(query, contexts)
    places = details(result)["candidates"]
    slices: list[str] = [
        contexts[one["context_index"]][one["start"] : one["end"]] for one in places
    ]
    if result.abstained:
        assert slices == []
    else:
        assert slices == result.multi_responses
        assert result.response == slices[0]
