"""The block of one case in a run's page, and its chunks: each text stands in the page once.

A page has a thousand of them: they are written here and not by a template.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote as percent_encoded

import orjson
from markupsafe import escape

from ragbench.core.attribution import ESTIMATES, LOSSES
from ragbench.core.metric import Metric
from ragbench.core.outcome import Cell
from ragbench.core.report import CaseRow
from ragbench.core.story import CaseStory, ChunkStory, JudgedAnswer
from ragbench.core.validation import Verdict
from ragbench.ledger.codec import judgement_object
from ragbench.views.document import ids_text
from ragbench.views.explain import chunk_fate, chunk_ranks, hop_text, search_text
from ragbench.views.html.page import clean

if TYPE_CHECKING:
    from ragbench.core.comparison import Against, CaseBefore

_LONGEST = 20_000
"""Letters of one text in a page."""
_QUERY = 2000
"""Letters of a question that are drawn: a line of a million without a space stops a browser."""
_TEXTS = 12_000_000
"""Letters of chunks that a page holds."""


def anchor(case: str) -> str:
    return f"case={percent_encoded(case, safe='-_.~:@/,+()')}"


def safe(text: str) -> str:
    """A text as HTML, in which none of its letters acts."""
    return str(escape(clean(text)))


def cut(text: str, longest: int = _LONGEST) -> str:
    """A text, or its start and how much is missing."""
    if len(text) <= longest:
        return text
    return f"{text[:longest]} ... ({len(text) - longest:,} more letters: see ragbench explain)"


class Shelved(NamedTuple):
    """A chunk whose text the page holds."""

    number: int
    """Its anchor is ``k`` and this."""
    id: str
    text: str


class CaseBlocks:
    def __init__(self, metrics: Sequence[Metric], against: Against | None = None) -> None:
        self._metrics, self._against = metrics, against
        self._names = [safe(metric.name) for metric in metrics]
        self.shelf: dict[tuple[str, str], Shelved] = {}
        """The chunks whose texts the page holds."""
        self._letters = 0

    def block(self, row: CaseRow) -> str:
        found, story = row.attribution, row.story
        assert story is not None
        before = None if self._against is None else self._against.cases.get(row.id)
        kind = "" if before is None or before.kind is None else before.kind.value
        main, scores = self._scores(row)
        stage = f' data-g="{safe(found.stage)}"' if found.stage else ""
        link, language = anchor(row.id), [f"language:{row.language}"] if row.language else []
        tags = [*row.tags, *language, *(f"document:{id}" for id in row.reference_ids or ())]
        hops = ((hop.stage, hop_text(hop).removeprefix("measured, ")) for hop in story.hops)
        return "".join(
            [
                f"<details class=case data-c={found.cause.value}{stage} "
                f"data-a={found.answer.value}{' data-l' * (found.cause in LOSSES)}"
                + (f' data-k="{kind}"' if kind else "")
                + f"><summary><b>{found.cause.label}</b>{f' <u>{kind}</u>' if kind else ''} "
                f"<span class=id>{safe(row.id)}</span> <span>{safe(cut(row.query, _QUERY))}</span>"
                f"{f' <i>{safe(main)}</i>' if main else ''}</summary>\n"
                f'<div class=in id="{link}">\n<p class=why>{safe(found.detail)}'
                f'{" (estimated)" * (found.basis in ESTIMATES)} <a href="#{link}">link</a>',
                *(f" <i>{safe(tag)}</i>" for tag in tags),
                "\n",
                *(f"<p class=bad>{safe(str(failure))}\n" for failure in row.failures),
                *(_asked(story) if story.history or story.searches or story.sent else ()),
                *_answered(row, story, before),
                *([] if before is None else _against(before, row)),
                *self._shown(story),
                *([] if row.validation is None else [_verdict(row.validation)]),
                *(_judged(row, self._metrics) if any(row.judgements) else ()),
                f"<p class=s>{scores}\n"
                f"<p class=dim>{safe(' · '.join(f'{stage} {text}' for stage, text in hops))}\n"
                "</div></details>",
            ]
        )

    def _shown(self, story: CaseStory) -> Iterator[str]:
        """The chunks, and of the gold what they do not show."""
        if story.chunks:
            yield "<table><tr><th>Rank<th>Chunk<th>Score<th>What happened\n"
            yield "\n".join(map(self._chunk, story.chunks))
            yield "</table>\n"
        marked = {chunk.id for chunk in story.chunks if chunk.is_gold}
        if not marked.issuperset(story.gold_ids):
            yield f"<p class=dim>Gold: {safe(', '.join(story.gold_ids))}"
        if not any(mark.kind == "gold" for chunk in story.chunks for mark in chunk.marks):
            for text in story.gold_texts[:5]:
                yield f"<blockquote>{safe(cut(text, 1000))}</blockquote>"
        if story.written:
            yield "<details><summary>What generation was given</summary>"
            yield f"<pre>{safe(cut(story.written))}</pre></details>"

    def _chunk(self, chunk: ChunkStory) -> str:
        key = (chunk.id, chunk.text)
        shelved = self.shelf.get(key)
        if shelved is None:
            text = cut(chunk.text)
            self._letters += len(text)
            if self._letters > _TEXTS:
                text = "(not in this page, which would be too large: see ragbench explain)"
            shelved = self.shelf[key] = Shelved(len(self.shelf), safe(chunk.id), text)
        score = "" if chunk.score is None else f"{chunk.score:.4g}"
        link = f"{chunk_ranks(chunk)}<td><a href=#k{shelved.number}>{shelved.id}</a>"
        if chunk.address is not None:
            link += f' <a class=src rel=noreferrer href="{safe(chunk.address)}">source</a>'
        if not (chunk.is_gold or chunk.moves or chunk.marks):
            return f"<tr><td>{link}<td>{score}"  # most of them
        marks = ";".join(
            f"{_units(shelved.text[: mark.start])},{_units(shelved.text[: mark.end])}"
            for mark in chunk.marks
            if mark.end <= len(shelved.text)
        )
        gold, word = (" class=gold", " <b>gold</b>") if chunk.is_gold else ("", "")
        spans = f" data-m={marks}" if marks else ""
        happened = safe(chunk_fate(chunk)) if chunk.moves else ""
        happened += "".join(_quotes(chunk)) if chunk.marks else ""
        return f"<tr{gold}{spans}><td>{link}{word}<td>{score}<td>{happened}"

    def _scores(self, row: CaseRow) -> tuple[str, str]:
        """What a closed case shows: a score of retrieval and one of the answer; then every metric.

        Those without a value stand behind, by how their cells ended.
        """
        wanted: dict[str, str] = {}
        values: list[str] = []
        without: dict[str, list[str]] = {}
        for metric, name, cell in zip(self._metrics, self._names, row.cells, strict=True):
            if cell.value is None:
                without.setdefault(cell.status.value, []).append(name)
                continue
            values.append(f"{name} {cell.value:.3g}")
            group = metric.definition.group.value
            shown = wanted.get(group, "")
            is_first = not shown or (metric.name == "token_f1" and "answer_correct" not in shown)
            if group in ("retriever", "generator") and is_first:
                wanted[group] = f"{metric.name} {cell.value:.3g}"
        rest = (f"{status}: {', '.join(found)}" for status, found in without.items())
        return " · ".join(wanted.values()), " · ".join([*values, *rest])


def _asked(story: CaseStory) -> Iterator[str]:
    """What was said before the question, and what was searched for."""
    if story.history:
        yield "<details class=said><summary>What was said before: "
        yield f"{len(story.history)} turns</summary>\n"
        for turn in story.history:
            yield f"<p><b>{safe(turn.role)}</b> {safe(cut(turn.text))}\n"
        yield "</details>\n"
    for number, search in enumerate(story.searches, 1):
        yield f"<p class=dim>search {number}: {safe(search_text(search))}\n"
    for sent in story.sent:
        yield f"<p class=dim>searched for <q>{safe(cut(sent))}</q>\n"


def _answered(row: CaseRow, story: CaseStory, before: CaseBefore | None) -> Iterator[str]:
    """Reference and answer beside each other, and which sentences of the answer do not hold."""
    reference, response = compared_texts(row.reference, row.response)
    yield f"<div class=qa><div><h3>Reference</h3><p>{_marked(reference, 'del')}\n"
    for text in story.references[1:]:
        yield f"<p class=dim>or: {safe(cut(text))}\n"
    yield f"</div><div><h3>Answer</h3><p>{_marked(response, 'ins')}\n"
    for text in story.candidates:
        if text != row.response:
            yield f"<p class=dim>candidate: {safe(cut(text))}\n"
    yield "</div>"
    if before is not None and before.tells_texts:
        other = "<em>the same</em>"
        if before.response != row.response:
            other = _marked(compared_texts(before.response, row.response)[0], "u")
        yield f"<div><h3>In the baseline</h3><p>{other}</div>"
    yield "</div>\n"
    yield from _not_fulfilled(story)
    if story.notes:
        yield "<div class=claims><h3>Numbers and citations that do not hold</h3>\n"
        for note in story.notes:
            yield f"<p class=fails>{safe(note.sentence)}\n"
            yield f"<div><small>{safe(note.problem)}</small></div>\n"
        yield "</div>\n"
    for answer in story.supported:
        yield from _supported(answer)


def _not_fulfilled(story: CaseStory) -> Iterator[str]:
    failing = [each for each in story.expectations if each.holds is False]
    if not failing:
        return
    total = len(story.expectations)
    yield f"<div class=claims><h3>Expectations that do not hold: {len(failing)} of {total}</h3>\n"
    for expectation in failing:
        yield f"<p class=fails>{safe(cut(expectation.sentence, 400))}\n"
    yield "</div>\n"


_TONES = {"supported": "passes", "not supported": "fails"}


def _supported(answer: JudgedAnswer) -> Iterator[str]:
    judge = f", {safe(answer.judge)}" if answer.judge else ""
    yield "<div class=claims><h3>Supported by the chunks, by sentence: "
    yield f"{safe(answer.metric)}{judge}</h3>\n"
    for sentence in answer.sentences:
        text = "<em>of no one sentence</em>" if sentence.text is None else safe(sentence.text)
        tone = _TONES.get(sentence.verdict, "undecided")
        yield f'<p class="{tone}"><b>{safe(sentence.verdict)}</b> {text}\n'
        for claim in sentence.claims:
            said, tone = "", _TONES.get(claim.verdict, "undecided")
            if claim.text != sentence.text:
                said = f'<span class="{tone}">{safe(claim.verdict)}</span>: {safe(claim.text)}'
            reason = f" <small>{safe(claim.reason)}</small>" if claim.reason else ""
            yield f"<div>{said}{reason}\n"
            for text, chunk in claim.quotes:
                where = "in no chunk" if chunk is None else safe(chunk)
                yield f"<q><small>{where}</small> <mark>{safe(text)}</mark></q>"
            yield "</div>\n"
    yield "</div>\n"


def _against(before: CaseBefore, row: CaseRow) -> Iterator[str]:
    cause, now = before.cause, row.attribution.cause
    label = "" if cause in (None, now) else f"{cause.label}. "
    scores = ", ".join(f"{name} {_state(old)} → {_state(new)}" for name, old, new in before.scores)
    if label or scores:
        yield f"<p class=dim>In the baseline: {label}{safe(scores)}\n"
    if before.ids is not None:
        yield f"<p class=dim>Chunks against the baseline: {safe(ids_text(before.ids))}\n"


def _state(cell: Cell) -> str:
    return cell.status.value if cell.value is None else f"{cell.value:.3g}"


def _judged(row: CaseRow, metrics: Sequence[Metric]) -> Iterator[str]:
    for metric, judgements in zip(metrics, row.judgements, strict=True):
        for judgement in judgements:
            steps = [
                {name: step[name] for name in ("asked", "answer", "quotes")}
                for step in judgement_object(judgement)["steps"]
            ]
            text = orjson.dumps(steps, option=orjson.OPT_INDENT_2, default=str).decode()
            name = f"{metric.name}{f' by {judgement.judge}' if judgement.judge else ''}"
            yield f"<details class=judged><summary>{safe(name)}: {_state(judgement.cell)}"
            yield f"</summary><pre>{safe(cut(text))}</pre></details>\n"


def _verdict(verdict: Verdict) -> str:
    text = (
        f"{verdict.validator}: {verdict.message} Answer present: "
        f"{'yes' if verdict.answer_present else 'not shown'}, probability "
        f"{verdict.answer_probability:.2f}; retrieval quality {verdict.retrieval_quality.value}."
        + "".join(f" {reason}" for reason in verdict.reasons)
    )
    return f"<p class=verdict>{safe(text)}"


_AROUND = 40
_QUOTES = 4


def _units(text: str) -> int:
    """How long a browser finds a text, once it is made safe: UTF-16 counts some letters twice."""
    shown = clean(text)
    return len(shown) if shown.isascii() else len(shown.encode("utf-16-le", "surrogatepass")) // 2


def _quotes(chunk: ChunkStory) -> Iterator[str]:
    for mark in chunk.marks[:_QUOTES]:
        start, end = max(0, mark.start - _AROUND), mark.end + _AROUND
        before = safe(("…" if start else "") + chunk.text[start : mark.start])
        text = safe(cut(chunk.text[mark.start : mark.end], 400))
        after = safe(chunk.text[mark.end : end] + ("…" if end < len(chunk.text) else ""))
        yield f"<q><small>{mark.kind}</small> {before}<mark>{text}</mark>{after}</q>"


# --- what two texts share

_WORDS = 400
"""Words up to which two texts are compared word by word."""
_WORD = re.compile(r"\s*\S+\s*")
Parts = list[tuple[str, bool]]
"""A text in parts, and whether each is the same in the other."""


def compared_texts(first: str | None, second: str | None) -> tuple[Parts | None, Parts | None]:
    """Both texts in parts: those that the other has too, and those that it lacks."""
    left, right = (None if text is None else [(cut(text), True)] for text in (first, second))
    if first is None or second is None or first == second:
        return left, right
    ours, theirs = _WORD.findall(cut(first)), _WORD.findall(cut(second))
    if len(ours) > _WORDS or len(theirs) > _WORDS:
        return left, right
    matcher = SequenceMatcher(None, [*map(_plain, ours)], [*map(_plain, theirs)], autojunk=False)
    codes = matcher.get_opcodes()
    return (
        [("".join(ours[a:b]), kind == "equal") for kind, a, b, _, _ in codes if b > a],
        [("".join(theirs[c:d]), kind == "equal") for kind, _, _, c, d in codes if d > c],
    )


def _plain(word: str) -> str:
    return word.strip().strip(".,;:!?\"'()[]").casefold()


def _marked(parts: Parts | None, tag: str) -> str:
    if parts is None:
        return "<em>none</em>"
    return "".join(safe(text) if same else f"<{tag}>{safe(text)}</{tag}>" for text, same in parts)
