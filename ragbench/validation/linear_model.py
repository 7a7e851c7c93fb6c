"""A logistic regression as a plain file: every number of it can be read."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

from ragbench.errors import ConfigError

__all__ = ["LinearModel", "logistic", "read_model", "shipped"]


@dataclass(frozen=True, kw_only=True, slots=True)
class LinearModel:
    """``logit = bias + sum(weight * term)``; a term is a feature or the product of two."""

    features: tuple[str, ...]
    """Names of the inputs, in the order in which they are given."""
    terms: tuple[tuple[tuple[int, ...], float], ...]
    """Places of the features that are multiplied, and the weight."""
    bias: float

    def logit(self, values: Sequence[float]) -> float:
        """The logit for one row of features."""
        total = self.bias
        for places, weight in self.terms:
            product = weight
            for place in places:
                product *= values[place]
            total += product
        return total


def logistic(logit: float) -> float:
    """1 / (1 + exp(-logit)), without overflow."""
    if logit >= 0:
        return 1 / (1 + math.exp(-logit))
    return math.exp(logit) / (1 + math.exp(logit))


def read_model(given: Mapping[str, Any], features: Sequence[str], *, where: str) -> LinearModel:
    """A model from its stored form ``{"bias": 0.1, "weights": {"a": 1.5, "a*b": -0.2}}``.

    Raises:
        ConfigError: a term names a feature that does not exist, or a number is none.
    """
    places = {name: place for place, name in enumerate(features)}
    terms: list[tuple[tuple[int, ...], float]] = []
    try:
        bias = float(given["bias"])
        for term, weight in given["weights"].items():
            terms.append((tuple(places[name] for name in term.split("*")), float(weight)))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"{where} holds no usable weights: {error}") from error
    return LinearModel(features=tuple(features), terms=tuple(terms), bias=bias)


@lru_cache(maxsize=8)
def shipped(name: str) -> Mapping[str, Any]:
    """A file of weights that comes with ragbench: ``ragbench/validation/weights/<name>.json``."""
    text = files("ragbench.validation").joinpath("weights", f"{name}.json").read_text("utf-8")
    loaded: Mapping[str, Any] = json.loads(text)
    return loaded
