"""One thing that was looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Check", "State"]

State = Literal["ok", "absent", "failed"]
"""Absent is something optional that is not there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """What was looked at, and how it was found."""

    name: str
    state: State
    detail: str
    """What was found, or what to do. Never a credential."""
