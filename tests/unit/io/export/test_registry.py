from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ragbench.core.trace import Trace
from ragbench.errors import InputError
from ragbench.io.export import EXPORTS, export
from tests.unit.io.traces import FULL, GENERATION_FAILED, NOTHING_FOUND, ONLY_GENERATES, SCORES

NEEDS = {name: pytest.mark.extra("hf") for name in ("hf", "parquet")}
EVERY = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=NEEDS.get(name, ())) for name in sorted(EXPORTS.builtin)]
)
TRACES = (FULL, NOTHING_FOUND, GENERATION_FAILED, ONLY_GENERATES)


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@EVERY
def test_the_same_run_gives_the_same_bytes_and_replaces_another(tmp_path: Path, name: str) -> None:
    for folder, runs in (("one", [[FULL], TRACES]), ("two", [iter(TRACES)])):
        for traces in runs:
            export(name, traces, tmp_path / folder / "out", scores=SCORES)
    first = content(tmp_path / "one")
    assert first
    assert first == content(tmp_path / "two")


@EVERY
def test_no_traces_are_no_error(tmp_path: Path, name: str) -> None:
    done = export(name, [], tmp_path / "out")
    assert (done.written, done.left_out) == (0, {})
    assert all(path.exists() for path in done.paths)


@EVERY
def test_when_reading_breaks_off_the_old_output_stays(tmp_path: Path, name: str) -> None:
    def broken() -> Iterator[Trace]:
        yield FULL
        raise RuntimeError("the journal broke off")

    export(name, TRACES, tmp_path / "out")
    before = content(tmp_path)
    with pytest.raises(RuntimeError, match="broke off"):
        export(name, broken(), tmp_path / "out")
    assert content(tmp_path) == before


@EVERY
def test_a_path_that_cannot_be_written_is_one_clear_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="cannot be written"):
        export(name, TRACES, tmp_path / "file" / "out")
