"""Ragas reports each evaluation to its makers unless told not to; ragbench tells it not to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.ragas,
    pytest.mark.skipif(
        not (ROOT / "ragbench" / "extras_ragas.py").exists(), reason="ragas is not used"
    ),
]


def tracking_after_import(home: Path, setting: str | None) -> str:
    """The setting as it stands when ragas was imported, and whether ragas obeys it."""
    program = f"""
import os, sys, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, {str(ROOT)!r})
from ragbench.extras_ragas import import_ragas
import_ragas()
from ragas._analytics import do_not_track
print(os.environ["RAGAS_DO_NOT_TRACK"].lower(), do_not_track())
"""
    environment = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    environment["HOME"] = str(home)
    if setting is not None:
        environment["RAGAS_DO_NOT_TRACK"] = setting
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_nothing_is_reported_and_nothing_written_to_the_home_folder(tmp_path: Path) -> None:
    assert tracking_after_import(tmp_path, None) == "true True"
    assert list(tmp_path.rglob("*")) == []


def test_a_user_who_turns_reporting_on_is_obeyed(tmp_path: Path) -> None:
    assert tracking_after_import(tmp_path, "false") == "false False"
