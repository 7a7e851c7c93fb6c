"""What a validator says of retrieved chunks, as lines of text and as JSON.

Of one query, of a dump of queries (``ragbench validate``), and of near misses (``--self-test``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from ragbench.core.outcome import Outcome
from ragbench.core.validation import DumpSummary, PairedDumps, Share, Verdict
from ragbench.safe_text import counted, shown_line
from ragbench.validators.self_test import SelfTest
from ragbench.views.words import presence_text, words_lines

_LONGEST_QUERY = 200
"""Letters of a query that are shown, with what is said of it."""
_LONGEST_EXAMPLE = 300
"""Letters of a record that could not be read, or of a pair that was judged wrong."""
_MOST_EXAMPLES = 5
"""Unreadable and failed records, and weak queries, that are named."""


def summary_object(summary: DumpSummary) -> dict[str, Any]:
    """A summary as a JSON object."""
    return {"schema_version": 1, **asdict(summary)}


def validation_lines(query_id: str, query: str, outcome: Outcome[Verdict]) -> Iterator[str]:
    """What a validator says of one query's chunks."""
    yield shown_line(f"Query {query_id}: {query}", longest=_LONGEST_QUERY)
    verdict = outcome.value
    if verdict is None:
        reason = "no verdict"
        if outcome.failure is not None:
            reason = f"{outcome.failure.type}: {outcome.failure.message}"
        yield "- " + shown_line(f"Failed: {reason}")
        return

    if not verdict.relevant_chunk_ids:
        yield verdict.message
    chunks: list[str] = []
    for chunk_id in verdict.relevant_chunk_ids:
        chunks.append(f"{shown_line(chunk_id)} ({verdict.relevance[chunk_id]:.2f})")
    yield f"- Relevant Chunks: {', '.join(chunks) or 'none'}"
    yield f"- Answer Present: {presence_text(verdict)}"
    yield from _evidence_lines(verdict)
    yield f"- Retrieval Quality: {verdict.retrieval_quality.value}"
    if verdict.relevant_chunk_ids and not verdict.answer_present:
        yield f"- Note: {shown_line(verdict.message)}"
    for reason in verdict.reasons:
        yield f"- Reason: {shown_line(reason)}"
    for warning in verdict.warnings:
        yield f"- Warning: {shown_line(warning)}"


def _evidence_lines(verdict: Verdict) -> Iterator[str]:
    """The quotes of a verdict; without an answer they are evidence of a part of it."""
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
        text = "\n      ".join(lines)
        yield f'    {place}: "{text}"'


def self_test_lines(test: SelfTest) -> Iterator[str]:
    """How a validator does on each kind of near miss, with examples of what it gets wrong."""
    questions = counted(test.questions, "question")
    yield f"{test.validator} on near misses of {questions}, seed {test.seed}"
    near_misses = [kind for kind in test.kinds if not kind.answers]
    answers = [kind for kind in test.kinds if kind.answers]
    yield ""
    yield "no answer: right is a No"
    for kind in near_misses:
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
        yield shown_line(f"  {kind.kind}: {kind.wrong[0]}", longest=_LONGEST_EXAMPLE)


def summary_lines(summary: DumpSummary, *, troubles_only: bool = False) -> Iterator[str]:
    """What a dump came to; with ``troubles_only`` what is wrong with it."""
    if not troubles_only:
        yield from _figure_lines(summary)
        yield from _doctor_lines(summary)
    yield from _excluded_lines("malformed", summary.malformed, summary.problems)
    yield from _excluded_lines("failed", summary.failed, summary.failures)
    for demand in summary.demands:
        if troubles_only and demand.is_met:
            continue
        figure = "nothing"
        if demand.found is not None:
            figure = f"{demand.found:.3f}"
        verdict = "met" if demand.is_met else "NOT met"
        line = f"--{demand.name} {demand.wanted:g}: {verdict}, found {figure}"
        if demand.name == "min-answer-present" and summary.words:
            counts = [f"{one.word.value} {one.count:,}" for one in summary.words]
            line += f" ({', '.join(counts)})"
        yield line


