"""What a validator says of retrieved chunks, as lines of text and as JSON.

Of one query, of a dump of queries (``ragbench validate``), and of near misses (``--stress-test``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from ragbench.core.outcome import Outcome
from ragbench.core.validation import (
    DumpSummary,
    PairedDumps,
    RequiredShare,
    Share,
    Verdict,
    WarningCount,
    WordCount,
)
from ragbench.safe_text import counted, shown_line
from ragbench.validators.self_test import SelfTest
from ragbench.views.words import presence_text, words_lines

_LONGEST_QUERY = 200
"""Letters of a query that are shown, with what is said of it."""
_LONGEST_EXAMPLE = 300
"""Letters of a record that could not be read, or of a pair that was judged wrong."""
_LONGEST_SOURCE = 60
"""Letters of the name of a source, so that its counts stay on the same line."""
_MOST_EXAMPLES = 5
"""Unreadable and failed records, and weak queries, that are named."""
_MOST_SOURCES = 3
"""Sources that are named, those with most chunks first."""
_MOST_WARNED_QUERIES = 3
"""Queries that are named for each kind of warning."""


def summary_object(summary: DumpSummary) -> dict[str, Any]:
    """The summary of a validated dump as the JSON object that ``ragbench validate`` writes.

    Programs read that file: ``schema_version`` tells them when a field changes its meaning.
    """
    fields = asdict(summary)
    return {"schema_version": 1, **fields}


def validation_lines(query_id: str, query: str, outcome: Outcome[Verdict]) -> Iterator[str]:
    """The verdict on one query's chunks, as ``ragbench validate`` prints it on standard output.

    Ids, queries and reasons come from the dump or from a model: `shown_line` makes each of them
    one short line that cannot steer the terminal.
    """
    yield shown_line(f"Query {query_id}: {query}", longest=_LONGEST_QUERY)
    verdict = outcome.value
    # A validator that failed has an error in place of a verdict.
    if verdict is None:
        reason = "no verdict"
        if outcome.failure is not None:
            reason = f"{outcome.failure.type}: {outcome.failure.message}"
        failed = shown_line(f"Failed: {reason}")
        yield f"- {failed}"
        return

    # Without a relevant chunk the message is the result, and leads; else it follows as a note.
    if not verdict.relevant_chunk_ids:
        yield verdict.message
    chunks: list[str] = []
    for chunk_id in verdict.relevant_chunk_ids:
        relevance = verdict.relevance[chunk_id]
        chunks.append(f"{shown_line(chunk_id)} ({relevance:.2f})")
    relevant = ", ".join(chunks)
    if not chunks:
        relevant = "none"
    yield f"- Relevant Chunks: {relevant}"
    yield f"- Answer Present: {presence_text(verdict)}"
    yield from _evidence_lines(verdict)
    yield f"- Retrieval Quality: {verdict.retrieval_quality.value}"
    # Relevant chunks without the answer: the message says what is missing.
    if verdict.relevant_chunk_ids and not verdict.answer_present:
        yield f"- Note: {shown_line(verdict.message)}"
    for reason in verdict.reasons:
        yield f"- Reason: {shown_line(reason)}"
    for warning in verdict.warnings:
        yield f"- Warning: {shown_line(warning)}"


def _evidence_lines(verdict: Verdict) -> Iterator[str]:
    """The lines with a verdict's quotes from the chunks, each with its chunk and its offsets there.

    A verdict of No can quote, too: such quotes prove a part of the answer only, and are headed so,
    lest they read as proof that the answer is present.
    """
    if not verdict.evidence:
        yield "- Evidence: none"
    elif verdict.answer_present:
        yield "- Evidence:"
    else:
        yield "- Evidence: none"
        yield "- Partial Evidence:"
    for quote in verdict.evidence:
        place = f"{shown_line(quote.chunk_id)} [{quote.start}:{quote.end}]"
        lines: list[str] = []
        for line in quote.text.splitlines():
            # Each line of a chunk as it is, unless it would steer the terminal.
            if not line.isprintable():
                line = shown_line(line)
            lines.append(line)
        # Further lines of a quote are indented under its first one.
        text = "\n      ".join(lines)
        yield f'    {place}: "{text}"'


def self_test_lines(test: SelfTest) -> Iterator[str]:
    """The lines on how a validator does on each kind of near miss.

    ``ragbench validate --stress-test`` prints them. A near miss is a chunk that is close to the
    question and does not answer it.

    Near misses and answers are apart, because what is right differs. An example of each kind that
    it got wrong shows the user whether the mistake would matter in his own data.
    """
    questions = counted(test.questions, "question")
    yield f"{test.validator} on near misses of {questions}, seed {test.seed}"
    near_misses = [kind for kind in test.kinds if not kind.answers]
    answers = [kind for kind in test.kinds if kind.answers]
    yield ""
    yield "no answer: right is a No"
    for kind in near_misses:
        # Any width that holds the longest name of a kind.
        yield f"  {kind.kind:<20}{_share_text(kind.right)}"
    yield ""
    yield "answer: right is a Yes"
    for kind in answers:
        yield f"  {kind.kind:<20}{_share_text(kind.right)}"

    failing = [kind for kind in test.kinds if kind.wrong]
    if failing:
        yield ""
        yield "wrong, the first of each kind (query <- chunk)"
    for kind in failing:
        # One example shows what kind of mistake it is.
        first_wrong = kind.wrong[0]
        yield shown_line(f"  {kind.kind}: {first_wrong}", longest=_LONGEST_EXAMPLE)


def summary_lines(summary: DumpSummary, *, troubles_only: bool = False) -> Iterator[str]:
    """The lines that summarise a validated dump of queries, in the terminal and on its page.

    They come in the order in which a user reads: figures, diagnosis, what was excluded, what was
    demanded.

    Args:
        troubles_only: for ``--quiet``. Excluded records and unmet demands are shown all the same:
            a figure that leaves records out must never look complete.
    """
    if not troubles_only:
        yield from _figure_lines(summary)
        yield from _doctor_lines(summary)
    yield from _excluded_lines("malformed", summary.malformed, summary.problems)
    yield from _excluded_lines("failed", summary.failed, summary.failures)
    for demand in summary.demands:
        if not (troubles_only and demand.is_met):
            yield _demand_line(demand, summary.words)


def _demand_line(demand: RequiredShare, words: Sequence[WordCount]) -> str:
    """The line that says whether a share which the user demands of a dump is met.

    Behind the demand on present answers is how sure the validator was of them: the share alone
    counts a doubtful Yes like a certain one.
    """
    share = "nothing"
    # None where no query has the figure: nothing was found that could meet the demand.
    if demand.found is not None:
        share = f"{demand.found:.3f}"
    verdict = "NOT met"
    if demand.is_met:
        verdict = "met"
    line = f"--{demand.name} {demand.wanted:g}: {verdict}, found {share}"
    if demand.name == "min-answer-present" and words:
        counts = [f"{word.word.value} {word.count:,}" for word in words]
        line += f" ({', '.join(counts)})"
    return line


def _excluded_lines(name: str, count: int, examples: Sequence[str]) -> Iterator[str]:
    """The lines on records that are in no figure of a dump.

    They say how many there are, and show the first as examples.

    Args:
        name: why they are excluded: "malformed" or "failed".
        count: all of them; a summary holds only the first as examples.
    """
    if not count:
        return
    yield f"{name}: {count:,}, excluded from every figure"
    for example in examples[:_MOST_EXAMPLES]:
        yield f"  {shown_line(example, longest=_LONGEST_EXAMPLE)}"
    # The count is of all; the summary has only the first as examples.
    if count > _MOST_EXAMPLES:
        yield f"  ... and {count - _MOST_EXAMPLES:,} more"


def _figure_lines(summary: DumpSummary) -> Iterator[str]:
    """The lines with a validated dump's figures.

    They are present answers, quality, warnings and reused verdicts.
    """
    queries = counted(summary.queries, "query", "queries")
    chunks = counted(summary.chunks, "chunk")
    yield f"{queries} with {chunks} by {summary.validator}, {summary.relevant_chunks:,} relevant"
    yield f"answer present     {_share_text(summary.answer_present)}"
    for line in words_lines(summary.words, of_run=False):
        yield f"  {line}"
    counts = [f"{name} {count:,}" for name, count in summary.quality.items()]
    yield f"retrieval quality  {', '.join(counts)}"
    for name, value in summary.details.items():
        label = name.replace("_", " ")
        line = f"{label}  {value:,.6g}"
        # A count that is a part of something is shown with the whole and the share.
        whole = _whole_of(name, summary)
        if whole:
            share = value / whole
            line += f" of {whole:,.6g} ({share:.1%})"
        yield line
    yield from _warning_lines(summary.warnings)
    if summary.reused:
        start = ""
        if summary.reused_from is not None:
            # An ISO time such as 2026-11-29T14:15:02.123 to the minute, with a space.
            start = summary.reused_from.replace("T", " ")[:16]
        yield (
            f"reused             {summary.reused:,} of {summary.queries:,} from the run of {start}:"
            " query, chunks and validator are the same; --fresh judges again"
        )


def _warning_lines(warnings: Sequence[WarningCount]) -> Iterator[str]:
    """The lines that list each kind of warning of a dump, with the first queries that have it.

    A warning is a problem with which a query can still be judged, such as an empty chunk.
    """
    if not warnings:
        return
    yield "warnings"
    # The longest kind gives the width, so that the counts are in line.
    width = max(len(warning.kind) for warning in warnings)
    for warning in warnings:
        query_ids = [shown_line(query_id) for query_id in warning.examples[:_MOST_WARNED_QUERIES]]
        queries = counted(warning.queries, "query", "queries")
        yield f"  {warning.kind:<{width}}  {queries} (as {', '.join(query_ids)})"


def _whole_of(name: str, summary: DumpSummary) -> float:
    """The total of which a validator's detail is a part; 0 where it is a number of its own.

    A count of fabricated quotes or unproved verdicts says little without that total.

    Args:
        name: of the detail, as the validators of a language model write it.
    """
    if name == "fabricated_quotes":
        return summary.details.get("quotes", 0.0)
    if name == "unproved":
        return float(summary.queries)
    # Any other detail is an average, or a count without a whole.
    return 0.0


def _doctor_lines(summary: DumpSummary) -> Iterator[str]:
    """The lines with a diagnosis of the retriever.

    They show ranks of the answers, weak queries, and what to try.
    """
    doctor = summary.doctor
    ranks = [f"{rank}: {count:,}" for rank, count in doctor.answer_ranks.items()]
    yield f"rank of the answer  {', '.join(ranks)}"
    # Scores of answers are known only where the dump has scores.
    if doctor.cutoffs:
        # Of distances the small ones are the good ones.
        bound = "from"
        if summary.mapping.get("scores") == "distance":
            bound = "up to"
        scores = [f"{cutoff.keeps:.0%} {bound} {cutoff.score:.6g}" for cutoff in doctor.cutoffs]
        yield f"scores of answers   {', '.join(scores)}"
    for source in doctor.sources[:_MOST_SOURCES]:
        name = shown_line(source.source, longest=_LONGEST_SOURCE)
        chunks = counted(source.chunks, "chunk")
        yield f"source              {name}: {chunks}, {source.relevant:,} relevant"
    if doctor.compared is not None:
        yield _compared_line(doctor.compared)
    if doctor.weakest:
        yield "weakest queries"
    # The first ones: the summary holds more.
    for weak in doctor.weakest[:_MOST_EXAMPLES]:
        line = f"{weak.query_id} ({weak.answer_probability:.2f}) {weak.query}: {weak.reason}"
        yield f"  {shown_line(line, longest=_LONGEST_QUERY)}"
    for finding in doctor.findings:
        yield f"finding: {shown_line(finding.text)}"
        yield f"  next: {finding.action}"
    if summary.repeated_ids:
        yield f"repeated query ids: {summary.repeated_ids:,}"


def _compared_line(pair: PairedDumps) -> str:
    """The line that compares two retrievers.

    It counts queries whose answer only one of them has in its chunks. Queries on which both agree
    say nothing of which retriever is better, so McNemar's test, and this line, leave them out.
    """
    queries = counted(pair.queries, "query", "queries")
    return (
        f"against {shown_line(pair.against)}: {pair.won:,} won, {pair.lost:,} lost of "
        f"{queries} in both (McNemar p = {pair.p_value:.3g})"
    )


def _share_text(share: Share) -> str:
    """A share of queries as text with its interval, since a share of few queries says little.

    A dump without any query has none.
    """
    # The three are None together, where the total is 0.
    if share.share is None or share.low is None or share.high is None:
        return "no query"
    return (
        f"{share.count:,} of {share.total:,}: {share.share:.1%} "
        f"(95% interval {share.low:.1%} .. {share.high:.1%})"
    )
