"""Document 004, the retrieval validation assistant: every scenario, for every validator that ships.

Those that a language model decides are in tests/unit/validators/test_llm.py.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

import ragbench
from ragbench import Chunk, Validator, Verdict, build_validator, open_dump
from ragbench.errors import DataError
from ragbench_cli.main import main

NOTHING = "No relevant information found in retrieved data."
"""The sentence of FR-013, to be printed exactly so."""


@pytest.fixture(
    scope="module",
    params=[
        "lexical",
        pytest.param("local", marks=pytest.mark.extra("onnx")),
        pytest.param("cascade", marks=pytest.mark.extra("onnx")),
    ],
)
def validator(request: pytest.FixtureRequest) -> Validator:
    if request.param == "cascade":
        return build_validator({"name": "cascade", "first": "lexical", "second": "local"})
    return build_validator(request.param)


def numbered(texts: Sequence[str]) -> list[Chunk]:
    """Chunks of these texts with the ids c1, c2 and so on."""
    return [Chunk(id=f"c{number}", text=text) for number, text in enumerate(texts, start=1)]


def judged(validator: Validator, query: str, texts: Sequence[str]) -> Verdict:
    """The verdict on numbered chunks of these texts."""
    return validator.validate(query, numbered(texts))


def quotes(verdict: Verdict) -> dict[str, str]:
    """The evidence, by the id of its chunk."""
    return {quote.chunk_id: quote.text for quote in verdict.evidence}


# --- user stories

LIFE = [
    "Photosynthesis is the process by which green plants turn light into chemical energy.",
    "During photosynthesis, plants take in carbon dioxide and water and release oxygen.",
    "In photosynthesis, light energy is stored in glucose.",
    "Cellular respiration breaks down glucose to release energy.",
    "Unlike photosynthesis, cellular respiration takes place in the mitochondria.",
]
ACCOUNTS = [
    "To create an account, click Sign up and enter your email address.",
    "Account creation takes two minutes.",
    "New accounts must be verified by phone.",
]
CAMERA = ["The camera records in 4K at 60 frames a second.", "The lens is made of glass."]
FOUNDED = ["Our products are sold in 30 countries.", "The company was founded in 1995."]
FEATURES = [
    "The product offers dashboards, alerts and shared reports.",
    "Single sign-on and audit logs are among its features.",
]
ACME = ["Acme was founded by Ada Stone.", "Acme moved to Berlin in 2004."]
MUSEUM = [
    "The museum opens at 10 o'clock every day.",
    "There is a cafe on the first floor.",
    "Parking is free.",
    "A ticket costs twelve euros.",
]
OPENS = "When does the museum open and what does a ticket cost?"
X200 = ["The X200 has a battery that lasts nine hours.", "The lens is made of glass."]
BATTERY = "Who designed the X200 and how long does the battery of the X200 last?"
WARRANTY = ["The warranty of the X200 covers the battery and the screen.", "It is sold in Leeds."]


def test_us1_1_the_chunks_on_the_topic_are_relevant(validator: Validator) -> None:
    verdict = judged(validator, "What is photosynthesis?", LIFE)

    assert set(verdict.relevant_chunk_ids) == {"c1", "c2", "c3"}


def test_us1_2_without_a_relevant_chunk_the_sentence_is_printed(validator: Validator) -> None:
    verdict = judged(validator, "How do I reset my password?", ACCOUNTS)

    assert verdict.relevant_chunk_ids == ()
    assert verdict.message == NOTHING


def test_us1_3_partially_related_chunks_are_partial(validator: Validator) -> None:
    verdict = judged(validator, "Does the camera support night recording?", CAMERA)

    assert verdict.relevant_chunk_ids == ("c1",)
    assert verdict.retrieval_quality == "Partial"


def test_us2_1_an_answer_is_present_and_quoted(validator: Validator) -> None:
    verdict = judged(validator, "What year was the company founded?", FOUNDED)

    assert verdict.answer_present
    assert quotes(verdict) == {"c2": "The company was founded in 1995."}


def test_us2_2_a_missing_answer_is_not_present_and_it_is_explained(validator: Validator) -> None:
    verdict = judged(validator, "What are the pricing tiers?", FEATURES)

    assert not verdict.answer_present
    assert verdict.message == NOTHING


def test_us2_3_all_parts_of_a_question_are_in_several_chunks(validator: Validator) -> None:
    verdict = judged(validator, "Who founded Acme and when did Acme move to Berlin?", ACME)

    assert verdict.answer_present
    assert set(quotes(verdict)) == {"c1", "c2"}


def test_us2_3_a_missing_part_is_named_and_not_inferred(validator: Validator) -> None:
    verdict = judged(validator, BATTERY, X200)

    assert not verdict.answer_present
    assert verdict.retrieval_quality == "Partial"
    assert "Who designed the X200" in verdict.message


def test_us3_1_the_lines_of_the_chunk_are_quoted_verbatim(validator: Validator) -> None:
    opening_hours = f"Welcome. {MUSEUM[0]} Please queue."
    texts = [MUSEUM[1], MUSEUM[2], opening_hours]

    verdict = judged(validator, "When does the museum open?", texts)
    assert quotes(verdict) == {"c3": MUSEUM[0]}


def test_us3_2_an_answer_in_two_chunks_is_quoted_from_both(validator: Validator) -> None:
    verdict = judged(validator, OPENS, MUSEUM)

    assert quotes(verdict) == {"c1": MUSEUM[0], "c4": MUSEUM[3]}


def test_us3_3_only_the_parts_that_are_there_are_quoted(validator: Validator) -> None:
    verdict = judged(validator, BATTERY, X200)

    assert quotes(verdict) == {"c1": X200[0]}


def test_us4_1_a_full_answer_is_good(validator: Validator) -> None:
    verdict = judged(validator, OPENS, MUSEUM)

    assert verdict.retrieval_quality == "Good"


def test_us4_2_the_topic_without_the_answer_is_partial(validator: Validator) -> None:
    verdict = judged(validator, "How long is the warranty of the X200?", WARRANTY)

    assert verdict.retrieval_quality == "Partial"


def test_us4_3_unrelated_chunks_are_poor(validator: Validator) -> None:
    verdict = judged(validator, "Who designed the Eiffel Tower?", X200)

    assert verdict.retrieval_quality == "Poor"


# --- edge cases

YEAR = "When was the company founded?"


def kinds_of_warnings(verdict: Verdict) -> set[str]:
    return {str(warning.kind) for warning in verdict.inspection or ()}


def test_ec_1_no_chunks(validator: Validator) -> None:
    verdict = judged(validator, YEAR, [])

    assert verdict.message == NOTHING
    assert verdict.retrieval_quality == "Poor"


@pytest.mark.parametrize("text", ["\x00\ufffd\ufffd", "\udcff broken", "%PDF-1.7 \x01\x02\x03"])
def test_ec_2_damaged_texts(validator: Validator, text: str) -> None:
    verdict = judged(validator, YEAR, [text, FOUNDED[1]])

    assert verdict.relevant_chunk_ids == ("c2",)


def test_ec_2_damaged_lines_of_a_dump_are_counted_and_the_others_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good_line = json.dumps({"query": YEAR, "chunks": [{"id": "a", "text": FOUNDED[1]}]})
    broken_line = '{"query": "broken'
    path = tmp_path / "dump.jsonl"
    path.write_text(f"{good_line}\n{broken_line}\n{good_line}\n", "utf-8")

    main(["validate", str(path), "--validator", "lexical", "--json", "-q"])

    printed = capsys.readouterr()
    assert printed.out.count('"answer_present"') == 2
    assert "dump.jsonl:2" in printed.err


@pytest.mark.parametrize("ids", [("", ""), ("a", "a")], ids=["missing", "equal"])
def test_ec_3_ids_that_are_missing_or_equal(validator: Validator, ids: tuple[str, str]) -> None:
    chunks = [Chunk(id=id_, text=text) for id_, text in zip(ids, FOUNDED, strict=True)]

    verdict = validator.validate(YEAR, chunks)
    assert len(verdict.relevance) == 2
    assert len(verdict.relevant_chunk_ids) == 1
    assert verdict.warnings


@pytest.mark.parametrize("query", ["", "   ", "?!"])
def test_ec_4_a_query_that_asks_nothing(validator: Validator, query: str) -> None:
    verdict = judged(validator, query, FOUNDED)

    assert verdict.message == NOTHING
    assert verdict.warnings


def test_ec_5_chunks_that_contradict_each_other(validator: Validator) -> None:
    verdict = judged(validator, YEAR, [FOUNDED[1], "The company was founded in 1987."])

    assert set(quotes(verdict)) == {"c1", "c2"}
    (conflict,) = verdict.conflicts

    assert "1995" in conflict.detail
    assert "1987" in conflict.detail


def test_ec_6_a_chunk_that_is_longer_than_a_model_reads(validator: Validator) -> None:
    filler = "Pumps are sold by the dozen in many colours. " * 80
    long_text = f"{filler}{FOUNDED[1]} {filler}"

    verdict = judged(validator, YEAR, [long_text])

    assert verdict.answer_present
    assert quotes(verdict) == {"c1": FOUNDED[1]}


def test_ec_7_a_query_in_another_language_than_the_chunks(validator: Validator) -> None:
    verdict = judged(validator, "Wann wurde die Firma gegründet?", FOUNDED)

    assert "other_language" in kinds_of_warnings(verdict) or verdict.message == NOTHING


def test_ec_8_metadata_without_a_text(validator: Validator) -> None:
    chunk = Chunk(id="c1", text="", metadata={"title": "Founded in 1995"})

    verdict = validator.validate(YEAR, [chunk])
    assert verdict.message == NOTHING
    assert verdict.relevance == {"c1": pytest.approx(0.0, abs=0.05)}


# --- functional requirements


class Printed(NamedTuple):
    code: int
    text: str


@pytest.fixture
def printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Printed:
    """The command's answer to a dump with an answered and an unanswered query."""
    rows = [
        {"query_id": "q1", "query": YEAR, "chunks": [{"id": "a", "text": FOUNDED[1]}]},
        {"query_id": "q2", "query": YEAR, "chunks": [{"id": "b", "text": X200[1]}]},
    ]
    path = tmp_path / "dump.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row) + "\n")
    code = main(["validate", str(path), "--validator", "lexical"])
    return Printed(code, capsys.readouterr().out)


