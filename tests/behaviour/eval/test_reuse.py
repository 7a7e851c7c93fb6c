"""Which folder a command goes on in, and which stored outcomes hold."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragbench import Case, EvalSettings, Report, load_rag
from ragbench.errors import InterruptedRunError
from ragbench.ledger.watch import Watch
from ragbench.stages.reuse import RunVersion, project_of, run_version
from ragbench.verbs.evaluate import evaluate_entries

CASES = [Case(id=str(n), query=f"q{n}", reference="v1") for n in range(4)]
RAG = """
import sys
from ragbench import RAGInterface
from reuse_prompts import VERSION
{more}

class R(RAGInterface):
    def retrieve(self, query, top_k=None):
        {ask}
        return ["context"]
    def generate(self, query, contexts):
        sys.reuse_calls.append(query)
        return VERSION
"""
NAMES = ("reuse_rag", "reuse_prompts")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    path = list(sys.path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("")
    monkeypatch.setitem(vars(sys), "reuse_calls", [])
    write(tmp_path)
    yield tmp_path
    sys.path[:] = path
    forget()


def forget() -> None:
    for name in NAMES:
        sys.modules.pop(name, None)


def write(folder: Path, version: str = "v1", more: str = "", ask: str = "pass") -> None:
    (folder / "reuse_prompts.py").write_text(f'VERSION = "{version}"\n')
    (folder / "reuse_rag.py").write_text(RAG.format(more=more, ask=ask))


def run(folder: Path, **options: Any) -> tuple[Report, int]:
    """Evaluates as the command does, in modules loaded afresh; the report and how many calls."""
    forget()
    before = len(calls_made())
    with Watch() as watch:
        rag = load_rag("reuse_rag.py:R")
        settings = EvalSettings(trust_stored=options.pop("trust_stored", False))
        report = evaluate_entries(
            CASES,
            rag,
            out=folder,
            metrics="exact_match",
            settings=settings,
            watch=watch,
            **options,
        )
    return report, len(calls_made()) - before


def version_of(folder: Path) -> RunVersion:
    forget()
    with Watch() as watch:
        rag = load_rag("reuse_rag.py:R")
        return run_version(folder, project_of(rag, None, None, watch=watch))


def calls_made() -> list[str]:
    found: list[str] = vars(sys)["reuse_calls"]
    return found


def test_a_changed_module_that_the_rag_imports_asks_again_and_says_so(project: Path) -> None:
    report, _ = run(project / "run")
    assert report.summaries[0].score == 1.0
    write(project, "v2")
    version = version_of(project / "run")
    assert (version.folder, version.earlier) == (project / "run-2", project / "run")
    assert version.because == ("reuse_prompts.py changed",)
    assert version.is_changed
    report, calls = run(project / "run")
    assert (report.summaries[0].score, calls) == (0.0, 4)
    assert "retrieve and generate asked again: reuse_prompts.py changed" in report.notes
    assert all(stage.reused == 0 for stage in report.stages)


def test_the_note_outlives_an_interruption(project: Path) -> None:
    run(project / "run")
    write(project, "v2")
    with pytest.raises(InterruptedRunError):
        run(project / "run", stopped=lambda: len(calls_made()) >= 6)
    report, calls = run(project / "run")
    assert calls == 2
    assert any("reuse_prompts.py changed" in note for note in report.notes)
    assert all(stage.reused == 0 for stage in report.stages)


def test_what_cannot_be_seen_is_reused_only_to_finish_a_run(project: Path) -> None:
    ask = "__import__('subprocess').run([__import__('sys').executable, '-c', ''], check=True)"
    write(project, ask=ask)
    with pytest.raises(InterruptedRunError):
        run(project / "run", stopped=lambda: bool(calls_made()))
    assert run(project / "run")[1] == 3
    version = version_of(project / "run")
    assert version.folder == project / "run-2"
    assert not version.is_changed
    report, calls = run(project / "run")
    assert calls == 4
    assert any("asked again" in note for note in report.notes)


def test_stored_outcomes_are_trusted_where_the_user_says_so(project: Path) -> None:
    run(project / "run")
    write(project, "v2")
    report, calls = run(project / "run", trust_stored=True)
    assert (report.summaries[0].score, calls) == (1.0, 0)
    assert any(note.startswith("retrieve and generate --reuse") for note in report.notes)


def test_later_versions_stand_next_to_the_first(project: Path) -> None:
    run(project / "run")
    for number in (2, 3):
        write(project, f"v{number}")
        folder = version_of(project / "run").folder
        assert folder == project / f"run-{number}"
        run(folder)
        assert version_of(project / "run").folder == folder
