"""Answers are kept: by everything that they depend on, whole, and by several processes."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.core.chat import Message
from ragbench.errors import ConfigError, LLMCacheError
from ragbench.llm.cache import ResponseCache, cache_key
from tests.unit.llm.builders import endpoint, reply

ROOT = Path(__file__).parents[3]
DAY = 86_400


def put(cache: ResponseCache, key: str, text: str = "yes") -> None:
    """Keeps an answer under a key."""
    cache.put(reply(key, text), judge="j", model="m", purpose="metric")


# --- keys


TEXTS = st.text(st.characters(), max_size=20)  # lone surrogates too
ROLES = st.sampled_from(["system", "user", "assistant"])
MESSAGES = st.lists(st.builds(Message, role=ROLES, content=TEXTS), min_size=1, max_size=3)
IDENTITIES = [
    endpoint().identity(),
    endpoint(model="other").identity(),
    endpoint(base_url="http://other.test/v1").identity(),
    endpoint(temperature=None).identity(),
    endpoint(seed=1).identity(),
    endpoint(max_tokens=10).identity(),
    endpoint(extra={"top_p": 0.9}).identity(),
    endpoint(api_version="2024-10-21").identity(),
]
Question = dict[str, Any]
QUESTIONS = st.fixed_dictionaries(
    {
        "identity": st.sampled_from(IDENTITIES),
        "messages": MESSAGES,
        "schema": st.none() | st.dictionaries(TEXTS, TEXTS, max_size=2),
        "version": TEXTS,
        "repeat": st.integers(0, 3),
    }
)
PARTS = st.sampled_from(["identity", "messages", "schema", "version", "repeat"])


def key_of(question: Question) -> bytes:
    return cache_key(
        question["identity"],
        question["messages"],
        schema=question["schema"],
        version=question["version"],
        repeat=question["repeat"],
    )


@settings(max_examples=50)
@given(QUESTIONS, QUESTIONS)
def test_keys_are_equal_exactly_when_questions_are(question: Question, other: Question) -> None:
    assert (key_of(question) == key_of(other)) is (question == other)


@settings(max_examples=50)
@given(QUESTIONS, PARTS, QUESTIONS)
def test_each_part_of_a_question_changes_its_key(
    question: Question, part: str, other: Question
) -> None:
    changed = question | {part: other[part]}

    assert (key_of(question) == key_of(changed)) is (question[part] == other[part])


# --- what is kept


def test_an_answer_comes_back_as_it_went_in(tmp_path: Path) -> None:
    path = tmp_path / "new" / "cache.sqlite"
    with ResponseCache(path) as cache:
        put(cache, "a", "lone \ud800 and \0 and ä")

    with ResponseCache(path) as cache:
        assert b"a" in cache
        assert cache.get(b"a") == reply("a", "lone \ud800 and \0 and ä")


def test_a_question_that_was_never_asked_has_no_answer(tmp_path: Path) -> None:
    with ResponseCache(tmp_path / "c") as cache:
        put(cache, "a")

        assert b"b" not in cache
        assert cache.get(b"b") is None


def test_pruning_takes_what_was_not_used_for_longest(tmp_path: Path) -> None:
    now = 0.0
    with ResponseCache(tmp_path / "c", today=lambda: now) as cache:
        for key in ("a", "b", "c", "d"):
            put(cache, key)
            now += 2 * DAY
        assert cache.get(b"a") is not None  # used today
        size_of_two = cache.stats().bytes // 2 + 10

        pruned = cache.prune(max_bytes=size_of_two)

        assert pruned == 2
        assert b"a" in cache
        assert b"b" not in cache
        assert b"c" not in cache
        assert b"d" in cache


def test_it_keeps_to_its_size_by_itself(tmp_path: Path) -> None:
    with ResponseCache(tmp_path / "c", max_bytes=100_000) as cache:
        for number in range(300):
            put(cache, f"{number}", "x" * 1000)

    with ResponseCache(tmp_path / "c") as cache:
        stats = cache.stats()
    assert 0 < stats.bytes <= 100_000
    assert stats.file_bytes < 400_000


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("{", id="half of an object"),
        pytest.param("[]", id="a list"),
        pytest.param('{"text": "x"}', id="a field too few"),
        pytest.param('{"usage": {}, "text": "x", "more": 1}', id="a field too many"),
    ],
)
def test_a_row_changed_by_hand_is_no_answer(tmp_path: Path, body: str) -> None:
    with ResponseCache(tmp_path / "c") as cache:
        put(cache, "a")
        with closing(sqlite3.connect(tmp_path / "c")) as database, database:
            database.execute("UPDATE replies SET body = ?", (body,))

        assert cache.get(b"a") is None


# --- files that are no cache


def test_a_text_is_not_a_cache(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("not a database, but long enough to be read as one" * 9)

    with pytest.raises(LLMCacheError, match="is not a cache"):
        ResponseCache(path)


def test_a_database_of_another_program_is_not_a_cache(tmp_path: Path) -> None:
    path = tmp_path / "other"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE t (a)")

    with pytest.raises(LLMCacheError, match="something else"):
        ResponseCache(path)


def test_a_cache_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "later"
    ResponseCache(path).close()
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("PRAGMA user_version = 99")

    with pytest.raises(LLMCacheError, match=r"another version \(99\)"):
        ResponseCache(path)


def test_a_cache_that_must_exist_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(LLMCacheError, match="there is no cache"):
        ResponseCache(tmp_path / "missing", must_exist=True)

    assert list(tmp_path.iterdir()) == []


def test_a_path_below_a_file_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "text").touch()

    with pytest.raises(LLMCacheError, match="text"):
        ResponseCache(tmp_path / "text" / "below")


def test_a_negative_size_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        ResponseCache(tmp_path / "c", max_bytes=-1)


# --- several processes


WRITER = """
import sys
from contextlib import closing
from pathlib import Path
sys.path.insert(0, {root!r})
from ragbench.llm.cache import ResponseCache
from tests.unit.llm.builders import reply
with ResponseCache(Path({path!r})) as cache:
    for number in range({count}):
        cache.put(reply(f"{name} {{number}}"), judge="", model="", purpose="")
        print(number, flush=True)
