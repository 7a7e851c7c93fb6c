"""Two configured things are described alike exactly when they behave alike."""

from __future__ import annotations

import functools
import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench import build_reranker
from ragbench.ledger.fingerprint import digest, fingerprint
from ragbench.ledger.identity import described

ROOT = Path(__file__).parents[3]


class Power:
    """A reranker of a user's, no dataclass, as in docs/rerankers.md."""

    name = "mine.power"
    limit = 3

    def __init__(self, power: float = 1, deep: object = None) -> None:
        self._power, self.deep = power, deep

    def apply(self, value: float) -> float:
        return value * self._power


class Slotted:
    __slots__ = ("power",)

    def __init__(self, power: float) -> None:
        self.power = power


@dataclass(frozen=True)
class Record:
    power: float = 1
    deep: object = None
    hidden: float = field(default=0, repr=False, compare=False)


def scale(by: float) -> Callable[[float], float]:
    return lambda value: value * by


def with_default(value: float, by: float = 2) -> float:
    return value * by


# --- what two settings differ in


@pytest.mark.parametrize(
    ("setting", "other_setting"),
    [
        pytest.param(Power(1), Power(-1), id="plain class"),
        pytest.param(
            Power(deep=Power(1)),
            Power(deep=Power(2)),
            id="plain class in a plain class",
        ),
        pytest.param(
            Record(deep=Power(1)),
            Record(deep=Power(2)),
            id="plain class in a dataclass",
        ),
        pytest.param(Record(1), Record(2), id="dataclass"),
        pytest.param(Record(), Record(hidden=1), id="field that is not compared"),
        pytest.param(Slotted(1), Slotted(2), id="slots"),
        pytest.param(SimpleNamespace(a=1), SimpleNamespace(a=2), id="namespace"),
        pytest.param(scale(1), scale(2), id="closure"),
        pytest.param(lambda value: value, lambda value: value + 1, id="lambda"),
        pytest.param(
            functools.partial(with_default, by=1),
            functools.partial(with_default, by=2),
            id="partial",
        ),
        pytest.param(Power(1).apply, Power(2).apply, id="bound method"),
        pytest.param(np.arange(3), np.arange(3) + 1, id="array"),
        pytest.param(np.arange(3), np.arange(3.0), id="type of an array"),
        pytest.param(
            ["a"] * 300,
            ["a"] * 299 + ["b"],
            id="text in a long list",
        ),
        pytest.param(
            [Power(1)] * 300,
            [Power(1)] * 299 + [Power(2)],
            id="object in a long list",
        ),
        pytest.param([1, 2], [2, 1], id="order"),
        pytest.param(True, 1, id="true and one"),
        pytest.param(
            {"a": {"b": {"c": [{"d": 1}]}}},
            {"a": {"b": {"c": [{"d": 2}]}}},
            id="depth",
        ),
    ],
)
def test_settings_that_differ_are_described_differently(
    setting: object, other_setting: object
) -> None:
    # As text, because in Python 1 equals True and 1.0.
    description = json.dumps(described(setting))
    other_description = json.dumps(described(other_setting))

    assert description != other_description


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: Power(2), id="an object"),
        pytest.param(lambda: scale(2), id="a closure"),
        pytest.param(lambda: np.arange(3), id="an array"),
        # What a process holds on to while it works is not a setting.
        pytest.param(lambda: Power(deep=threading.Lock()), id="a lock"),
        pytest.param(lambda: Power(deep=random.Random()), id="a source of chance"),
    ],
)
def test_equal_settings_are_described_alike(make: Callable[[], object]) -> None:
    assert described(make()) == described(make())


@dataclass
class Counting:
    """A user's class that counts its calls, which is not a setting."""

    power: int = 1
    calls: int = field(default=0, metadata={"setting": False})


def test_a_field_that_is_no_setting_is_not_described() -> None:
    assert described(Counting(calls=3)) == described(Counting())


def test_the_settings_beside_such_a_field_are_described() -> None:
    assert described(Counting(power=2)) != described(Counting())


# --- models and paths


