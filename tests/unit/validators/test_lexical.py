"""The validator by words: what only it is asked, long texts, and how validators are built."""

from collections.abc import Sequence
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
    given = [("a", "x"), ("a", "x"), ("a", "y"), ("a", "z"), ("a#2", "w"), (" ", "v")]
    found = inspect_chunks("who wrote this book?", [Chunk(id=i, text=t) for i, t in given])
    ids = {chunk.id: chunk.text for chunk in found.chunks}
    assert ids == {"a": "x", "a#2": "y", "a#3": "z", "a#2#2": "w", "#6": "v"}


def test_one_word_of_another_language_and_code_are_no_problems() -> None:
    code = (
        "class Client:\n    def __init__(self, url: str, wait=3.0):\n        self.wait = wait\n" * 2
    )
    texts = ("Unused vacation expires in March of the next year, and it is not paid.", code)
    chunks = [Chunk(id=str(at), text=text) for at, text in enumerate(texts)]
    assert inspect_chunks("vacation carry over deadline", chunks).warnings == ()


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
    assert not build_validator("lexical").validate(query, [ANSWER]).answer_present


def test_a_long_run_of_marks_ends_one_sentence() -> None:
    text = "So it ends" + "." * LONG + " Then it goes on."
    assert [text[slice(*one)][-3:] for one in split_sentences(text)] == ["...", "on."]


# --- by name and settings


def test_a_validator_is_built_from_its_name_and_settings() -> None:
    built = build_validator({"name": "lexical", "present": 0.7})
    assert isinstance(built, Validator)
    assert build_validator(built) is built
    others = ("lexical", {"name": "lexical", "slots": []})
    assert len({built.identity, *(build_validator(one).identity for one in others)}) == 3
    assert build_validator("lexical").identity == build_validator("lexical").identity
    for name in VALIDATORS.builtin:
        assert isinstance(VALIDATORS.load(name), type)


@pytest.mark.parametrize(
    ("given", "said"),
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
def test_what_cannot_be_built_is_refused(given: object, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        build_validator(given)


def test_a_validator_of_ones_own_that_gives_no_verdict_is_named() -> None:
    own: Any = SimpleNamespace(name="own", validate=lambda query, chunks: {"answer": query})
    with pytest.raises(InterfaceError, match="'own' returned a dict, not a Verdict"):
        validate_query(own, RetrievalDump(query_id="q", query="Who?", chunks=()))


# --- a cascade


class Fixed:
    """A validator that always says the same."""

    def __init__(self, name: str, probability: float) -> None:
        self.name = self.identity = name
        self.probability = probability
        self.asked = 0

    def validate(self, query: str, chunks: Sequence[Chunk]) -> Verdict:
        self.asked += 1
        nothing = build_validator("lexical").validate(query, [])
        return replace(nothing, answer_probability=self.probability, validator=self.name)


def test_only_the_unsure_band_goes_on() -> None:
    for probability, chunks, escalated in (
        (0.0, 1, 0),
        (0.09, 1, 0),
        (0.1, 1, 1),
        (0.5, 1, 1),
        (0.9, 1, 0),
        (1.0, 1, 0),
        (0.5, 0, 0),
    ):
        cheap, dear = Fixed("cheap", probability), Fixed("dear", 0.7)
        cascade = CascadeValidator(first=cheap, second=dear, low=0.1, high=0.9)
        verdict = cascade.validate("q?", [Chunk(id="a", text="x")] * chunks)
        assert dear.asked == verdict.details["escalated"] == escalated
        assert verdict.validator == ("cascade: dear" if escalated else "cascade: cheap")


@pytest.mark.parametrize(("name", "is_other"), [("objections.py", True), ("notes.md", False)])
def test_rules_that_were_edited_make_it_another_validator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, is_other: bool
) -> None:
    """As in a checkout whose version stays while its code changes."""
    (tmp_path / "objections.py").write_text("FIRST = 1\n", "utf-8")
    (tmp_path / "chunk_identity.py").write_text("SAME = 1\n", "utf-8")
    monkeypatch.setattr(validate, "files", lambda _: tmp_path)
    validator, found = LexicalValidator(), list[str]()
    for text in ("FIRST = 1\n", "FIRST = 1\r\n", "FIRST = 2\n"):
        (tmp_path / name).write_bytes(text.encode())
        validate._rules.cache_clear()  # pyright: ignore[reportPrivateUsage]
        found.append(validator_fingerprint(validator))
    validate._rules.cache_clear()  # pyright: ignore[reportPrivateUsage]
    assert found[0] == found[1]  # another checkout's line ends
    assert (found[2] != found[0]) is is_other
