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
from ragbench.core.story import CaseStory, ChunkStory, JudgedAnswer, JudgedClaim
from ragbench.core.validation import Verdict
from ragbench.ledger.codec import judgement_object
from ragbench.views.document import ids_text
from ragbench.views.explain import chunk_fate, chunk_ranks, hop_text, search_text
from ragbench.views.html.page import clean

if TYPE_CHECKING:
    from ragbench.core.comparison import Against, CaseBefore

_LONGEST = 20_000
"""Letters of one text in a page."""
_LONGEST_QUERY = 2000
"""Letters of a question that are drawn: a line of a million without a space stops a browser."""
_LONGEST_GOLD = 1000
_MOST_GOLD_TEXTS = 5
_MOST_CHUNK_LETTERS = 12_000_000
"""Letters of chunks that a page holds."""


def anchor(case: str) -> str:
    """The anchor of a case in a page, by its id."""
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
    """Writes the blocks of a page's cases, and collects the chunks that they link to."""

    def __init__(self, metrics: Sequence[Metric], against: Against | None = None) -> None:
        self._metrics = metrics
        self._against = against
        self._names = [safe(metric.name) for metric in metrics]
        self.shelf: dict[tuple[str, str], Shelved] = {}
        """The chunks whose texts the page holds, by id and text."""
        self._letters = 0

    def block(self, row: CaseRow) -> str:
        """A case as HTML: a line when it is closed, everything that is known when it is open."""
        story = row.story
        assert story is not None
        before = None if self._against is None else self._against.cases.get(row.id)
        headline_scores, all_scores = self._scores(row)
        parts = [
            *_summary_line(row, before, headline_scores),
            *_cause(row),
            *(f"<p class=bad>{safe(str(failure))}\n" for failure in row.failures),
        ]
        if story.history or story.searches or story.sent:
            parts.extend(_history_and_searches(story))
        parts.extend(_reference_and_answer(row, story, before))
        if before is not None:
            parts.extend(_baseline_differences(before, row))
        parts.extend(self._chunks(story))
        if row.validation is not None:
            parts.append(_verdict(row.validation))
        if any(row.judgements):
            parts.extend(_judgements(row, self._metrics))
        parts.append(f"<p class=s>{all_scores}\n")
        parts.append(f"<p class=dim>{safe(_hops(story))}\n</div></details>")
        return "".join(parts)

    def _chunks(self, story: CaseStory) -> Iterator[str]:
        """The chunks, and of the gold what they do not show."""
        if story.chunks:
            yield "<table><tr><th>Rank<th>Chunk<th>Score<th>What happened\n"
            yield "\n".join(self._chunk(chunk) for chunk in story.chunks)
            yield "</table>\n"
        gold_shown = {chunk.id for chunk in story.chunks if chunk.is_gold}
        if not gold_shown.issuperset(story.gold_ids):
            yield f"<p class=dim>Gold: {safe(', '.join(story.gold_ids))}"
        if not _has_gold_mark(story):
            for text in story.gold_texts[:_MOST_GOLD_TEXTS]:
                yield f"<blockquote>{safe(cut(text, _LONGEST_GOLD))}</blockquote>"
        if story.written:
            yield "<details><summary>What generation was given</summary>"
            yield f"<pre>{safe(cut(story.written))}</pre></details>"

    def _chunk(self, chunk: ChunkStory) -> str:
        """A chunk as a row, which links to its text."""
        shelved = self._shelved(chunk)
        score = "" if chunk.score is None else f"{chunk.score:.4g}"
        link = f"{chunk_ranks(chunk)}<td><a href=#k{shelved.number}>{shelved.id}</a>"
        if chunk.address is not None:
            link += f' <a class=src rel=noreferrer href="{safe(chunk.address)}">source</a>'
        if not (chunk.is_gold or chunk.moves or chunk.marks):
            return f"<tr><td>{link}<td>{score}"  # most of them
        row = "<tr class=gold" if chunk.is_gold else "<tr"
        spans = _spans(chunk, shelved.text)
        if spans:
            row += f" data-m={spans}"
        row += f"><td>{link}"
        if chunk.is_gold:
            row += " <b>gold</b>"
        row += f"<td>{score}<td>"
        if chunk.moves:
            row += safe(chunk_fate(chunk))
        return row + "".join(_quotes(chunk))

    def _shelved(self, chunk: ChunkStory) -> Shelved:
        """The chunk with its text, which is put on the shelf when it is first met."""
        key = (chunk.id, chunk.text)
        if key not in self.shelf:
            text = cut(chunk.text)
            self._letters += len(text)
            if self._letters > _MOST_CHUNK_LETTERS:
                text = "(not in this page, which would be too large: see ragbench explain)"
            self.shelf[key] = Shelved(len(self.shelf), safe(chunk.id), text)
        return self.shelf[key]

    def _scores(self, row: CaseRow) -> tuple[str, str]:
        """What a closed case shows: a score of retrieval and one of the answer; then every metric.

        Those without a value stand behind, by how their cells ended.
        """
        headline: dict[str, str] = {}
        values: list[str] = []
        without_value: dict[str, list[str]] = {}
        for metric, name, cell in zip(self._metrics, self._names, row.cells, strict=True):
            if cell.value is None:
                without_value.setdefault(cell.status.value, []).append(name)
                continue
            values.append(f"{name} {cell.value:.3g}")
            group = metric.definition.group.value
            if group not in ("retriever", "generator"):
                continue
            shown = headline.get(group, "")
            # token_f1 replaces the first score of an answer, unless that says if it is correct.
            is_better = metric.name == "token_f1" and "answer_correct" not in shown
            if not shown or is_better:
                headline[group] = f"{metric.name} {cell.value:.3g}"
        for status, names in without_value.items():
            values.append(f"{status}: {', '.join(names)}")
        return " · ".join(headline.values()), " · ".join(values)


