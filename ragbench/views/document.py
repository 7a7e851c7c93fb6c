"""A result as headings, lines and tables, made once: Markdown and the page draw it."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ragbench.core.attribution import CauseFlow
from ragbench.core.outcome import Status
from ragbench.core.record import Record
from ragbench.safe_text import as_line, markdown_table, markdown_text, shown_line

if TYPE_CHECKING:
    from ragbench.core.comparison import CaseDifference, CaseKind, Flip, IdChange, RunPair

_LONGEST = 300
"""Letters of a text in Markdown."""
_IDS = 5
"""How many ids of a kind are named."""
_LONGEST_TEXT = 200
"""Letters of a response, a question or a reason that are shown."""
_LONGEST_ID = 60


class Changes(Record):
    """Cases of one kind that went another way between two runs."""

    kind: CaseKind
    pair: RunPair
    cases: Sequence[CaseDifference]
    place: str = ""
    """The folder of the second run, whose page has the cases."""

    @property
    def title(self) -> str:
        pair = f"{self.pair.second} against {self.pair.first}"
        return f"{self.kind.heading}: {len(self.cases):,} ({pair})"


class Section(Record):
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


class Document(Record):
    kind: str
    """What it is: ``"ragbench gate"``."""
    title: str
    headline: str
    tone: str = ""
    """The headline's: ``"passes"``, ``"fails"``, ``"undecided"``, or none."""
    sections: Sequence[Section] = ()
    notes: Sequence[str] = ()
    foot: str = ""
    brief: Document | None = None
    """What Markdown shows in its place."""

    @property
    def shown(self) -> list[Section]:
        """The sections that hold anything, the notes as the last."""
        notes = Section(title="Notes", lines=self.notes)
        return [each for each in (*self.sections, notes) if not each.is_empty]


def changes_of(
    pairs: Sequence[RunPair], changed: Sequence[CaseDifference], places: Mapping[str, str]
) -> tuple[Changes, ...]:
    """The cases by pair of runs and kind, newly failing ones first; runs lie at ``places``."""
    from ragbench.core.comparison import CaseKind

    found = (
        Changes(
            kind=kind,
            pair=pair,
            cases=[one for one in changed if one.second == pair.second and one.kind is kind],
            place=places.get(pair.second, ""),
        )
        for pair in pairs
        for kind in CaseKind
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
    """The document, or its brief form, as GitHub-flavoured Markdown."""
    document = document.brief or document
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


def flip_text(flip: Flip) -> str:
    """One respect in which a case changed."""
    old = _state(flip.before, flip.before_status)
    text = f"{shown_line(flip.subject)} {old} -> {_state(flip.after, flip.after_status)}"
    return f"{text} ({shown_line(flip.reason, longest=_LONGEST_TEXT)})" if flip.reason else text


def ids_text(change: IdChange | None, gold: Collection[str] = ()) -> str:
    """What became of the retrieved ids; ranks stand in brackets, with what is gold."""
    if change is None:
        return "unknown"
    if change.is_none:
        return "the same"
    kinds = {
        "lost": [(id_, str(rank)) for id_, rank in change.lost],
        "gained": [(id_, str(rank)) for id_, rank in change.gained],
        "moved": [(id_, f"{old} -> {new}") for id_, old, new in change.moved],
    }
    named = {
        kind: [
            f"{shown_line(id_, longest=_LONGEST_ID)} ({ranks}"
            # A pipeline's chunks are named after their document: "handbook#3-...".
            f"{', gold' * (id_ in gold or id_.rpartition('#')[0] in gold)})"
            for id_, ranks in found
        ]
        for kind, found in kinds.items()
    }
    return "; ".join(f"{kind} {as_line(names, _IDS)}" for kind, names in named.items() if names)


def cause_text(case: CaseDifference) -> str:
    before, now = case.cause_before, case.cause_after
    known = [one.label for one in (before, now) if one is not None]
    return " -> ".join(dict.fromkeys(known)) or "unknown"


def response_text(response: str | None, generated: Status | None) -> str:
    """A response in quotes, or how generation ended."""
    if response is None:
        return "failed" if generated is Status.FAILED else "none"
    text = f'"{shown_line(response, longest=_LONGEST_TEXT)}"'
    return f"{text} (abstained)" if generated is Status.ABSTAINED else text


def what_changed(case: CaseDifference) -> Iterator[tuple[str, str]]:
    """What a reader wants to know of a case: a label and a line each."""
    if case.query is not None:
        yield "", shown_line(case.query, longest=_LONGEST_TEXT)
    for flip in case.flips:
        yield "fails" if flip.newly_fails else "passes", flip_text(flip)
    if case.cause_after is not None:
        yield "cause", cause_text(case)
    if case.ids is not None:
        yield "ids", ids_text(case.ids, case.gold)
    old = response_text(case.response_before, case.stages_before.get("generate"))
    new = response_text(case.response_after, case.stages_after.get("generate"))
    if (case.response_before, case.response_after) != (None, None) or old != new:
        if old == new and case.response_before == case.response_after:
            yield "answer", f"the same: {old}"
        else:
            if case.stages_before:  # a baseline file does not say
                yield case.first, old
            yield case.second, new


def _state(value: float | None, status: Status) -> str:
    return number_text(value) if value is not None else status.value


def number_text(value: float | None, unit: str = "", *, sign: bool = False) -> str:
    """A number in as many places as its size needs; ``-`` where there is none."""
    if value is None or not math.isfinite(value):
        return "-"
    plus = "+" if sign else ""
    if unit == "share":
        return f"{value:{plus}.1%}"
    if unit == "s":
        return f"{value * 1e3:{plus}.1f} ms" if abs(value) < 1 else f"{value:{plus}.2f} s"
    return f"{value:{plus}.3f}" if abs(value) < 100 else f"{value:{plus},.1f}"


class Ends(Protocol):
    @property
    def low(self) -> float | None: ...

    @property
    def high(self) -> float | None: ...


def range_text(ends: Ends | None, unit: str = "", *, sign: bool = False) -> str:
    if ends is None or ends.low is None or ends.high is None:
        return "-"
    return " .. ".join(number_text(end, unit, sign=sign) for end in (ends.low, ends.high))
