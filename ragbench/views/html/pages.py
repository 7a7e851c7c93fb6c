"""The pages of comparisons, gates, ablations and validated dumps: body and title of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from ragbench.core.comparison import (
    Ablation,
    CaseDifference,
    CaseKind,
    Comparison,
    MetricComparison,
    VariantReport,
)
from ragbench.core.gate_result import GateCheck, GateOutcome, GateResult
from ragbench.core.metric import Direction
from ragbench.core.outcome import Outcome
from ragbench.core.validation import DumpSummary, Verdict
from ragbench.views.comparison import (
    counts_text,
    family_text,
    flip_text,
    ids_text,
    p_text,
    span_text,
)
from ragbench.views.gate import (
    after_text,
    interval_text,
    limit_text,
    number_text,
    observed_text,
)
from ragbench.views.html import charts
from ragbench.views.html.differences import compared_texts
from ragbench.views.html.page import render
from ragbench.views.validation import summary_lines

__all__ = [
    "DumpPage",
    "Page",
    "ablation_page",
    "comparison_page",
    "gate_page",
]

_MOST = 500
"""Cases of a kind that a page shows."""
_WORST = 50
"""Queries of a dump that a page shows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """A page without its head and foot."""

    title: str
    body: Sequence[str]


def comparison_page(comparison: Comparison) -> Page:
    """Runs side by side: the cases that changed first."""
    first = comparison.runs[0]
    marks = ", ".join(run.mark for run in comparison.runs)
    pairs = [
        f"{pair.second} against {pair.first}: {counts_text(pair)}." for pair in comparison.pairs
    ]
    values = {
        "marks": f"Runs {marks}",
        "dataset": first.dataset,
        "headline": " ".join(pairs),
        "notes": comparison.notes,
        "groups": list(_groups(comparison)),
        "flows": [
            [
                flow.before.label,
                flow.after.label,
                f"{flow.cases:,}",
                flow.second,
                ", ".join(flow.examples),
            ]
            for flow in comparison.flows
            if flow.before is not flow.after
        ],
        "columns": ["Metric", *(run.mark for run in comparison.runs), *_PAIR],
        "metrics": [row for metric in comparison.metrics for row in _metric_rows(metric)],
        "family": family_text(comparison),
        "runs": [
            [
                run.mark,
                run.rag,
                run.dataset,
                run.source,
                "–" if run.commit is None else run.commit[:12] + " with changes" * run.dirty,
                f"{run.cases:,}",
            ]
            for run in comparison.runs
        ],
    }
    return Page(
        title=f"Runs {marks} on {first.dataset}",
        body=[render("comparison.html.jinja", values)],
    )


_PAIR = ("pair", "difference", "", "interval", "p", "cases")
_WORDS = {
    CaseKind.FAILING: ("Newly failing", "fails"),
    CaseKind.MIXED: ("Failing in one respect, fixed in another", "undecided"),
    CaseKind.FIXED: ("Newly fixed", "passes"),
}


def _groups(comparison: Comparison) -> Iterator[dict[str, Any]]:
    for pair in comparison.pairs:
        for kind, (title, tone) in _WORDS.items():
            cases = [
                case
                for case in comparison.changed
                if case.second == pair.second and case.kind is kind
            ]
            if cases:
                more = len(cases) - _MOST
                yield {
                    "title": f"{title}: {len(cases):,} ({pair.second} against {pair.first})",
                    "cases": [_flipped(case, title, tone) for case in cases[:_MOST]],
                    "more": f"... and {more:,} more" if more > 0 else "",
                }


def _flipped(case: CaseDifference, word: str, tone: str) -> dict[str, Any]:
    before, after = compared_texts(case.response_before, case.response_after)
    return {
        "id": case.id,
        "anchor": f"case={quote(case.id, safe='-_.~:@/,+()')}",
        "kind": tone,
        "word": word,
        "query": case.query or "",
        "flips": [
            f"{'fails' if flip.newly_fails else 'passes'}: {flip_text(flip)}" for flip in case.flips
        ],
        "first": f"Answer in {case.first}",
        "second": f"Answer in {case.second}",
        "before": before,
        "after": after,
        "before_status": _status(case.stages_before),
        "after_status": _status(case.stages_after),
        "ids": ids_text(case.ids),
    }


def _status(stages: Mapping[str, Any]) -> str:
    return str(stages.get("generate", "unknown"))


