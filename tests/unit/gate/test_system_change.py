"""What differs between the systems of two runs: seen, not to be seen, not known."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from ragbench.core.origin import Origin, OriginPart, Reach
from ragbench.core.report import StageCount
from ragbench.core.run_scores import RunScores
from ragbench.errors import RunMismatchError
from ragbench.gate.baseline_file import read_baseline, write_baseline
from ragbench.gate.comparable import system_change
from ragbench.gate.main_runs import baseline_of
from ragbench.views.comparison import change_lines
from tests.unit.gate.builders import run

PROMPT = OriginPart("file", "prompt.txt", "d1", 10)
CODE = OriginPart("code", "rag.py", "c1", 100)
TOP_K = OriginPart("setting", "top_k", "s1", 1, "5")
ADDRESS = OriginPart("address", "api.example.com", "open", 0, "it asks api.example.com")


def system(*parts: OriginPart, stages: tuple[str, ...] = ("generate", "retrieve")) -> RunScores:
    reach: Reach = "open" if any(part.digest == "open" for part in parts) else "closed"
    origins = tuple(Origin(stage, parts, reach) for stage in stages)
    return replace(run({"x": [1.0]}), origins=origins)


def changes(before: RunScores, now: RunScores) -> tuple[str, ...]:
    return system_change(before, now).changes


def setting(name: str, value: str) -> OriginPart:
    digest = value if value == "state" else sha256(value.encode()).hexdigest()
    return OriginPart("setting", name, digest, len(value), value)


COUNTED = setting("settings.calls", "7")
STATE = OriginPart("setting", "settings.calls", "state")


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (
            [OriginPart("package", "openai", "1.2")],
            [OriginPart("package", "openai", "1.3")],
            ["package openai: 1.2 -> 1.3"],
        ),
        (
            [OriginPart("env", "MODEL", "m1")],
            [OriginPart("env", "MODEL", "m2")],
            ["environment variable MODEL changed"],
        ),
        ([PROMPT], [PROMPT._replace(digest="d2")], ["prompt.txt changed (10 bytes)"]),
        ([PROMPT], [PROMPT._replace(digest="absent")], ["prompt.txt is not there any more"]),
        (
            [PROMPT],
            [PROMPT._replace(digest="changed meanwhile")],
            ["prompt.txt changed while it was in use"],
        ),
        ([TOP_K], [TOP_K._replace(digest="s2", detail="10")], ["top_k: 5 -> 10"]),
        # A cache that was warm, an import that came later: what is read follows from what was.
        ([CODE, PROMPT], [CODE, OriginPart("file", "other.txt", "o1")], []),
        ([CODE], [CODE, TOP_K], ["top_k: nothing -> 5"]),
        ([CODE, TOP_K], [CODE], ["top_k: 5 -> nothing"]),
        # Values that changed come before settings of another kind.
        (
            [setting("a.gone", "1"), setting("method", "1")],
            [setting("a.new", "2"), setting("method", "2")],
            ["method: 1 -> 2", "a.gone: 1 -> nothing", "a.new: nothing -> 2"],
        ),
        # No digest of a content is shown.
        (
            [setting("corpus", f'"{"a" * 16}"')],
            [setting("corpus", f'"{"b" * 16}"')],
            ["corpus changed"],
        ),
        # What the system itself counts is no difference.
        ([CODE, COUNTED], [CODE, STATE], []),
        ([CODE, STATE], [CODE, COUNTED], []),
        ([CODE, STATE], [CODE, STATE], []),
        # A source is named by its file, where that is known to have changed.
        (
            [CODE, setting("sources.rag:R", "a")],
            [CODE._replace(digest="c2", size=120), setting("sources.rag:R", "b")],
            ["rag.py changed (100 -> 120 bytes)"],
        ),
        (
            [CODE, setting("sources.rag:R", '"a"')],
            [CODE, setting("sources.rag:R", '"b"')],
            ["sources.rag:R changed (3 bytes)"],
        ),
        # Texts are not quoted, one word is where it names a class or a model.
        (
            [setting("settings.prompt", '"The password is hunter2"')],
            [setting("settings.prompt", '"Be kind"')],
            ["settings.prompt changed (25 -> 9 bytes)"],
        ),
        (
            [setting("settings.model", '"small"')],
            [setting("settings.model", '"large"')],
            ['settings.model: "small" -> "large"'],
        ),
        (
            [setting("settings.model", '"/home/me/a"')],
            [setting("settings.model", '"/home/me/b"')],
            ["settings.model changed (12 bytes)"],
        ),
        ([], [setting("settings.prompt", '"Be kind"')], ["settings.prompt: nothing -> 9 bytes"]),
        # What a mapping holds is one setting: its keys may be ids of chunks.
        (
            [setting("settings.texts.d1", '"one"'), setting("settings.texts.d2", '"two"')],
            [setting("settings.texts.d1", '"one"'), setting("settings.texts.d3", '"three"')],
            ["settings.texts changed (10 -> 12 bytes)"],
        ),
        ([setting("settings.texts.d1", "state")], [setting("settings.texts.d1", "1")], []),
        (
            [
                setting("settings.search.class", '"rag:Search"'),
                setting("settings.search.top_k", "5"),
            ],
            [
                setting("settings.search.class", '"rag:Search"'),
                setting("settings.search.top_k", "3"),
            ],
            ["settings.search.top_k: 5 -> 3"],
        ),
        # Of a path outside of the project its last part is named.
        (
            [PROMPT._replace(name="/home/me/own/prompt.txt")],
            [PROMPT._replace(name="/home/me/own/prompt.txt", digest="d2")],
            ["prompt.txt#cdf2f505 changed (10 bytes)"],
        ),
    ],
)
def test_what_differs_is_named(
    before: list[OriginPart], now: list[OriginPart], expected: list[str]
) -> None:
    found = system_change(system(*before), system(*now))
    assert (found.changes, found.is_ruled_out) == (tuple(expected), not expected)


def test_a_stage_is_named_where_only_it_differs() -> None:
    before = system(CODE)
    origins = (Origin("generate", (CODE,), "closed"), Origin("retrieve", (CODE, TOP_K), "closed"))
    now = replace(before, origins=origins)
    assert changes(before, now) == ("top_k: nothing -> 5 (retrieve)",)
    # Stages that came or went are named, too.
    now = system(CODE, stages=("generate", "post_retrieve", "retrieve"))
    assert changes(before, now) == ("post_retrieve is asked now",)
    assert changes(now, before) == ("post_retrieve is not asked any more",)


def test_what_cannot_be_seen_keeps_equal_parts_from_proving_anything() -> None:
    found = system_change(system(CODE, ADDRESS), system(CODE, ADDRESS))
    assert (found.is_none, found.is_ruled_out) == (True, False)
    assert list(change_lines(found)) == [
        "nothing that ragbench can see; it cannot see into all: it asks api.example.com"
    ]


def test_a_stage_that_was_recorded_cannot_be_seen_into() -> None:
    counts = StageCount(stage="retrieve", measured=1, abstained=0, skipped=0, failed=0, recorded=1)
    before = replace(system(CODE, stages=("generate",)), stages=(counts,))
    found = system_change(before, before)
    assert found.unseen == ("retrieve is recorded",)


def test_runs_that_do_not_say_are_neither_alike_nor_different() -> None:
    bare = replace(system(), origins=None, source="report.json")
    recorded = replace(system(), origins=(), source="logs")
    assert "report.json does not say" in system_change(bare, system(CODE)).unknown
    assert "logs are recorded" in system_change(system(CODE), recorded).unknown
    for found in (system_change(bare, recorded), system_change(recorded, recorded)):
        assert not found.is_none
        assert next(change_lines(found)).startswith("unknown: ")


def test_a_baseline_file_knows_what_its_newest_run_came_from(tmp_path: Path) -> None:
    parts = [
        PROMPT._replace(name="/home/me/own/prompt.txt", detail="stamp AAAA"),
        TOP_K,
        OriginPart("package", "openai", "p1", 1795624206, "version 1.2"),
        setting("settings.prompt", '"The password is hunter2"'),
        setting("settings.texts.d17", '"A lost badge"'),
        setting("settings.texts.d18", '""'),
        OriginPart("unseen", "/home/me/big", "open", 0, "/home/me/big has more"),
    ]
    write_baseline(baseline_of([system(*parts)]), tmp_path / "b.json")
    written = (tmp_path / "b.json").read_text("utf-8")
    for hidden in ("AAAA", "/home", "17956", "hunter2", "badge", "d17"):
        assert hidden not in written
    kept = read_baseline(tmp_path / "b.json")
    same = system_change(kept, system(*parts))
    short = sha256(b"/home/me/big").hexdigest()[:8]
    assert (same.is_none, same.unseen) == (True, (f"big#{short} has more",))
    parts[2] = OriginPart("package", "openai", "p2", 1795624999, "version 1.3")
    parts[4] = setting("settings.texts.d17", '"A found badge"')
    assert changes(kept, system(*parts)) == (
        "package openai: 1.2 -> 1.3",
        "settings.texts changed (16 -> 17 bytes)",
    )


def test_changes_of_retrieval_come_first_then_of_validation_then_of_generation() -> None:
    """In whatever order the stages stand: what one gives is what the next is given."""

    def settled(digest: str) -> RunScores:
        origins = tuple(
            Origin(stage, (OriginPart("setting", f"of_{stage}", digest, 1, digest),), "closed")
            for stage in ("generate", "validate", "retrieve")
        )
        return replace(run({"x": [1.0]}), origins=origins)

    stages = ("retrieve", "validate", "generate")
    expected = tuple(f"of_{stage}: 1 -> 2 ({stage})" for stage in stages)
    assert changes(settled("1"), settled("2")) == expected


def test_a_baseline_is_made_of_runs_of_one_system() -> None:
    with pytest.raises(RunMismatchError, match="one unchanged system: top_k: 5 -> 10"):
        baseline_of([system(TOP_K), system(TOP_K._replace(digest="s2", detail="10"))])
    other = replace(system(TOP_K), fingerprints={"rag": "another", "settings": "s"})
    with pytest.raises(RunMismatchError, match=r"their rag differ.*ragbench compare"):
        baseline_of([system(TOP_K), other])
    with pytest.raises(RunMismatchError, match="added one by one"):
        baseline_of([replace(one, origins=()) for one in (system(TOP_K), other)])
