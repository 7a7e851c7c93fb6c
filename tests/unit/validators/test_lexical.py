from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench import Chunk
from ragbench.core.validation import RetrievalQuality, Verdict
from ragbench.errors import ConfigError
from ragbench.validators.lexical import LexicalValidator

NOTHING = "No relevant information found in retrieved data."


def judge(query: str, texts: Sequence[str]) -> Verdict:
    chunks = [Chunk(id=f"c{at}", text=text) for at, text in enumerate(texts)]
    return LexicalValidator().validate(query, chunks)


def test_chunks_about_the_topic_are_relevant_and_their_neighbours_not() -> None:
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
    assert sorted(verdict.relevant_chunk_ids) == ["c0", "c1", "c2"]


def test_nothing_relevant_gets_the_sentence_of_the_specification() -> None:
    verdict = judge(
        "How do I reset my password?",
        ["To create an account, click Sign up.", "New accounts need a verified phone number."],
    )
    assert verdict.message == NOTHING
    assert verdict.relevant_chunk_ids == ()
    assert not verdict.answer_present
    assert verdict.evidence == ()
    assert verdict.retrieval_quality is RetrievalQuality.POOR


def test_an_answer_is_found_and_quoted() -> None:
    verdict = judge(
        "What year was the company founded?",
        ["Its products are sold widely.", "It makes pumps. The company was founded in 1995."],
    )
    assert verdict.answer_present
    assert verdict.retrieval_quality is RetrievalQuality.GOOD
    assert [one.text for one in verdict.evidence] == ["The company was founded in 1995."]
    assert verdict.evidence[0].chunk_id == "c1"


def test_an_answer_that_is_not_there_is_not_found() -> None:
    verdict = judge(
        "What are the pricing tiers?",
        ["The product has a dashboard and alerts.", "Teams can share reports."],
    )
    assert not verdict.answer_present


def test_all_parts_of_a_query_must_be_answered() -> None:
    chunks = ["The X200 has a battery that lasts nine hours.", "The lens is made of glass."]
    whole = judge("How long does the battery of the X200 last?", chunks)
    both = judge("Who designed the X200 and how long does the battery of the X200 last?", chunks)
    assert whole.answer_present
    assert not both.answer_present
    assert both.retrieval_quality is RetrievalQuality.PARTIAL
    assert any("Who designed the X200" in reason for reason in both.reasons)


def test_conflicting_chunks_are_told_of() -> None:
    verdict = judge(
        "How many employees does Acme have?",
        ["Acme has 1,200 employees in Norway.", "As of today Acme has 950 employees."],
    )
    [conflict] = verdict.conflicts
    assert conflict.kind == "number"
    assert conflict.detail == "1200 against 950"


def test_chinese_is_read() -> None:
    verdict = judge(
        "合同什么时候到期？", ["本合同于2023年12月31日到期。", "付款应在三十天内完成。"]
    )
    assert verdict.relevant_chunk_ids == ("c0",)
    assert verdict.evidence[0].text == "本合同于2023年12月31日到期。"


def test_no_chunks_is_no_error() -> None:
    verdict = judge("Who?", [])
    assert verdict.message == NOTHING
    assert verdict.answer_probability == 0.0
    assert verdict.relevance == {}


@pytest.mark.parametrize("query", ["", "   ", "?!"])
def test_a_query_that_says_nothing_is_told_of(query: str) -> None:
    verdict = judge(query, ["The company was founded in 1995."])
    assert verdict.message == NOTHING
    assert verdict.warnings


def test_a_vague_query_is_told_of() -> None:
    assert any("unclear" in one for one in judge("When was it founded?", ["x"]).warnings)


def test_empty_texts_are_never_relevant() -> None:
    verdict = judge("When was the company founded?", ["", "  \n", "\x00\ufffd"])
    assert verdict.relevant_chunk_ids == ()
    assert set(verdict.relevance) == {"c0", "c1", "c2"}


def test_a_very_long_chunk_is_read_to_its_end() -> None:
    text = "Nothing of note happened here. " * 3000 + "The company was founded in 1995."
    verdict = judge("What year was the company founded?", [text])
    assert "The company was founded in 1995." in verdict.evidence[0].text
    assert any("read in windows" in one for one in verdict.warnings)


def test_a_threshold_that_passes_everything_is_refused() -> None:
    with pytest.raises(ConfigError, match="between 0 and 1"):
        LexicalValidator(present=0.0)


def test_identity_follows_the_settings() -> None:
    assert LexicalValidator().identity == LexicalValidator().identity
    assert LexicalValidator().identity != LexicalValidator(present=0.9).identity
    assert LexicalValidator().identity != LexicalValidator(absence="siblings").identity


TEXT = st.text(
    st.one_of(st.sampled_from("When was Acme founded in 1995? No. \n"), st.characters()),
    max_size=120,
)


@settings(deadline=None, max_examples=60)
@given(TEXT, st.lists(st.tuples(st.sampled_from(["a", "b", "", " "]), TEXT), max_size=5))
def test_any_input_gets_a_verdict_whose_evidence_is_a_slice(
    query: str, given: list[tuple[str, str]]
) -> None:
    chunks = [Chunk(id=id_, text=text) for id_, text in given]
    validator = LexicalValidator(relevant=0.001, present=0.01)
    verdict = validator.validate(query, chunks)
    assert verdict == validator.validate(query, chunks)
    texts = [chunk.text for chunk in chunks]
    for one in verdict.evidence:
        assert any(text[one.start : one.end] == one.text for text in texts)
        assert one.text
    assert set(verdict.relevant_chunk_ids) <= set(verdict.relevance)
    assert (verdict.message == NOTHING) == (not verdict.relevant_chunk_ids)
    assert all(0 <= value <= 1 for value in verdict.relevance.values())