def _metric_rows(metric: MetricComparison) -> Iterator[list[object]]:
    figures = [
        number_text(figure.score, metric.unit)
        + (f" (better than {', '.join(figure.better_than)})" if figure.better_than else "")
        for figure in metric.figures
    ]
    if not metric.differences:
        yield [metric.name, *figures, "–", metric.untested or "–", "", "–", "–", "–"]
    for at, found in enumerate(metric.differences):
        drawn = Markup("")
        if found.difference is not None:
            wide = max(
                abs(each) for each in (found.difference, found.low or 0.0, found.high or 0.0)
            )
            edge = wide or 1.0
            drawn = charts.forest(found.difference, found.low, found.high, least=-edge, most=edge)
        yield [
            metric.name,
            *(figures if at == 0 else [""] * len(figures)),
            f"{found.second} − {found.first}",
            number_text(found.difference, metric.unit, sign=True),
            drawn,
            span_text(found, metric.unit),
            p_text(found) + (" *" if found.is_significant else ""),
            f"{found.cases:,}",
        ]


_TONES = {
    GateOutcome.PASSED: "passes",
    GateOutcome.FAILED: "fails",
    GateOutcome.INCONCLUSIVE: "undecided",
}


def gate_page(result: GateResult, comparison: Comparison | None = None) -> Page:
    """A gate's decision and all that it rests on; with a comparison, the cases that changed."""
    sections = [
        _section(
            "Checks",
            ("Check", "outcome", "observed", "limit", "interval", "cases", "why"),
            [_check(check) for check in result.checks],
        ),
        _section(
            "Cases that lost",
            ("Case", "metric", "before", "now", "question"),
            [
                [
                    change.id,
                    change.metric,
                    number_text(change.before),
                    after_text(change),
                    change.query or "",
                ]
                for change in result.lost
            ],
        ),
        _section(
            "Settings",
            ("Setting", "value"),
            [[name, str(value)] for name, value in result.settings.items()],
        ),
    ]
    run, baseline = result.run, result.baseline
    values = {
        "kind": "ragbench gate",
        "title": f"{result.outcome.value.capitalize()}: {run.rag} on {run.dataset}",
        "headline": result.headline,
        "tone": _TONES[result.outcome],
        "notes": [
            *(f"{refusal.reason}. To go on, {refusal.remedy}" for refusal in result.refusals),
            *result.notes,
            *([f"Baseline: {baseline.source}, {baseline.rag}"] if baseline is not None else []),
        ],
        "sections": [section for section in sections if section["rows"]],
    }
    return Page(title=str(values["title"]), body=[render("facts.html.jinja", values)])


def _check(check: GateCheck) -> list[object]:
    return [
        f"{check.name}{' (informational)' if check.informational else ''}",
        check.outcome.value,
        observed_text(check),
        limit_text(check),
        interval_text(check),
        f"{check.cases:,}",
        check.reason,
    ]


def _section(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], hint: str = ""
) -> dict[str, Any]:
    return {
        "title": title, "columns": columns, "rows": rows, "hint": hint, "charts": [], "details": [],
    }  # fmt: skip


def ablation_page(ablation: Ablation) -> Page:
    """Variants of post-retrieval: what each gives, and what it costs."""
    sections: list[dict[str, Any]] = []
    for at, metric in enumerate(ablation.metrics):
        rows = [_variant(variant, at) for variant in ablation.variants]
        section = _section(
            metric.name,
            ("Variant", "score", "difference", "", "interval", "better", "worse", "n"),
            rows,
        )
        points = [
            (variant.name, variant.tokens, variant.changes[at].score or 0.0)
            for variant in ablation.variants
            if variant.changes[at].score is not None
        ]
        if len(points) > 1:
            named = "; ".join(f"{number} {name}" for number, (name, _, _) in enumerate(points, 1))
            best = "lower" if metric.definition.direction is Direction.LOWER else "higher"
            section["charts"] = [
                {
                    "drawn": charts.frontier(
                        points,
                        label=f"{metric.name} by tokens: {named}",
                        across="tokens for generation",
                        up=metric.name,
                    ),
                    "caption": f"{named}. To the left is cheaper, {best} is better.",
                }
            ]
        sections.append(section)
    sections.append(
        _section(
            "Cost per case",
            ("Variant", "chunks", "tokens", "tokens p95", "time p50", "time p95", "failed"),
            [_cost(variant) for variant in ablation.variants],
            f"Tokens counted by {ablation.counter}{', an estimate' * ablation.is_estimate}.",
        )
    )
    values = {
        "kind": "ragbench ablation",
        "title": f"{ablation.rag} on {ablation.dataset}",
        "headline": (
            f"{len(ablation.variants)} variants of post-retrieval on {ablation.replayed:,} of "
            f"{ablation.cases:,} cases, {ablation.depth} chunks each; compared with "
            f"{ablation.variants[0].name}."
        ),
        "tone": "",
        "notes": ablation.notes,
        "sections": sections,
    }
    title = f"Ablation of {values['title']}"
    return Page(title=title, body=[render("facts.html.jinja", values)])


