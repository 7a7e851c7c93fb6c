"""The block of one case in a run's page, and its chunks: each text stands in the page once.

A page has up to a thousand of them: they are written here and not by a template, which would take
longer. `CaseBlocks` is called for each case of `ragbench.views.html.run_page`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote as percent_encoded

import orjson
from markupsafe import escape

from ragbench.core.attribution import ESTIMATES, JUDGING, LOSSES
from ragbench.core.metric import Metric
from ragbench.core.outcome import Cell
from ragbench.core.report import CaseRow
from ragbench.core.story import CaseStory, ChunkStory, JudgedAnswer, JudgedClaim
from ragbench.core.validation import Verdict
from ragbench.ledger.codec import judgement_object
from ragbench.safe_text import counted
from ragbench.views.document import ids_text
from ragbench.views.explain import chunk_fate, chunk_ranks, hop_text, search_text
from ragbench.views.html.page import clean
from ragbench.views.words import presence_text

if TYPE_CHECKING:
    from ragbench.core.comparison import CaseBefore

_LONGEST = 20_000
"""Letters of one text in a page."""
_LONGEST_QUERY = 2000
"""Letters of a question that are drawn: a line of a million without a space stops a browser."""
_LONGEST_GOLD = 1000
"""Letters of a gold text that no chunk holds."""
_MOST_GOLD_TEXTS = 5
_LONGEST_PASSAGE = 400
"""Letters of a marked passage, or of an expectation."""
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
    """Writes the blocks of a page's cases, and collects the chunks that they link to.

    Args:
        metrics: those of the run, in the order of a row's cells.
        cases_before: by id, the cases as they were in the run that this one is compared with.
    """

    def __init__(
        self, metrics: Sequence[Metric], cases_before: Mapping[str, CaseBefore] | None = None
    ) -> None:
        self._metrics = metrics
        self._cases_before = cases_before or {}
        self._safe_names = [safe(metric.name) for metric in metrics]
        self.shelf: dict[tuple[str, str], Shelved] = {}
        """The chunks whose texts the page holds, by id and text."""
        self._letters_on_shelf = 0

    def block(self, row: CaseRow) -> str:
        """A case as HTML: a line when it is closed, everything that is known when it is open."""
        story = row.story
        assert story is not None
        before = self._cases_before.get(row.id)
        headline_scores, all_scores = self._scores(row)
        parts: list[str] = []
        parts.extend(_summary_line(row, before, headline_scores))
        parts.extend(_cause(row))
        for failure in row.failures:
            parts.append(f"<p class=bad>{safe(str(failure))}\n")
        if story.history or story.searches or story.sent:
            parts.extend(_history_and_searches(story))
        parts.extend(_reference_and_answer(row, story, before))
        if before is not None:
            parts.extend(_baseline_differences(before, row))
        parts.extend(self._chunk_table(story))
        if row.validation is not None:
            parts.append(_verdict(row.validation))
        if any(row.judgements):
            parts.extend(_judgements(row, self._metrics))
        parts.append(f"<p class=s>{all_scores}\n")
        parts.append(f"<p class=dim>{safe(_hops(story))}\n</div></details>")
        return "".join(parts)

    def _chunk_table(self, story: CaseStory) -> Iterator[str]:
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
        score = ""
        if chunk.score is not None:
            score = f"{chunk.score:.4g}"
        link = f"{chunk_ranks(chunk)}<td><a href=#k{shelved.number}>{shelved.id}</a>"
        if chunk.address is not None:
            link += f' <a class=src rel=noreferrer href="{safe(chunk.address)}">source</a>'
        if not (chunk.is_gold or chunk.moves or chunk.marks):
            return f"<tr><td>{link}<td>{score}"  # most of them
        row = "<tr"
        if chunk.is_gold:
            row += " class=gold"
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
        if key in self.shelf:
            return self.shelf[key]
        text = cut(chunk.text)
        self._letters_on_shelf += len(text)
        if self._letters_on_shelf > _MOST_CHUNK_LETTERS:
            text = "(not in this page, which would be too large: see ragbench explain)"
        self.shelf[key] = Shelved(len(self.shelf), safe(chunk.id), text)
        return self.shelf[key]

    def _scores(self, row: CaseRow) -> tuple[str, str]:
        """The scores that a closed case shows, and those that an open one does.

        Closed, one score of retrieval and one of the answer, not yet safe as HTML; open, every
        metric as HTML, those without a value at the end, by how their cells ended.
        """
        score_by_group: dict[str, str] = {}
        scores: list[str] = []
        names_by_status: dict[str, list[str]] = {}
        for metric, name, cell in zip(self._metrics, self._safe_names, row.cells, strict=True):
            if cell.value is None:
                names_by_status.setdefault(cell.status.value, []).append(name)
                continue
            scores.append(f"{name} {cell.value:.3g}")
            group = metric.definition.group.value
            if group not in ("retriever", "generator"):
                continue
            earlier = score_by_group.get(group, "")
            # token_f1 replaces the first score of an answer, unless that says if it is correct.
            is_better = metric.name == "token_f1" and "answer_correct" not in earlier
            if not earlier or is_better:
                score_by_group[group] = f"{metric.name} {cell.value:.3g}"
        for status, names in names_by_status.items():
            scores.append(f"{status}: {', '.join(names)}")
        return " · ".join(score_by_group.values()), " · ".join(scores)


def _summary_line(row: CaseRow, before: CaseBefore | None, scores: str) -> Iterator[str]:
    """What a closed case shows, with what the page's script filters by in its attributes."""
    attribution = row.attribution
    kind = ""
    if before is not None and before.kind is not None:
        kind = before.kind.value
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
    if attribution.decided_by in JUDGING:
        reason = f": {safe(attribution.reason)}" if attribution.reason else ""
        yield f" Answer {attribution.answer.value} by {attribution.decided_by.value}{reason}."
    yield f' <a href="#{link}">link</a>'
    tags = list(row.tags)
    if row.language:
        tags.append(f"language:{row.language}")
    for document_id in row.reference_ids or ():
        tags.append(f"document:{document_id}")
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
    kinds: set[str] = set()
    for chunk in story.chunks:
        kinds.update(mark.kind for mark in chunk.marks)
    return "gold" in kinds


