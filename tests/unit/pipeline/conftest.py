from pathlib import Path

import pytest

from tests.unit.pipeline.workplace import furnish


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a small corpus and a dataset, and no language model."""
    furnish(tmp_path)
    monkeypatch.chdir(tmp_path)
    for name in ("RAGBENCH_LLM_MODEL", "RAGBENCH_LLM_BASE_URL", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path
