"""Which counter a model gets."""

from __future__ import annotations

import pytest

from ragbench.errors import ConfigError, MissingExtraError
from ragbench.text import token_counter as model_counter
from ragbench.text.token_counter import APPROXIMATE, counter_for_model


def test_a_model_that_nobody_knows_is_counted_about() -> None:
    assert counter_for_model("my-own-model") is APPROXIMATE


def test_without_its_package_or_its_encoding_it_is_counted_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unavailable(*, encoding: str) -> None:
        raise ConfigError(f"{encoding} cannot be downloaded")

    monkeypatch.setattr(model_counter, "TiktokenCounter", unavailable)
    assert counter_for_model("gpt-4o-mini") is APPROXIMATE

    def missing(module: str, *, extra: str) -> None:
        raise MissingExtraError(module, extra)

    monkeypatch.setattr(model_counter, "require", missing)
    assert counter_for_model("gpt-4o-mini") is APPROXIMATE


@pytest.mark.extra("tokens")
def test_a_known_model_gets_its_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def recorded(*, encoding: str) -> object:
        asked.append(encoding)
        return APPROXIMATE

    monkeypatch.setattr(model_counter, "TiktokenCounter", recorded)
    counter_for_model("gpt-4o-mini")
    assert asked == ["o200k_base"]
