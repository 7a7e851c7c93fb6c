"""What is told of operators and rerankers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pytest

from ragbench.plugins import Registry
from ragbench.post.catalogue import OPERATORS, RERANKERS, Listed, ListedSetting, listed


def setting(name: str, listing: Listed) -> ListedSetting:
    return next(one for one in listing.settings if one.name == name)


def named(registry: Registry) -> dict[str, Listed]:
    return {one.name: one for one in listed(registry)}


@pytest.mark.parametrize("registry", [OPERATORS, RERANKERS])
def test_everything_is_listed_with_a_meaning(registry: Registry) -> None:
    found = named(registry)
    assert list(found) == list(registry.targets())
    for one in found.values():
        assert one.summary.endswith("."), one
        assert "`" not in one.summary
        assert [item.name for item in one.settings if not item.summary] == []


def test_settings_are_told_as_a_file_would_hold_them() -> None:
    operators, rerankers = named(OPERATORS), named(RERANKERS)
    policy = setting("policy", operators["filter.token_budget"])
    assert (policy.type, policy.default, policy.choices) == (
        "one of drop, truncate",
        "drop",
        ("drop", "truncate"),
    )
    assert setting("counter", operators["filter.token_budget"]).default == "approximate"
    budget = setting("budget", operators["filter.token_budget"])
    assert (budget.needed, budget.type, budget.default) == (True, "whole number", None)
    assert setting("rerankers", rerankers["rrf"]).type == "list of reranker"
    factors = setting("factors", rerankers["weighted"])
    assert factors.type == "list of mapping of field, weight, default"
    assert factors.default == [{"field": "score", "weight": 1.0, "default": 0.5}]
    assert [one.name for one in rerankers["http"].settings if one.name == "sleep"] == []


def test_what_a_file_cannot_hold_is_a_need() -> None:
    operators, rerankers = named(OPERATORS), named(RERANKERS)
    assert operators["filter.llm"].needs == ("a language model",)
    assert operators["merge.multi_query"].needs == ("a service with search(query, top_k)",)
    assert rerankers["cross_encoder"].needs == ("extra onnx",)
    assert rerankers["lexical"].needs == ()


def recent(years: int, field: str = "year", *, limit=3) -> None:  # type: ignore[no-untyped-def]  # a plug-in without types
    """Keeps what is new.

    More is not told.
    """


@dataclass(frozen=True)
class Made:
    mode: Literal["a", "b"] | None = None
    names: Sequence[str] = ()


def test_plug_ins_of_any_kind_are_listed() -> None:
    here = __name__
    registry = Registry(kind="things", builtin={"f": f"{here}:recent", "d": f"{here}:Made"})
    function, made = listed(registry)
    assert function.summary == "Keeps what is new."
    assert [(one.name, one.needed, one.default) for one in function.settings] == [
        ("years", True, None),
        ("field", False, "year"),
        ("limit", False, 3),
    ]
    mode = setting("mode", made)
    assert (mode.type, mode.choices, mode.summary) == ("one of a, b", ("a", "b"), "")
    assert setting("names", made).default == []
