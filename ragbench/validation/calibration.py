"""Probabilities brought in line with a user's own labels: Platt scaling and thresholds."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ragbench.errors import ConfigError
from ragbench.validation.linear_model import logistic
from ragbench.validation.verdict_rule import Thresholds

__all__ = ["Calibration", "PlattScale", "calibration_text", "read_calibration"]

_EDGE = 1e-6
_VERSION = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class PlattScale:
    """``p -> logistic(slope * logit(p) + offset)`` (Platt 1999)."""

    slope: float = 1.0
    """Above 0: the order of probabilities stays."""
    offset: float = 0.0

    def __post_init__(self) -> None:
        """Refuses what would turn the order round."""
        if not (self.slope > 0 and math.isfinite(self.slope) and math.isfinite(self.offset)):
            raise ConfigError("a calibration's slope must be above 0 and its offset a number")

    def apply(self, probability: float) -> float:
        """The probability as the labels have it; 0 stays 0."""
        if probability <= 0:
            return 0.0
        kept = min(max(probability, _EDGE), 1 - _EDGE)
        return logistic(self.slope * math.log(kept / (1 - kept)) + self.offset)


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """What `ragbench.validation.calibrate` learns from labels, for one validator."""

    validator: str
    """The name of the validator whose verdicts were labelled."""
    answer: PlattScale
    """For the probability of an answer."""
    chunk: PlattScale
    """For each chunk's probability."""
    thresholds: Thresholds
    labels: int
    """Queries that it was learned from."""


def calibration_text(calibration: Calibration) -> str:
    """A calibration as the JSON that `read_calibration` reads."""
    stored = {"version": _VERSION, **asdict(calibration)}
    return json.dumps(stored, indent=2, ensure_ascii=False) + "\n"


@lru_cache(maxsize=8)
def read_calibration(path: str, validator: str) -> Calibration:
    """Reads a calibration file.

    Args:
        path: the file.
        validator: whose it must be.

    Raises:
        ConfigError: it cannot be read, holds something else, or was made for another validator.
    """
    try:
        given = json.loads(Path(path).read_text("utf-8"))
        found = _calibration(given)
    except OSError as error:
        raise ConfigError(f"the calibration '{path}' cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"'{path}' holds no calibration: {error!r}") from error
    if found.validator != validator:
        raise ConfigError(
            f"the calibration '{path}' was made for the validator '{found.validator}', "
            f"not for '{validator}'"
        )
    return found


def _calibration(given: Mapping[str, Any]) -> Calibration:
    if given["version"] != _VERSION:
        raise ValueError(f"version {given['version']!r} is not {_VERSION}")
    return Calibration(
        validator=str(given["validator"]),
        answer=PlattScale(**given["answer"]),
        chunk=PlattScale(**given["chunk"]),
        thresholds=Thresholds(**given["thresholds"]),
        labels=int(given["labels"]),
    )
