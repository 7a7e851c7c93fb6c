"""Readers through the real sentence-transformers: a small model is made, saved, and loaded again.

Its weights are random, from a seed: what ragbench reads is compared with the model's own logits.
"""

from __future__ import annotations

import math
from importlib import import_module  # its packages are large: no other test needs them
from pathlib import Path
from typing import Any

import pytest

from ragbench import Chunk
from ragbench.text.pair_reader import LoadedReader, find_reader_files, load_reader
from ragbench.validators.local import LocalValidator

pytestmark = [
    pytest.mark.extra("sentence-transformers"),
    pytest.mark.extra("onnx"),
]

QUESTION = "when was the mill built"
TEXT = "the mill was built in 1840"
SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCABULARY = [*SPECIAL_TOKENS, *sorted({*QUESTION.split(), *TEXT.split()})]


def saved_model(folder: Path, labels: dict[int, str]) -> Any:
    """A small BERT with random weights and these labels, in the files that a hub has."""
    torch = import_module("torch")
    transformers = import_module("transformers")
    torch.manual_seed(7)
    config = transformers.BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        initializer_range=1.0,
        id2label=labels,
        label2id={label: number for number, label in labels.items()},
    )
    model = transformers.BertForSequenceClassification(config).eval()
    model.save_pretrained(folder)
    vocabulary_file = folder / "vocab.txt"
    vocabulary_file.write_text("\n".join(VOCABULARY), "utf-8")
    tokenizer = transformers.BertTokenizerFast(str(vocabulary_file))
    tokenizer.save_pretrained(folder)
    return model


def logits_of(model: Any, folder: Path, first: str, second: str) -> list[float]:
    """What the model itself says of a pair, without ragbench."""
    tokenizer = import_module("transformers").AutoTokenizer.from_pretrained(folder)
    encoded = tokenizer(first, second, return_tensors="pt")
    output = model(**encoded)
    logits: list[float] = output.logits.detach()[0].tolist()
    return logits


def test_a_cross_encoder_gives_its_own_logit(tmp_path: Path) -> None:
    model = saved_model(tmp_path, {0: "LABEL_0"})
    reader = load_reader(find_reader_files(str(tmp_path)), 1)

    [reading] = reader.read([(QUESTION, TEXT)])

    assert isinstance(reader, LoadedReader)
    own_logits = logits_of(model, tmp_path, QUESTION, TEXT)
    assert [reading.logit] == pytest.approx(own_logits, abs=1e-4)


def test_entailment_reads_the_text_first_and_weighs_its_label_against_the_others(
    tmp_path: Path,
) -> None:
    labels = {0: "contradiction", 1: "entailment", 2: "neutral"}
    model = saved_model(tmp_path, labels)
    reader = load_reader(find_reader_files(str(tmp_path)), 1)

    [reading] = reader.read([(QUESTION, TEXT)])

    against, entailed, neutral = logits_of(model, tmp_path, TEXT, QUESTION)
    others = math.log(math.exp(against) + math.exp(neutral))
    assert reading.logit == pytest.approx(entailed - others, abs=1e-4)


def test_tokens_are_counted_and_placed_in_the_text(tmp_path: Path) -> None:
    saved_model(tmp_path, {0: "LABEL_0"})
    reader = load_reader(find_reader_files(str(tmp_path)), 1)

    # [CLS] and a [SEP] behind each text.
    assert reader.length(QUESTION, TEXT) == 5 + 6 + 3
    assert reader.offsets("the mill") == [(0, 3), (4, 8)]


def test_a_validator_judges_with_it_and_quotes_by_words(tmp_path: Path) -> None:
    saved_model(tmp_path, {0: "LABEL_0"})
    validator = LocalValidator(reader=str(tmp_path), relevant=1e-6, present=1e-5)

    chunk = Chunk(id="a", text=f"{TEXT}.")
    verdict = validator.validate(f"{QUESTION}?", [chunk])

    assert verdict.answer_word is None  # the words were measured with another reader
    assert [quote.text for quote in verdict.evidence] == [f"{TEXT}."]
