"""The local validator, with a tiny reader and with the reader that comes with ragbench.

The tiny reader knows the words w0 to w9. Its logit for a pair is the highest word number minus
five, and its answer starts at the highest word: "w9" is what it takes for an answer.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragbench import Chunk
from ragbench.core.validation import RetrievalQuality, Verdict
from ragbench.errors import ConfigError
from ragbench.stages.validate import validator_fingerprint
from ragbench.text.pair_reader import PairReader, PairReading
from ragbench.validators import local
from ragbench.validators.calibration import (
    Calibration,
    PlattScale,
    Thresholds,
    calibration_text,
)
from ragbench.validators.lexical import LexicalValidator
from ragbench.validators.local import LocalValidator
from ragbench.validators.validator import Validator
from tests.unit.post.tiny_onnx import write_tiny_cross_encoder

pytestmark = pytest.mark.extra("onnx")


@pytest.fixture
def tiny(tmp_path: Path) -> str:
    """The folder of the tiny reader."""
    return str(write_tiny_cross_encoder(tmp_path / "tiny", reads=True))


@pytest.fixture(scope="module")
def shipped() -> LocalValidator:
    """With the reader that comes with ragbench."""
    return LocalValidator()


def judge(validator: Validator, query: str, texts: Sequence[str]) -> Verdict:
    """Of chunks with the ids c0, c1, ..."""
    chunks = [Chunk(id=f"c{position}", text=text) for position, text in enumerate(texts)]
    return validator.validate(query, chunks)


def quotes_of(verdict: Verdict) -> list[str]:
    return [quote.text for quote in verdict.evidence]


# --- long chunks


def test_the_last_word_of_a_long_chunk_is_read(tiny: str) -> None:
    validator = LocalValidator(reader=tiny, max_length=64)
    filler = "w1 w2 w3. " * 400

    without_answer = judge(validator, "w1 w2 w3?", [filler])
    with_answer = judge(validator, "w1 w2 w3?", [f"{filler}w9."])

    assert with_answer.relevance["c0"] > without_answer.relevance["c0"]


def test_of_more_windows_than_are_read_those_with_the_query_s_words_are(tiny: str) -> None:
    validator = LocalValidator(reader=tiny, max_length=64)
    filler = "w4 w5 w6. " * 3000

    without_answer = judge(validator, "w1 w2 w3?", [filler])
    with_answer = judge(validator, "w1 w2 w3?", [f"{filler}w1 w2 w3 w9. "])

    assert with_answer.relevance["c0"] > 2 * without_answer.relevance["c0"]
    assert "read for words alone" in "\n".join(with_answer.warnings)


@pytest.mark.parametrize(
    ("sentences", "windows_read"),
    [
        pytest.param(1_000, 12, id="all of 12 windows"),
        pytest.param(10_000, 8, id="8 of 112 windows"),
    ],
)
def test_of_a_very_long_chunk_only_the_best_windows_by_words_are_read(
    tiny: str, monkeypatch: pytest.MonkeyPatch, sentences: int, windows_read: int
) -> None:
    window_counts: list[int] = []
    read = PairReader.read

    def count_windows(reader: PairReader, pairs: Sequence[tuple[str, str]]) -> list[PairReading]:
        window_counts.append(len(pairs))
        return read(reader, pairs)

    monkeypatch.setattr(PairReader, "read", count_windows)

    judge(LocalValidator(reader=tiny), "w1 w2 w3?", ["w4 w5 w6. " * sentences])

    assert window_counts == [windows_read]


def test_a_query_that_leaves_no_room_for_the_text_is_cut_and_it_is_said(tiny: str) -> None:
    validator = LocalValidator(reader=tiny, max_length=64)

    verdict = judge(validator, "w1 " * 40, ["w1 w2."])

    assert "read the first 16" in "\n".join(verdict.warnings)


# --- settings and identity


def test_a_copy_of_a_reader_has_the_same_fingerprint(tiny: str, tmp_path: Path) -> None:
    copy = shutil.copytree(tiny, tmp_path / "copy")

    fingerprint = validator_fingerprint(LocalValidator(reader=str(copy)))

    assert fingerprint == validator_fingerprint(LocalValidator(reader=tiny))


def changed_copy(reader: str, folder: Path, file: str) -> str:
    """A copy of a reader of which one file has a byte more."""
    shutil.copytree(reader, folder)
    path = folder / file
    path.write_bytes(path.read_bytes() + b" ")
    return str(folder)


def test_verdicts_of_another_reader_or_setting_are_not_taken_again(
    tiny: str, tmp_path: Path
) -> None:
    other_model = changed_copy(tiny, tmp_path / "model", "model.onnx")
    other_tokenizer = changed_copy(tiny, tmp_path / "tokenizer", "tokenizer.json")
    validators = [
        LocalValidator(reader=tiny),
        LocalValidator(reader=other_model),
        LocalValidator(reader=other_tokenizer),
        LocalValidator(reader=tiny, read=5),
        LocalValidator(reader=tiny, present=0.9),
        LocalValidator(),
    ]

    fingerprints = {validator_fingerprint(validator) for validator in validators}

    assert len(fingerprints) == 6


def test_a_setting_out_of_range_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        LocalValidator(read=0)


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"must hold 'tokenizer.json'"):
        LocalValidator(reader=str(tmp_path))


# --- a reader with a second tower, which says whether a text on the topic answers


@pytest.fixture
def doubting(tmp_path: Path) -> str:
    """As the tiny reader, with a second tower that says the opposite: minus the logit."""
    folder = write_tiny_cross_encoder(tmp_path / "doubting", reads=True, doubts=True)
    return str(folder)


# Logits 4 and -4; of the second tower -4 and 4.
ANSWER_AND_STRANGER = ["w1 w2 w3. w9", "w1 w0."]


def test_what_a_second_tower_does_not_find_answered_stays_on_the_topic(
    tiny: str, doubting: str
) -> None:
    alone = LocalValidator(reader=tiny, relevant=0.5, present=0.8)
    with_second_tower = LocalValidator(reader=doubting, relevant=0.5, present=0.8)

    believed = judge(alone, "w1 w2 w3?", ANSWER_AND_STRANGER)
    doubted = judge(with_second_tower, "w1 w2 w3?", ANSWER_AND_STRANGER)

    assert believed.retrieval_quality is RetrievalQuality.GOOD
    assert doubted.retrieval_quality is RetrievalQuality.PARTIAL
    assert doubted.relevant_chunk_ids == ("c0",)
    assert doubted.reasons[-1].startswith("c0: near miss (0.62)")


def test_a_second_tower_brings_nothing_onto_the_topic(tiny: str, doubting: str) -> None:
    alone = LocalValidator(reader=tiny, relevant=0.5, present=0.8)
    with_second_tower = LocalValidator(reader=doubting, relevant=0.5, present=0.8)

    believed = judge(alone, "w1 w2 w3?", ANSWER_AND_STRANGER)
    doubted = judge(with_second_tower, "w1 w2 w3?", ANSWER_AND_STRANGER)

    # The second tower likes c1.
    assert doubted.relevance["c1"] == believed.relevance["c1"]


def test_the_readers_span_decides_what_is_quoted(tiny: str) -> None:
    # The tiny reader starts at the highest word; all that is not a word counts as the lowest one.
    text = "w3 w4 w5. 7 w4 w4. 7 w9 w1. 7 w4."

    by_words = judge(LexicalValidator(relevant=0.0001), "w3 w4 w5?", [text])
    by_reader = judge(LocalValidator(reader=tiny, relevant=0.0001), "w3 w4 w5?", [text])

    assert "w9 w1." not in " ".join(quotes_of(by_words))
    assert "w9 w1." in " ".join(quotes_of(by_reader))


# --- the reader that comes with ragbench

FIRM_OFFICES = "The firm has offices in Bergen and Turku, and starts at eight in the morning."
FIRM_HISTORY = [
    "Its business is the making of pumps for ships.",
    "Two engineers from Oslo set the company up in 1995. It began with four people.",
]


def test_the_shipped_reader_finds_an_answer(shipped: LocalValidator) -> None:
    verdict = judge(
        shipped, "Which two cities has the firm offices in?", [*FIRM_HISTORY, FIRM_OFFICES]
    )

    assert verdict.answer_present


def test_the_shipped_reader_sees_that_the_answer_is_gone(shipped: LocalValidator) -> None:
    verdict = judge(shipped, "Which two cities has the firm offices in?", FIRM_HISTORY)

    assert not verdict.answer_present


def test_the_shipped_reader_quotes_what_is_below_a_heading(shipped: LocalValidator) -> None:
    text = "Cancelling a ticket\nOpen the booking and tap 'Return'; the price is paid back."

    verdict = judge(shipped, "How do I cancel a train ticket?", [text])

    assert verdict.answer_present
    assert "Open" in " ".join(quotes_of(verdict))


def test_a_heading_alone_is_no_answer(shipped: LocalValidator) -> None:
    verdict = judge(shipped, "How do I cancel a train ticket?", ["Cancelling a ticket"])

    assert not verdict.answer_present
    assert "Open" not in " ".join(quotes_of(verdict))


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        ("What did the two engineers from Oslo study?", "it does not say 'study'"),
        ("How many engineers left the company in 1995?", "it does not say 'left'"),
        ("When do the offices in Bergen close?", "answers another question"),
    ],
)
def test_the_shipped_reader_takes_no_question_of_the_same_things_for_this_one(
    shipped: LocalValidator, question: str, reason: str
) -> None:
    verdict = judge(shipped, question, [*FIRM_HISTORY, FIRM_OFFICES])

    assert verdict.retrieval_quality is RetrievalQuality.PARTIAL
    assert reason in "\n".join(verdict.reasons)


def test_words_answer_to_what_the_reader_does_not_understand(shipped: LocalValidator) -> None:
    query = "合同什么时候到期？"
    texts = ["本合同于2023年12月31日到期。", "付款应在三十天内完成。"]

    verdict = judge(shipped, query, texts)
    by_words = judge(LexicalValidator(), query, texts)

    assert verdict.relevance == by_words.relevance
    assert verdict.evidence == by_words.evidence
    assert verdict.details["read_by_models"] == 0.0
    (warning,) = [warning for warning in verdict.warnings if "words alone decided" in warning]
    assert "(zh)" in warning


@pytest.mark.parametrize(
    ("query", "language"),
    [
        ("När grundades företaget?", "sv"),
        ("Kiedy założono firmę?", "pl"),
        ("Kapan perusahaan didirikan?", "id"),
        ("Công ty được thành lập khi nào?", "vi"),
        ("מתי נוסדה החברה?", "he"),
    ],
)
def test_the_reader_is_not_asked_in_languages_that_it_was_not_taught(
    shipped: LocalValidator, query: str, language: str
) -> None:
    verdict = judge(shipped, query, ["Potatoes are rich in starch."])

    assert not verdict.answer_present
    assert f"({language})" in "\n".join(verdict.warnings)


def test_keywords_are_read_as_english_and_it_is_said(shipped: LocalValidator) -> None:
    verdict = judge(shipped, "badge desk 9443", ["The badge desk listens on port 9443."])

    assert verdict.details["read_by_models"] == 1.0
    assert "took it for English" in "\n".join(verdict.reasons)


# --- which chunks are read


def test_chunks_that_nobody_read_are_said(tiny: str) -> None:
    validator = LocalValidator(reader=tiny, read=2, embedder=None)

    verdict = judge(validator, "w1 w2 w3?", ["w1 w2", "w3", "w4 w5", "w6 w9", ""])

    assert "2 of 5 chunks were not read" in "\n".join(verdict.reasons)


def test_where_every_chunk_is_read_nothing_is_said_of_it(tiny: str) -> None:
    validator = LocalValidator(reader=tiny, read=2, embedder=None)

    verdict = judge(validator, "w1 w2 w3?", ["w1 w2", "w3"])

    assert "not read" not in "\n".join(verdict.reasons)


def test_half_of_the_chunks_that_are_read_are_the_nearest_by_meaning(
    tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class OnlyW9IsNear:
        """The text with w9 lies near to any query, and no other text does."""

        def embed_queries(self, texts: Sequence[str]) -> Any:
            return np.ones((len(texts), 1))

        def embed_passages(self, texts: Sequence[str]) -> Any:
            vectors = [[1.0] if "w9" in text else [0.0] for text in texts]
            return np.array(vectors)

    monkeypatch.setattr(local, "_open_embedder", lambda name: OnlyW9IsNear())
    texts = ["w1 w2 w3", "w1 w2", "w1", "w9 w8"]
    settings: dict[str, Any] = {"reader": tiny, "read": 2, "present": 0.999}

    by_words = judge(LocalValidator(embedder=None, **settings), "w1 w2 w3?", texts)
    by_both = judge(LocalValidator(embedder="hashing:8", **settings), "w1 w2 w3?", texts)

    assert by_both.relevance["c3"] > 2 * by_words.relevance["c3"]
    assert "words and meaning" in "\n".join(by_both.reasons)


@pytest.fixture
def texts_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every text that the model is asked to read from here on, in its order."""
    texts_read: list[str] = []
    readings_of = local.readings_of

    def note_texts(files: Any, query: str, texts: Sequence[str], **settings: Any) -> Any:
        texts_read.extend(texts)
        return readings_of(files, query, texts, **settings)

    monkeypatch.setattr(local, "readings_of", note_texts)
    return texts_read


