"""Readers of every kind. The tiny model's logit is the highest word number minus five, its answer
starts at the highest word."""

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ragbench.errors import ConfigError, MissingExtraError
from ragbench.text.pair_reader import (
    LoadedReader,
    PairReader,
    PairReading,
    find_reader_files,
    import_reader_packages,
    load_reader,
)
from tests.unit.post.tiny_onnx import write_tiny_cross_encoder

pytestmark = pytest.mark.extra("onnx")

QUESTION, TEXT = "w3 w1", "w8 w2 w4"


def write_labels(folder: Path, labels: Sequence[str]) -> None:
    """The names of a model's outputs, as its folder has them."""
    by_position = {str(position): label for position, label in enumerate(labels)}
    (folder / "config.json").write_text(json.dumps({"id2label": by_position}), "utf-8")


def write_reader(folder: Path, labels: Sequence[str] = (), **settings: Any) -> Path:
    """The folder with the tiny model in it."""
    write_tiny_cross_encoder(folder, **settings)
    if labels:
        write_labels(folder, labels)
    return folder


def reading_by(folder: Path) -> PairReading:
    """What the model of a folder makes of the question and the text."""
    reader = load_reader(find_reader_files(str(folder)), 1)
    [reading] = reader.read([(QUESTION, TEXT)])
    return reading


@pytest.mark.parametrize("columns", [1, 2])
def test_a_cross_encoder_gives_a_logit_and_no_span(tmp_path: Path, columns: int) -> None:
    reading = reading_by(write_reader(tmp_path, columns=columns))

    # The highest word is w8, minus five.
    assert reading == PairReading(logit=3.0, span=0.0, start=0, end=0)


def test_of_two_logits_the_label_says_which_is_yes(tmp_path: Path) -> None:
    reading = reading_by(write_reader(tmp_path, ["yes", "no"], columns=2))

    # The outputs are 0 and 3; where the first one is "yes" the pair has -3.
    assert reading.logit == -3.0


def test_a_model_of_question_answering_is_as_sure_as_its_best_span(tmp_path: Path) -> None:
    reading = reading_by(write_reader(tmp_path, columns=0, reads=True))

    # Starts 3 1 8 2 4, ends their negatives: from w8 to w2 8 - 2, and "no answer" 3 - 3.
    assert (reading.start, reading.end) == (0, 5)
    assert reading.span == pytest.approx(6.0)
    assert reading.logit == reading.span


def test_a_model_of_entailment_takes_the_text_first(tmp_path: Path) -> None:
    labels = ["contradiction", "entailment", "neutral"]

    reading = reading_by(write_reader(tmp_path, labels, columns=3, reads=True))

    assert reading.logit == pytest.approx(3.0 - math.log(2))  # against two zeros together
    assert (reading.start, reading.end) == (0, 5)  # offsets of the text, which now comes first


def test_not_entailment_is_not_taken_for_entailment(tmp_path: Path) -> None:
    reading = reading_by(write_reader(tmp_path, ["not_entailment", "entailment"], columns=2))

    assert reading.logit == 3.0


def test_three_logits_without_labels_are_refused(tmp_path: Path) -> None:
    folder = write_reader(tmp_path, columns=3)

    with pytest.raises(ConfigError, match="has 3 logits a pair, and which of them"):
        reading_by(folder)


def test_a_model_of_no_pairs_is_refused(tmp_path: Path) -> None:
    write_tiny_cross_encoder(tmp_path, columns=0, doubts=True)

    with pytest.raises(ConfigError, match="neither logits of a pair nor start and end"):
        PairReader(tmp_path / "model.onnx", tmp_path / "tokenizer.json", threads=1)


def test_a_configuration_that_is_no_json_is_an_error(tmp_path: Path) -> None:
    folder = write_reader(tmp_path)
    (folder / "config.json").write_text("{", "utf-8")

    with pytest.raises(ConfigError, match=r"config.json cannot be read"):
        reading_by(folder)


def test_a_folder_without_any_model_names_both_forms(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'tokenizer.json' .* takes config.json, model.safetens"):
        find_reader_files(str(tmp_path))


# --- models that sentence-transformers loads


class Logits:
    """A tensor, as far as it is used."""

    def __init__(self, row: list[float]) -> None:
        self._row = row

    def detach(self) -> "Logits":
        return self

    def tolist(self) -> list[list[float]]:
        return [self._row]


class Network:
    """Its logit is the number of letters of the second text, between zeros where there are more."""

    def __init__(self, columns: int) -> None:
        self._columns = columns

    def eval(self) -> None:
        pass

    def __call__(self, *, second: str, **_: Any) -> Any:
        letters = float(len(second))
        row = [letters] if self._columns == 1 else [0.0, letters, 0.0]
        return SimpleNamespace(logits=Logits(row))


class CrossEncoder:
    """As sentence-transformers has it."""

    def __init__(self, folder: str, *, device: str) -> None:
        config = json.loads((Path(folder) / "config.json").read_text("utf-8"))
        columns = max(1, len(config.get("id2label", {})))
        self.config = SimpleNamespace(num_labels=columns)
        self.model = Network(columns)

    def tokenizer(self, *texts: str, **_: Any) -> dict[str, Any]:
        words = [word for text in texts for word in text.split()]
        offsets = [(0, len(word)) for word in words]
        return {"input_ids": words, "offset_mapping": offsets, "second": texts[-1]}


@pytest.fixture
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    package = SimpleNamespace(CrossEncoder=CrossEncoder)
    monkeypatch.setitem(sys.modules, "sentence_transformers", package)
    (tmp_path / "config.json").write_text("{}", "utf-8")
    (tmp_path / "model.safetensors").write_text("", "utf-8")
    (tmp_path / "vocab.txt").write_text("", "utf-8")
    return tmp_path


def test_a_folder_of_weights_is_loaded_by_sentence_transformers(loaded: Path) -> None:
    reader = load_reader(find_reader_files(str(loaded)), 1)

    assert isinstance(reader, LoadedReader)
    assert reader.length(QUESTION, TEXT) == 5
    assert reader.offsets("w8") == [(0, 2)]
    # The text has eight letters.
    assert reader.read([(QUESTION, TEXT)]) == [PairReading(logit=8.0, span=0.0, start=0, end=0)]
    assert reader.read([]) == []


def test_entailment_by_sentence_transformers_has_the_text_first(loaded: Path) -> None:
    write_labels(loaded, ["contradiction", "entailment", "neutral"])

    reading = reading_by(loaded)

    # The second text is the question, against two zeros together.
    assert reading.logit == pytest.approx(len(QUESTION) - math.log(2))


def test_a_model_of_question_answering_without_onnx_is_refused(loaded: Path) -> None:
    config = {"architectures": ["RobertaForQuestionAnswering"]}
    (loaded / "config.json").write_text(json.dumps(config), "utf-8")

    with pytest.raises(ConfigError, match="optimum-cli export onnx"):
        reading_by(loaded)


def test_a_missing_sentence_transformers_is_found_before_any_query(
    loaded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_reader_packages(str(loaded))

    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingExtraError, match="sentence-transformers"):
        import_reader_packages(str(loaded))
