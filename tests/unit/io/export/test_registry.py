from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ragbench.core.trace import Trace
from ragbench.errors import ConfigError, InputError
from ragbench.io.export import EXPORTS, export
from tests.unit.io.traces import FULL, GENERATION_FAILED, NOTHING_FOUND, ONLY_GENERATES, SCORES

FORMATS = sorted(EXPORTS.builtin)
NEEDS = {name: pytest.mark.extra("hf") for name in ("hf", "parquet")}
PARAMETERS = {name: pytest.param(name, marks=NEEDS.get(name, ())) for name in FORMATS}
EVERY = pytest.mark.parametrize("name", PARAMETERS.values())
TRACES = (FULL, NOTHING_FOUND, GENERATION_FAILED, ONLY_GENERATES)


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_an_unknown_format_is_refused_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Did you mean 'parquet'"):
        export("parket", [], tmp_path / "o")


@EVERY
def test_the_same_run_gives_the_same_bytes(tmp_path: Path, name: str) -> None:
    for folder in ("one", "two"):
        export(name, iter(TRACES), tmp_path / folder / "out", scores=SCORES)
    first = content(tmp_path / "one")
    assert first
    assert first == content(tmp_path / "two")


@EVERY
def test_writing_again_replaces_what_was_there(tmp_path: Path, name: str) -> None:
    export(name, TRACES, tmp_path / "a" / "out")
    export(name, [FULL], tmp_path / "a" / "out")
    export(name, [FULL], tmp_path / "b" / "out")
    assert content(tmp_path / "a") == content(tmp_path / "b")


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


@EVERY
def test_traces_are_read_one_after_another_and_only_once(tmp_path: Path, name: str) -> None:
    seen: list[str] = []

    def once() -> Iterator[Trace]:
        for trace in TRACES:
            seen.append(trace.case.id)
            yield trace

    export(name, once(), tmp_path / "out")
    assert seen == [trace.case.id for trace in TRACES]
