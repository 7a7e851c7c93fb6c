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
    """A run of a system whose stages all come from these parts."""
    has_open_part = any(part.digest == "open" for part in parts)
    reach: Reach = "open" if has_open_part else "closed"
    return replace(
        run({"x": [1.0]}), origins=tuple(Origin(stage, parts, reach) for stage in stages)
    )


def changes(before: RunScores, now: RunScores) -> tuple[str, ...]:
    return system_change(before, now).changes


def setting(name: str, value: str) -> OriginPart:
    """A setting by the digest of its value; "state" is what stands for what a system counts."""
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
    change = system_change(system(*before), system(*now))

    assert change.changes == tuple(expected)
    assert change.is_ruled_out is (not expected)


def test_a_stage_is_named_where_only_it_differs() -> None:
    before = system(CODE)
    generation = Origin("generate", (CODE,), "closed")
    retrieval = Origin("retrieve", (CODE, TOP_K), "closed")
    now = replace(before, origins=(generation, retrieval))

    assert changes(before, now) == ("top_k: nothing -> 5 (retrieve)",)


def test_a_stage_that_came_is_named() -> None:
    before = system(CODE, stages=("generate", "retrieve"))
    now = system(CODE, stages=("generate", "post_retrieve", "retrieve"))

    assert changes(before, now) == ("post_retrieve is asked now",)


def test_a_stage_that_went_is_named() -> None:
    before = system(CODE, stages=("generate", "post_retrieve", "retrieve"))
    now = system(CODE, stages=("generate", "retrieve"))

    assert changes(before, now) == ("post_retrieve is not asked any more",)


def test_changes_of_retrieval_come_first_then_of_validation_then_of_generation() -> None:
    """In whatever order the stages stand: what one gives is what the next gets."""

    def system_with(value: str) -> RunScores:
        origins: list[Origin] = []
        for stage in ("generate", "validate", "retrieve"):
            part = OriginPart("setting", f"of_{stage}", value, 1, value)
            origins.append(Origin(stage, (part,), "closed"))
        return replace(run({"x": [1.0]}), origins=tuple(origins))

    assert changes(system_with("1"), system_with("2")) == (
        "of_retrieve: 1 -> 2 (retrieve)",
        "of_validate: 1 -> 2 (validate)",
        "of_generate: 1 -> 2 (generate)",
    )


# --- what cannot be seen


def test_what_cannot_be_seen_keeps_equal_parts_from_proving_anything() -> None:
    change = system_change(system(CODE, ADDRESS), system(CODE, ADDRESS))

    assert change.is_none
    assert not change.is_ruled_out
    assert list(change_lines(change)) == [
        "nothing that ragbench can see; it cannot see into all: it asks api.example.com"
    ]


def test_a_stage_that_was_recorded_cannot_be_seen_into() -> None:
    counts = StageCount(stage="retrieve", measured=1, abstained=0, skipped=0, failed=0, recorded=1)
    recorded_retrieval = replace(system(CODE, stages=("generate",)), stages=(counts,))

    change = system_change(recorded_retrieval, recorded_retrieval)

    assert change.unseen == ("retrieve is recorded",)


WITHOUT_ORIGINS = replace(system(), origins=None, source="report.json")
RECORDED = replace(system(), origins=(), source="logs")


def test_a_run_that_does_not_say_what_it_came_from_is_named() -> None:
    assert "report.json does not say" in system_change(WITHOUT_ORIGINS, system(CODE)).unknown


def test_a_run_of_recorded_answers_is_named() -> None:
    assert "logs are recorded" in system_change(system(CODE), RECORDED).unknown


@pytest.mark.parametrize("before", [WITHOUT_ORIGINS, RECORDED], ids=["without origins", "recorded"])
def test_runs_that_do_not_say_are_neither_alike_nor_different(before: RunScores) -> None:
    change = system_change(before, RECORDED)

    assert not change.is_none
    assert next(change_lines(change)).startswith("unknown: ")


# --- in a baseline file

PRIVATE_PARTS = [
    PROMPT._replace(name="/home/me/own/prompt.txt", detail="stamp AAAA"),
    TOP_K,
    OriginPart("package", "openai", "p1", 1795624206, "version 1.2"),
    setting("settings.prompt", '"The password is hunter2"'),
    setting("settings.texts.d17", '"A lost badge"'),
    setting("settings.texts.d18", '""'),
    OriginPart("unseen", "/home/me/big", "open", 0, "/home/me/big has more"),
]


@pytest.fixture
def baseline_path(tmp_path: Path) -> Path:
    """The baseline file of a run of the private parts."""
    path = tmp_path / "b.json"
    write_baseline(baseline_of([system(*PRIVATE_PARTS)]), path)
    return path


@pytest.mark.parametrize("private", ["AAAA", "/home", "17956", "hunter2", "badge", "d17"])
def test_a_baseline_file_holds_no_private_text(baseline_path: Path, private: str) -> None:
    assert private not in baseline_path.read_text("utf-8")


def test_a_baseline_file_knows_the_system_that_it_came_from(baseline_path: Path) -> None:
    change = system_change(read_baseline(baseline_path), system(*PRIVATE_PARTS))

    assert change.is_none
    # Of a path outside of the project its last part is named, and a digest of the whole.
    digest = sha256(b"/home/me/big").hexdigest()[:8]
    assert change.unseen == (f"big#{digest} has more",)


def test_a_baseline_file_knows_what_differs_from_the_system_that_it_came_from(
    baseline_path: Path,
) -> None:
    now = list(PRIVATE_PARTS)
    now[2] = OriginPart("package", "openai", "p2", 1795624999, "version 1.3")
    now[4] = setting("settings.texts.d17", '"A found badge"')

    assert changes(read_baseline(baseline_path), system(*now)) == (
        "package openai: 1.2 -> 1.3",
        "settings.texts changed (16 -> 17 bytes)",
    )


# --- runs of several systems make no baseline


def test_a_baseline_is_made_of_runs_of_one_system() -> None:
    other_top_k = TOP_K._replace(digest="s2", detail="10")

    with pytest.raises(RunMismatchError, match="one unchanged system: top_k: 5 -> 10"):
        baseline_of([system(TOP_K), system(other_top_k)])


ANOTHER_SYSTEM = {"rag": "another", "settings": "s"}


def test_a_baseline_is_not_made_of_systems_of_different_fingerprints() -> None:
    another = replace(system(TOP_K), fingerprints=ANOTHER_SYSTEM)

    with pytest.raises(RunMismatchError, match=r"their rag differ.*ragbench compare"):
        baseline_of([system(TOP_K), another])


def test_recorded_runs_of_different_fingerprints_are_added_one_by_one() -> None:
    recorded = replace(system(TOP_K), origins=())
    another = replace(recorded, fingerprints=ANOTHER_SYSTEM)

    with pytest.raises(RunMismatchError, match="added one by one"):
        baseline_of([recorded, another])
