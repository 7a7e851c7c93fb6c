"""One case from its question to its answer, as labelled lines and as a JSON object.

``ragbench explain`` prints a case whole, or short when it is one of several; the page of a run
takes the texts of stages, chunks and searches from here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from ragbench.core.attribution import JUDGING
from ragbench.core.metric import Metric
from ragbench.core.outcome import Cell, Judgement, JudgeStep, Known, Status
from ragbench.core.report import CaseRow
from ragbench.core.story import CaseStory, ChunkStory, Hop, SearchStory
from ragbench.io.source import derived_id
from ragbench.ledger.codec import judgement_object
from ragbench.safe_text import shown_line
from ragbench.views.report import case_object

_LONGEST = 300
"""Letters of an answer or a reason that are shown on a line."""
_LONGEST_CHUNK = 160
"""Letters of a chunk that are shown: ragbench report --html shows all."""
_LONGEST_QUESTION = 160
"""Letters of a question that names its case: two lines of a terminal."""
_LONGEST_ID = 60
"""Letters of the id of a case or a chunk that are shown."""
_LONGEST_GOLD_ID = 100
"""Letters of an id of the gold, which has a line of its own."""
_LONGEST_MOVE = 100
"""Letters of what one operator did to a chunk."""
_MOST_STEPS = 6
"""Answers of a judge that are shown for a metric."""
_MOST_CHUNKS = 4
"""Chunks, or ids of chunks, that are shown where there is little room."""
_MOST_TURNS = 20
"""Turns of a conversation before the question that are shown."""

LabelledLine = tuple[str, str]
"""A label, such as ``"answer"``, and its line."""


def case_name(id: str, question: str) -> str:
    """The text by which a reader knows a case: its question, after its id if the dataset has ids.

    An id that was derived from the question tells nothing, and a command takes the question, too.
    """
    text = shown_line(question, longest=_LONGEST_QUESTION)
    if id == derived_id("q", question):
        return text
    return f"{shown_line(id, longest=_LONGEST_ID)}: {text}"


def case_story_lines(row: CaseRow, metrics: Sequence[Metric]) -> Iterator[LabelledLine]:
    """The labelled lines that tell a case from its question to its answer, with all that is known.

    ``ragbench explain RUN CASE`` prints it. The order is that in which it happened: the question,
    each stage, the chunks, the answer, and at the end what was measured.

    Args:
        row: must hold its story.
    """
    story = row.story
    assert story is not None
    yield from _question_lines(row, story, longest=_LONGEST, turns=_MOST_TURNS)
    # A hop is a stage that the case went through.
    for hop in story.hops:
        yield hop.stage, hop_text(hop)
    yield from _gold_lines(story)
    for chunk in story.chunks:
        text = shown_line(chunk.text, longest=_LONGEST_CHUNK)
        yield "chunk", f"{_chunk_heading(chunk)}: {text}"
    if story.written is not None:
        yield "written", _line_of_text(story.written)
    for text in story.references:
        yield "reference", _line_of_text(text)
    yield "answer", _answer_text(row, longest=_LONGEST)
    yield from _expectation_lines(story, longest=_LONGEST)
    yield from _doubtful_sentence_lines(story)
    if row.validation is not None:
        yield "verdict", _line_of_text(row.validation.message)
        for quote in row.validation.evidence:
            chunk_id = shown_line(quote.chunk_id, longest=_LONGEST_ID)
            yield "evidence", f'{chunk_id}: "{_line_of_text(quote.text)}"'
    for metric, cell in zip(metrics, row.cells, strict=True):
        yield "score", f"{metric.name} {score_text(cell)}"
    # A run without judges has no judgements at all.
    for metric, judgements in zip(metrics, row.judgements, strict=False):
        yield from _judge_lines(metric, judgements)


def short_story_lines(
    row: CaseRow, metrics: Sequence[Metric], *, width: int
) -> Iterator[LabelledLine]:
    """The labelled lines that tell a case on one screen.

    They are those on what lost the answer, the gold and the chunks. ``ragbench explain RUN`` prints
    several cases so, one below the other.

    Args:
        row: must hold its story.
        width: letters of a line of the terminal, without the label.
    """
    story = row.story
    assert story is not None
    # Letters of texts that take two lines, and of those that take one. A few less than there are:
    # words are not broken, and " ..." may follow.
    two_lines = max(40, 2 * width - 10)
    one_line = width - len(" ...")

    yield from _question_lines(row, story, longest=two_lines, turns=2)
    for hop in story.hops:
        if hop.status is Status.FAILED:
            yield hop.stage, shown_line(hop_text(hop), longest=two_lines)
    for text in islice(_gold_texts(story), 2):
        yield "gold", shown_line(text, longest=one_line)
    for text in story.references[:1]:
        yield "reference", shown_line(text, longest=two_lines)
    yield "answer", _answer_text(row, longest=two_lines)
    # The gold chunks are shown above.
    chunks = [chunk for chunk in story.chunks if not chunk.is_gold]
    for chunk in chunks[:_MOST_CHUNKS]:
        line = f"{_chunk_heading(chunk)}: {shown_line(chunk.text)}"
        yield "chunk", shown_line(line, longest=one_line)
    if len(chunks) > _MOST_CHUNKS:
        yield "chunk", f"... and {len(chunks) - _MOST_CHUNKS:,} more"
    for label, text in _expectation_lines(story, longest=one_line):
        if text.startswith(_DOES_NOT_HOLD):
            yield label, text
    yield from islice(_doubtful_sentence_lines(story), 3)
    if row.validation is not None:
        yield "verdict", shown_line(row.validation.message, longest=two_lines)
    yield from _score_line(row, metrics, longest=3 * two_lines)


def _score_line(row: CaseRow, metrics: Sequence[Metric], *, longest: int) -> Iterator[LabelledLine]:
    """The line of a short case with its scores, without the metrics that have none.

    On one screen there is no room for the reasons of the others.
    """
    scores: list[str] = []
    for metric, cell in zip(metrics, row.cells, strict=True):
        # A short case has one line for all scores.
        if cell.value is not None:
            scores.append(f"{metric.name} {cell.value:.3f}")
    if scores:
        yield "scores", shown_line(", ".join(scores), longest=longest)


def _question_lines(
    row: CaseRow, story: CaseStory, *, longest: int, turns: int
) -> Iterator[LabelledLine]:
    """The lines that begin a case.

    They hold the last turns, the question, the cause, and the queries that were searched for.

    Args:
        longest: letters of a line.
        turns: how many turns of the conversation before the question are shown.
    """
    # With turns=0 the slice would be the whole history: callers give 1 or more.
    for turn in story.history[-turns:]:
        yield turn.role, shown_line(turn.text, longest=longest)
    yield "question", shown_line(row.query, longest=longest)
    cause = row.attribution.cause.label
    # Named where people, a judge or the words had to decide; other causes follow from the data
    # alone.
    if row.attribution.decided_by in JUDGING:
        cause += f" (by {row.attribution.decided_by.value})"
    yield "cause", shown_line(f"{cause}: {row.attribution.detail}", longest=longest)
    if row.attribution.reason:
        yield "because", shown_line(row.attribution.reason, longest=longest)
    # The queries that were sent differ from the question where a RAG rewrites it.
    for query in story.sent:
        yield "sent", shown_line(query, longest=longest)
    for number, search in enumerate(story.searches, start=1):
        yield f"hop {number}", shown_line(search_text(search), longest=longest)


def search_text(search: SearchStory) -> str:
    """A line on one of several searches for a question: its query, and the chunks that it brought.

    Of a RAG that searches several times, it shows which search brought the gold, and which brought
    nothing new.
    """
    text = "what it found is not known"
    # `new` is None where the RAG reports its queries and not which chunks each one brought.
    if search.new is not None:
        text = f"{len(search.ids)} found, {search.new} new"
    if search.has_gold:
        text += ", the first with gold"
    if search.seconds is not None:
        text += f", {search.seconds * 1e3:,.1f} ms"
    ids = ", ".join(search.ids[:_MOST_CHUNKS])
    if len(search.ids) > _MOST_CHUNKS:
        ids += " ..."
    if ids:
        text += f" ({ids})"
    query = search.query or "-"
    return f"{query}: {text}"


def _line_of_text(text: str) -> str:
    """A text from a run on one line, which cannot steer the terminal.

    Texts of a dataset or a model may hold control characters, and may be long.
    """
    return shown_line(text, longest=_LONGEST)


def _answer_text(row: CaseRow, *, longest: int) -> str:
    """The answer of a case; ``-`` where it has none.

    A case has none where generation failed or was not asked.
    """
    if row.response is None:
        return "-"
    return shown_line(row.response, longest=longest)


_DOES_NOT_HOLD = "does not hold"
_STATES = {None: "unknown", True: "holds", False: _DOES_NOT_HOLD}
"""Whether an expectation holds, in words."""


def _expectation_lines(story: CaseStory, *, longest: int) -> Iterator[LabelledLine]:
    """The lines with a case's expectations of its answer, and whether each of them holds.

    An expectation is what a case's author demands, such as a word that the answer must hold.
    """
    for expectation in story.expectations:
        text = f"{_STATES[expectation.holds]}: {expectation.sentence}"
        yield "expected", shown_line(text, longest=longest)


def _doubtful_sentence_lines(story: CaseStory) -> Iterator[LabelledLine]:
    """The lines with sentences of an answer that do not hold, by numbers, citations and judges.

    Claims that a judge drew from several sentences are in none of them, and are left out here.
    """
    for note in story.notes:
        text = shown_line(note.sentence, longest=_LONGEST_CHUNK)
        yield "sentence", f'"{text}": {_line_of_text(note.problem)}'
    for answer in story.supported:
        for sentence in answer.sentences:
            if sentence.text is None or sentence.verdict == "supported":
                continue
            text = shown_line(sentence.text, longest=_LONGEST_CHUNK)
            # The reason of the sentence's first claim: a line has no room for all.
            reason = _line_of_text(sentence.claims[0].reason)
            yield "sentence", f'"{text}": {sentence.verdict} by {answer.metric}: {reason}'


def _gold_lines(story: CaseStory) -> Iterator[LabelledLine]:
    """The lines with a case's gold, the content that answers it: its ids, then its texts.

    A dataset has the one or the other; without them no retrieval could be judged.
    """
    for id in story.gold_ids:
        yield "gold", shown_line(id, longest=_LONGEST_GOLD_ID)
    for text in story.gold_texts:
        yield "gold", f'"{_line_of_text(text)}"'


def _gold_texts(story: CaseStory) -> Iterator[str]:
    """A text for each retrieved gold chunk with its ranks; without any, the gold that was missed.

    Gold is the content that answers the question. A short case has two lines for it: a missing part
    is shown in the whole story only.
    """
    gold_chunks = [chunk for chunk in story.chunks if chunk.is_gold]
    # Gold that was retrieved is read where it was; only without any the missed texts follow.
    for chunk in gold_chunks:
        yield f"{_chunk_heading(chunk)}: {shown_line(chunk.text)}"
    if gold_chunks:
        return
    for _, text in _gold_lines(story):
        yield f"{text}: not retrieved"


def hop_text(hop: Hop) -> str:
    """A line on how a stage of a case ended: its status, how long it took and why.

    An outcome that was not asked for in this run (a recorded one, one of an earlier run) says so.
    """
    parts = [hop.status.value]
    if hop.known is not Known.ASKED:
        parts.append(hop.known.value)
    # None for an outcome that was recorded without its time.
    if hop.seconds is not None:
        milliseconds = hop.seconds * 1e3
        time = f"{milliseconds:,.1f} ms"
        # A call that several cases shared has no time of one case.
        if hop.sharing > 1:
            time += f", the mean of a call of {hop.sharing} cases"
        parts.append(time)
    if hop.reason:
        parts.append(_line_of_text(hop.reason))
    return ", ".join(parts)


def chunk_ranks(chunk: ChunkStory) -> str:
    """The ranks of a chunk: at which it was retrieved, and at which generation was given it.

    ``3`` where both are the same, ``3 > 1`` where operators moved it up, ``3 > dropped``, and
    ``- > 2`` for one that they added.
    """
    retrieved = "-"
    if chunk.retrieved is not None:
        retrieved = str(chunk.retrieved)
    shown = "dropped"
    if chunk.shown is not None:
        shown = str(chunk.shown)
    if retrieved == shown:
        return shown
    return f"{retrieved} > {shown}"


def chunk_fate(chunk: ChunkStory) -> str:
    """A line on what post-retrieval's operators did to a chunk, such as moving it.

    It is empty when they did nothing.
    """
    moves = [shown_line(move, longest=_LONGEST_MOVE) for move in chunk.moves]
    return "; ".join(moves)


def _chunk_heading(chunk: ChunkStory) -> str:
    """The head of a chunk's line: its ranks, id and score, and what the operators did to it.

    "GOLD" marks a chunk that answers the question: its rank explains the loss of an answer.
    """
    text = f"{chunk_ranks(chunk)}. {shown_line(chunk.id, longest=_LONGEST_ID)}"
    if chunk.is_gold:
        text += " GOLD"
    if chunk.score is not None:
        text += f" score {chunk.score:.4g}"
    if chunk.moves:
        text += f" ({chunk_fate(chunk)})"
    return text


def score_text(cell: Cell) -> str:
    """The value of a case's score, or why it has none, such as "skipped".

    A missing score must never read as a 0.
    """
    if cell.value is None:
        return cell.status.value
    return f"{cell.value:.3f}"


def _judge_lines(metric: Metric, judgements: Sequence[Judgement]) -> Iterator[LabelledLine]:
    """The lines with the first answers of a metric's judges, and the quotes that they rest on.

    A quote that is in no context is shown with "nowhere": the judge made it up.
    """
    steps: list[JudgeStep] = []
    for judgement in judgements:
        steps += judgement.steps
    for step in steps[:_MOST_STEPS]:
        yield "judge", f"{metric.name}: {_line_of_text(str(step.answer))}"
        for quote in step.quotes:
            place = "nowhere"
            if quote.context is not None:
                number = quote.context + 1  # readers count from 1
                place = f"context {number}"
            yield "quote", f'{place}: "{_line_of_text(quote.text)}"'


def case_story_object(row: CaseRow, metrics: tuple[Metric, ...]) -> dict[str, Any]:
    """A case as the JSON object of ``ragbench explain --json``, with its story and its judgements.

    The story is the case stage by stage; report.json has only the scores.
    """
    story_object = case_object(row, metrics)
    story_object["story"] = row.story
    judgements_by_metric: dict[str, list[dict[str, Any]]] = {}
    # A run without judges has no judgements at all.
    for metric, judgements in zip(metrics, row.judgements, strict=False):
        if judgements:
            objects = [judgement_object(judgement) for judgement in judgements]
            judgements_by_metric[metric.name] = objects
    story_object["judgements"] = judgements_by_metric
    return story_object