TWELVE_WITHOUT_ANSWER = [f"w1 w2 w{number % 3} word {number}." for number in range(12)]


def test_reading_ends_where_one_of_the_first_few_chunks_answers(
    tiny: str, texts_read: list[str]
) -> None:
    validator = LocalValidator(reader=tiny, read=12)

    verdict = judge(validator, "w1 w2 w3?", ["w1 w2 w3. w9", *TWELVE_WITHOUT_ANSWER])

    assert verdict.answer_present
    assert len(texts_read) <= 6


def test_where_no_chunk_answers_all_are_read(tiny: str, texts_read: list[str]) -> None:
    validator = LocalValidator(reader=tiny, read=12)

    verdict = judge(validator, "w1 w2 w3?", TWELVE_WITHOUT_ANSWER)

    assert not verdict.answer_present
    assert len(texts_read) == 12


# --- the pair reader


def tiny_pair_reader(folder: str) -> PairReader:
    model = Path(folder) / "model.onnx"
    tokenizer = Path(folder) / "tokenizer.json"
    return PairReader(model, tokenizer, threads=2)


def test_the_best_span_of_the_text_is_found(tiny: str) -> None:
    # Start logits are 3 1 8 2 4, end logits their negatives: of spans in the text "w8 w2 w4" the
    # best begins at w8 and ends at w2, with 8 - 2; "no answer" is the first token's 3 - 3.
    text = "w8 w2 w4"

    (reading,) = tiny_pair_reader(tiny).read([("w3 w1", text)])

    assert text[reading.start : reading.end] == "w8 w2"
    assert reading.span == pytest.approx(8 - 2)
    assert reading.logit == pytest.approx(8 - 5)


