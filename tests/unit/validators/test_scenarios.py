"""The acceptance scenarios of the specification, for every validator that asks no other one."""

import json
from collections.abc import Callable, Sequence

import pytest

from ragbench import Chunk, build_validator
from ragbench.core.validation import RetrievalQuality, Verdict
from ragbench.validators.llm import LlmValidator
from ragbench.validators.verdict import NOTHING_RELEVANT
from tests.unit.validators.test_llm import ScriptedChat

Judge = Callable[[str, Sequence[str]], Verdict]
SHIPPED = [
    "lexical",
    pytest.param("local", marks=pytest.mark.extra("onnx")),
    pytest.param("cascade", marks=pytest.mark.extra("onnx")),
]


@pytest.fixture(params=SHIPPED)
def judge(request: pytest.FixtureRequest) -> Judge:
    settings = {"name": "cascade", "first": "lexical", "second": "local"}
    validator = build_validator(settings if request.param == "cascade" else request.param)

    def call(query: str, texts: Sequence[str]) -> Verdict:
        chunks = [Chunk(id=f"c{at}", text=text) for at, text in enumerate(texts, start=1)]
        return validator.validate(query, chunks)

    return call


def test_us11_what_is_about_the_topic_is_relevant(judge: Judge) -> None:
    verdict = judge(
        "What is photosynthesis?",
        [
            "Photosynthesis is the process by which green plants turn light into energy.",
            "In plants, photosynthesis converts carbon dioxide and water into sugars.",
            "Photosynthesis, the conversion of light to chemical energy, releases oxygen.",
            "Cellular respiration breaks down glucose to release energy.",
            "During cellular respiration, cells consume oxygen.",
        ],
    )
    assert sorted(verdict.relevant_chunk_ids) == ["c1", "c2", "c3"]
    assert verdict.warnings == ()


def test_us12_nothing_relevant(judge: Judge) -> None:
    verdict = judge(
        "How do I reset my password?",
        ["To create an account, click Sign up.", "New accounts need a verified phone number."],
    )
    assert verdict.message == NOTHING_RELEVANT
    assert verdict.relevant_chunk_ids == ()
    assert verdict.retrieval_quality is RetrievalQuality.POOR


def test_us13_what_speaks_of_it_without_answering_is_partial(judge: Judge) -> None:
    verdict = judge(
        "What is the price of the X200?",
        ["The price of the X200 is available on request.", "The X200 weighs two kilograms."],
    )
    assert verdict.retrieval_quality is RetrievalQuality.PARTIAL
    assert not verdict.answer_present
    assert "c1" in verdict.relevant_chunk_ids


def test_us21_an_answer_is_found_and_quoted(judge: Judge) -> None:
    verdict = judge(
        "What year was the company founded?",
        ["Its products are sold widely.", "It makes pumps. The company was founded in 1995."],
    )
    assert verdict.answer_present
    assert [one.text for one in verdict.evidence] == ["The company was founded in 1995."]


def test_us22_an_answer_that_is_not_there_and_what_is_missing(judge: Judge) -> None:
    features = ["The product has a dashboard and alerts.", "Teams can share reports."]
    verdict = judge("What are the pricing tiers?", features)
    assert not verdict.answer_present
    assert any("stays below" in reason for reason in verdict.reasons)
    partial = judge("What is the price of the X200?", ["The price of the X200 is not disclosed."])
    assert "Not stated for certain: what the price of the X200 is" in partial.message


def test_us23_all_pieces_must_be_there(judge: Judge) -> None:
    chunks = ["The X200 has a battery that lasts nine hours.", "The lens is made of glass."]
    whole = judge("How long does the battery of the X200 last?", chunks)
    both = judge("Who designed the X200 and how long does the battery of the X200 last?", chunks)
    assert whole.answer_present
    assert not both.answer_present
    assert both.retrieval_quality is RetrievalQuality.PARTIAL
    assert "who designed the X200" in both.message