def _history_and_searches(story: CaseStory) -> Iterator[str]:
    """What was said before the question, and what was searched for."""
    if story.history:
        yield "<details class=said><summary>What was said before: "
        yield f"{counted(len(story.history), 'turn')}</summary>\n"
        for turn in story.history:
            yield f"<p><b>{safe(turn.role)}</b> {safe(cut(turn.text))}\n"
        yield "</details>\n"
    for number, search in enumerate(story.searches, 1):
        yield f"<p class=dim>search {number}: {safe(search_text(search))}\n"
    for query in story.sent:
        yield f"<p class=dim>searched for <q>{safe(cut(query))}</q>\n"


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
        earlier_answer = "<em>the same</em>"
        if before.response != row.response:
            earlier_parts, _ = compared_texts(before.response, row.response)
            earlier_answer = _marked(earlier_parts, "u")
        yield f"<div><h3>In the baseline</h3><p>{earlier_answer}</div>"
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
        yield f"<p class=fails>{safe(cut(expectation.sentence, _LONGEST_PASSAGE))}\n"
    yield "</div>\n"


_TONES = {"supported": "passes", "not supported": "fails"}
"""In which colour a verdict is drawn; any other one is undecided."""


def _judged_sentences(answer: JudgedAnswer) -> Iterator[str]:
    """An answer by sentences, each with the claims that a judge made of it."""
    yield "<div class=claims><h3>Supported by the chunks, by sentence: "
    yield safe(answer.metric)
    if answer.judge:
        yield f", {safe(answer.judge)}"
    yield "</h3>\n"
    for sentence in answer.sentences:
        text = "<em>of no one sentence</em>"
        if sentence.text is not None:
            text = safe(sentence.text)
        tone = _TONES.get(sentence.verdict, "undecided")
        yield f'<p class="{tone}"><b>{safe(sentence.verdict)}</b> {text}\n'
        for claim in sentence.claims:
            yield from _claim(claim, is_whole=claim.text == sentence.text)
    yield "</div>\n"


def _claim(claim: JudgedClaim, *, is_whole: bool) -> Iterator[str]:
    """A claim with its quotes.

    Args:
        is_whole: whether it is the sentence, whose text and verdict stand above it already.
    """
    yield "<div>"
    if not is_whole:
        tone = _TONES.get(claim.verdict, "undecided")
        yield f'<span class="{tone}">{safe(claim.verdict)}</span>: {safe(claim.text)}'
    if claim.reason:
        yield f" <small>{safe(claim.reason)}</small>"
    yield "\n"
    for text, chunk_id in claim.quotes:
        place = "in no chunk"
        if chunk_id is not None:
            place = safe(chunk_id)
        yield f"<q><small>{place}</small> <mark>{safe(text)}</mark></q>"
    yield "</div>\n"


