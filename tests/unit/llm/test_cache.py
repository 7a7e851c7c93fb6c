"""Answers are kept: by everything that they depend on, whole, and by several processes."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.core.chat import Message
from ragbench.errors import ConfigError, LLMCacheError
from ragbench.llm.cache import ResponseCache, cache_key
from tests.unit.llm.builders import endpoint, reply

ROOT = Path(__file__).parents[3]
DAY = 86_400


def put(cache: ResponseCache, name: str, text: str = "yes", model: str = "m") -> None:
    cache.put(reply(name, text), judge="j", model=model, purpose="metric")


TEXTS = st.text(st.characters(), max_size=20)  # lone surrogates too
ROLES = st.sampled_from(["system", "user", "assistant"])
MESSAGES = st.lists(st.builds(Message, role=ROLES, content=TEXTS), min_size=1, max_size=3)
JUDGES: list[dict[str, Any]] = [
    {},
    {"model": "other"},
    {"base_url": "http://other.test/v1"},
    {"temperature": None},
    {"seed": 1},
    {"max_tokens": 10},
    {"extra": {"top_p": 0.9}},
    {"api_version": "2024-10-21"},
]
QUESTIONS = st.fixed_dictionaries(
    {
        "messages": MESSAGES,
        "schema": st.none() | st.dictionaries(TEXTS, TEXTS, max_size=2),
        "version": TEXTS,
        "repeat": st.integers(0, 3),
        "identity": st.sampled_from(JUDGES).map(lambda judge: endpoint(**judge).identity()),
    }
)


def key_of(question: dict[str, Any]) -> bytes:
    rest = dict(question)
    return cache_key(rest.pop("identity"), rest.pop("messages"), **rest)


PARTS = ["messages", "schema", "version", "repeat", "identity"]


@given(QUESTIONS, st.sampled_from(PARTS), QUESTIONS)
def test_keys_are_equal_exactly_when_questions_are(
    a: dict[str, Any], part: str, b: dict[str, Any]
) -> None:
    changed = a | {part: b[part]}
    assert (key_of(a) == key_of(changed)) == (a[part] == b[part])
    assert (key_of(a) == key_of(b)) == (a == b)


def test_an_answer_comes_back_as_it_went_in(tmp_path: Path) -> None:
    path = tmp_path / "new" / "cache.sqlite"
    with ResponseCache(path) as cache:
        put(cache, "a", "lone \ud800 and \0 and ä")
        assert cache.get(b"b") is None
        assert b"a" in cache
    with ResponseCache(path) as cache:
        assert cache.get(b"a") == reply("a", "lone \ud800 and \0 and ä")


def test_pruning_takes_what_was_not_used_for_longest(tmp_path: Path) -> None:
    now = 0.0
    with ResponseCache(tmp_path / "c", today=lambda: now) as cache:
        for name in "abcd":
            put(cache, name)
            now += DAY * 2.0
        assert cache.get(b"a") is not None  # used today
        each = cache.stats().bytes // 4
        assert cache.prune(max_bytes=each * 2 + 10) == 2
        assert [name for name in "abcd" if name.encode() in cache] == ["a", "d"]


def test_it_keeps_to_its_size_by_itself(tmp_path: Path) -> None:
    with ResponseCache(tmp_path / "c", max_bytes=100_000) as cache:
        for number in range(300):
            put(cache, f"{number}", "x" * 1000)
    with ResponseCache(tmp_path / "c") as cache:
        stats = cache.stats()
    assert 0 < stats.bytes <= 100_000
    assert stats.file_bytes < 400_000


def test_what_is_no_cache_is_refused(tmp_path: Path) -> None:
    ResponseCache(tmp_path / "later").close()
    (tmp_path / "text").write_text("not a database, but long enough to be read as one" * 9)
    for name, statement in (("other", "CREATE TABLE t (a)"), ("later", "PRAGMA user_version = 99")):
        with sqlite3.connect(tmp_path / name) as db:
            db.execute(statement)
        db.close()
    reasons = {
        "text": "is not a cache",
        "other": "something else",
        "later": r"another version \(99\)",
        "missing": "there is no cache",
        "text/below": "text",
    }
    for name, reason in reasons.items():
        with pytest.raises(LLMCacheError, match=reason):
            ResponseCache(tmp_path / name, must_exist=name == "missing")
    assert not (tmp_path / "missing").exists()
    with pytest.raises(ConfigError):
        ResponseCache(tmp_path / "c", max_bytes=-1)


def test_a_row_changed_by_hand_is_no_answer(tmp_path: Path) -> None:
    with ResponseCache(tmp_path / "c") as cache:
        put(cache, "a")
        for body in ("{", "[]", '{"text": "x"}', '{"usage": {}, "text": "x", "more": 1}'):
            with sqlite3.connect(tmp_path / "c") as db:
                db.execute("UPDATE replies SET body = ?", (body,))
            db.close()
            assert cache.get(b"a") is None


WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from ragbench.llm.cache import ResponseCache
from tests.unit.llm.builders import reply
with ResponseCache(Path({path!r})) as cache:
    for number in range({count}):
        cache.put(reply(f"{name} {{number}}"), judge="", model="", purpose="")
        print(number, flush=True)
"""


def writer(path: Path, name: str, count: int) -> subprocess.Popen[str]:
    program = WRITER.format(root=str(ROOT), path=str(path), name=name, count=count)
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)


def test_processes_share_it_from_its_first_moment(tmp_path: Path) -> None:
    writers = [writer(tmp_path / "c", name, 60) for name in "abc"]
    for process in writers:
        process.communicate()
    assert [process.returncode for process in writers] == [0, 0, 0]
    with ResponseCache(tmp_path / "c") as cache:
        assert cache.stats().entries == 180


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_what_was_stored_survives_the_end_of_the_process(tmp_path: Path) -> None:
    process = writer(tmp_path / "c", "a", 100_000)
    assert process.stdout is not None
    shown = -1
    while shown < 20:
        shown = int(process.stdout.readline())
    os.kill(process.pid, signal.SIGKILL)
    rest = process.stdout.read().split()
    process.wait()
    process.stdout.close()
    whole = [int(number) for number in rest[:-1]]
    # Where a project's files are compared, a killed command's cache is none of them.
    assert (tmp_path / "c").read_bytes()[68:72] == b"RBCL"
    with ResponseCache(tmp_path / "c") as cache:
        assert all(f"a {number}".encode() in cache for number in [*range(shown + 1), *whole])