@pytest.fixture(name="describe_model")
def describe_a_reranker_of_a_folder(tmp_path: Path) -> Callable[[str, str], str]:
    """Describes a reranker whose model is in a folder of this name, with these weights."""

    def describe_model(name: str, weights: str) -> str:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        (folder / "model.onnx").write_text(weights)
        (folder / "tokenizer.json").write_text("{}")
        reranker = build_reranker({"name": "cross_encoder", "model": str(folder)})
        return json.dumps(described(reranker))

    return describe_model


def test_a_model_counts_by_its_bytes(describe_model: Callable[[str, str], str]) -> None:
    assert describe_model("bge", "weights") != describe_model("bge", "other weights")


def test_a_model_does_not_count_by_its_path(describe_model: Callable[[str, str], str]) -> None:
    description = describe_model("bge", "weights")

    assert describe_model("minilm", "weights") == description
    assert "bge" not in description


@pytest.mark.parametrize(
    "setting",
    [
        pytest.param({"language": "lexical"}, id="the name of a folder in a field of no path"),
        pytest.param({"path": "."}, id="the folder that one works in"),
        pytest.param({"model": "owner/name"}, id="a name of a model"),
    ],
)
def test_a_name_that_is_no_path_stays_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: dict[str, str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lexical").mkdir()

    assert described(setting) == setting


def test_a_folder_in_a_field_of_a_path_counts_by_its_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lexical").mkdir()
    (tmp_path / "lexical" / "a.txt").write_text("before")
    before = described({"corpus": "lexical"})

    (tmp_path / "lexical" / "a.txt").write_text("after, and longer")

    after = described({"corpus": "lexical"})
    assert before["corpus"].startswith("folder#")
    assert after["corpus"].startswith("folder#")
    assert after != before


# --- code


MODULE_WITH_SETS = """
import re

class Filter:
    def __init__(self):
        self.words = {'b', 'a', 'c'}
        self.rule = re.compile('x', re.I)
        self.call = lambda value, words=frozenset({'x', 'y', 'z'}): value in {'p', 'q'}
"""
DESCRIBE = """
import json, sys
from ragbench.ledger.identity import described
from filters import Filter

typed = type('Typed', (Filter,), {})()  # a class of a prompt, or a notebook
print(json.dumps(described([Filter(), typed])))
"""


def test_a_description_is_the_same_in_every_process(tmp_path: Path) -> None:
    (tmp_path / "filters.py").write_text(MODULE_WITH_SETS)
    folders = os.pathsep.join([str(ROOT), str(tmp_path)])

    def described_with(hash_seed: str) -> bytes:
        """By a process of its own; the order of a set depends on the seed."""
        environment = {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": folders}
        return subprocess.check_output([sys.executable, "-c", DESCRIBE], env=environment)

    assert described_with("1") == described_with("2")


def class_of(source: str) -> Any:
    """A class without a file, as a notebook defines it."""
    namespace: dict[str, Any] = {"__name__": "notebook"}
    exec(source, namespace)
    return namespace["Scale"]


SCALE = "class Scale:\n    def apply(self): return 1\n"


def test_code_without_a_file_counts_by_what_it_does() -> None:
    scale_class = class_of(SCALE)
    changed_class = class_of(SCALE.replace("return 1", "return 2"))

    assert described(changed_class) != described(scale_class)


def test_the_place_of_code_without_a_file_does_not_count() -> None:
    scale_class = class_of(SCALE)
    moved_class = class_of("\n\n" + SCALE)

    assert described(moved_class) == described(scale_class)


# --- digests and fingerprints


def test_where_parts_end_changes_their_digest() -> None:
    assert digest([b"ab", b"c"]) != digest([b"a", b"bc"])
    assert digest([b"ab"]) != digest([b"ab", b""])


PARTS = st.lists(st.binary(max_size=4), max_size=4)


@given(PARTS, PARTS)
def test_digests_are_equal_for_equal_parts_alone(parts: list[bytes], others: list[bytes]) -> None:
    assert (digest(parts) == digest(others)) is (parts == others)


KEYS = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.dictionaries(KEYS, st.integers(0, 9)))
def test_the_order_of_keys_does_not_change_a_fingerprint(value: dict[str, int]) -> None:
    reversed_value = dict(reversed(value.items()))

    assert fingerprint(value) == fingerprint(reversed_value)