def _summary_line(row: CaseRow, before: CaseBefore | None, scores: str) -> Iterator[str]:
    """What a closed case shows, with what the script filters by in its attributes."""
    attribution = row.attribution
    kind = "" if before is None or before.kind is None else before.kind.value
    yield f"<details class=case data-c={attribution.cause.value}"
    if attribution.stage:
        yield f' data-g="{safe(attribution.stage)}"'
    yield f" data-a={attribution.answer.value}"
    if attribution.cause in LOSSES:
        yield " data-l"
    if kind:
        yield f' data-k="{kind}"'
    yield f"><summary><b>{attribution.cause.label}</b>"
    if kind:
        yield f" <u>{kind}</u>"
    yield f" <span class=id>{safe(row.id)}</span> "
    yield f"<span>{safe(cut(row.query, _LONGEST_QUERY))}</span>"
    if scores:
        yield f" <i>{safe(scores)}</i>"
    yield "</summary>\n"


def _cause(row: CaseRow) -> Iterator[str]:
    """Why the case ended as it did, a link to it, and its tags."""
    attribution = row.attribution
    link = anchor(row.id)
    yield f'<div class=in id="{link}">\n<p class=why>{safe(attribution.detail)}'
    if attribution.basis in ESTIMATES:
        yield " (estimated)"
    yield f' <a href="#{link}">link</a>'
    tags = list(row.tags)
    if row.language:
        tags.append(f"language:{row.language}")
    tags.extend(f"document:{id}" for id in row.reference_ids or ())
    for tag in tags:
        yield f" <i>{safe(tag)}</i>"
    yield "\n"


def _hops(story: CaseStory) -> str:
    """How each stage ended; that it was measured goes without saying."""
    hops: list[str] = []
    for hop in story.hops:
        text = hop_text(hop).removeprefix("measured, ")
        hops.append(f"{hop.stage} {text}")
    return " · ".join(hops)


def _has_gold_mark(story: CaseStory) -> bool:
    """Whether a gold text is marked in a chunk, so that it is on the page already."""
    marks = (mark for chunk in story.chunks for mark in chunk.marks)
    return any(mark.kind == "gold" for mark in marks)


def _history_and_searches(story: CaseStory) -> Iterator[str]:
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


