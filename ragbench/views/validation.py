"""A verdict and a summary of verdicts as JSON and text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from ragbench.core.outcome import Outcome
from ragbench.core.validation import DumpSummary, Share, Verdict
from ragbench.safe_text import counted, shown_line
from ragbench.validators.self_test import SelfTest


def summary_object(summary: DumpSummary) -> dict[str, Any]:
    return {"schema_version": 1, **asdict(summary)}


_LONGEST_QUERY = 200


def validation_lines(query_id: str, query: str, outcome: Outcome[Verdict]) -> Iterator[str]:
    yield shown_line(f"Query {query_id}: {query}", longest=_LONGEST_QUERY)
    verdict = outcome.value
    if verdict is None:
        failure = outcome.failure
        why = "no verdict" if failure is None else f"{failure.type}: {failure.message}"
        yield f"- {shown_line(f'Failed: {why}')}"
        return
    relevant, is_there = verdict.relevant_chunk_ids, verdict.answer_present
    if not relevant:
        yield verdict.message
    ids = ", ".join(f"{shown_line(id)} ({verdict.relevance[id]:.2f})" for id in relevant)
    yield f"- Relevant Chunks: {ids or 'none'}"
    yield f"- Answer Present: {'Yes' if is_there else 'No'}" + (
        f" (probability of an answer {verdict.answer_probability:.2f})"
    )
    if not verdict.evidence or not is_there:
        yield "- Evidence: none"
    if verdict.evidence:
        yield "- Evidence:" if is_there else "- Partial Evidence:"
    for piece in verdict.evidence:
        place = f"{shown_line(piece.chunk_id)} [{piece.start}:{piece.end}]"
        # Each line of a chunk as it stands, unless it would steer the terminal.
        lines = [
            line if line.isprintable() else shown_line(line) for line in piece.text.splitlines()
        ]
        yield f'    {place}: "' + "\n      ".join(lines) + '"'
    yield f"- Retrieval Quality: {verdict.retrieval_quality.value}"
    if relevant and not is_there:
        yield f"- Note: {shown_line(verdict.message)}"
    for reason in verdict.reasons:
        yield f"- Reason: {shown_line(reason)}"
    for warning in verdict.warnings:
        yield f"- Warning: {shown_line(warning)}"


def self_test_lines(found: SelfTest) -> Iterator[str]:
    yield f"{found.validator} on near misses of {found.questions:,} questions, seed {found.seed}"
    for answers, title in ((False, "no answer: right is a No"), (True, "answer: right is a Yes")):
        yield ""
        yield title
        for one in found.kinds:
            if one.answers is answers:
                yield f"  {one.kind:<20}{_share(one.right)}"
    wrong = [(one.kind, text) for one in found.kinds for text in one.wrong[:1]]
    if wrong:
        yield ""
        yield "wrong, the first of each kind (query <- chunk)"
        yield from (shown_line(f"  {kind}: {text}", longest=300) for kind, text in wrong)


def summary_lines(summary: DumpSummary, *, troubles_only: bool = False) -> Iterator[str]:
    if not troubles_only:
        yield from _figures(summary)
        yield from _doctor_lines(summary)
    for name, count, examples in (
        ("malformed", summary.malformed, summary.problems),
        ("failed", summary.failed, summary.failures),
    ):
        if count:
            yield f"{name}: {count:,}, excluded from every figure"
            yield from (f"  {shown_line(example, longest=300)}" for example in examples[:5])
        if count > 5:
            yield f"  ... and {count - 5:,} more"
    for demand in summary.demands:
        if not (troubles_only and demand.is_met):
            found = "nothing" if demand.found is None else f"{demand.found:.3f}"
            verdict = "met" if demand.is_met else "NOT met"
            yield f"--{demand.name} {demand.wanted:g}: {verdict}, found {found}"


_COUNTED_IN = {"fabricated_quotes": "quotes"}
"""Counters that count a part of another one; ``unproved`` counts queries."""


def _figures(summary: DumpSummary) -> Iterator[str]:
    queries, chunks = counted(summary.queries, "query", "queries"), counted(summary.chunks, "chunk")
    yield f"{queries} with {chunks} by {summary.validator}, {summary.relevant_chunks:,} relevant"
    yield f"answer present     {_share(summary.answer_present)}"
    counts = ", ".join(f"{name} {count:,}" for name, count in summary.quality.items())
    yield f"retrieval quality  {counts}"
    for name, value in summary.details.items():
        whole = summary.details.get(_COUNTED_IN.get(name, ""), 0.0)
        whole = float(summary.queries) if name == "unproved" else whole
        of_all = f" of {whole:,.6g} ({value / whole:.1%})" if whole else ""
        yield f"{name.replace('_', ' ')}  {value:,.6g}{of_all}"
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


def _doctor_lines(summary: DumpSummary) -> Iterator[str]:
    doctor, pair = summary.doctor, summary.doctor.compared
    ranks = ", ".join(f"{name}: {count:,}" for name, count in doctor.answer_ranks.items())
    yield f"rank of the answer  {ranks}"
    if doctor.cutoffs:
        to = "up to" if summary.mapping.get("scores") == "distance" else "from"
        scores = ", ".join(f"{one.keeps:.0%} {to} {one.score:.6g}" for one in doctor.cutoffs)
        yield f"scores of answers   {scores}"
    for one in doctor.sources[:3]:
        yield (
            f"source              {shown_line(one.source, longest=60)}: "
            f"{counted(one.chunks, 'chunk')}, {one.relevant:,} relevant"
        )
    if pair is not None:
        yield (
            f"against {shown_line(pair.against)}: {pair.won:,} won, {pair.lost:,} lost of "
            f"{counted(pair.queries, 'query', 'queries')} in both (McNemar p = {pair.p_value:.3g})"
        )
    if doctor.weakest:
        yield "weakest queries"
    for weak in doctor.weakest[:5]:
        line = f"{weak.query_id} ({weak.answer_probability:.2f}) {weak.query}: {weak.reason}"
        yield "  " + shown_line(line, longest=_LONGEST_QUERY)
    for finding in doctor.findings:
        yield f"finding: {shown_line(finding.text)}"
        yield f"  next: {finding.action}"
    if summary.repeated_ids:
        yield f"repeated query ids: {summary.repeated_ids:,}"


def _share(share: Share) -> str:
    if share.share is None or share.low is None or share.high is None:
        return "no query"
    return (
        f"{share.count:,} of {share.total:,}: {share.share:.1%} "
        f"(95% interval {share.low:.1%} .. {share.high:.1%})"
    )
