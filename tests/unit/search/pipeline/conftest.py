from importlib.resources import files
from pathlib import Path

import pytest


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a small corpus and a dataset, and no language model."""
    templates = files("ragbench_cli") / "templates"
    (tmp_path / "data").mkdir()
    for name in ("corpus.jsonl", "cases.jsonl"):
        (tmp_path / "data" / name).write_bytes((templates / name).read_bytes())
    monkeypatch.chdir(tmp_path)
    for name in ("RAGBENCH_LLM_MODEL", "RAGBENCH_LLM_BASE_URL", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    # doctor imports every extra in a process of its own, which takes ten seconds.
    monkeypatch.setattr("ragbench_cli.checks.import_problem", lambda _: "")
    return tmp_path