def test_us32_quotes_come_from_the_chunks_that_hold_them(judge: Judge) -> None:
    chunks = [
        "The museum opens at 10 o'clock every day.",
        "A ticket costs twelve euros.",
        "There is a cafe.",
        "The address of the museum is 4 Harbour Street, Leeds.",
    ]
    verdict = judge("When does the museum open and what is the address of the museum?", chunks)
    texts = {f"c{at}": text for at, text in enumerate(chunks, start=1)}
    assert {"c1", "c4"} <= {one.chunk_id for one in verdict.evidence}
    for one in verdict.evidence:
        assert texts[one.chunk_id][one.start : one.end] == one.text


def test_us41_what_answers_the_whole_question_is_good(judge: Judge) -> None:
    verdict = judge(
        "When does the museum open and what does a ticket cost?",
        ["The museum opens at 10 o'clock every day.", "A ticket costs twelve euros."],
    )
    assert verdict.retrieval_quality is RetrievalQuality.GOOD
    assert sorted(verdict.relevant_chunk_ids) == ["c1", "c2"]


@pytest.mark.parametrize(
    ("query", "texts"),
    [
        (
            "How long is the warranty of the X200?",
            ["The warranty of the X200 covers the battery and the screen.", "It is sold in Leeds."],
        ),
        (
            "What is the price of the X200?",
            ["The price of the X200 is available on request.", "The X200 weighs two kilograms."],
        ),
        (
            "Who designed the X200 and how long does the battery of the X200 last?",
            ["The X200 has a battery that lasts nine hours.", "The lens is made of glass."],
        ),
    ],
    ids=["another side of it", "said to be elsewhere", "one of two questions"],
)
def test_us42_what_is_on_the_topic_and_lacks_the_key_information_is_partial(
    judge: Judge, query: str, texts: Sequence[str]
) -> None:
    verdict = judge(query, texts)
    assert verdict.retrieval_quality is RetrievalQuality.PARTIAL
    assert not verdict.answer_present
    assert verdict.relevant_chunk_ids == ("c1",)
    assert "Not stated for certain: " in verdict.message


def test_us43_what_is_unrelated_is_poor(judge: Judge) -> None:
    verdict = judge("Who designed the Eiffel Tower?", ["Potatoes are rich in starch.", "It rains."])
    assert verdict.retrieval_quality is RetrievalQuality.POOR


@pytest.mark.parametrize(
    "query", ["متى تأسست الشركة؟", "Πότε ιδρύθηκε η εταιρεία;", "บริษัทก่อตั้งเมื่อใด"]
)
def test_a_query_in_another_script_is_not_answered_by_a_sentence_on_potatoes(
    judge: Judge, query: str
) -> None:
    assert not judge(query, ["Potatoes are rich in starch."]).answer_present


# --- the validator that asks a language model: what counts is what its quotes prove


def asked_model(present: bool, quotes: Sequence[str]) -> Judge:
    answer = {
        "passages": [{"number": 1, "confidence": 0.9, "quotes": list(quotes)}] if quotes else [],
        "answer_present": present,
        "confidence": 0.9,
    }

    def call(query: str, texts: Sequence[str]) -> Verdict:
        chunks = [Chunk(id=f"c{at}", text=text) for at, text in enumerate(texts, start=1)]
        return LlmValidator(chat=ScriptedChat(json.dumps(answer))).validate(query, chunks)

    return call


@pytest.mark.parametrize(
    ("present", "quotes", "quality"),
    [
        (True, ["the X200 covers two years"], RetrievalQuality.GOOD),
        (False, ["The warranty of the X200"], RetrievalQuality.PARTIAL),
        (False, [], RetrievalQuality.POOR),
        (True, ["it lasts for ten years"], RetrievalQuality.POOR),
    ],
)
def test_us4_every_rating_of_the_language_model_rests_on_quotes(
    present: bool, quotes: list[str], quality: RetrievalQuality
) -> None:
    verdict = asked_model(present, quotes)(
        "How long is the warranty of the X200?", ["The warranty of the X200 covers two years."]
    )
    assert verdict.retrieval_quality is quality
    assert verdict.answer_present is (quality is RetrievalQuality.GOOD)
