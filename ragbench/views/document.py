"""A result as headings, lines and tables, made once: Markdown and the page draw it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ragbench.core.attribution import CauseFlow
from ragbench.core.comparison import CaseDifference, CaseKind, RunPair
from ragbench.safe_text import markdown_table, markdown_text
from ragbench.views.comparison import what_changed

_LONGEST = 300
"""Letters of a text in Markdown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Changes:
    """Cases of one kind that went another way between two runs."""

    kind: CaseKind
    pair: RunPair
    cases: Sequence[CaseDifference]

    @property
    def title(self) -> str:
        return (
            f"{KIND_TITLES[self.kind]}: {len(self.cases):,} "
            f"({self.pair.second} against {self.pair.first})"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """A heading with what stands below it: lines, a table, cases."""

    title: str
    lines: Sequence[str] = ()
    columns: Sequence[str] = ()
    """A column without a name holds drawings, which only the page shows."""
    rows: Sequence[Sequence[object]] = ()
    most: int | None = None
    """Rows, and cases of a kind, that Markdown shows; None for all."""
    changes: Sequence[Changes] = ()
    hint: str = ""
    charts: Sequence[dict[str, Any]] = ()
    """Drawings with a caption, which only the page shows."""
    details: Sequence[dict[str, Any]] = ()
    """What the page unfolds."""
    folded: str = ""
    """Under which words the page folds it all."""

    @property
    def is_empty(self) -> bool:
        return not (self.lines or self.rows or self.changes or self.charts or self.details)


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    kind: str
    """What it is: ``"ragbench gate"``."""
    title: str
    headline: str
    tone: str = ""
    """The headline's: ``"passes"``, ``"fails"``, ``"undecided"``, or none."""
    sections: Sequence[Section] = ()
    notes: Sequence[str] = ()
    foot: str = ""

    @property
    def shown(self) -> list[Section]:
        """The sections that hold anything, the notes as the last."""
        notes = Section(title="Notes", lines=self.notes)
        return [each for each in (*self.sections, notes) if not each.is_empty]


KIND_TITLES = {
    CaseKind.FAILING: "Newly failing",
    CaseKind.MIXED: "Failing in one respect, fixed in another",
    CaseKind.FIXED: "Newly fixed",
}


def changes_of(pairs: Sequence[RunPair], changed: Sequence[CaseDifference]) -> tuple[Changes, ...]:
    """The cases by pair of runs and kind, newly failing ones first."""
    found = (
        Changes(
            kind=kind,
            pair=pair,
            cases=[one for one in changed if one.second == pair.second and one.kind is kind],
        )
        for pair in pairs
        for kind in KIND_TITLES
    )
    return tuple(each for each in found if each.cases)


def flows_section(flows: Sequence[CauseFlow]) -> Section:
    """From which cause to which, how many cases, of which run, and some of them."""
    rows = [
        [one.before.label, one.after.label, f"{one.cases:,}", one.second, ", ".join(one.examples)]
        for one in flows
        if one.before is not one.after
    ]
    columns = ("before", "after", "cases", "run", "for example")
    return Section(title="How causes changed", columns=columns, rows=rows, most=10)


def markdown(document: Document, *, level: int = 3) -> str:
    """The document as GitHub-flavoured Markdown."""
    parts = [
        f"{'#' * level} {document.kind}: {markdown_text(document.title)}",
        f"**{markdown_text(document.headline)}**",
        *("\n".join(_section(each, "#" * (level + 1))) for each in document.shown),
        *([f"*{markdown_text(document.foot)}*"] if document.foot else []),
    ]
    return "\n\n".join(parts) + "\n"


def _section(section: Section, hashes: str) -> Iterator[str]:
    yield f"{hashes} {markdown_text(section.title)}"
    most = len(section.rows) if section.most is None else section.most
    if section.lines:
        yield ""
        yield from (f"- {markdown_text(line, longest=1000)}" for line in section.lines)
    if section.rows:
        yield ""
        places = [place for place, name in enumerate(section.columns) if name]
        rows = (
            tuple(markdown_text(str(row[place]), longest=_LONGEST) for place in places)
            for row in section.rows[:most]
        )
        yield from markdown_table([markdown_text(section.columns[at]) for at in places], rows)
        if len(section.rows) > most:
            yield ""
            yield f"... and {len(section.rows) - most:,} more."
    for group in section.changes:
        yield from _changes(group, len(group.cases) if section.most is None else section.most)
    if section.hint:
        yield ""
        yield f"*{markdown_text(section.hint)}*"


def _changes(group: Changes, most: int) -> Iterator[str]:
    yield ""
    yield f"**{markdown_text(group.title)}**"
    yield ""
    for case in group.cases[:most]:
        yield f"- {markdown_text(case.id, longest=_LONGEST)}"
        for label, line in what_changed(case):
            text = markdown_text(line, longest=_LONGEST)
            yield f"  - {f'{label}: ' if label else ''}{text}"
    if len(group.cases) > most:
        yield f"- ... and {len(group.cases) - most:,} more"
