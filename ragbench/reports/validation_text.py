"""A verdict on a retrieval as text, in the form that the specification gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ragbench.records.dump_summaries import DumpSummary, Share
from ragbench.reports.plain_text import one_line

__all__ = ["summary_lines", "validation_lines"]

_LONGEST_QUERY = 200


def validation_lines(verdict: Mapping[str, Any], query: str) -> Iterator[str]:
    """The lines of a verdict.

    Args:
        verdict: as `ragbench.reports.validation_json.validation_object` gives it.
        query: the question.
    """
    yield one_line(f"Query {verdict['query_id']}: {query}", longest=_LONGEST_QUERY)
    if verdict["retrieval_quality"] is None:
        yield f"- {one_line(verdict['message'])}"
        return
    relevant = verdict["relevant_chunk_ids"]
    if not relevant:
        yield verdict["message"]
    ids = ", ".join(f"{one_line(id)} ({verdict['relevance'][id]:.2f})" for id in relevant)
    yield f"- Relevant Chunks: {ids or 'none'}"
    yield f"- Answer Present: {'Yes' if verdict['answer_present'] else 'No'}" + (
        f" (probability {verdict['answer_probability']:.2f})"
    )
    evidence, is_there = verdict["evidence"], verdict["answer_present"]
    if not evidence or not is_there:
        yield "- Evidence: none"
    if evidence:
        yield "- Evidence:" if is_there else "- Partial Evidence:"
    for piece in evidence:
        first, *rest = piece["text"].splitlines() or [""]
        place = f"{one_line(piece['chunk_id'])} [{piece['start']}:{piece['end']}]"
        yield f'    {place}: "{_shown(first)}' + ('"' if not rest else "")
        for number, line in enumerate(rest, start=1):
            yield f"      {_shown(line)}" + ('"' if number == len(rest) else "")
    yield f"- Retrieval Quality: {verdict['retrieval_quality']}"
    if relevant and not verdict["answer_present"]:
        yield f"- Note: {one_line(verdict['message'])}"
    for warning in verdict["warnings"]:
        yield f"- Warning: {one_line(warning)}"


def summary_lines(summary: DumpSummary, *, troubles_only: bool = False) -> Iterator[str]:
    """The lines of a summary.

    Args:
        summary: the counts.
        troubles_only: only what could not be read, what failed, and what is not met.
    """
    if not troubles_only:
        yield from _figures(summary)
    yield from _listed("malformed", summary.malformed, summary.problems)
    yield from _listed("failed", summary.failed, summary.failures)
    for demand in summary.demands:
        if troubles_only and demand.is_met:
            continue
        found = "nothing" if demand.found is None else f"{demand.found:.3f}"
        verdict = "met" if demand.is_met else "NOT met"
        yield f"--{demand.name} {demand.wanted:g}: {verdict}, found {found}"


def _figures(summary: DumpSummary) -> Iterator[str]:
    yield (
        f"{_number(summary.queries, 'query', 'queries')} with "
        f"{_number(summary.chunks, 'chunk', 'chunks')} by {summary.validator}, "
        f"{summary.relevant_chunks:,} relevant"
    )
    yield f"answer present     {_share(summary.answer_present)}"
    told = ", ".join(f"{name} {count:,}" for name, count in summary.quality.items())
    yield f"retrieval quality  {told}"
    for name, value in summary.details.items():
        yield f"{name.replace('_', ' ')}  {value:,.6g}"
    if summary.warnings:
        yield "warnings"
        width = max(len(warning.kind) for warning in summary.warnings)
        for warning in summary.warnings:
            queries = _number(warning.queries, "query", "queries")
            examples = ", ".join(map(one_line, warning.examples[:3]))
            yield f"  {warning.kind:<{width}}  {queries} (as {examples})"
    if summary.repeated_ids:
        yield f"repeated query ids: {summary.repeated_ids:,}"


def _listed(name: str, count: int, examples: Sequence[str]) -> Iterator[str]:
    if count:
        yield f"{name}: {count:,}, left out of every figure"
        yield from (f"  {one_line(example, longest=300)}" for example in examples[:5])
        if count > 5:
            yield f"  ... and {count - 5:,} more"


def _share(share: Share) -> str:
    if share.share is None or share.low is None or share.high is None:
        return "no query"
    return (
        f"{share.count:,} of {share.total:,}: {share.share:.1%} "
        f"(95% interval {share.low:.1%} .. {share.high:.1%})"
    )


def _number(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def _shown(line: str) -> str:
    """A line of a chunk as it stands, unless it would steer the terminal."""
    return line if line.isprintable() else one_line(line)
