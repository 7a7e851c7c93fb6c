from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench import GenerationResult
from ragbench.errors import ConfigError
from ragbench.pipeline.extractive import ExtractiveGenerator
from ragbench.pipeline.sentence_support import ABSTENTIONS

CONTEXTS = [
    "The harbour opened in 1887. It was built by Ada Moran. Ships came from everywhere.",
    "The lighthouse stands on the northern cliff. The lighthouse was built by Tom Reed in 1901.",
]


def details(result: GenerationResult) -> dict[str, Any]:
    assert result.metadata is not None
    return dict(result.metadata)


def test_the_answer_is_the_best_supported_sentence() -> None:
    generator = ExtractiveGenerator(answer="sentence")
    result = generator.generate("When was the lighthouse built?", CONTEXTS)
    assert result.response == "The lighthouse was built by Tom Reed in 1901."
    assert result.abstained is False
    evidence = details(result)["evidence"]
    assert "sentence" not in evidence
    assert CONTEXTS[evidence["context_index"]][evidence["start"] : evidence["end"]] == (
        result.response
    )
    assert evidence["context_index"] == 1


def test_the_answer_is_what_of_that_sentence_was_asked_for() -> None:
    result = ExtractiveGenerator().generate("When was the lighthouse built?", CONTEXTS)
    assert result.response == "1901"
    evidence = details(result)["evidence"]
    text = CONTEXTS[evidence["context_index"]]
    assert text[evidence["start"] : evidence["end"]] == "1901"
    sentence = evidence["sentence"]
    assert text[sentence["start"] : sentence["end"]] == (
        "The lighthouse was built by Tom Reed in 1901."
    )


def test_a_part_of_a_sentence_is_less_sure_than_the_whole() -> None:
    query = "When was the lighthouse built?"
    part = ExtractiveGenerator().generate(query, CONTEXTS)
    whole = ExtractiveGenerator(answer="sentence").generate(query, CONTEXTS)
    assert details(part)["support"] == details(whole)["support"]
    assert part.confidence is not None
    assert whole.confidence is not None
    assert part.confidence < whole.confidence


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
    assert result.response == "I don't know."
    assert result.abstained is True
    assert result.multi_responses == ["I don't know."]
    assert details(result)["support"] == 0
    assert details(result)["evidence"] is None
    assert details(result)["candidates"] == []


def test_the_threshold_decides() -> None:
    query = "Who built the enormous harbour bridge across the channel?"
    support = details(ExtractiveGenerator(threshold=0).generate(query, CONTEXTS))["support"]
    assert 0 < support < 1
    assert ExtractiveGenerator(threshold=support).generate(query, CONTEXTS).abstained is False
    above = ExtractiveGenerator(threshold=support + 0.01).generate(query, CONTEXTS)
    assert above.abstained is True
    assert details(above)["candidates"][0]["support"] == support


def test_a_better_supported_answer_is_surer() -> None:
    generator = ExtractiveGenerator(threshold=0)
    good = generator.generate("When was the lighthouse built by Tom Reed?", CONTEXTS)
    poor = generator.generate("Which paint do lighthouse keepers prefer?", CONTEXTS)
    assert good.confidence is not None
    assert poor.confidence is not None
    assert good.confidence > 0.7 > poor.confidence


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("合同何时到期？", "我不知道。"),
        ("Wie viele Tage sind das?", "Ich weiß es nicht."),
        ("¿Dónde está el puerto?", "No lo sé."),
        ("Where?", "I don't know."),
    ],
)
def test_it_abstains_in_the_language_of_the_question(query: str, sentence: str) -> None:
    assert ExtractiveGenerator().generate(query, []).response == sentence
    assert sentence in ABSTENTIONS.values()


def test_chinese() -> None:
    contexts = ["公司成立于1998年。总部位于上海。", "员工每年有二十天年假。病假另算。"]
    generator = ExtractiveGenerator()
    assert generator.generate("总部位于哪里？", contexts).response == "总部位于上海。"
    assert generator.generate("年假有多少天？", contexts).response == "二十天"
    whole = ExtractiveGenerator(answer="sentence").generate("年假有多少天？", contexts)
    assert whole.response == "员工每年有二十天年假。"


def test_german() -> None:
    contexts = ["Der Urlaub beträgt 28 Tage. Er wird im Portal beantragt."]
    query = "Wie viele Tage Urlaub gibt es?"
    assert ExtractiveGenerator().generate(query, contexts).response == "28"
    whole = ExtractiveGenerator(answer="sentence").generate(query, contexts)
    assert whole.response == "Der Urlaub beträgt 28 Tage."


def test_term_weights_can_come_from_a_corpus() -> None:
    contexts = ["The common thing.", "The zebra."]
    query = "common zebra"
    prefers_common = ExtractiveGenerator(weight=lambda token: 9.0 if token == "common" else 1.0)
    prefers_zebra = ExtractiveGenerator(weight=lambda token: 1.0 if token == "common" else 9.0)
    assert prefers_common.generate(query, contexts).response == "The common thing."
    assert prefers_zebra.generate(query, contexts).response == "The zebra."


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


def test_identity_names_the_settings() -> None:
    assert ExtractiveGenerator().identity == ExtractiveGenerator().identity
    assert ExtractiveGenerator().identity != ExtractiveGenerator(threshold=0.9).identity
    sentences = ExtractiveGenerator(answer="sentence")
    assert ExtractiveGenerator().identity != sentences.identity


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