def test_fr_001_to_004_a_query_and_chunks_with_ids_are_judged(validator: Validator) -> None:
    verdict = judged(validator, YEAR, FOUNDED)

    assert set(verdict.relevance) == {"c1", "c2"}
    assert verdict.relevance["c1"] < verdict.relevance["c2"]
    assert verdict.relevant_chunk_ids == ("c2",)


def test_fr_005_to_008_the_four_fields_are_printed(printed: Printed) -> None:
    assert printed.code == 0
    for line in (
        "Relevant Chunks: a",
        "Answer Present: Yes",
        f'"{FOUNDED[1]}"',
        "Retrieval Quality: Good",
        "Answer Present: No",
        "Retrieval Quality: Poor",
    ):
        assert line in printed.text


def test_fr_013_the_sentence_is_printed_exactly(printed: Printed) -> None:
    lines = [line.lstrip() for line in printed.text.splitlines()]

    assert NOTHING in lines


def test_fr_009_to_012_only_texts_of_the_chunks_are_evidence(validator: Validator) -> None:
    """A question of common knowledge that no chunk answers stays open."""
    verdict = judged(validator, "What is the capital of France?", ["France is in Europe."])

    assert not verdict.answer_present
    assert "Paris" not in verdict.message


def test_fr_014_the_validators_import_no_generation() -> None:
    validators = Path(ragbench.__file__).parent / "validators"

    for path in validators.rglob("*.py"):
        imported = re.findall(r"^from ragbench\.(\w+)", path.read_text("utf-8"), re.MULTILINE)
        assert "pipeline" not in imported