def _reference_and_answer(
    row: CaseRow, story: CaseStory, before: CaseBefore | None
) -> Iterator[str]:
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
        if before.response == row.response:
            earlier = "<em>the same</em>"
        else:
            earlier = _marked(compared_texts(before.response, row.response)[0], "u")
        yield f"<div><h3>In the baseline</h3><p>{earlier}</div>"
    yield "</div>\n"
    yield from _failing_expectations(story)
    if story.notes:
        yield "<div class=claims><h3>Numbers and citations that do not hold</h3>\n"
        for note in story.notes:
            yield f"<p class=fails>{safe(note.sentence)}\n"
            yield f"<div><small>{safe(note.problem)}</small></div>\n"
        yield "</div>\n"
    for answer in story.supported:
        yield from _judged_sentences(answer)


def _failing_expectations(story: CaseStory) -> Iterator[str]:
    """The expectations that do not hold; nothing where all do."""
    failing = [expectation for expectation in story.expectations if expectation.holds is False]
    if not failing:
        return
    total = len(story.expectations)
    yield f"<div class=claims><h3>Expectations that do not hold: {len(failing)} of {total}</h3>\n"
    for expectation in failing:
        yield f"<p class=fails>{safe(cut(expectation.sentence, 400))}\n"
    yield "</div>\n"


_TONES = {"supported": "passes", "not supported": "fails"}


def _judged_sentences(answer: JudgedAnswer) -> Iterator[str]:
    """An answer by sentences, each with the claims that a judge made of it."""
    judge = f", {safe(answer.judge)}" if answer.judge else ""
    yield "<div class=claims><h3>Supported by the chunks, by sentence: "
    yield f"{safe(answer.metric)}{judge}</h3>\n"
    for sentence in answer.sentences:
        text = "<em>of no one sentence</em>" if sentence.text is None else safe(sentence.text)
        tone = _TONES.get(sentence.verdict, "undecided")
        yield f'<p class="{tone}"><b>{safe(sentence.verdict)}</b> {text}\n'
        for claim in sentence.claims:
            yield from _claim(claim, is_whole=claim.text == sentence.text)
    yield "</div>\n"


def _claim(claim: JudgedClaim, *, is_whole: bool) -> Iterator[str]:
    """A claim with its quotes; its own text only where it is not the ``whole`` sentence."""
    yield "<div>"
    if not is_whole:
        tone = _TONES.get(claim.verdict, "undecided")
        yield f'<span class="{tone}">{safe(claim.verdict)}</span>: {safe(claim.text)}'
    if claim.reason:
        yield f" <small>{safe(claim.reason)}</small>"
    yield "\n"
    for text, chunk in claim.quotes:
        place = "in no chunk" if chunk is None else safe(chunk)
        yield f"<q><small>{place}</small> <mark>{safe(text)}</mark></q>"
    yield "</div>\n"


def _baseline_differences(before: CaseBefore, row: CaseRow) -> Iterator[str]:
    """Cause, scores and chunks of the case in the baseline, where they were others."""
    label = ""
    if before.cause is not None and before.cause != row.attribution.cause:
        label = f"{before.cause.label}. "
    changes: list[str] = []
    for name, old, new in before.scores:
        changes.append(f"{name} {_cell_text(old)} → {_cell_text(new)}")
    if label or changes:
        yield f"<p class=dim>In the baseline: {label}{safe(', '.join(changes))}\n"
    if before.ids is not None:
        yield f"<p class=dim>Chunks against the baseline: {safe(ids_text(before.ids))}\n"


def _cell_text(cell: Cell) -> str:
    """The value of a cell, or how it ended that has none."""
    if cell.value is None:
        return cell.status.value
    return f"{cell.value:.3g}"


def _judgements(row: CaseRow, metrics: Sequence[Metric]) -> Iterator[str]:
    """The judgements that a case's scores rest on, folded."""
    for metric, judgements in zip(metrics, row.judgements, strict=True):
        for judgement in judgements:
            steps: list[dict[str, object]] = []
            for step in judgement_object(judgement)["steps"]:
                steps.append({name: step[name] for name in ("asked", "answer", "quotes")})
            text = orjson.dumps(steps, option=orjson.OPT_INDENT_2, default=str).decode()
            name = metric.name
            if judgement.judge:
                name += f" by {judgement.judge}"
            yield f"<details class=judged><summary>{safe(name)}: {_cell_text(judgement.cell)}"
            yield f"</summary><pre>{safe(cut(text))}</pre></details>\n"


