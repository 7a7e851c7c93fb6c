"""Ragas reports each evaluation to its makers unless a setting forbids it; ragbench sets it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.extra("ragas")


def run(program: str, *, home: Path, **settings: str) -> str:
    """The output of a program that has this home folder and little else in its environment."""
    environment = {"HOME": str(home)}
    for name in ("PATH", "LANG"):
        if name in os.environ:
            environment[name] = os.environ[name]
    find_ragbench = f"import sys; sys.path.insert(0, {str(ROOT)!r})"
    done = subprocess.run(
        [sys.executable, "-c", f"{find_ragbench}\n{program}"],
        capture_output=True,
        text=True,
        check=False,
        env=environment | settings,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_nothing_is_reported_and_nothing_written_to_the_home_folder(tmp_path: Path) -> None:
    program = """
from ragbench.plugins import import_ragas
import_ragas()
from ragas._analytics import do_not_track
print(do_not_track())
"""
    assert run(program, home=tmp_path) == "True"
    assert list(tmp_path.rglob("*")) == []


def test_a_user_who_turns_reporting_on_is_obeyed(tmp_path: Path) -> None:
    # Ragas itself takes seconds to import and has no part in this.
    program = """
import os, types
sys.modules["ragas"] = types.ModuleType("ragas")
from ragbench.plugins import import_ragas
import_ragas()
print(os.environ["RAGAS_DO_NOT_TRACK"])
"""
    assert run(program, home=tmp_path, RAGAS_DO_NOT_TRACK="false") == "false"


@pytest.mark.parametrize(
    ("module", "variable", "value"),
    [
        ("ray", "RAY_USAGE_STATS_ENABLED", "0"),
        ("huggingface_hub", "HF_HUB_DISABLE_TELEMETRY", "1"),
        ("datasets", "HF_HUB_DISABLE_TELEMETRY", "1"),
        ("mlflow", "MLFLOW_DISABLE_TELEMETRY", "true"),
        ("ragas", "RAGAS_DO_NOT_TRACK", "true"),
        ("wandb", "WANDB_ERROR_REPORTING", "false"),
    ],
)
def test_usage_data_are_off_before_a_package_is_imported(
    tmp_path: Path, module: str, variable: str, value: str
) -> None:
    (tmp_path / f"{module}.py").write_text(f"import os\nprint(os.environ['{variable}'])\n")
    program = f"""
sys.path.insert(0, {str(tmp_path)!r})
from ragbench.plugins import require
require("{module}", extra="x")
"""
    assert run(program, home=tmp_path) == value