def test_fr_016_twenty_chunks_are_judged_in_time(validator: Validator) -> None:
    """SC-002: less than 2 seconds; processor time, so that a busy machine does not count."""
    words = "The pool is open on weekdays and closed on holidays, and the pump is serviced. " * 10
    texts = [f"{words} Note {number}." for number in range(20)]
    judged(validator, YEAR, texts[:1])  # the model is loaded once

    start = time.process_time()
    judged(validator, YEAR, texts)
    seconds = time.process_time() - start

    assert seconds < 2.0


# --- criteria and constraints that hold for every input

POOLS = [
    ("What is photosynthesis?", LIFE),
    ("How do I reset my password?", ACCOUNTS),
    (YEAR, FOUNDED),
    (OPENS, MUSEUM),
    (BATTERY, X200),
    ("", []),
    (YEAR, ["", "\x00"]),
]


@pytest.mark.parametrize(("query", "texts"), POOLS, ids=range(len(POOLS)))
def test_sc_005_and_006_every_quote_is_a_slice_of_its_chunk(
    validator: Validator, query: str, texts: list[str]
) -> None:
    text_of = {chunk.id: chunk.text for chunk in numbered(texts)}

    for quote in judged(validator, query, texts).evidence:
        text = text_of[quote.chunk_id]
        assert quote.text != ""
        assert text[quote.start : quote.end] == quote.text


@pytest.mark.parametrize(("query", "texts"), POOLS, ids=range(len(POOLS)))
def test_sc_008_and_009_every_verdict_is_whole_and_the_same_each_time(
    validator: Validator, query: str, texts: list[str]
) -> None:
    """Also the constraints: deterministic, and no chunk is changed."""
    chunks = numbered(texts)

    verdict = validator.validate(query, chunks)

    assert verdict == validator.validate(query, chunks)
    assert chunks == numbered(texts)
    assert verdict.retrieval_quality in ("Good", "Partial", "Poor")
    assert set(verdict.relevance) == {chunk.id for chunk in chunks}
    assert set(verdict.relevant_chunk_ids) <= set(verdict.relevance)
    assert (verdict.message == NOTHING) == (not verdict.relevant_chunk_ids)


def test_a_dump_that_is_none_is_refused(tmp_path: Path) -> None:
    """EC-2 for a whole file."""
    path = tmp_path / "dump.jsonl"
    path.write_text("nothing of the kind\n", "utf-8")

    with pytest.raises(DataError, match=r"dump\.jsonl:1"), open_dump(path) as dump:
        list(dump)
