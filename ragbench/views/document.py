"""A result as headings, lines and tables, made once: Markdown and the page draw it.

Each command that has a result (a gate, a comparison, an ablation) makes a `Document` of it.
`markdown` draws it for pull requests and files, ``ragbench/views/html`` as a page.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ragbench.core.attribution import CauseFlow
from ragbench.core.movement import movement
from ragbench.core.outcome import Status
from ragbench.core.record import Record
from ragbench.safe_text import as_line, markdown_table, markdown_text, shown_line

if TYPE_CHECKING:
    from ragbench.core.comparison import CaseDifference, CaseKind, Flip, IdChange, RunPair

_LONGEST = 300
"""Letters of a text in Markdown."""
_LONGEST_LINE = 1000
"""Letters of a line of a section in Markdown."""
MOST_CHANGED_CASES = 500
"""Cases of a kind that a page spells out: the texts of no more of them need to be read."""
_MOST_IDS = 5
"""How many ids of a kind are named."""
_LONGEST_TEXT = 200
"""Letters of a response, a question or a reason that are shown."""
_LONGEST_ID = 60
"""Letters of an id that are shown."""
_MOST_FLOWS = 10
"""Flows from cause to cause that Markdown shows."""


class Changes(Record):
    """Cases of one kind that went another way between two runs."""

    kind: CaseKind
    pair: RunPair
    cases: Sequence[CaseDifference]
    place: str = ""
    """The folder of the second run, whose page has the cases."""

    @property
    def title(self) -> str:
        """The heading of a group of changed cases.

        It names what happened, to how many cases, between which runs.
        """
        pair = f"{self.pair.second} against {self.pair.first}"
        return f"{self.kind.heading}: {len(self.cases):,} ({pair})"


class Section(Record):
    """A heading with what is below it: lines, a table, cases."""

    title: str
    lines: Sequence[str] = ()
    columns: Sequence[str] = ()
    """A column without a name holds drawings, which only the page shows."""
    rows: Sequence[Sequence[object]] = ()
    most: int | None = None
    """Rows, and cases of a kind, that Markdown shows; None for all."""
    changes: Sequence[Changes] = ()
    hint: str = ""
    """How it is to be read, in a sentence below it."""
    charts: Sequence[dict[str, Any]] = ()
    """Drawings with a caption, which only the page shows."""
    details: Sequence[dict[str, Any]] = ()
    """What the page unfolds."""
    folded: str = ""
    """Under which words the page folds it all."""

    @property
    def is_empty(self) -> bool:
        """Whether a section has nothing below its heading: documents leave such sections out.

        So a document lists all its sections, and each of them may turn out to be empty.
        """
        return not (self.lines or self.rows or self.changes or self.charts or self.details)


class Document(Record):
    """A result in sections, with the sentence that says most of it."""

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
        """The sections of a document that hold anything, with its notes as the last one.

        Markdown and page draw these, so that an empty table has no heading.
        """
        notes = Section(title="Notes", lines=self.notes)
        return [section for section in (*self.sections, notes) if not section.is_empty]


def changes_of(
    pairs: Sequence[RunPair], differences: Sequence[CaseDifference], places: Mapping[str, str]
) -> tuple[Changes, ...]:
    """The cases that changed between runs, grouped by pair of runs and kind, newly failing first.

    Cases that newly fail come first: these are the ones to act on.

    Args:
        differences: of all pairs together.
        places: the folders of the runs, by their marks.
    """
    from ragbench.core.comparison import CaseKind

    groups: list[Changes] = []
    for pair in pairs:
        # By the second mark: the first run is the same in all pairs.
        differences_of_pair = [case for case in differences if case.second == pair.second]
        place = places.get(pair.second, "")
        # In the order of the kinds, which begins with newly failing.
        for kind in CaseKind:
            cases = [case for case in differences_of_pair if case.kind is kind]
            if cases:
                groups.append(Changes(kind=kind, pair=pair, cases=cases, place=place))
    return tuple(groups)


def flows_section(flows: Sequence[CauseFlow]) -> Section:
    """The table of how many cases went from which cause to which between two runs, with examples.

    A cause is what lost the answer, such as "not retrieved".

    The table shows what a change of the system did: fewer cases "not retrieved", but more "not
    used".
    """
    rows: list[Sequence[object]] = []
    for flow in flows:
        if flow.before is flow.after:  # these cases did not change
            continue
        # The questions say more than ids do; a run without texts has none.
        names = flow.questions or flow.examples
        examples = [shown_line(name, longest=_LONGEST_ID) for name in names]
        rows.append(
            [
                flow.before.label,
                flow.after.label,
                f"{flow.cases:,}",
                flow.second,
                "; ".join(examples),
            ]
        )
    columns = ("before", "after", "cases", "run", "for example")
    return Section(title="How causes changed", columns=columns, rows=rows, most=_MOST_FLOWS)


def markdown(document: Document, *, level: int = 3) -> str:
    """A document as GitHub-flavoured Markdown; its brief form, where it has one.

    It is written for pull requests and files. Every text in it is escaped, since it is of users or
    models.

    Args:
        level: of the heading of the document; its sections stand one below.
    """
    document = document.brief or document
    hashes = "#" * level
    parts = [
        f"{hashes} {document.kind}: {markdown_text(document.title)}",
        f"**{markdown_text(document.headline)}**",
    ]
    for section in document.shown:
        lines = _section_lines(section, f"{hashes}#")
        parts.append("\n".join(lines))
    if document.foot:
        parts.append(f"*{markdown_text(document.foot)}*")
    return "\n\n".join(parts) + "\n"


def _section_lines(section: Section, hashes: str) -> Iterator[str]:
    """A section as lines of Markdown; charts and details are the page's alone.

    Tables that are too long are cut, with a line that says so.

    Args:
        hashes: the sign of its heading, such as ``####``.
    """
    yield f"{hashes} {markdown_text(section.title)}"
    # Blank lines part the blocks: Markdown joins them else.
    if section.lines:
        yield ""
        for line in section.lines:
            yield f"- {markdown_text(line, longest=_LONGEST_LINE)}"
    if section.rows:
        yield ""
        yield from _table_lines(section)
    for group in section.changes:
        yield from _change_lines(group, section.most)
    if section.hint:
        yield ""
        yield f"*{markdown_text(section.hint)}*"


def _table_lines(section: Section) -> Iterator[str]:
    """The lines of a section's table in Markdown, and how many rows there was no room for.

    Columns of drawings, which have no name, are the page's alone.
    """
    # A column of drawings has no name.
    positions = [position for position, name in enumerate(section.columns) if name]
    headings = [markdown_text(section.columns[position]) for position in positions]
    rows: list[list[str]] = []
    for row in section.rows[: section.most]:
        texts = [str(row[position]) for position in positions]
        rows.append([markdown_text(text, longest=_LONGEST) for text in texts])
    yield from markdown_table(headings, rows)
    hidden = len(section.rows) - len(rows)
    if hidden:
        yield ""
        yield f"... and {hidden:,} more."


def _change_lines(group: Changes, most: int | None) -> Iterator[str]:
    """The lines of Markdown that list changed cases, with what changed of each.

    A reader of a pull request sees there why a case went another way.

    Args:
        most: how many cases there is room for; None for all.
    """
    # Markdown needs blank lines around, or a list would be part of the heading.
    yield ""
    yield f"**{markdown_text(group.title)}**"
    yield ""
    for case in group.cases[:most]:
        yield f"- {markdown_text(case.id, longest=_LONGEST)}"
        for label, line in what_changed(case):
            # Cut here, since the lines themselves are as long as a page takes.
            text = markdown_text(line, longest=_LONGEST)
            if label:
                text = f"{label}: {text}"
            yield f"  - {text}"
    if most is not None and len(group.cases) > most:
        yield f"- ... and {len(group.cases) - most:,} more"


def flip_text(flip: Flip) -> str:
    """A text on one respect in which a case changed: its value before and after, and why.

    ``recall@5 1.000 -> 0.000``, or ``generate measured -> failed (TimeoutError: ...)``.
    """
    old = _cell_text(flip.before, flip.before_status)
    new = _cell_text(flip.after, flip.after_status)
    text = f"{shown_line(flip.subject)} {old} -> {new}"
    if flip.reason:
        text += f" ({shown_line(flip.reason, longest=_LONGEST_TEXT)})"
    return text


def ids_text(change: IdChange | None, gold: Collection[str] = ()) -> str:
    """A text on how a case's retrieved ids changed between two runs, with ranks and which are gold.

    ``lost a.pdf#2 (1, gold); moved b.pdf#7 (3 -> 1)``: a chunk of the gold that was lost, or moved
    down, explains a lower score.

    Args:
        change: None where it is not known.
        gold: the relevant ids, of chunks or of documents.
    """
    if change is None:
        return "unknown"
    if change.is_none:
        return "the same"
    # In this order: a lost chunk is the likeliest reason of a lower score.
    ids_by_kind = {
        "lost": [_id_text(id, str(rank), gold) for id, rank in change.lost],
        "gained": [_id_text(id, str(rank), gold) for id, rank in change.gained],
        "moved": [_id_text(id, f"{old} -> {new}", gold) for id, old, new in change.moved],
    }
    parts: list[str] = []
    for kind, ids in ids_by_kind.items():
        if ids:
            parts.append(f"{kind} {as_line(ids, _MOST_IDS)}")
    return "; ".join(parts)


def _id_text(id: str, ranks: str, gold: Collection[str]) -> str:
    """An id of a chunk with its ranks, and whether it is gold: content that answers the case.

    A gold chunk that was lost explains a lower score.

    Args:
        ranks: the rank, or that of before and that of now.
        gold: the relevant ids, of chunks or of documents.
    """
    # A pipeline's chunks are named after their document: "handbook#3-...".
    document, _, _ = id.rpartition("#")
    if id in gold or document in gold:
        ranks += ", gold"
    return f"{shown_line(id, longest=_LONGEST_ID)} ({ranks})"


def cause_text(case: CaseDifference) -> str:
    """The cause of a case before and now, such as "not retrieved -> right".

    Where both are the same, it is shown once.
    """
    labels: list[str] = []
    # By label: causes of one label look the same to a reader.
    for cause in (case.cause_before, case.cause_after):
        if cause is not None and cause.label not in labels:
            labels.append(cause.label)
    if not labels:
        return "unknown"
    return " -> ".join(labels)


def response_text(response: str | None, generated: Status | None) -> str:
    """A response of a case in quotes; how generation ended where there is none.

    An abstention is marked, since its text alone reads like an answer.
    """
    # None is no answer at all; an empty one is shown in its quotes.
    if response is None:
        if generated is Status.FAILED:
            return "failed"
        return "none"
    text = f'"{shown_line(response, longest=_LONGEST_TEXT)}"'
    if generated is Status.ABSTAINED:
        text += " (abstained)"
    return text


def what_changed(case: CaseDifference) -> Iterator[tuple[str, str]]:
    """The labelled lines on a case that changed between two runs; a label may be empty.

    The question comes first, then what changed, then both answers. The screen of a comparison, its
    Markdown and its page have these same lines.
    """
    if case.query is not None:
        yield "", shown_line(case.query, longest=_LONGEST_TEXT)
    # Flips before the cause: they are why the case is listed.
    for flip in case.flips:
        label = "fails" if flip.newly_fails else "passes"
        yield label, flip_text(flip)
    if case.cause_after is not None:
        yield "cause", cause_text(case)
    if case.ids is not None:
        yield "ids", ids_text(case.ids, case.gold)
    yield from _response_lines(case)


def _response_lines(case: CaseDifference) -> Iterator[tuple[str, str]]:
    """The lines with a case's answers in two runs, or that they are the same.

    There are none where neither run gave an answer.
    """
    old = response_text(case.response_before, case.stages_before.get("generate"))
    new = response_text(case.response_after, case.stages_after.get("generate"))
    # The texts are cut: two answers may differ behind that place.
    if old == new and case.response_before == case.response_after:
        if case.response_before is not None:
            yield "answer", f"the same: {old}"
        return
    if case.stages_before:  # a baseline file holds no stages of a case
        yield case.first, old
    yield case.second, new


def _cell_text(value: float | None, status: Status) -> str:
    """The value of a case's score, or why it has none, such as "skipped".

    A missing score must never read as a 0.
    """
    if value is None:
        return status.value
    return number_text(value)


class _NumberForm(NamedTuple):
    """How numbers of a size and a unit are printed."""

    factor: float
    """What a number is multiplied by, such as 100 for per cent."""
    places: int
    ending: str
    """The unit, behind the number."""

    @classmethod
    def of(cls, size: float, unit: str) -> _NumberForm:
        """The form for numbers up to a size, with three or four digits that say something.

        Numbers that are read together have one form, that of the largest: 0.9 s beside 1.2 s is in
        seconds, too.
        """
        # In the order of units: only times change with their size.
        if unit == "share":
            return cls(100.0, 1, "%")
        if unit == "s" and size < 1:
            return cls(1e3, 1, " ms")
        if unit == "s":
            return cls(1.0, 2, " s")
        if size < 100:
            return cls(1.0, 3, "")
        return cls(1.0, 1, "")

    def text(self, number: float, *, sign: bool = False) -> str:
        """A number as text in this form: rounded to its places, with its unit.

        A form is chosen for numbers that are read together, so that they have the same places.

        Args:
            number: multiplied by the factor already, because `movement` rounds such numbers.
            sign: whether a plus stands before a positive number.
        """
        plus = "+" if sign else ""
        return f"{number:{plus},.{self.places}f}{self.ending}"


def number_text(value: float | None, unit: str = "", *, sign: bool = False) -> str:
    """A number for a report in as many places as its size needs; ``-`` where there is none.

    All forms of a report use it, so that a figure looks the same in each.

    Args:
        unit: ``"share"`` is shown in per cent, ``"s"`` in seconds or milliseconds; else as it is.
        sign: whether a plus stands before a positive number, as before a difference.
    """
    if value is None or not math.isfinite(value):
        return "-"
    form = _NumberForm.of(abs(value), unit)
    return form.text(value * form.factor, sign=sign)


def movement_cells(before: float | None, now: float | None, unit: str = "") -> tuple[str, str, str]:
    """The cells with a figure before and now, and its change, all three in one form.

    The printed change is the difference of the printed figures. Rounded by itself it could be
    another one (+0.007 beside 0.124 and 0.130), and a reader would take that for a mistake. ``-``
    is in the place of an unknown figure, and of the change then.
    """
    # No form can be taken from one figure alone, so each has its own.
    if before is None or now is None:
        return number_text(before, unit), number_text(now, unit), "-"
    # One form for both figures, so that a reader can subtract them.
    form = _NumberForm.of(max(abs(before), abs(now)), unit)
    moved = movement(before * form.factor, now * form.factor, form.places)
    return form.text(moved.before), form.text(moved.now), form.text(moved.change, sign=True)


def paired_cases_text(
    both: int, only_first: int, only_second: int, names: tuple[str, str] = ("before", "now")
) -> str:
    """The number of cases that two means are of, and of those that one of two runs measured alone.

    ``40, 3 only before``: these three are in neither mean.

    Args:
        names: of the two runs.
    """
    parts = [f"{both:,}"]
    # In pairs: the first count belongs to the first name.
    for count, name in zip((only_first, only_second), names, strict=True):
        if count:
            parts.append(f"{count:,} only {name}")
    return ", ".join(parts)


def cases_in_short(both: int, only_first: int, only_second: int) -> str:
    """The number of cases that two runs' means are of, for a narrow table: ``5 of 10``.

    The first number is of cases that both runs measured, the second of those that either did.
    """
    in_either = both + only_first + only_second
    if in_either == both:
        return f"{both:,}"
    return f"{both:,} of {in_either:,}"


class Ends(Protocol):
    """What `range_text` prints: an interval, or a difference that has the ends of its own."""

    @property
    def low(self) -> float | None:
        """The lower end of an interval to print; None without an interval.

        `range_text` needs both ends.
        """
        ...

    @property
    def high(self) -> float | None:
        """The upper end of an interval to print; None without an interval.

        `range_text` needs both ends.
        """
        ...


def range_text(ends: Ends | None, unit: str = "", *, sign: bool = False) -> str:
    """An interval from end to end as text; ``-`` where it is not known.

    Args:
        unit: as for `number_text`; both ends have it.
        sign: whether a plus stands before positive ends, as for a difference.
    """
    # Either end may be missing on its own: half an interval says nothing.
    if ends is None or ends.low is None or ends.high is None:
        return "-"
    low = number_text(ends.low, unit, sign=sign)
    high = number_text(ends.high, unit, sign=sign)
    return f"{low} .. {high}"
