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
from ragbench.core.outcome import Cell, Judgement
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
"""Letters of one text in a page, so that a huge one does not make the page too large."""
_LONGEST_QUERY = 2000
"""Letters of a question that are drawn: a line of a million without a space stops a browser."""
_LONGEST_GOLD = 1000
"""Letters of a gold text that no chunk holds."""
_MOST_GOLD_TEXTS = 5
"""Such texts of a case that are shown."""
_LONGEST_PASSAGE = 400
"""Letters of a marked passage, or of an expectation."""
_MOST_CHUNK_LETTERS = 12_000_000
"""Letters of chunks that a page holds."""


def anchor(case_id: str) -> str:
    """The anchor of a case in a page, by its id, so that a link can open this one case.

    Pages of gates link to pages of runs by it: another form breaks links of old pages.

    It is an attribute and part of an address: of an id's letters only those that are harmless in
    both stay as they are.
    """
    return f"case={percent_encoded(case_id, safe='-_.~:@/,+()')}"


def safe(text: str) -> str:
    """A text as HTML, in which none of its letters acts: texts of a run may hold tags and scripts.

    Everything that comes from a dataset, a RAG or a judge must go through it.
    """
    return str(escape(clean(text)))


def cut(text: str, longest: int = _LONGEST) -> str:
    """A text for a page, or its start and how much is missing.

    It is cut before it is made safe: a cut in the middle of ``&lt;`` would show.
    """
    if len(text) <= longest:
        return text
    missing = len(text) - longest
    return f"{text[:longest]} ... ({missing:,} more letters: see ragbench explain)"


class Shelved(NamedTuple):
    """A chunk whose text the page holds once, at its end, however many cases retrieved it."""

    number: int
    """Its anchor is ``k`` and this."""
    id: str
    """Safe as HTML."""
    text: str
    """Not yet safe: offsets of marks are those in the text as it is."""