def _excluded_lines(name: str, count: int, examples: Sequence[str]) -> Iterator[str]:
    """How many records are in no figure, and the first of them."""
    if not count:
        return
    yield f"{name}: {count:,}, excluded from every figure"
    for example in examples[:_MOST_EXAMPLES]:
        yield f"  {shown_line(example, longest=_LONGEST_EXAMPLE)}"
    if count > _MOST_EXAMPLES:
        yield f"  ... and {count - _MOST_EXAMPLES:,} more"


def _figure_lines(summary: DumpSummary) -> Iterator[str]:
    """What a dump came to in numbers: answers, quality, warnings, reused verdicts."""
    queries = counted(summary.queries, "query", "queries")
    chunks = counted(summary.chunks, "chunk")
    yield f"{queries} with {chunks} by {summary.validator}, {summary.relevant_chunks:,} relevant"
    yield f"answer present     {_share_text(summary.answer_present)}"
    for line in words_lines(summary.words, of_run=False):
        yield f"  {line}"
    counts = ", ".join(f"{name} {count:,}" for name, count in summary.quality.items())
    yield f"retrieval quality  {counts}"
    for name, value in summary.details.items():
        line = f"{name.replace('_', ' ')}  {value:,.6g}"
        whole = _whole_of(name, summary)
        if whole:
            line += f" of {whole:,.6g} ({value / whole:.1%})"
        yield line
    if summary.warnings:
        yield "warnings"
        width = max(len(warning.kind) for warning in summary.warnings)
        for warning in summary.warnings:
            examples = ", ".join(map(shown_line, warning.examples[:3]))
            queries = counted(warning.queries, "query", "queries")
            yield f"  {warning.kind:<{width}}  {queries} (as {examples})"
    if summary.reused:
        since = (summary.reused_from or "").replace("T", " ")[:16]
        yield (
            f"reused             {summary.reused:,} of {summary.queries:,} from the run of {since}:"
            " query, chunks and validator are the same; --fresh judges again"
        )


def _whole_of(name: str, summary: DumpSummary) -> float:
    """What a detail of a validator is a part of; 0 where it is a number of its own."""
    if name == "fabricated_quotes":
        return summary.details.get("quotes", 0.0)
    if name == "unproved":
        return float(summary.queries)
    return 0.0


def _doctor_lines(summary: DumpSummary) -> Iterator[str]:
    """Where the answers were, what is weak, and the next steps."""
    doctor = summary.doctor
    ranks = ", ".join(f"{name}: {count:,}" for name, count in doctor.answer_ranks.items())
    yield f"rank of the answer  {ranks}"
    if doctor.cutoffs:
        # Of distances the small ones are the good ones.
        bound = "up to" if summary.mapping.get("scores") == "distance" else "from"
        scores = [f"{cutoff.keeps:.0%} {bound} {cutoff.score:.6g}" for cutoff in doctor.cutoffs]
        yield f"scores of answers   {', '.join(scores)}"
    for source in doctor.sources[:3]:
        name = shown_line(source.source, longest=60)
        chunks = counted(source.chunks, "chunk")
        yield f"source              {name}: {chunks}, {source.relevant:,} relevant"
    if doctor.compared is not None:
        yield _compared_line(doctor.compared)
    if doctor.weakest:
        yield "weakest queries"
    for weak in doctor.weakest[:_MOST_EXAMPLES]:
        line = f"{weak.query_id} ({weak.answer_probability:.2f}) {weak.query}: {weak.reason}"
        yield "  " + shown_line(line, longest=_LONGEST_QUERY)
    for finding in doctor.findings:
        yield f"finding: {shown_line(finding.text)}"
        yield f"  next: {finding.action}"
    if summary.repeated_ids:
        yield f"repeated query ids: {summary.repeated_ids:,}"


def _compared_line(pair: PairedDumps) -> str:
    """How many queries found their answer in one of two dumps only."""
    queries = counted(pair.queries, "query", "queries")
    return (
        f"against {shown_line(pair.against)}: {pair.won:,} won, {pair.lost:,} lost of "
        f"{queries} in both (McNemar p = {pair.p_value:.3g})"
    )


def _share_text(share: Share) -> str:
    """A share of queries with its interval."""
    if share.share is None or share.low is None or share.high is None:
        return "no query"
    return (
        f"{share.count:,} of {share.total:,}: {share.share:.1%} "
        f"(95% interval {share.low:.1%} .. {share.high:.1%})"
    )
