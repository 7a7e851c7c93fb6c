"""The validator by words: what only it is asked, long texts, and how validators are built."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ragbench import Chunk, build_validator
from ragbench.core.validation import RetrievalDump, Verdict
from ragbench.errors import ConfigError, InterfaceError
from ragbench.stages import validate
from ragbench.stages.validate import validate_query, validator_fingerprint
from ragbench.text.sentences import split_sentences
from ragbench.validators.inspect import inspect_chunks
from ragbench.validators.lexical import LexicalValidator
from ragbench.validators.validator import VALIDATORS, CascadeValidator, Validator

FOUNDED = "When was the company founded?"
ANSWER = Chunk(id="answer", text="The company was founded in 1995.")
LONG = 100_000
CASCADE = {"name": "cascade", "first": "lexical", "second": "lexical"}


def test_an_id_that_another_chunk_has_becomes_one_of_its_own() -> None:
    chunks = [
        Chunk(id="a", text="x"),
        Chunk(id="a", text="x"),
        Chunk(id="a", text="y"),
        Chunk(id="a", text="z"),
        Chunk(id="a#2", text="w"),
        Chunk(id=" ", text="v"),
    ]

    inspected = inspect_chunks("who wrote this book?", chunks)

    text_of_id = {chunk.id: chunk.text for chunk in inspected.chunks}
    assert text_of_id == {"a": "x", "a#2": "y", "a#3": "z", "a#2#2": "w", "#6": "v"}


CODE = "class Client:\n    def __init__(self, url: str, wait=3.0):\n        self.wait = wait\n"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "Unused vacation expires in March of the next year, and it is not paid.",
            id="a word of another language",
        ),
        pytest.param(CODE * 2, id="code"),
    ],
)
def test_one_word_of_another_language_and_code_are_no_problems(text: str) -> None:
    inspected = inspect_chunks("vacation carry over deadline", [Chunk(id="a", text=text)])

    assert inspected.warnings == ()


# --- texts and queries that a careless pattern would need hours for


@pytest.mark.parametrize(
    "piece", [".", "1", "a", " ", "\n", "A.B. ", "a-b-", "1,234.5 ", "[1]", "é", "|a|b|\n", "\x00"]
)
def test_a_long_chunk_does_not_hide_the_answer_of_another_one(piece: str) -> None:
    long = Chunk(id="long", text=piece * (LONG // len(piece)))

    verdict = build_validator("lexical").validate(FOUNDED, [long, ANSWER])

    assert verdict.relevant_chunk_ids == ("answer",)


@pytest.mark.parametrize(
    "query",
    [
        "What is the answer to this? " * 2000,
        "who is x and what is y " * 2000,
        "a.b-" * 12_000,
        "a" + " " * 48_000 + "b",
        "a" * 48_000,
        "x1 " * 16_000,
    ],
)
def test_a_long_query_is_read_whole(query: str) -> None:
    verdict = build_validator("lexical").validate(query, [ANSWER])

    assert not verdict.answer_present


def test_a_long_run_of_marks_ends_one_sentence() -> None:
    first_sentence = "So it ends" + "." * LONG
    text = f"{first_sentence} Then it goes on."

    sentences = [text[slice(*span)] for span in split_sentences(text)]

    assert sentences == [first_sentence, "Then it goes on."]


# --- by name and settings


def test_a_validator_is_built_from_its_name_and_settings() -> None:
    validator = build_validator({"name": "lexical", "present": 0.7})

    assert isinstance(validator, LexicalValidator)
    assert validator.limits.thresholds.present == 0.7


def test_a_validator_is_taken_as_it_is() -> None:
    validator = build_validator("lexical")

    assert isinstance(validator, Validator)
    assert build_validator(validator) is validator


def test_validators_of_the_same_settings_alone_have_the_same_identity() -> None:
    plain = build_validator("lexical")
    same = build_validator("lexical")
    other_threshold = build_validator({"name": "lexical", "present": 0.7})
    without_slots = build_validator({"name": "lexical", "slots": []})

    assert same.identity == plain.identity
    assert len({plain.identity, other_threshold.identity, without_slots.identity}) == 3


@pytest.mark.parametrize("name", VALIDATORS.builtin)
def test_every_built_in_validator_is_a_class(name: str) -> None:
    assert isinstance(VALIDATORS.load(name), type)


@pytest.mark.parametrize(
    ("validator", "message"),
    [
        ("lexicla", "Did you mean 'lexical'"),
        ({"name": "lexical", "presence": 1}, "unknown setting 'presence'"),
        ({"present": 0.5}, "needs a 'name'"),
        (3, "it lacks name, identity, validate"),
        ({"name": "lexical", "present": 0.0}, "between 0 and 1"),
        ({"name": "lexical", "relevant": 0.9, "present": 0.5}, "at most as high as present"),
        ({**CASCADE, "low": 0.99}, "low first"),
    ],
)
def test_what_cannot_be_built_is_refused(validator: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_validator(validator)


def test_a_validator_of_ones_own_that_gives_no_verdict_is_named() -> None:
    own: Any = SimpleNamespace(name="own", validate=lambda query, chunks: {"answer": query})

    with pytest.raises(InterfaceError, match="'own' returned a dict, not a Verdict"):
        validate_query(own, RetrievalDump(query_id="q", query="Who?", chunks=()))


# --- a cascade


class Fixed:
    """A validator that always says the same."""

    def __init__(self, name: str, probability: float) -> None:
        self.name = name
        self.identity = name
        self.probability = probability
        self.calls = 0

    def validate(self, query: str, chunks: Sequence[Chunk]) -> Verdict:
        self.calls += 1
        verdict_of_nothing = build_validator("lexical").validate(query, [])
        return replace(verdict_of_nothing, answer_probability=self.probability, validator=self.name)


def cascade_from_10_to_90_percent(cheap: Fixed, dear: Fixed) -> CascadeValidator:
    return CascadeValidator(first=cheap, second=dear, low=0.1, high=0.9)


@pytest.mark.parametrize("probability", [0.1, 0.5])
def test_the_unsure_band_goes_on_to_the_second_validator(probability: float) -> None:
    cheap = Fixed("cheap", probability)
    dear = Fixed("dear", 0.7)
    cascade = cascade_from_10_to_90_percent(cheap, dear)

    verdict = cascade.validate("q?", [Chunk(id="a", text="x")])

    assert dear.calls == 1
    assert verdict.details["escalated"] == 1
    assert verdict.validator == "cascade: dear"


@pytest.mark.parametrize(
    ("probability", "chunks"),
    [
        pytest.param(0.0, [Chunk(id="a", text="x")], id="a sure No"),
        pytest.param(0.09, [Chunk(id="a", text="x")], id="just below the band"),
        pytest.param(0.9, [Chunk(id="a", text="x")], id="just above the band"),
        pytest.param(1.0, [Chunk(id="a", text="x")], id="a sure Yes"),
        pytest.param(0.5, [], id="no chunk to read"),
    ],
)
def test_outside_the_band_and_without_chunks_the_first_validator_decides(
    probability: float, chunks: list[Chunk]
) -> None:
    cheap = Fixed("cheap", probability)
    dear = Fixed("dear", 0.7)
    cascade = cascade_from_10_to_90_percent(cheap, dear)

    verdict = cascade.validate("q?", chunks)

    assert dear.calls == 0
    assert verdict.details["escalated"] == 0
    assert verdict.validator == "cascade: cheap"


# --- rules that are edited, as in a checkout whose version stays while its code changes


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the rules of validators."""
    (tmp_path / "objections.py").write_text("FIRST = 1\n", "utf-8")
    (tmp_path / "chunk_identity.py").write_text("SAME = 1\n", "utf-8")
    monkeypatch.setattr(validate, "files", lambda _: tmp_path)
    yield tmp_path
    validate._package_rules.cache_clear()  # pyright: ignore[reportPrivateUsage]


def fingerprint_with(file: Path, text: str) -> str:
    """Of a validator while a file of the rules holds this text."""
    file.write_bytes(text.encode())
    validate._package_rules.cache_clear()  # pyright: ignore[reportPrivateUsage]
    return validator_fingerprint(LexicalValidator())


def test_rules_that_were_edited_make_it_another_validator(rules: Path) -> None:
    before = fingerprint_with(rules / "objections.py", "FIRST = 1\n")
    after = fingerprint_with(rules / "objections.py", "FIRST = 2\n")

    assert after != before


def test_line_ends_of_another_checkout_make_no_other_validator(rules: Path) -> None:
    before = fingerprint_with(rules / "objections.py", "FIRST = 1\n")
    after = fingerprint_with(rules / "objections.py", "FIRST = 1\r\n")

    assert after == before


def test_notes_beside_the_rules_are_no_rules(rules: Path) -> None:
    before = fingerprint_with(rules / "notes.md", "FIRST = 1\n")
    after = fingerprint_with(rules / "notes.md", "FIRST = 2\n")

    assert after == before
