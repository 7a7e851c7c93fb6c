"""The colours of pages."""

from __future__ import annotations

from pathlib import Path

import pytest

import ragbench
from ragbench.core.attribution import Cause

PACKAGE = Path(ragbench.__file__).parent
STYLES = (PACKAGE / "views" / "html" / "report.css").read_text("utf-8")


@pytest.mark.parametrize("cause", Cause)
def test_every_cause_has_a_colour(cause: Cause) -> None:
    assert f"[data-c={cause.value}]{{--c:var(--" in STYLES
