"""The programs behind `make quick` and `make release`."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
QUICK: dict[str, Any] = runpy.run_path(str(ROOT / ".ci" / "quick.py"))
RELEASE: dict[str, Any] = runpy.run_path(str(ROOT / ".ci" / "release.py"))

CHANGES = """# Changelog

## [Unreleased]

### Added

- A thing.

## [0.1.0] - 2026-01-02

- The first.
"""


def chosen(*names: str) -> list[str]:
    found: list[Path] = QUICK["tests_of"]([ROOT / name for name in names])
    return [path.relative_to(ROOT).as_posix() for path in found]


def test_a_changed_module_brings_the_tests_that_import_it() -> None:
    found = chosen("ragbench/core/fusion.py")
    assert "tests/unit/pipeline/test_fusion.py" in found
    assert "tests/unit/gate/test_config.py" not in found


def test_what_the_face_exports_counts_as_its_module() -> None:
    assert QUICK["face"]()["evaluate"] == "ragbench.verbs.evaluate"
    assert "tests/unit/rag/test_docs_advanced_example.py" in chosen("docs/advanced_example.md")


def test_a_changed_test_runs_itself_and_a_helper_brings_its_users() -> None:
    assert chosen("tests/unit/io/test_trec.py") == ["tests/unit/io/test_trec.py"]
    assert "tests/unit/io/export/test_csv_table.py" in chosen("tests/unit/io/traces.py")
    assert chosen("LICENSE") == []


def test_a_release_dates_what_is_unreleased() -> None:
    text = RELEASE["with_section"](CHANGES, "0.2.0", "2026-03-04")
    assert "## [Unreleased]\n\n## [0.2.0] - 2026-03-04\n\n### Added\n\n- A thing.\n" in text
    assert text.count("## [") == 3
    assert RELEASE["with_version"]('[project]\nversion = "0.1.0"\n', "0.2.0") == (
        '[project]\nversion = "0.2.0"\n'
    )


@pytest.mark.parametrize("version", ["0.0.9", "v1.0.0", "1.0.0.", "latest"])
def test_a_version_that_cannot_be_is_refused(version: str) -> None:
    with pytest.raises(RELEASE["Refused"]):
        RELEASE["with_version"]('version = "0.1.0"\n', version)


def test_nothing_unreleased_or_released_twice_is_refused() -> None:
    for changelog, version in (
        (CHANGES, "0.1.0"),
        (CHANGES.replace("- A thing.\n", ""), "0.2.0"),
        ("# Changelog\n", "0.2.0"),
    ):
        with pytest.raises(RELEASE["Refused"]):
            RELEASE["with_section"](changelog, version, "2026-03-04")