class CaseBlocks:
    """Writes the blocks of a page's cases, and collects the chunks that they link to.

    Args:
        metrics: those of the run, in the order of a row's cells.
        cases_before: by id, the cases as they were in the run that this one is compared with.
    """

    def __init__(
        self, metrics: Sequence[Metric], cases_before: Mapping[str, CaseBefore] | None = None
    ) -> None:
        """Begins a page's blocks of cases, and an empty shelf of chunks.

        The shelf holds each chunk's text once, at the page's end.
        """
        self._metrics = metrics
        self._cases_before = cases_before or {}
        # Made safe once, and not for each of up to a thousand cases.
        self._safe_names = [safe(metric.name) for metric in metrics]
        self.shelf: dict[tuple[str, str], Shelved] = {}
        """The chunks whose texts the page holds, by id and text."""
        # Of all texts on the shelf: beyond a limit the page would be too large for a browser.
        self._letters_on_shelf = 0

    def block(self, row: CaseRow) -> str:
        """A case as HTML.

        While it is closed it is one line; a reader who opens it sees all that is known. It is read
        from top to bottom: why the case was lost, its answer beside the reference, the chunks, then
        what the scores rest on.

        Args:
            row: must hold its story.
        """
        story = row.story
        # Rows are read with their story for the page: without it there is nothing to open.
        assert story is not None
        before = self._cases_before.get(row.id)
        headline_scores, all_scores = self._score_texts(row)
        parts: list[str] = []
        parts.extend(_summary_line(row, before, headline_scores))
        parts.extend(_cause_html(row))
        # Failures before everything else: what follows may be empty because of them.
        for failure in row.failures:
            parts.append(f"<p class=bad>{safe(str(failure))}\n")
        if story.history or story.searches or story.sent:
            parts.extend(_history_and_searches(story))
        parts.extend(_reference_and_answer(row, story, before))
        if before is not None:
            parts.extend(_baseline_differences(before, row))
        parts.extend(self._chunk_table(story))
        if row.validation is not None:
            parts.append(_verdict_html(row.validation))
        if any(row.judgements):
            parts.extend(_judgements_html(row, self._metrics))
        parts.append(f"<p class=s>{all_scores}\n")
        # Closes what `_summary_line` opened.
        parts.append(f"<p class=dim>{safe(_hops_text(story))}\n</div></details>")
        return "".join(parts)

    def _chunk_table(self, story: CaseStory) -> Iterator[str]:
        """The HTML of a case's chunks as a table, and of gold that is not in the table.

        Gold that was not retrieved is in no row of the table: without its ids and texts below, a
        reader could not tell what the retrieval missed.
        """
        if story.chunks:
            yield "<table><tr><th>Rank<th>Chunk<th>Score<th>What happened\n"
            yield "\n".join(self._chunk_row(chunk) for chunk in story.chunks)
            yield "</table>\n"
        # Only by id: gold that is known by its text has no id to compare.
        gold_in_table = {chunk.id for chunk in story.chunks if chunk.is_gold}
        if not gold_in_table.issuperset(story.gold_ids):
            gold_ids = ", ".join(story.gold_ids)
            yield f"<p class=dim>Gold: {safe(gold_ids)}"
        # Texts are shown where no row is marked: a marked chunk shows its passage itself.
        if not _has_gold_mark(story):
            for text in story.gold_texts[:_MOST_GOLD_TEXTS]:
                yield f"<blockquote>{safe(cut(text, _LONGEST_GOLD))}</blockquote>"
        # What the model read, as written: folded, since it repeats the chunks.
        if story.written:
            yield "<details><summary>What generation was given</summary>"
            yield f"<pre>{safe(cut(story.written))}</pre></details>"

    def _chunk_row(self, chunk: ChunkStory) -> str:
        """The HTML of a chunk as a row, which links to the chunk's text at the end of the page.

        ``data-m`` has the places of its marks: when a reader opens the case, the page's script
        copies the text into the row, and marks them in it.
        """
        shelved = self._shelved_chunk(chunk)
        score = ""
        if chunk.score is not None:
            score = f"{chunk.score:.4g}"
        link = f"{chunk_ranks(chunk)}<td><a href=#k{shelved.number}>{shelved.id}</a>"
        if chunk.address is not None:
            link += f' <a class=src rel=noreferrer href="{safe(chunk.address)}">source</a>'
        # Most chunks of a page are such: without gold, moves and marks there is nothing to add.
        if not (chunk.is_gold or chunk.moves or chunk.marks):
            return f"<tr><td>{link}<td>{score}"
        row = "<tr"
        if chunk.is_gold:
            row += " class=gold"
        spans = _mark_places(chunk, shelved.text)
        if spans:
            row += f" data-m={spans}"
        row += f"><td>{link}"
        if chunk.is_gold:
            row += " <b>gold</b>"
        row += f"<td>{score}<td>"
        if chunk.moves:
            row += safe(chunk_fate(chunk))
        return row + "".join(_marked_passages(chunk))

    def _shelved_chunk(self, chunk: ChunkStory) -> Shelved:
        """The chunk with its text on the page's shelf, where it is put when it is first met.

        The shelf is the list of texts at the page's end, each once.

        Cases retrieve the same chunks again and again: with a copy in each, a page of a thousand
        cases would be too large for a browser. When even the shelf is full, the chunk is linked
        to a note in place of its text.
        """
        # By id and text: an operator may rewrite the text of a chunk, and leave its id.
        key = (chunk.id, chunk.text)
        if key in self.shelf:
            return self.shelf[key]
        text = cut(chunk.text)
        self._letters_on_shelf += len(text)
        if self._letters_on_shelf > _MOST_CHUNK_LETTERS:
            text = "(not in this page, which would be too large: see ragbench explain)"
        self.shelf[key] = Shelved(len(self.shelf), safe(chunk.id), text)
        return self.shelf[key]

    def _score_texts(self, row: CaseRow) -> tuple[str, str]:
        """The scores that a closed case shows, and those that an open case shows.

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
            # A closed case has room for one score of retrieval and one of the answer.
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
    """The HTML of a closed case: one line, with attributes that the page's script filters by.

    ``data-c`` is the cause, ``data-g`` the stage, ``data-a`` what became of the answer, ``data-l``
    whether the case is lost, and ``data-k`` how it changed since the baseline.

    Args:
        before: the case in the baseline; None without one.
        scores: one of retrieval and one of the answer, not yet safe as HTML.
    """
    attribution = row.attribution
    kind = ""
    if before is not None and before.kind is not None:
        kind = before.kind.value
    # The end of the tag comes with `<summary>` below: attributes are added in between.
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


def _cause_html(row: CaseRow) -> Iterator[str]:
    """The HTML of why a case ended as it did, a link to the case, and its tags.

    Language and documents are among the tags, because the page's filter goes by tags. The ``div``
    stays open for the rest of the case, and `block` closes it. Style and script of the page
    know the classes and elements.
    """
    attribution = row.attribution
    link = anchor(row.id)
    yield f'<div class=in id="{link}">\n<p class=why>{safe(attribution.detail)}'
    # An estimate is marked, as it may be wrong for a single case.
    if attribution.basis in ESTIMATES:
        yield " (estimated)"
    # Named where people, a judge or the words had to decide; other causes follow from the data
    # alone.
    if attribution.decided_by in JUDGING:
        yield f" Answer {attribution.answer.value} by {attribution.decided_by.value}"
        if attribution.reason:
            yield f": {safe(attribution.reason)}"
        yield "."
    yield f' <a href="#{link}">link</a>'
    tags = list(row.tags)
    if row.language:
        tags.append(f"language:{row.language}")
    for document_id in row.reference_ids or ():
        tags.append(f"document:{document_id}")
    for tag in tags:
        yield f" <i>{safe(tag)}</i>"
    yield "\n"


def _hops_text(story: CaseStory) -> str:
    """A text on how each stage of a case ended; that it was measured goes without saying.

    A hop is a stage that the case went through; its time and a failure's reason are shown.
    """
    hops: list[str] = []
    for hop in story.hops:
        # Only that word is left out: a time or a reason behind it stays.
        text = hop_text(hop).removeprefix("measured, ")
        hops.append(f"{hop.stage} {text}")
    return " · ".join(hops)


def _has_gold_mark(story: CaseStory) -> bool:
    """Whether a gold text is marked in one of a case's chunks, so that the page shows it already.

    Gold is the content that answers the question.
    """
    kinds: set[str] = set()
    for chunk in story.chunks:
        kinds.update(mark.kind for mark in chunk.marks)
    return "gold" in kinds


def _history_and_searches(story: CaseStory) -> Iterator[str]:
    """The HTML of the conversation before a question, folded, and of what was searched for instead.

    A question such as "And in winter?" is understood with its conversation alone.
    """
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
    """The HTML of a case's reference and answer side by side, and of sentences that do not hold.

    Words of one that the other lacks are marked, as the difference of two long texts is hard to
    see; so are those of the baseline's answer, where its run holds texts.
    """
    reference, response = compared_texts(row.reference, row.response)
    yield f"<div class=qa><div><h3>Reference</h3><p>{_marked_html(reference, 'del')}\n"
    for text in story.references[1:]:
        yield f"<p class=dim>or: {safe(cut(text))}\n"
    # Closes the second column; a third one may follow.
    yield f"</div><div><h3>Answer</h3><p>{_marked_html(response, 'ins')}\n"
    for text in story.candidates:
        if text != row.response:
            yield f"<p class=dim>candidate: {safe(cut(text))}\n"
    yield "</div>"
    # A baseline file has no texts: then "the same" would be an invention.
    if before is not None and before.tells_texts:
        earlier_answer = "<em>the same</em>"
        if before.response != row.response:
            earlier_parts, _ = compared_texts(before.response, row.response)
            # "u" and not "del" or "ins": it is compared with the answer, not with the reference.
            earlier_answer = _marked_html(earlier_parts, "u")
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
    """The HTML of a case's expectations that do not hold; nothing where all hold.

    An expectation is what a case's author demands of its answer, such as a word in it.
    """
    # None is unknown, and no failure of the answer.
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
    """The HTML of an answer by sentences, each with the claims that a judge made of it.

    So a reader sees which part of an answer is made up. Colours follow `_TONES`.
    """
    yield "<div class=claims><h3>Supported by the chunks, by sentence: "
    yield safe(answer.metric)
    if answer.judge:
        yield f", {safe(answer.judge)}"
    yield "</h3>\n"
    for sentence in answer.sentences:
        # A claim that a judge drew from several sentences belongs to none of them.
        # The tag is no text of the judge, so it is not escaped.
        text = "<em>of no one sentence</em>"
        if sentence.text is not None:
            text = safe(sentence.text)
        tone = _TONES.get(sentence.verdict, "undecided")
        yield f'<p class="{tone}"><b>{safe(sentence.verdict)}</b> {text}\n'
        for claim in sentence.claims:
            yield from _claim_html(claim, is_whole=claim.text == sentence.text)
    yield "</div>\n"


def _claim_html(claim: JudgedClaim, *, is_whole: bool) -> Iterator[str]:
    """The HTML of a claim that a judge drew from an answer, with the quotes that it rests on.

    A quote that is in no chunk was made up by the judge, and is marked so.

    Args:
        is_whole: whether it is the sentence, whose text and verdict stand above it already.
    """
    yield "<div>"
    # A claim that is the whole sentence has its verdict above.
    if not is_whole:
        # Verdicts of other metrics have no colour of their own.
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
    """The HTML of a case's cause, scores and chunks in the baseline.

    There is nothing to show where they are the same.
    """
    cause = ""
    if before.cause is not None and before.cause != row.attribution.cause:
        cause = f"{before.cause.label}. "
    changes: list[str] = []
    for name, old_cell, new_cell in before.scores:
        changes.append(f"{name} {_cell_text(old_cell)} → {_cell_text(new_cell)}")
    if cause or changes:
        yield f"<p class=dim>In the baseline: {cause}{safe(', '.join(changes))}\n"
    # None where the baseline has no retrieval of this case.
    if before.ids is not None:
        yield f"<p class=dim>Chunks against the baseline: {safe(ids_text(before.ids))}\n"


def _cell_text(cell: Cell) -> str:
    """The value of a case's score, or why it has none, such as "skipped".

    A missing score must never read as a 0.
    """
    if cell.value is None:
        return cell.status.value
    return f"{cell.value:.3g}"


def _judgements_html(row: CaseRow, metrics: Sequence[Metric]) -> Iterator[str]:
    """The HTML of the judgements behind a case's scores, folded: by them a reader checks the judge.

    Texts of judges are escaped, and cut where they are very long.

    Args:
        metrics: those of the run, in the order of the row's judgements.
    """
    # A row has a list of judgements for each metric: one of each judge and repeat.
    for metric, judgements in zip(metrics, row.judgements, strict=True):
        for judgement in judgements:
            title = metric.name
            if judgement.judge:
                title += f" by {judgement.judge}"
            text = _steps_text(judgement)
            yield f"<details class=judged><summary>{safe(title)}: {_cell_text(judgement.cell)}"
            yield f"</summary><pre>{safe(cut(text))}</pre></details>\n"


def _steps_text(judgement: Judgement) -> str:
    """The JSON of a judge's questions and answers about a case, indented for readers.

    Of each step what was said; tokens and cost are not for readers of a page.
    """
    steps: list[dict[str, object]] = []
    for step in judgement_object(judgement)["steps"]:
        steps.append({name: step[name] for name in ("asked", "answer", "quotes")})
    return orjson.dumps(steps, option=orjson.OPT_INDENT_2, default=str).decode()


def _verdict_html(verdict: Verdict) -> str:
    """The HTML of the validator's verdict on a case's chunks, a sentence for each of its parts.

    It says whether the chunks hold the answer at all, before a reader blames generation.
    """
    text = (
        f"{verdict.validator}: {verdict.message} Answer present: {presence_text(verdict)}. "
        f"Retrieval quality: {verdict.retrieval_quality.value}."
    )
    # Already sentences, each with its period.
    for reason in verdict.reasons:
        text += f" {reason}"
    return f"<p class=verdict>{safe(text)}"


_AROUND = 40
"""Letters that are shown before a marked passage of a chunk, and behind it."""
_MOST_QUOTES = 4
"""Marked passages of a chunk that are shown in its row."""


def _mark_places(chunk: ChunkStory, shown: str) -> str:
    """The places of a chunk's marks in its shown text, as the page's script reads them.

    ``"3,9;14,20"`` are two marks. Offsets count as JavaScript does, which is not as Python does.

    Args:
        shown: the text that the page holds. A mark that lies behind its end is left out.
    """
    spans: list[str] = []
    for mark in chunk.marks:
        # The page holds the beginning of a long chunk; a mark must be whole to be drawn.
        if mark.end <= len(shown):
            start = _length_in_javascript(shown[: mark.start])
            end = _length_in_javascript(shown[: mark.end])
            spans.append(f"{start},{end}")
    return ";".join(spans)


def _length_in_javascript(text: str) -> int:
    """The length of a text as JavaScript counts it, in which the page's script marks passages.

    UTF-16 has two units of two bytes for an emoji, and Python counts one letter. The text is
    cleaned first, as the page holds the cleaned one.
    """
    cleaned = clean(text)
    if cleaned.isascii():
        return len(cleaned)
    return len(cleaned.encode("utf-16-le", "surrogatepass")) // 2


def _marked_passages(chunk: ChunkStory) -> Iterator[str]:
    """The HTML of the first marked passages of a chunk, with the letters around them.

    A reader sees in the row itself why the chunk matters, and need not open its text.
    """
    for mark in chunk.marks[:_MOST_QUOTES]:
        # The slice must not begin below 0, which would count from the end.
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
"""Words up to which two texts are compared word by word: the time grows with their square."""
_WORD = re.compile(r"\s*\S+\s*")
"""A word with the spaces around it, so that all words together are the text again."""
Parts = list[tuple[str, bool]]
"""A text in parts, and whether each is the same in the other."""


def compared_texts(first: str | None, second: str | None) -> tuple[Parts | None, Parts | None]:
    """Two texts in parts: those that the other one has, too, and those that it lacks.

    The page marks the parts that the other lacks. A text that is not compared (there is no other,
    they are equal, or too long) is one part without a mark. None is the text that is missing.
    """
    if first is None or second is None or first == second:
        return _unmarked_text(first), _unmarked_text(second)
    first_words = _WORD.findall(cut(first))
    second_words = _WORD.findall(cut(second))
    # Comparing takes time that grows with the product of both lengths.
    if len(first_words) > _MOST_WORDS or len(second_words) > _MOST_WORDS:
        return _unmarked_text(first), _unmarked_text(second)
    matcher = SequenceMatcher(
        None,
        [_comparable_word(word) for word in first_words],
        [_comparable_word(word) for word in second_words],
        autojunk=False,  # which would take frequent words for noise
    )
    first_parts: Parts = []
    second_parts: Parts = []
    for kind, first_start, first_end, second_start, second_end in matcher.get_opcodes():
        is_same = kind == "equal"
        first_text = "".join(first_words[first_start:first_end])
        second_text = "".join(second_words[second_start:second_end])
        if first_text:
            first_parts.append((first_text, is_same))
        if second_text:
            second_parts.append((second_text, is_same))
    return first_parts, second_parts


def _unmarked_text(text: str | None) -> Parts | None:
    """A text as a single part that is not marked as missing in the other text; None for no text.

    Texts that are equal, too long or alone are not compared.
    """
    if text is None:
        return None
    return [(cut(text), True)]


def _comparable_word(word: str) -> str:
    """A word in the form in which two texts are compared: small letters, without signs around it.

    "Paris." and "paris" are the same word: to mark such a difference would hide the others.
    """
    return word.strip().strip(".,;:!?\"'()[]").casefold()


def _marked_html(parts: Parts | None, tag: str) -> str:
    """A text as HTML, in which a tag marks what the other text lacks; "none" for no text.

    Texts are escaped: they may hold tags of their own.

    Args:
        tag: ``del``, ``ins`` or ``u``, which the page draws in colours of their own.
    """
    if parts is None:
        return "<em>none</em>"
    marked: list[str] = []
    for text, is_same in parts:
        # Escaped before the tag is put around it.
        html = safe(text)
        if not is_same:
            html = f"<{tag}>{html}</{tag}>"
        marked.append(html)
    return "".join(marked)