"""


def start_writer(path: Path, name: str, count: int) -> subprocess.Popen[str]:
    """A process that stores so many answers, and prints the number of each when it is stored."""
    program = WRITER.format(root=str(ROOT), path=str(path), name=name, count=count)
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)


def test_processes_share_it_from_its_first_moment(tmp_path: Path) -> None:
    writers = [start_writer(tmp_path / "c", name, 60) for name in ("a", "b", "c")]

    for process in writers:
        process.communicate()
        assert process.returncode == 0

    with ResponseCache(tmp_path / "c") as cache:
        assert cache.stats().entries == 3 * 60


@pytest.fixture(name="printed")
def numbers_that_a_killed_writer_printed(tmp_path: Path) -> list[int]:
    process = start_writer(tmp_path / "c", "a", 100_000)
    assert process.stdout is not None
    numbers: list[int] = []
    while len(numbers) < 20:
        numbers.append(int(process.stdout.readline()))
    os.kill(process.pid, signal.SIGKILL)
    # The last number may have been cut.
    whole_lines = process.stdout.read().split()[:-1]
    numbers += [int(line) for line in whole_lines]
    process.wait()
    process.stdout.close()
    return numbers


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_what_was_stored_survives_the_end_of_the_process(
    tmp_path: Path, printed: list[int]
) -> None:
    with ResponseCache(tmp_path / "c") as cache:
        for number in printed:
            assert f"a {number}".encode() in cache


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
@pytest.mark.usefixtures("printed")
def test_a_killed_commands_cache_is_known_as_a_cache(tmp_path: Path) -> None:
    """Where a project's files are compared, it is none of them."""
    file = (tmp_path / "c").read_bytes()

    application_id = file[68:72]  # of SQLite's header
    assert application_id == b"RBCL"
