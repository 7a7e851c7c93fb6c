"""The head of a run's page: a chart, the groups of lost cases, the notes."""

from __future__ import annotations

import re

from ragbench.core.attribution import Answer, Attribution, Basis, Cause, CauseCount
from ragbench.core.outcome import Status
from ragbench.core.report import CaseRow, Report
from ragbench.views.html.lost import LostCases
from ragbench.views.html.run_page import run_page


def lost_case(id: str, cause: Cause, *tags: str) -> CaseRow:
    """A case of a run that a cause lost."""
    return CaseRow(
        id=id,
        query="When is tea?",
        reference=None,
        reference_ids=None,
        cluster=None,
        tags=tags,
        language=None,
        retrieved_ids=None,
        response=None,
        stages={"retrieve": Status.MEASURED, "generate": Status.MEASURED},
        failures=(),
        cells=(),
        attribution=Attribution(cause=cause, basis=Basis.IDS, answer=Answer.WRONG, detail=""),
    )


def cases_lost(counts: dict[tuple[Cause, str], int]) -> list[CaseRow]:
    """So many cases of each cause and tag."""
    rows: list[CaseRow] = []
    for (cause, tag), count in counts.items():
        for number in range(count):
            id = f"{cause}-{tag}-{number}"
            rows.append(lost_case(id, cause, tag))
    return rows


def groups_of(rows: list[CaseRow]) -> list[tuple[str, int]]:
    """The groups of lost cases: the cause and the number of cases of each."""
    lost = LostCases()
    for row in rows:
        lost.add(row, row.attribution, (False, 0.0))
    return [(group["cause"], group["lost"]) for group in lost.groups()]


def page_of(*causes: CauseCount, notes: tuple[str, ...] = ()) -> str:
    """The page of a run without cases."""
    manifest = {
        "rag": {"name": "ask"},
        "dataset": {"name": "faq", "source": None, "cases": 0},
        "settings": {},
        "fingerprints": {},
        "git": None,
        "packages": {},
    }
    report = Report(
        manifest=manifest,
        metrics=(),
        summaries=(),
        stages=(),
        failures=(),
        latencies=(),
        notes=notes,
        causes=causes,
        rows=lambda: iter(()),
    )
    return "".join(run_page(report).body)


def test_the_largest_group_comes_first() -> None:
    rows = cases_lost({(Cause.DECLINED, "a"): 4, (Cause.NOT_RETRIEVED, "b"): 11})

    assert groups_of(rows) == [("not retrieved", 11), ("declined", 4)]


def test_a_small_group_is_no_place_to_begin() -> None:
    rows = cases_lost({(Cause.NOT_USED, "a"): 2, (Cause.NOT_RETRIEVED, "b"): 20})

    groups = groups_of(rows)

    assert groups[0] == ("not retrieved", 20)


def test_a_card_says_the_change_of_its_cause() -> None:
    lost = LostCases()
    for row in cases_lost({(Cause.WRONG_PASSAGE, "a"): 3}):
        lost.add(row, row.attribution, (False, 0.0))

    (group,) = lost.groups()

    assert group["remedy"] == Cause.WRONG_PASSAGE.remedy


def test_the_chart_has_right_then_the_largest_loss_then_unchecked() -> None:
    page = page_of(
        CauseCount(cause=Cause.NOT_RETRIEVED, cases=1),
        CauseCount(cause=Cause.NOT_USED, cases=3),
        CauseCount(cause=Cause.UNCHECKED, cases=2),
        CauseCount(cause=Cause.RIGHT, cases=4),
    )

    label = "Cases: right 4, not used 3, not retrieved 1, unchecked 2"
    assert f'aria-label="{label}"' in page
    assert "<b>4</b> right · <b>4</b> lost · <b>2</b> unchecked" in page
    assert page.index('class="outcomes"') < page.index("Metrics</h2>")


def test_notes_are_folded() -> None:
    page = page_of(notes=("Three clusters.", "Two repeats."))

    folded = re.search(
        r"<details><summary>2 notes</summary>\s*<ul>(.*?)</ul></details>", page, re.S
    )
    assert folded is not None
    assert "<li>Three clusters.</li>" in folded[1]


def test_one_note_is_one() -> None:
    assert "<summary>1 note</summary>" in page_of(notes=("Three clusters.",))