def _variant(variant: VariantReport, at: int) -> list[object]:
    change = variant.changes[at]
    drawn, interval = Markup(""), ""
    if change.difference is not None:
        edge = max(abs(v) for v in (change.difference, change.low or 0.0, change.high or 0.0))
        drawn = charts.forest(
            change.difference, change.low, change.high, least=-(edge or 1), most=edge or 1
        )
    if change.low is not None and change.high is not None:
        interval = f"{change.low:+.3f} – {change.high:+.3f}"
    return [
        variant.name,
        number_text(change.score),
        "" if change.difference is None else f"{change.difference:+.3f}",
        drawn,
        interval,
        f"{change.gained:,}",
        f"{change.lost:,}",
        f"{change.measured:,}",
    ]


def _cost(variant: VariantReport) -> list[object]:
    return [
        variant.name,
        f"{variant.chunks:.1f}",
        f"{variant.tokens:,.0f}",
        f"{variant.tokens_p95:,.0f}",
        f"{variant.seconds_p50 * 1e3:.2f} ms",
        f"{variant.seconds_p95 * 1e3:.2f} ms",
        f"{variant.failed:,}",
    ]


@dataclass(slots=True)
class DumpPage:
    """Collects the verdicts on a dump, then renders its page."""

    _ranks: list[int | None] = field(default_factory=list[int | None])
    _longest: int = 0
    _worst: list[tuple[float, dict[str, Any]]] = field(
        default_factory=list[tuple[float, dict[str, Any]]]
    )

    def add(self, query_id: str, query: str, outcome: Outcome[Verdict]) -> None:
        """Takes a verdict."""
        verdict = outcome.value
        if verdict is None:
            return
        relevant = set(verdict.relevant_chunk_ids)
        ranks = (rank for rank, id in enumerate(verdict.relevance, 1) if id in relevant)
        self._ranks.append(next(ranks, None))
        self._longest = max(self._longest, len(verdict.relevance))
        self._worst.append((verdict.answer_probability, _query(query_id, query, verdict)))
        if len(self._worst) > 4 * _WORST:
            self._worst = self._kept()

    def _kept(self) -> list[tuple[float, dict[str, Any]]]:
        return sorted(self._worst, key=lambda item: item[0])[:_WORST]

    def page(self, summary: DumpSummary) -> Page:
        """The page, once all verdicts are there."""
        figures = _section("Figures", (), [])
        if self._ranks:
            total, last = len(self._ranks), min(self._longest, 50)
            shares = [
                sum(rank is not None and rank <= k for rank in self._ranks) / total
                for k in range(1, last + 1)
            ]
            first = [sum(rank == k for rank in self._ranks) / total for k in range(1, last + 1)]
            figures = _section(
                "How deep the answers stand",
                ("Cut-off", "queries with a relevant chunk by then", "first relevant chunk here"),
                [
                    [str(k), f"{shares[k - 1]:.1%}", f"{first[k - 1]:.1%}"]
                    for k in range(1, last + 1)
                ],
                "A steep start and a flat end say that fewer chunks would do; a rise to the end, "
                "that more would find more.",
            )
            figures["charts"] = [
                {
                    "drawn": charts.curve(
                        shares,
                        label="Share of queries with a relevant chunk within the first k",
                        across="chunks kept", up="share of queries",
                    ),
                    "caption": "Queries with a relevant chunk among the first k.",
                },
                {
                    "drawn": charts.curve(
                        first,
                        label="Share of queries whose first relevant chunk has rank k",
                        across="rank", up="share of queries",
                    ),
                    "caption": "Where the first relevant chunk stands.",
                },
            ]  # fmt: skip
        worst = _section("Worst queries", (), [])
        worst["details"] = [item for _, item in self._kept()]
        said = _section("Summary", ("",), [[line] for line in summary_lines(summary)])
        present = summary.answer_present
        share = "" if present.share is None else f" ({present.share:.0%})"
        values = {
            "kind": "ragbench validation",
            "title": summary.dump,
            "headline": (
                f"The answer is shown to be in the chunks of {present.count:,} of "
                f"{present.total:,} queries{share}, by {summary.validator}."
            ),
            "tone": "",
            "notes": summary.problems[:5],
            "sections": [said, figures, worst],
        }
        title = f"Validation of {summary.dump}"
        return Page(title=title, body=[render("facts.html.jinja", values)])


def _query(query_id: str, query: str, verdict: Verdict) -> dict[str, Any]:
    chances = ", ".join(f"{id} {p:.2f}" for id, p in list(verdict.relevance.items())[:20])
    return {
        "word": f"{verdict.retrieval_quality.value} {verdict.answer_probability:.2f}",
        "id": query_id,
        "anchor": f"case={quote(query_id, safe='-_.~:@/,+()')}",
        "text": query[:1000],
        "lines": [
            verdict.message,
            *verdict.reasons,
            f"Probability by chunk: {chances or 'no chunk'}",
            *(f"Warning: {warning}" for warning in verdict.warnings),
        ],
        "quotes": [
            {"id": quoted.chunk_id, "before": "", "text": quoted.text[:1000], "after": ""}
            for quoted in verdict.evidence
        ],
    }
