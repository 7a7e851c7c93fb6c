"""Token counters: the estimate by hand, real tokenizers by their own package."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from ragbench.errors import ConfigError, MissingExtraError
from ragbench.text import token_counter as counters
from ragbench.text.token_counter import APPROXIMATE, counter_for_model, token_counter

NEEDS = pytest.mark.extra("tokens")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        (" \t ", 0),
        ("a\n\nb", 3),  # a line break is a token
        ("You get 27 days.", 5),
        ("antidisestablishmentarianism", 7),  # pieces of 4 letters where it is not English
        ("1234567", 3),  # and of 3 digits
        ("\u5e74\u4f11\u5047", 5),
        ("\u043f\u0440\u0438\u0432\u0435\u0442", 5),
        ("a,b", 3),
    ],
)
def test_the_estimate(text: str, expected: int) -> None:
    assert APPROXIMATE.count(text) == expected


@pytest.fixture
def word_level(tmp_path: Path) -> Path:
    tokenizers: Any = import_module("tokenizers")
    known = {"[UNK]": 0, "[CLS]": 1, "leave": 2}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(known, "[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A", special_tokens=[("[CLS]", 1)]
    )
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=9)
    path = tmp_path / "tokenizer.json"
    tokenizer.save(str(path))
    return path


@NEEDS
def test_a_tokenizer_file_counts_the_text_alone(word_level: Path, tmp_path: Path) -> None:
    counter = token_counter(f"tokenizers:{word_level}")
    assert counter.count("leave or stay.") == 4  # not cut to 2, not filled to 9, without [CLS]
    assert counter.count("") == 0
    assert not counter.approximate
    assert counter.name.startswith("tokenizers:tokenizer.json:")
    copy = tmp_path / "copy" / "tokenizer.json"
    copy.parent.mkdir()
    copy.write_bytes(word_level.read_bytes())
    assert token_counter(f"tokenizers:{copy}").name == counter.name  # of its content, not its place


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("words", "unknown token counter 'words'. Known: approximate, tiktoken:ENCODING"),
        ("approximate:3", "unknown token counter"),
        ("tiktoken:", "unknown token counter"),
        pytest.param("tokenizers:no.json", "no.json: No such file", marks=NEEDS),
        pytest.param("tokenizers:Makefile", "Makefile is not a tokenizer.json", marks=NEEDS),
        pytest.param("tiktoken:x", "unknown tiktoken encoding 'x'. Known: .*cl100k", marks=NEEDS),
    ],
)
def test_what_is_no_counter_is_refused(
    spec: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parents[3])
    with pytest.raises(ConfigError, match=message):
        token_counter(spec)


def test_a_missing_package_is_reported_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tokenizers", None)
    with pytest.raises(MissingExtraError, match=r"ragbench\[tokens\]"):
        token_counter("tokenizers:x.json")


# --- which counter a model gets


def unavailable(encoding: str) -> None:
    raise ConfigError(f"{encoding} cannot be downloaded")


def missing(module: str, *, extra: str) -> None:
    raise MissingExtraError(module, extra)


@pytest.mark.parametrize(("name", "stub"), [("_of_tiktoken", unavailable), ("require", missing)])
def test_without_its_package_or_its_encoding_a_model_is_estimated(
    monkeypatch: pytest.MonkeyPatch, name: str, stub: object
) -> None:
    assert counter_for_model("my-own-model") is APPROXIMATE
    monkeypatch.setattr(counters, name, stub)
    assert counter_for_model("gpt-4o-mini") is APPROXIMATE


@NEEDS
def test_a_known_model_gets_its_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(counters, "_of_tiktoken", asked.append)
    counter_for_model("gpt-4o-mini")
    assert asked == ["o200k_base"]
