"""Two configured things are described alike exactly when they behave alike."""

from __future__ import annotations

import functools
import json
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


PAIRS: dict[str, tuple[object, object]] = {
    "plain class": (Power(1), Power(-1)),
    "plain class in a plain class": (Power(deep=Power(1)), Power(deep=Power(2))),
    "plain class in a dataclass": (Record(deep=Power(1)), Record(deep=Power(2))),
    "dataclass": (Record(1), Record(2)),
    "field that is not compared": (Record(), Record(hidden=1)),
    "slots": (Slotted(1), Slotted(2)),
    "namespace": (SimpleNamespace(a=1), SimpleNamespace(a=2)),
    "closure": (scale(1), scale(2)),
    "lambda": (lambda value: value, lambda value: value + 1),
    "partial": (functools.partial(with_default, by=1), functools.partial(with_default, by=2)),
    "bound method": (Power(1).apply, Power(2).apply),
    "array": (np.arange(3), np.arange(3) + 1),
    "type of an array": (np.arange(3), np.arange(3.0)),
    "text in a long list": (["a"] * 300, ["a"] * 299 + ["b"]),
    "object in a long list": ([Power(1)] * 300, [Power(1)] * 299 + [Power(2)]),
    "order": ([1, 2], [2, 1]),
    "true and one": (True, 1),
    "depth": ({"a": {"b": {"c": [{"d": 1}]}}}, {"a": {"b": {"c": [{"d": 2}]}}}),
}


@pytest.mark.parametrize("name", PAIRS)
def test_two_settings_are_two_things(name: str) -> None:
    one, other = PAIRS[name]
    assert json.dumps(described(one)) != json.dumps(described(other))
    assert described(one) == described(one)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Power(2),
        lambda: scale(2),
        lambda: np.arange(3),
        # What a process holds on to while it works is not a setting.
        lambda: Power(deep=threading.Lock()),
        lambda: Power(deep=random.Random()),
    ],
)
def test_equal_settings_are_one_thing(make: Callable[[], object]) -> None:
    assert described(make()) == described(make())


def test_a_field_that_is_no_setting_counts_nowhere() -> None:
    @dataclass
    class Counting:
        power: int = 1
        calls: int = field(default=0, metadata={"setting": False})

    assert described(Counting(calls=3)) == described(Counting())
    assert described(Counting(power=2)) != described(Counting())


def test_a_model_counts_by_its_bytes_and_not_by_its_path(tmp_path: Path) -> None:
    def reranker(name: str, weights: str) -> str:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        (folder / "model.onnx").write_text(weights)
        (folder / "tokenizer.json").write_text("{}")
        built = build_reranker({"name": "cross_encoder", "model": str(folder)})
        return json.dumps(described(built))

    first = reranker("one", "weights")
    assert reranker("two", "weights") == first != reranker("one", "other weights")
    assert "one" not in first


def test_names_that_are_no_paths_stay_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lexical").mkdir()
    (tmp_path / "lexical" / "a.txt").touch()
    assert described({"language": "lexical"}) == {"language": "lexical"}
    assert described({"corpus": "lexical"})["corpus"].startswith("folder#")
    assert described({"path": "."}) == {"path": "."}
    assert described({"model": "owner/name"}) == {"model": "owner/name"}


def test_it_is_the_same_in_every_process(tmp_path: Path) -> None:
    (tmp_path / "thing.py").write_text(
        "import re\n"
        "class Held:\n"
        "    def __init__(self):\n"
        "        self.words = {'b', 'a', 'c'}\n"
        "        self.rule = re.compile('x', re.I)\n"
        "        self.call = lambda value, known=frozenset({'x', 'y', 'z'}): value in {'p', 'q'}\n"
    )
    code = (
        f"import sys, json; sys.path[:0] = [{str(ROOT)!r}, {str(tmp_path)!r}];"
        "from thing import Held; from ragbench.ledger.identity import described;"
        "typed = type('Typed', (Held,), {})()  # a class of a prompt, or a notebook\n"
        "print(json.dumps(described([Held(), typed])))"
    )
    one, other = (
        subprocess.check_output([sys.executable, "-c", code], env={"PYTHONHASHSEED": seed})
        for seed in ("1", "2")
    )
    assert one == other


def test_code_without_a_file_counts_by_what_it_does() -> None:
    def made(source: str) -> Any:
        space: dict[str, Any] = {"__name__": "made"}
        exec(source, space)  # as a notebook does
        return space["made"]

    source = "class made:\n    def apply(self): return {}\n"
    first = described(made(source.format(1)))
    assert described(made("\n\n" + source.format(1))) == first
    assert described(made(source.format(2))) != first


@given(st.lists(st.binary(max_size=4), max_size=4), st.lists(st.binary(max_size=4), max_size=4))
def test_where_parts_end_matters(one: list[bytes], other: list[bytes]) -> None:
    assert (digest(one) == digest(other)) == (one == other)


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.integers(0, 9)))
def test_the_order_of_keys_does_not_matter(value: dict[str, int]) -> None:
    assert fingerprint(value) == fingerprint(dict(reversed(value.items())))