def _verdict(verdict: Verdict) -> str:
    """What the validator says of the case's chunks."""
    present = "yes" if verdict.answer_present else "not shown"
    text = (
        f"{verdict.validator}: {verdict.message} Answer present: {present}, probability "
        f"{verdict.answer_probability:.2f}; retrieval quality {verdict.retrieval_quality.value}."
    )
    for reason in verdict.reasons:
        text += f" {reason}"
    return f"<p class=verdict>{safe(text)}"


_AROUND = 40
"""Letters around a quote."""
_MOST_QUOTES = 4


def _spans(chunk: ChunkStory, shown: str) -> str:
    """Where the marks of a chunk start and end in its shown text, as the script reads it."""
    spans: list[str] = []
    for mark in chunk.marks:
        if mark.end <= len(shown):
            spans.append(f"{_units(shown[: mark.start])},{_units(shown[: mark.end])}")
    return ";".join(spans)


def _units(text: str) -> int:
    """How long a browser finds a text, once it is made safe: UTF-16 counts some letters twice."""
    shown = clean(text)
    if shown.isascii():
        return len(shown)
    return len(shown.encode("utf-16-le", "surrogatepass")) // 2


def _quotes(chunk: ChunkStory) -> Iterator[str]:
    """The first marked passages of a chunk, with the letters around them."""
    for mark in chunk.marks[:_MOST_QUOTES]:
        start = max(0, mark.start - _AROUND)
        end = mark.end + _AROUND
        before = chunk.text[start : mark.start]
        if start:
            before = f"…{before}"
        after = chunk.text[mark.end : end]
        if end < len(chunk.text):
            after = f"{after}…"
        text = safe(cut(chunk.text[mark.start : mark.end], 400))
        yield f"<q><small>{mark.kind}</small> {safe(before)}<mark>{text}</mark>{safe(after)}</q>"


# --- what two texts share

_MOST_WORDS = 400
"""Words up to which two texts are compared word by word."""
_WORD = re.compile(r"\s*\S+\s*")
Parts = list[tuple[str, bool]]
"""A text in parts, and whether each is the same in the other."""


def compared_texts(first: str | None, second: str | None) -> tuple[Parts | None, Parts | None]:
    """Both texts in parts: those that the other has too, and those that it lacks."""
    first_whole: Parts | None = None if first is None else [(cut(first), True)]
    second_whole: Parts | None = None if second is None else [(cut(second), True)]
    if first is None or second is None or first == second:
        return first_whole, second_whole
    first_words = _WORD.findall(cut(first))
    second_words = _WORD.findall(cut(second))
    if len(first_words) > _MOST_WORDS or len(second_words) > _MOST_WORDS:
        return first_whole, second_whole
    matcher = SequenceMatcher(
        None,
        [_plain(word) for word in first_words],
        [_plain(word) for word in second_words],
        autojunk=False,  # it takes frequent words for noise
    )
    first_parts: Parts = []
    second_parts: Parts = []
    for kind, start, end, second_start, second_end in matcher.get_opcodes():
        is_same = kind == "equal"
        if end > start:
            first_parts.append(("".join(first_words[start:end]), is_same))
        if second_end > second_start:
            second_parts.append(("".join(second_words[second_start:second_end]), is_same))
    return first_parts, second_parts


def _plain(word: str) -> str:
    """A word without what does not make it another: signs around it, large letters."""
    return word.strip().strip(".,;:!?\"'()[]").casefold()


def _marked(parts: Parts | None, tag: str) -> str:
    """A text as HTML, in which a tag marks what the other text lacks."""
    if parts is None:
        return "<em>none</em>"
    marked: list[str] = []
    for text, is_same in parts:
        marked.append(safe(text) if is_same else f"<{tag}>{safe(text)}</{tag}>")
    return "".join(marked)
