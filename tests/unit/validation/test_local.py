"""The local validator with a tiny model whose logit is the highest word number minus five."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from ragbench.errors import ConfigError
from ragbench.models.onnx_pairs import load_pair_classifier
from ragbench.records.corpus import Chunk
from ragbench.records.validation import Validation
from ragbench.text.sentences import Span
from ragbench.validation.lexical_features import LEXICAL_FEATURES
from ragbench.validation.lexical_scores import ScoredChunk
from ragbench.validation.local import LocalValidator
from ragbench.validation.local_features import LOCAL_FEATURES, local_features
from ragbench.validation.pair_windows import fitted_query, fitting_windows
from tests.unit.postretrieval.rerankers.models import model_folder
from tests.unit.postretrieval.rerankers.tiny_onnx import write_tiny_cross_encoder

pytest.importorskip("onnxruntime", reason="pip install 'ragbench[onnx]'")
NOTHING = "No relevant information found in retrieved data."


@pytest.fixture
def tiny(tmp_path: Path) -> str:
    return str(write_tiny_cross_encoder(tmp_path / "tiny"))


def judge(validator: LocalValidator, query: str, texts: Sequence[str]) -> Validation:
    chunks = [Chunk(id=f"c{at}", text=text) for at, text in enumerate(texts)]
    return validator.validate(query, chunks)


def test_the_models_word_counts(tiny: str) -> None:
    validator = LocalValidator(cross_encoder=tiny)
    verdict = judge(validator, "w1 w2 w3?", ["w1 w2 w3. w9", "w1 w2 w3. w4"])
    assert verdict.relevance["c0"] > verdict.relevance["c1"]


def test_only_the_best_by_words_are_read(tiny: str) -> None:
    validator = LocalValidator(cross_encoder=tiny, read=1)
    verdict = judge(validator, "w1 w2 w3?", ["w9 w9", "w1 w2 w3. w8"])
    assert verdict.details["read_by_models"] == 1.0
    assert "c0" not in verdict.relevant_chunk_ids


def test_no_word_of_a_long_chunk_goes_unread(tiny: str) -> None:
    filler = "w1 w2 w3. " * 400
    validator = LocalValidator(cross_encoder=tiny, max_length=64)
    plain = judge(validator, "w1 w2 w3?", [filler])
    marked = judge(validator, "w1 w2 w3?", [filler + "w9."])
    assert marked.relevance["c0"] > plain.relevance["c0"]


@pytest.mark.parametrize("texts", [[], [""], [" ", "\x00"]])
def test_nothing_to_read_is_no_error(tiny: str, texts: list[str]) -> None:
    verdict = judge(LocalValidator(cross_encoder=tiny), "w1 w2?", texts)
    assert verdict.message == NOTHING
    assert verdict.answer_probability < 0.01


def test_a_query_that_leaves_no_room_is_cut_and_it_is_said(tiny: str) -> None:
    validator = LocalValidator(cross_encoder=tiny, max_length=64)
    verdict = judge(validator, "w1 " * 40, ["w1 w2."])
    assert any("read the first 16" in one for one in verdict.warnings)


def test_identity_follows_the_model_and_the_settings(tiny: str, tmp_path: Path) -> None:
    other = write_tiny_cross_encoder(tmp_path / "other", columns=2)
    identities = {
        LocalValidator(cross_encoder=tiny).identity,
        LocalValidator(cross_encoder=str(other)).identity,
        LocalValidator(cross_encoder=tiny, read=5).identity,
        LocalValidator(cross_encoder=tiny, present=0.9).identity,
    }
    assert len(identities) == 4
    assert LocalValidator(cross_encoder=tiny).identity in identities


def test_settings_out_of_range_and_folders_without_a_model_are_refused(
    tiny: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        LocalValidator(cross_encoder=tiny, read=0)
    with pytest.raises(ConfigError, match=r"must hold 'tokenizer.json'"):
        LocalValidator(cross_encoder=str(tmp_path))


def test_features_by_hand() -> None:
    words = ScoredChunk(
        logit=5.0,
        features=tuple(0.5 for _ in LEXICAL_FEATURES),
        sentences=(),
        scores=(),
        window=Span(0, 0),
    )
    rows = local_features([words, words], [4.0, -6.0])
    named = [dict(zip(LOCAL_FEATURES, row, strict=True)) for row in rows]
    assert named[0]["lexical"] == 0.5
    assert [row["cross"] for row in named] == [0.4, -0.6]
    assert [row["cross_behind"] for row in named] == [0.0, 1.0]


def test_a_readers_span_decides_what_is_quoted(tiny: str, tmp_path: Path) -> None:
    # The reader starts at the highest word; all that is no word counts as the lowest one.
    reader = write_tiny_cross_encoder(tmp_path / "reader", reads=True)
    validator = LocalValidator(cross_encoder=tiny, reader=str(reader), relevant=0.0001)
    text = "w3 w4 w5. 7 w4 w4. 7 w9 w1. 7 w4."
    plain = judge(LocalValidator(cross_encoder=tiny, relevant=0.0001), "w3 w4 w5?", [text])
    read = judge(validator, "w3 w4 w5?", [text])
    assert "w9 w1." not in " ".join(one.text for one in plain.evidence)
    assert "w9 w1." in " ".join(one.text for one in read.evidence)
    assert read.relevance == plain.relevance


def test_windows_fit_the_model_and_hold_all(tiny: str) -> None:
    folder = Path(tiny)
    model = load_pair_classifier(folder / "model.onnx", folder / "tokenizer.json", 1)
    text = "w1 w2 w3 w4 w5. " * 60
    windows = fitting_windows(model, "w1 w2", text, 64)
    assert all(model.length("w1 w2", text[slice(*one)]) <= 64 for one in windows)
    assert windows[0].start == 0
    assert windows[-1].end == len(text.rstrip())
    assert fitted_query(model, "w1 w2", 64) == ("w1 w2", None)


@pytest.mark.models
def test_with_real_models_an_answer_in_other_words_is_found() -> None:
    validator = LocalValidator(cross_encoder=str(model_folder("reranker_en")))
    verdict = judge(
        validator,
        "When did the firm start its business?",
        [
            "Its business is the making of pumps for ships.",
            "Two engineers from Oslo founded the company in 1995. It began with four people.",
            "The firm has offices in Bergen and Turku, and starts at eight in the morning.",
        ],
    )
    assert verdict.relevance["c1"] == max(verdict.relevance.values())
