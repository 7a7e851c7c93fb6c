"""Real models for tests that are marked ``models``: found where `make models` puts them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

VARIABLE = "RAGBENCH_TEST_MODELS"
_USUAL = Path(__file__).parents[3] / ".venv" / "models"


def model_folder(name: str) -> Path:
    """The folder of a model; the test is skipped where it is not installed."""
    models = Path(os.environ.get(VARIABLE, _USUAL))
    files = sorted(models.glob(f"**/{name}/model.onnx"))
    if files:
        return files[0].parent
    pytest.skip(f"the model {name} is not there: run `make models`, or set {VARIABLE}")
