"""Damaged files of every format are read or refused: never a traceback, a hang or a lost record."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.extra("excel"),
    pytest.mark.extra("hf"),
    pytest.mark.extra("documents"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="damaged files are read in forks"),
]


def fuzz(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the fuzzer in a process of its own: this one may have threads, and must not fork."""
    return subprocess.run(
        [sys.executable, "-m", "tests.fuzz.fuzz_files", *arguments],
        cwd=ROOT,
        check=False,
        env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'cli'}"},
        capture_output=True,
        text=True,
    )


def test_a_sample_of_damaged_files_is_read_or_refused() -> None:
    process = fuzz("--seed", "sample", "--count", "40")

    assert process.returncode == 0, process.stdout + process.stderr
    assert "seed sample: 40 damaged files, 0 failures" in process.stdout


@pytest.mark.nightly
def test_the_damage_of_the_day_is_read_or_refused() -> None:
    process = fuzz("--count", "5000")

    assert process.returncode == 0, process.stdout + process.stderr