def _baseline_differences(before: CaseBefore, row: CaseRow) -> Iterator[str]:
    """Cause, scores and chunks of the case in the baseline, where they were others."""
    cause = ""
    if before.cause is not None and before.cause != row.attribution.cause:
        cause = f"{before.cause.label}. "
    changes: list[str] = []
    for name, old_cell, new_cell in before.scores:
        changes.append(f"{name} {_cell_text(old_cell)} → {_cell_text(new_cell)}")
    if cause or changes:
        yield f"<p class=dim>In the baseline: {cause}{safe(', '.join(changes))}\n"
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
            # Of each answer what was said; tokens and cost are not for readers of a page.
            steps: list[dict[str, object]] = []
            for step in judgement_object(judgement)["steps"]:
                said = {"asked": step["asked"], "answer": step["answer"], "quotes": step["quotes"]}
                steps.append(said)
            text = orjson.dumps(steps, option=orjson.OPT_INDENT_2, default=str).decode()
            name = metric.name
            if judgement.judge:
                name += f" by {judgement.judge}"
            yield f"<details class=judged><summary>{safe(name)}: {_cell_text(judgement.cell)}"
            yield f"</summary><pre>{safe(cut(text))}</pre></details>\n"


def _verdict(verdict: Verdict) -> str:
    """What the validator says of the case's chunks."""
    text = (
        f"{verdict.validator}: {verdict.message} Answer present: {presence_text(verdict)}. "
        f"Retrieval quality: {verdict.retrieval_quality.value}."
    )
    for reason in verdict.reasons:
        text += f" {reason}"
    return f"<p class=verdict>{safe(text)}"


_AROUND = 40
"""Letters that are shown before a marked passage of a chunk, and behind it."""
_MOST_QUOTES = 4
"""Marked passages of a chunk that are shown in its row."""


def _spans(chunk: ChunkStory, shown: str) -> str:
    """Where the marks of a chunk start and end in its shown text, as the page's script reads it."""
    spans: list[str] = []
    for mark in chunk.marks:
        if mark.end <= len(shown):  # the page may hold the start of a text only
            start = _units(shown[: mark.start])
            end = _units(shown[: mark.end])
            spans.append(f"{start},{end}")
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
        behind = chunk.text[mark.end : end]
        if end < len(chunk.text):
            behind = f"{behind}…"
        passage = chunk.text[mark.start : mark.end]
        text = safe(cut(passage, _LONGEST_PASSAGE))
        yield f"<q><small>{mark.kind}</small> {safe(before)}<mark>{text}</mark>{safe(behind)}</q>"


# --- what two texts share

_MOST_WORDS = 400
"""Words up to which two texts are compared word by word."""
_WORD = re.compile(r"\s*\S+\s*")
Parts = list[tuple[str, bool]]
"""A text in parts, and whether each is the same in the other."""


def compared_texts(first: str | None, second: str | None) -> tuple[Parts | None, Parts | None]:
    """Both texts in parts: those that the other has too, and those that it lacks.

    A text that is not compared (there is no other, they are equal, or too long) is one part.
    """
    if first is None or second is None or first == second:
        return _whole(first), _whole(second)
    first_words = _WORD.findall(cut(first))
    second_words = _WORD.findall(cut(second))
    if len(first_words) > _MOST_WORDS or len(second_words) > _MOST_WORDS:
        return _whole(first), _whole(second)
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
        first_text = "".join(first_words[start:end])
        second_text = "".join(second_words[second_start:second_end])
        if first_text:
            first_parts.append((first_text, is_same))
        if second_text:
            second_parts.append((second_text, is_same))
    return first_parts, second_parts


def _whole(text: str | None) -> Parts | None:
    """A text in one part, of which nothing is missing in the other."""
    if text is None:
        return None
    return [(cut(text), True)]


def _plain(word: str) -> str:
    """A word without what does not make it another: signs around it, large letters."""
    return word.strip().strip(".,;:!?\"'()[]").casefold()


def _marked(parts: Parts | None, tag: str) -> str:
    """A text as HTML, in which a tag marks what the other text lacks."""
    if parts is None:
        return "<em>none</em>"
    marked: list[str] = []
    for text, is_same in parts:
        html = safe(text)
        if not is_same:
            html = f"<{tag}>{html}</{tag}>"
        marked.append(html)
    return "".join(marked)
