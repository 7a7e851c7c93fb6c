"""One thing that was looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Check"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """What was looked at, and how it was found."""

    name: str
    state: Literal["ok", "absent", "failed"]
    """Absent is something optional that is not there."""
    detail: str
    """What was found, or what to do. Never a credential."""
