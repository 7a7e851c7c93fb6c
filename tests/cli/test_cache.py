"""``ragbench cache``: what is kept, and removing it."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ragbench.llm.cache import ResponseCache
from tests.cli.runs import Ragbench
from tests.unit.llm.builders import reply


@pytest.fixture
def filled(workplace: Path) -> Path:
    """The file of a cache with three answers of 1970: two of `small`, one of `large`."""
    path = workplace / "reports" / "llm-cache.sqlite"
    with ResponseCache(path, today=lambda: 0.0) as cache:
        for name, model in (("a", "small"), ("b", "small"), ("c", "large")):
            cache.put(reply(name), judge="j", model=model, purpose="faithfulness")
    return path


@pytest.mark.usefixtures("filled")
def test_stats(ragbench: Ragbench) -> None:
    as_text = ragbench("cache", "stats")
    as_json = ragbench("cache", "stats", "--json").json

    as_text.ok("3 answers", "stored from 1970-01-01 to 1970-01-01")
    _, _, *rows = as_text.out.splitlines()
    models_and_purposes = [row.split()[-2:] for row in rows]
    assert models_and_purposes == [["large", "faithfulness"], ["small", "faithfulness"]]
    assert as_json["entries"] == 3
    assert as_json["oldest"] == 0


@pytest.mark.parametrize(
    ("options", "left"),
    [
        (["--model", "small"], 1),
        (["--unused-days", "30"], 0),
        (["--max-mb", "0"], 0),
        (["--max-mb", "1"], 3),
        (["--all"], 0),
    ],
)
def test_prune(ragbench: Ragbench, filled: Path, options: list[str], left: int) -> None:
    done = ragbench("cache", "prune", *options).ok()

    done.told(f"{3 - left} answers removed, {left} left")
    assert done.out == ""
    with ResponseCache(filled) as cache:
        assert cache.stats().entries == left
    ragbench("cache", "prune").refused("choose the entries to remove")


def test_a_cache_that_nothing_was_kept_in_holds_no_answers(ragbench: Ragbench) -> None:
    assert "0 answers" in ragbench("cache", "stats").ok().out


def test_a_damaged_cell_is_named_with_its_file(ragbench: Ragbench, filled: Path) -> None:
    with closing(sqlite3.connect(filled, isolation_level=None)) as cache:
        cache.execute("UPDATE replies SET size = 'much'")
        cache.execute("UPDATE replies SET model = x'ff'")

    ragbench("cache", "stats").refused("llm-cache.sqlite is not a cache of ragbench, or is damaged")