def test_a_text_without_tokens_has_an_empty_span(tiny: str) -> None:
    _, reading = tiny_pair_reader(tiny).read([("w3 w1", "w8 w2 w4"), ("w1", "")])

    assert reading.start == 0
    assert reading.end == 0


# --- any other reader


def test_a_reader_without_spans_quotes_by_words(tmp_path: Path) -> None:
    folder = write_tiny_cross_encoder(tmp_path / "cross")
    text = "w8 w8. The mill was built in 1743."

    verdict = judge(LocalValidator(reader=str(folder)), "When was the mill built?", [text])

    assert quotes_of(verdict) == ["The mill was built in 1743."]


def write_calibration(folder: Path, model: str) -> str:
    """The path of a file that was made with 20 labels for the model of this digest."""
    calibration = Calibration(
        validator="local",
        scale=PlattScale(),
        thresholds=Thresholds(relevant=0.3, present=0.6),
        labels=20,
        model=model,
    )
    path = folder / "calibration.json"
    path.write_text(calibration_text(calibration), "utf-8")
    return str(path)


def test_the_level_of_an_unknown_reader_is_said_not_to_be_measured(tiny: str) -> None:
    verdict = judge(LocalValidator(reader=tiny), "w1 w2 w3?", ["w1 w2 w3. w9"])

    assert verdict.answer_word is None
    assert "the level of this reader was not measured" in verdict.reasons[0]


def test_a_calibration_gives_an_unknown_reader_its_words(tiny: str, tmp_path: Path) -> None:
    digest = LocalValidator(reader=tiny).model_digest
    calibration = write_calibration(tmp_path, digest)

    verdict = judge(LocalValidator(reader=tiny, calibration=calibration), "w1?", ["w1 w9"])

    assert verdict.answer_word is not None
    assert verdict.answer_worth is not None
    assert verdict.answer_worth.labels == 20


def test_a_calibration_of_another_reader_is_refused(tiny: str, tmp_path: Path) -> None:
    calibration = write_calibration(tmp_path, "0123456789ab")

    with pytest.raises(ConfigError, match="was made for the model 0123456789ab, not for"):
        LocalValidator(reader=tiny, calibration=calibration)
