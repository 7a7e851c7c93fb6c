"""The local validator with a tiny reader: its logit is the highest word number minus five, its
answer starts at the highest word; and with the reader that comes with ragbench."""

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
    return str(write_tiny_cross_encoder(tmp_path / "tiny", reads=True))


def judge(validator: Validator, query: str, texts: Sequence[str]) -> Verdict:
    chunks = [Chunk(id=f"c{at}", text=text) for at, text in enumerate(texts)]
    return validator.validate(query, chunks)


def test_no_word_of_a_long_chunk_goes_unread(tiny: str) -> None:
    reader = LocalValidator(reader=tiny, max_length=64)
    filler = "w1 w2 w3. " * 400
    plain, marked = (judge(reader, "w1 w2 w3?", [text]) for text in (filler, f"{filler}w9."))
    assert marked.relevance["c0"] > plain.relevance["c0"]
    # Of more windows than are read, those with the query's words are.
    filler = "w4 w5 w6. " * 3000
    texts = (filler, f"{filler}w1 w2 w3 w9. ")
    plain, marked = (judge(reader, "w1 w2 w3?", [text]) for text in texts)
    assert any("read for words alone" in one for one in marked.warnings)
    assert marked.relevance["c0"] > 2 * plain.relevance["c0"]


def test_of_a_long_chunk_only_the_windows_that_words_find_best_are_read(
    tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths: list[int] = []
    read = PairReader.read

    def count(reader: PairReader, pairs: Sequence[tuple[str, str]]) -> list[PairReading]:
        lengths.append(len(pairs))
        return read(reader, pairs)

    monkeypatch.setattr(PairReader, "read", count)
    validator = LocalValidator(reader=tiny)
    for sentences in (1_000, 10_000):  # 12 and 112 windows
        judge(validator, "w1 w2 w3?", ["w4 w5 w6. " * sentences])
    assert lengths == [12, 8]


def test_a_query_that_leaves_no_room_is_cut_and_it_is_said(tiny: str) -> None:
    validator = LocalValidator(reader=tiny, max_length=64)
    verdict = judge(validator, "w1 " * 40, ["w1 w2."])
    assert any("read the first 16" in one for one in verdict.warnings)


def test_verdicts_of_another_reader_or_setting_are_not_taken_again(
    tiny: str, tmp_path: Path
) -> None:
    same, model, tokenizer = (shutil.copytree(tiny, tmp_path / name) for name in "abc")
    for other, changed in ((model, "model.onnx"), (tokenizer, "tokenizer.json")):
        (other / changed).write_bytes((other / changed).read_bytes() + b" ")
    known = validator_fingerprint(LocalValidator(reader=tiny))
    assert validator_fingerprint(LocalValidator(reader=str(same))) == known
    readers = [LocalValidator(reader=str(folder)) for folder in (model, tokenizer)]
    settings = [LocalValidator(reader=tiny, read=5), LocalValidator(reader=tiny, present=0.9)]
    others = (*readers, *settings, LocalValidator())
    assert len({known, *map(validator_fingerprint, others)}) == 6


def test_a_setting_out_of_range_and_a_folder_without_a_model_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        LocalValidator(read=0)
    with pytest.raises(ConfigError, match=r"must hold 'tokenizer.json'"):
        LocalValidator(reader=str(tmp_path))


def test_what_a_second_tower_does_not_find_answered_stays_on_the_topic(
    tiny: str, tmp_path: Path
) -> None:
    doubting = write_tiny_cross_encoder(tmp_path / "doubting", reads=True, doubts=True)
    texts = ["w1 w2 w3. w9", "w1 w0."]  # logits 4 and -4; of the second tower -4 and 4
    first = judge(LocalValidator(reader=tiny, relevant=0.5, present=0.8), "w1 w2 w3?", texts)
    both = judge(
        LocalValidator(reader=str(doubting), relevant=0.5, present=0.8), "w1 w2 w3?", texts
    )
    assert first.retrieval_quality is RetrievalQuality.GOOD
    assert both.retrieval_quality is RetrievalQuality.PARTIAL
    assert both.relevant_chunk_ids == ("c0",)
    assert both.reasons[-1].startswith("c0: near miss (0.62)")
    # What was not on the topic before is not made so by the second tower, which likes it.
    assert both.relevance["c1"] == first.relevance["c1"]


def test_the_readers_span_decides_what_is_quoted(tiny: str) -> None:
    # The tiny reader starts at the highest word; all that is not a word counts as the lowest one.
    text = "w3 w4 w5. 7 w4 w4. 7 w9 w1. 7 w4."
    plain = judge(LexicalValidator(relevant=0.0001), "w3 w4 w5?", [text])
    read = judge(LocalValidator(reader=tiny, relevant=0.0001), "w3 w4 w5?", [text])
    assert "w9 w1." not in " ".join(one.text for one in plain.evidence)
    assert "w9 w1." in " ".join(one.text for one in read.evidence)


FIRM = [
    "Its business is the making of pumps for ships.",
    "Two engineers from Oslo set the company up in 1995. It began with four people.",
    "The firm has offices in Bergen and Turku, and starts at eight in the morning.",
]


def test_the_reader_that_comes_along_misses_no_answer_that_is_gone() -> None:
    question = "Which two cities has the firm offices in?"
    there, gone = (judge(LocalValidator(), question, texts) for texts in (FIRM, FIRM[:2]))
    assert (there.answer_present, gone.answer_present) == (True, False)
    headed = "Cancelling a ticket\nOpen the booking and tap 'Return'; the price is paid back."
    for text in (headed, headed[:19]):  # a heading alone says nothing
        answer = judge(LocalValidator(), "How do I cancel a train ticket?", [text])
        assert answer.answer_present is (text == headed) is ("Open" in repr(answer.evidence))


def test_the_shipped_reader_takes_no_question_of_the_same_things_for_this_one() -> None:
    for question, said in (
        ("What did the two engineers from Oslo study?", "it does not say 'study'"),
        ("How many engineers left the company in 1995?", "it does not say 'left'"),
        ("When do the offices in Bergen close?", "answers another question"),
    ):
        verdict = judge(LocalValidator(), question, FIRM)
        assert verdict.retrieval_quality is RetrievalQuality.PARTIAL
        assert any(said in one for one in verdict.reasons)


def test_words_answer_to_what_the_reader_does_not_understand() -> None:
    query = "合同什么时候到期？"
    texts = ["本合同于2023年12月31日到期。", "付款应在三十天内完成。"]
    verdict, words = (judge(one, query, texts) for one in (LocalValidator(), LexicalValidator()))
    assert verdict.relevance == words.relevance
    assert verdict.evidence == words.evidence
    assert verdict.details["read_by_models"] == 0.0
    assert any("words alone decided" in one and "(zh)" in one for one in verdict.warnings)


def test_the_reader_is_not_asked_in_languages_that_it_was_not_taught() -> None:
    for query, language in (
        ("När grundades företaget?", "sv"),
        ("Kiedy założono firmę?", "pl"),
        ("Kapan perusahaan didirikan?", "id"),
        ("Công ty được thành lập khi nào?", "vi"),
        ("מתי נוסדה החברה?", "he"),
    ):
        verdict = judge(LocalValidator(), query, ["Potatoes are rich in starch."])
        assert not verdict.answer_present
        assert any(f"({language})" in one for one in verdict.warnings)


def test_keywords_are_read_as_english_and_it_is_said() -> None:
    verdict = judge(LocalValidator(), "badge desk 9443", ["The badge desk listens on port 9443."])
    assert verdict.details["read_by_models"] == 1.0
    assert any("took it for English" in one for one in verdict.reasons)


def test_chunks_that_nobody_read_are_said(tiny: str) -> None:
    validator = LocalValidator(reader=tiny, read=2, embedder=None)
    verdict = judge(validator, "w1 w2 w3?", ["w1 w2", "w3", "w4 w5", "w6 w9", ""])
    assert any("2 of 5 chunks were not read" in one for one in verdict.reasons)
    quiet = judge(validator, "w1 w2 w3?", ["w1 w2", "w3"])
    assert not any("not read" in one for one in quiet.reasons)


def test_meaning_has_half_of_the_places(tiny: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Meaning:  # only the text with w9 lies near to any query
        def embed_queries(self, texts: Sequence[str]) -> Any:
            return np.ones((len(texts), 1))

        def embed_passages(self, texts: Sequence[str]) -> Any:
            return np.array([[1.0 if "w9" in text else 0.0] for text in texts])

    monkeypatch.setattr(local, "_open_embedder", lambda name: Meaning())
    texts = ["w1 w2 w3", "w1 w2", "w1", "w9 w8"]
    by_words, both = (
        judge(LocalValidator(reader=tiny, read=2, present=0.999, embedder=one), "w1 w2 w3?", texts)
        for one in (None, "hashing:8")
    )
    assert 2 * by_words.relevance["c3"] < both.relevance["c3"]
    assert any("words and meaning" in one for one in both.reasons)


def test_reading_ends_where_one_of_the_first_few_answers(
    tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    real = local.readings_of

    def counted(files: Any, query: str, texts: Sequence[str], **settings: Any) -> Any:
        read.extend(texts)
        return real(files, query, texts, **settings)

    monkeypatch.setattr(local, "readings_of", counted)
    others = [f"w1 w2 w{at % 3} word {at}." for at in range(12)]
    validator = LocalValidator(reader=tiny, read=12)
    assert judge(validator, "w1 w2 w3?", ["w1 w2 w3. w9", *others]).answer_present
    assert len(read) <= 6
    read.clear()
    assert not judge(validator, "w1 w2 w3?", others).answer_present
    assert len(read) == 12


def test_the_best_span_of_the_text_is_found(tiny: str) -> None:
    # Start logits are 3 1 8 2 4, end logits their negatives: of spans in the text "w8 w2 w4" the
    # best begins at w8 and ends at w2, with 8 - 2; "no answer" is the first token's 3 - 3.
    reader = PairReader(Path(tiny) / "model.onnx", Path(tiny) / "tokenizer.json", threads=2)
    found, without_tokens = reader.read([("w3 w1", "w8 w2 w4"), ("w1", "")])
    assert (without_tokens.start, without_tokens.end) == (0, 0)
    assert (found.start, found.end) == (0, 5)
    assert found.span == pytest.approx(6.0)
    assert found.logit == pytest.approx(3.0)


# --- any other reader


def test_a_reader_without_spans_quotes_by_words(tmp_path: Path) -> None:
    folder = write_tiny_cross_encoder(tmp_path / "cross")
    text = "w8 w8. The mill was built in 1743."
    verdict = judge(LocalValidator(reader=str(folder)), "When was the mill built?", [text])
    assert [quote.text for quote in verdict.evidence] == ["The mill was built in 1743."]


def test_the_words_of_another_reader_count_after_a_calibration(tiny: str, tmp_path: Path) -> None:
    plain = judge(LocalValidator(reader=tiny), "w1 w2 w3?", ["w1 w2 w3. w9"])
    assert plain.answer_word is None
    assert "the level of this reader was not measured" in plain.reasons[0]
    path = tmp_path / "calibration.json"
    path.write_text(calibration_text(made_for(LocalValidator(reader=tiny).model_digest)), "utf-8")
    verdict = judge(LocalValidator(reader=tiny, calibration=str(path)), "w1?", ["w1 w9"])
    assert verdict.answer_word is not None
    assert verdict.answer_worth is not None
    assert verdict.answer_worth.labels == 20


def test_a_calibration_of_another_reader_is_refused(tiny: str, tmp_path: Path) -> None:
    path = tmp_path / "calibration.json"
    path.write_text(calibration_text(made_for("0123456789ab")), "utf-8")
    with pytest.raises(ConfigError, match="was made for the model 0123456789ab, not for"):
        LocalValidator(reader=tiny, calibration=str(path))


def made_for(model: str) -> Calibration:
    return Calibration(
        validator="local",
        scale=PlattScale(),
        thresholds=Thresholds(relevant=0.3, present=0.6),
        labels=20,
        model=model,
    )
