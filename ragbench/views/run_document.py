"""A run's report as a document, and what terminal, Markdown and page say alike of it.

The page draws the first sections itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from ragbench.core.attribution import LOSSES, Cause, CauseCount, CauseFlow
from ragbench.core.biography import OperatorTable
from ragbench.core.matched import GoldCause
from ragbench.core.report import (
    JUDGED_RIGHT,
    WORDS_RIGHT,
    CanaryLine,
    FailureGroup,
    JudgeLine,
    JudgeReport,
    Report,
    Slice,
    StageCount,
    Summary,
)
from ragbench.core.roles import FieldRole
from ragbench.core.unfulfilled import Unfulfilled, unfulfilled
from ragbench.core.validation import ValidationTable
from ragbench.metrics.registry import DEFAULT
from ragbench.safe_text import as_line, counted, shown_line
from ragbench.stats.mean import proportion_interval
from ragbench.views.answers import answers_text, deciders_text, share_hint
from ragbench.views.document import Document, Section, number_text, range_text
from ragbench.views.labels import corrected_section
from ragbench.views.metric_table import metric_cell, metric_columns
from ragbench.views.roles import roles_section
from ragbench.views.words import words_lines

_MOST_SLICED = 8
"""Metrics that the table of slices has a column for."""
_LONGEST_ID = 100
_LONGEST_NAME = 60
"""Letters of a question that is an example."""
_LONGEST_SENTENCE = 200
_LONGEST_ERROR = 1000
_MOST_FAILURES = 100
_LONGEST_TABLE = 50
"""Rows of a table that are shown: a comment on a pull request holds 65,536 letters."""


def run_document(report: Report) -> Document:
    """The report as report.md shows it: only what is the same in every run on the same inputs."""
    notes = list(report.notes)
    lines: list[str] = []
    if not report.is_comparable:
        lines.append(f"Not comparable: {notes.pop(0)}")
    lines.append(_drawn_cases(report.manifest["dataset"]))
    for stage in report.stages:
        counts = [f"{count:,} {word}" for count, word in stage_counts(stage)]
        lines.append(f"{stage.stage}: {', '.join(counts)}")
    hint = share_hint(report)
    if hint:
        lines.append(f"{hint}.")
    steady: list[Summary] = []
    for summary in report.summaries:
        if summary.metric.definition.deterministic:
            steady.append(summary)
    return Document(
        kind="ragbench evaluation",
        title=f"{report.manifest['rag']['name']} on {report.manifest['dataset']['name']}",
        headline=headline(report),
        sections=(
            Section(title="Cases", lines=lines),
            *_metrics(steady),
            causes_section(report.causes),
            unfulfilled_section(unfulfilled(report, most=_LONGEST_TABLE)),
            *detail_sections(report),
        ),
        notes=notes,
    )


def _drawn_cases(dataset: Mapping[str, Any]) -> str:
    """How many cases of a dataset were asked, and how they were chosen."""
    cases = counted(dataset["cases"], "case")
    if dataset["sample"] is not None:
        return f"{cases}, drawn at random (seed {dataset['seed']})"
    if dataset["limit"] is not None:
        return f"{cases}, the first {dataset['limit']}"
    return cases


def headline(report: Report) -> str:
    """How the answers compare, and as what most of the lost cases are lost."""
    total = sum(count.cases for count in report.causes)
    if not total:
        return "No case."
    text = answers_text(report)
    losses = [count for count in report.causes if count.cause in LOSSES]
    if not losses:
        return text
    worst = max(losses, key=lambda count: count.cases)
    lost = sum(count.cases for count in losses)
    group = "most" if 2 * worst.cases > lost else "the largest group"
    estimated = ", estimated" if worst.estimated else ""
    share = f"{worst.cases:,} ({worst.cases / total:.0%}{estimated})"
    verb = "is" if lost == 1 else "are"
    if lost == worst.cases:
        return f"{text} {share} {verb} lost as “{worst.cause.label}”."
    return f"{text} {lost:,} are lost, {group} as “{worst.cause.label}”: {share}."


def reused_text(report: Report) -> str:
    """How many outcomes an earlier run gave, and which run; empty where none did."""
    counts = [f"{stage.reused:,} of {stage.stage}" for stage in report.stages if stage.reused]
    if not counts:
        return ""
    since = (report.reused_from or "").replace("T", " ")[:16]
    return f"Reused from the run of {since}: {', '.join(counts)}."


def detail_sections(report: Report) -> Iterator[Section]:
    """What comes below the metrics and the causes, on the page too."""
    if report.corrections:
        yield corrected_section(report.corrections)
    yield _gold_section(report.gold)
    if report.operators is not None:
        yield Section(
            title="Post-retrieval",
            lines=list(operator_remarks(report.operators)),
            columns=OPERATOR_COLUMNS,
            rows=list(operator_rows(report.operators)),
        )
    if report.validation is not None:
        yield _validation(report.validation)
    if report.judging is not None:
        yield _judging_section(report.judging)
        yield _steadiness_section(report.judging)
    if any(summary.slices for summary in report.summaries):
        yield _slices(report)
    yield _failures_section(report.failures)
    yield roles_section(_roles(report.manifest))
    yield _origin(report.manifest)


def _gold_section(gold: Mapping[GoldCause, int]) -> Section:
    """Of how many cases the gold was retrieved, or lost in which way."""
    total = sum(gold.values())
    rows: list[Sequence[object]] = []
    for cause, cases in gold.items():
        rows.append((_GOLD_CAUSES[cause], f"{cases:,}", number_text(cases / total)))
    return Section(
        title="Where the gold was",
        columns=("the gold is", "cases", "share"),
        rows=rows,
        hint="Of each case the gold context that came nearest to generation.",
    )


def _failures_section(failures: Sequence[FailureGroup]) -> Section:
    """What stages and metrics raised, equal errors together."""
    rows: list[Sequence[object]] = []
    for group in failures[:_MOST_FAILURES]:
        error = f"{group.type}: {group.message}"[:_LONGEST_ERROR]
        names = group.questions or group.examples
        examples = "; ".join(shown_line(name, longest=_LONGEST_NAME) for name in names[:3])
        rows.append((group.stage, error, f"{group.count:,}", examples))
    columns = ("stage", "error", "cases", "for example")
    return Section(title="Failures", columns=columns, rows=rows, most=_LONGEST_TABLE)


def _metrics(summaries: Sequence[Summary]) -> Iterator[Section]:
    """The metrics with their figures, then why cases have no value."""
    columns = metric_columns("markdown", summaries)
    rows: list[Sequence[object]] = []
    for summary in summaries:
        if not summary.measured:
            continue
        row: list[str] = []
        for column in columns:
            cell = metric_cell(column, summary)
            row.append(f"{cell} of {summary.total:,}" if column.is_of_total else cell)
        rows.append(row)
    headings = [column.heading for column in columns]
    yield Section(title="Metrics", columns=headings, rows=rows)

    reason_rows: list[Sequence[object]] = []
    for names, reasons in why_not_measured(summaries):
        metrics = ", ".join(names)
        for reason, count in reasons:
            reason_rows.append((metrics, reason, f"{count:,}" if count else "-"))
            metrics = ""  # they stand in the first of their rows alone
    yield Section(title="Not measured", columns=("metric", "why", "cases"), rows=reason_rows)


def unfulfilled_section(unfulfilled: Unfulfilled | None) -> Section:
    """The expectations that do not hold, by case."""
    title = "Expectations that do not hold"
    if unfulfilled is None or not unfulfilled.total:
        return Section(title=title)
    rows: list[Sequence[object]] = []
    for case in unfulfilled.cases:
        id = shown_line(case.id, longest=_LONGEST_ID)
        for sentence in case.sentences:
            rows.append((id, shown_line(sentence, longest=_LONGEST_SENTENCE)))
    line = f"In {counted(unfulfilled.total, 'case')}"
    if unfulfilled.total > len(unfulfilled.cases):
        line += f", of which the worst {len(unfulfilled.cases):,} are listed"
    return Section(
        title=title,
        lines=[f"{line}. The answers: ragbench explain RUN CASE"],
        columns=("case", "does not hold"),
        rows=rows,
        most=_LONGEST_TABLE,
    )


_GOLD_CAUSES = {
    GoldCause.RETRIEVED: "retrieved",
    GoldCause.RANKED_LOWER: "found by the same search, at a later rank than were retrieved",
    GoldCause.LOST_BY_THRESHOLD: "below the score threshold",
    GoldCause.LOST_BY_INDEX: "found by an exact search, missed by the store's index",
    GoldCause.LOST_BY_FILTER: "in the collection, excluded by the filter",
    GoldCause.NOT_RANKED: "in the collection, ranked too low to be looked at",
    GoldCause.CUT: "cut: parts of it are in several chunks, none holds it whole",
    GoldCause.NOT_INDEXED: "not in the collection",
    GoldCause.UNKNOWN: "unknown: the collection cannot be asked for it",
}


def _validation(table: ValidationTable) -> Section:
    """What a validator found in the chunks, beside what the system made of them."""
    present = f"{table.answer_present.count:,} ({number_text(table.answer_present.share)})"
    lines = [
        f"By {table.validator}: the answer is shown to be in the chunks of {present} of "
        f"{counted(table.verdicts, 'case')}. {quality_text(table)}"
    ]
    lines += [f"{line[0].upper()}{line[1:]}." for line in words_lines(table.words, of_run=True)]
    if table.unmatched:
        cases = counted(table.unmatched, "case")
        lines.append(f"Neither an answer nor an abstention, but a verdict: {cases}.")
    rows = list(verdict_rows(table))
    return Section(title="Validation", lines=lines, columns=VERDICT_COLUMNS, rows=rows)


def _judging_section(judging: JudgeReport) -> Section:
    """What the answers took that the judged scores rest on."""
    judge = judging.judge
    lines: list[str] = []
    for role, model in (("judge", judge["chat"]), ("embeddings", judge["embeddings"])):
        if model:
            lines.append(f"{role}: {model['model']} at {model['base_url']}")
    lines.append(f"price: {judging.price_origin or 'unknown'}")
    lines.append(f"fingerprint {judge['fingerprint']}")
    lines.extend(judge_remarks(judging))

    rows: list[Sequence[object]] = []
    for line in judging.lines:
        rows.append(
            (
                line.metric,
                f"{line.answers:,}",
                f"{line.prompt_tokens:,}",
                f"{line.completion_tokens:,}",
                "unknown" if line.cost is None else f"{line.cost:.4f}",
            )
        )
    cost = f"cost ({judging.currency})" if judging.currency else "cost"
    columns = ("metric", "answers", "tokens in", "tokens out", cost)
    return Section(title="Judging", lines=lines, columns=columns, rows=rows)


def _steadiness_section(judging: JudgeReport) -> Section:
    """How far repeated judgements of the same case agree."""
    rows: list[Sequence[object]] = []
    for line in judging.lines:
        steadiness = line.steadiness
        if steadiness is not None:
            rows.append(
                (
                    line.metric,
                    f"{steadiness.cases:,}",
                    f"{steadiness.deviation:.3f}",
                    f"{steadiness.changed:,}",
                    f"{steadiness.error:.4f}",
                )
            )
    return Section(
        title=f"Judgements repeated {counted(judging.judge['repeats'], 'time')}",
        columns=(
            "metric",
            "cases",
            "deviation within a case",
            "cases that changed",
            "error of the mean",
        ),
        rows=rows,
    )


def _slices(report: Report) -> Section:
    """The scores of the first metrics by tag and language."""
    summaries: list[Summary] = []
    for summary in report.summaries:
        is_measured = any(part.measured for part in summary.slices)
        if summary.metric.definition.deterministic and is_measured:
            summaries.append(summary)
    summaries = summaries[:_MOST_SLICED]
    rows: list[Sequence[object]] = []
    # Every summary has the same slices in the same order.
    for parts in zip(*(summary.slices for summary in summaries), strict=True):
        scores = [_slice_text(part) for part in parts]
        rows.append((f"{parts[0].by}: {parts[0].value}", f"{parts[0].total:,}", *scores))
    return Section(
        title="Slices",
        columns=("slice", "cases", *(summary.metric.name for summary in summaries)),
        rows=rows,
        most=_LONGEST_TABLE,
        folded=f"{len(rows):,} slices by tag and language",
        hint="In brackets the 95% interval of that slice alone: among many slices some stand out "
        "by chance. report.json holds all of them, and how many cases were measured.",
    )


def _slice_text(part: Slice) -> str:
    text = number_text(part.score)
    if part.interval is not None:
        text += f" ({part.interval.low:.2f} .. {part.interval.high:.2f})"
    return text


def _roles(manifest: Mapping[str, Any]) -> list[FieldRole]:
    """What each field was read from; an older run does not say."""
    return [msgspec.convert(role, FieldRole) for role in manifest.get("roles", ())]


def _origin(manifest: Mapping[str, Any]) -> Section:
    """What the run rests on: dataset, fingerprints, commit, versions."""
    dataset = manifest["dataset"]
    git = manifest["git"]
    lines = [f"dataset: {dataset['source'] or dataset['name']}"]
    for part, fingerprint in manifest["fingerprints"].items():
        lines.append(f"fingerprint of {part}: {fingerprint}")
    if git is not None:
        changes = " with uncommitted changes" if git["dirty"] else ""
        lines.append(f"commit: {git['commit']}{changes}")
    versions = [f"{name} {version}" for name, version in manifest["packages"].items()]
    lines.append(f"packages: {', '.join(versions)}")
    return Section(title="Origin", lines=lines, folded="Dataset, fingerprints, versions")


_OF_RETRIEVAL = ("recall@5", "nDCG@10")
_OF_GROUNDING = ("numbers_supported", "citation_validity", "citation_attribution")
"""Default metrics that a short screen shows only where something is wrong."""
_OF_ABSTENTION = "abstention_accuracy"


def has_default_metrics(report: Report) -> bool:
    """Whether the run measures the default metrics, alone or with others."""
    names = {metric.name for metric in report.metrics}
    return names.issuperset(DEFAULT)


def headline_metrics(report: Report) -> list[Summary]:
    """The metrics of a short screen: of the default ones at most four, and those named beside.

    The four are whether answers are right, two of retrieval, and one of grounding or abstention.
    """
    summaries = {summary.metric.name: summary for summary in report.summaries if summary.measured}
    if not has_default_metrics(report):
        return list(summaries.values())
    shown_names: list[str] = []
    # People correct either of them, a judge goes before words.
    for name in (*JUDGED_RIGHT, WORDS_RIGHT):
        if name in summaries:
            shown_names.append(name)
            break
    shown_names.extend(_OF_RETRIEVAL)
    shown_names.extend(_of_grounding_or_abstention(report, summaries))
    named_beside = [name for name in summaries if name not in DEFAULT]
    shown_names = list(dict.fromkeys([*shown_names, *named_beside]))
    return [summaries[name] for name in shown_names if name in summaries]


def _of_grounding_or_abstention(report: Report, summaries: Mapping[str, Summary]) -> Iterator[str]:
    """The default metric of grounding where something is wrong, or else that of abstention.

    Abstention applies where a case has no answer.
    """
    for name in _OF_GROUNDING:
        summary = summaries.get(name)
        if summary is not None and summary.score is not None and summary.score < 1:
            yield name
            return
    answers = report.answers
    if answers is not None and answers.declined_rightly + answers.answered_without_evidence:
        yield _OF_ABSTENTION


def unmeasured_text(report: Report) -> str | None:
    """The metrics without a figure, each reason with its count; None without any."""
    unmeasured = [summary for summary in report.summaries if not summary.measured]
    groups: list[str] = []
    for names, reasons in why_not_measured(unmeasured):
        texts = [f"{reason} ({count:,})" if count else reason for reason, count in reasons]
        groups.append(f"{', '.join(names)}: {', '.join(texts)}")
    return "; ".join(groups) or None


def why_not_measured(
    summaries: Iterable[Summary],
) -> list[tuple[tuple[str, ...], tuple[tuple[str, int], ...]]]:
    """Metrics that lack a value for some case, those with the same reasons together."""
    names: dict[tuple[tuple[str, int], ...], list[str]] = {}
    for summary in summaries:
        if summary.measured < summary.total or not summary.total:
            reasons = summary.reasons or (("no case", 0),)
            names.setdefault(reasons, []).append(summary.metric.name)
    return [(tuple(metrics), reasons) for reasons, metrics in names.items()]


_MOST_STAGES = 3


class Fall(NamedTuple):
    """A step of the waterfall: the cases that one cause takes away."""

    cause: Cause
    cases: int
    left: int
    """Cases that are left after it."""
    share: float
    """Of all cases."""
    note: str
    """By which operator, how many are estimates, and what decided about the answers."""


def waterfall(causes: Sequence[CauseCount]) -> tuple[Fall, ...]:
    """The causes in order, with what each leaves of the cases."""
    total = sum(count.cases for count in causes)
    remaining = total
    falls: list[Fall] = []
    for count in causes:
        remaining -= count.cases
        falls.append(
            Fall(
                cause=count.cause,
                cases=count.cases,
                left=remaining,
                share=count.cases / total,
                note="; ".join(_cause_notes(count)),
            )
        )
    return tuple(falls)


def _cause_notes(count: CauseCount) -> Iterator[str]:
    """By which stages a cause came about, how far it is an estimate, and what decided."""
    if count.stages and count.cause in (Cause.DROPPED, Cause.FAILED):
        stages = [f"{shown_line(name, longest=60)} {cases:,}" for name, cases in count.stages]
        yield as_line(stages, _MOST_STAGES)
    if count.estimated:
        yield f"{count.estimated:,} estimated"
    if count.deciders:
        yield deciders_text(count)


def causes_section(causes: Sequence[CauseCount]) -> Section:
    rows: list[Sequence[object]] = []
    for fall in waterfall(causes):
        rows.append((fall.cause.label, f"{fall.cases:,}", f"{fall.share:.0%}", fall.note))
    columns = ("what became of the cases", "cases", "share", "by")
    return Section(title="Where the answers were lost", columns=columns, rows=rows)


def flow_text(flow: CauseFlow) -> str:
    return f"{flow.before.label} -> {flow.after.label}: {flow.cases:,}"


def judge_remarks(judging: JudgeReport) -> Iterator[str]:
    """What a reader must know of a run's judges: proofs, agreement, what it is wrong about."""
    for line in judging.lines:
        if line.verdicts:
            yield f"{line.metric}: {_verdicts_text(line.verdicts)}"
        yield from _proof_remarks(line)
        yield from _panel_remarks(line)
    for metric in dict.fromkeys(line.metric for line in judging.canaries):
        lines = [line for line in judging.canaries if line.metric == metric]
        yield _canaries_remark(metric, lines)


def _verdicts_text(verdicts: Mapping[str, int]) -> str:
    """How often a judge gave each verdict: ``12 right, 3 partly, 5 wrong``."""
    return ", ".join(f"{count:,} {verdict}" for verdict, count in verdicts.items())


def _proof_remarks(line: JudgeLine) -> Iterator[str]:
    """Quotes that are nowhere, verdicts that none proves, parameters that were not sent."""
    if line.fabricated_quotes:
        yield (
            f"{line.metric}: {line.fabricated_quotes:,} of {line.quotes:,} quotes of the judge "
            f"stand in no context ({line.fabricated_quotes / line.quotes:.1%})"
        )
    if line.unproved_sentences:
        yield (
            f"{line.metric}: of {line.sentences:,} sentences that the judge calls supported, "
            f"{line.unproved_sentences:,} are unproved and in no score: no quote says the same"
        )
    if line.not_sent:
        names = ", ".join(line.not_sent)
        yield f"{line.metric}: the endpoint refuses {names}; the judge was asked without"


def _panel_remarks(line: JudgeLine) -> Iterator[str]:
    """What each judge of a panel said, and how far two of them agree."""
    for juror in line.jurors:
        score = "-" if juror.score is None else f"{juror.score:.3f}"
        unproved = f", {juror.unproved:,} unproved" if juror.unproved else ""
        verdicts = f" ({_verdicts_text(juror.verdicts)})" if juror.verdicts else ""
        yield (
            f"{line.metric} by {juror.judge}: {score} over {counted(juror.measured, 'case')}"
            f"{unproved}{verdicts}"
        )
    for pair in line.pairs:
        if pair.same is not None:
            kappa = "" if pair.kappa is None else f", kappa {pair.kappa:.2f}"
            yield (
                f"{line.metric}: {pair.first} and {pair.second} say the same of {pair.same:.0%} of "
                f"{counted(pair.cases, 'case')}{kappa}"
            )


def _canaries_remark(metric: str, lines: Sequence[CanaryLine]) -> str:
    """How often a metric's judge is wrong about claims of known truth."""
    judged = sum(line.judged for line in lines)
    wrong = sum(line.wrong for line in lines)
    if not judged:
        return f"{metric}: no canary got a verdict"
    low, high = proportion_interval(wrong, judged)
    kinds = [f"{line.kind} {line.wrong:,} of {line.judged:,}" for line in lines]
    return (
        f"{metric}: the judge is wrong about {wrong:,} of {judged:,} canaries "
        f"({wrong / judged:.1%}, {low:.1%} .. {high:.1%}): {', '.join(kinds)}"
    )


_OPERATOR_COUNTS = {
    "chunks": "given",
    "dropped": "dropped",
    "moved": "moved",
    "rewrote": "rewritten",
    "added": "added",
    "gold": "gold_given",
    "lost": "gold_lost",
    "up": "gold_up",
    "down": "gold_down",
}
"""Columns of the table of operators, each with the field of `OperatorEffect` that it shows: chunks
that an operator was given, dropped, moved, rewrote, added; gold contexts that it was given, lost,
and moved up and down."""
OPERATOR_COLUMNS = ("operator", "acted", *_OPERATOR_COUNTS)
_MOST_NOTES = 3


def operator_rows(table: OperatorTable) -> Iterator[tuple[str, ...]]:
    """What each operator did, under `OPERATOR_COLUMNS`."""
    for operator in table.operators:
        row = [operator.operator, f"{operator.acted:,} of {operator.cases:,}"]
        for name in _OPERATOR_COUNTS.values():
            count: int = getattr(operator, name)
            row.append(f"{count:,}" if count else "-")
        yield tuple(row)


def operator_remarks(table: OperatorTable) -> Iterator[str]:
    """What a reader should know of the operators, a sentence each: the losses first."""
    for loser in table.losers:
        lost = counted(loser.lost_for_good, "gold context")
        examples = ", ".join(loser.examples[:3])
        yield f"{loser.operator} lost {lost} that generation was not given (as in {examples})."
    if table.gold:
        contexts = counted(table.found, "gold context")
        line = f"Of {contexts} that were found, generation was given {table.kept:,}."
        missing = table.gold - table.found
        if missing:
            line += f" {counted(missing, 'gold context')} never found."
        yield line
    for reason, cases in table.no_gold:
        yield f"Nothing is known of the gold of {counted(cases, 'case')}: {reason}."
    for operator in table.operators:
        notes = operator.notes[:_MOST_NOTES]
        all_cases = counted(operator.cases, "case")
        if operator.acted:
            for note, cases in notes:
                yield f"{operator.operator}: {note} ({cases:,} of {all_cases})."
        else:
            line = f"{operator.operator} did not act in any of {all_cases}."
            for note, cases in notes:
                line += f" It said: {note} ({counted(cases, 'case')})."
            yield line


VERDICT_COLUMNS = (
    "answer in the chunks",
    "the system",
    "cases",
    "rate",
    "95% interval",
    "that is",
)


def verdict_rows(table: ValidationTable) -> Iterator[tuple[str, ...]]:
    """What the system made of what a validator found, under `VERDICT_COLUMNS`."""
    for cell in table.matrix:
        yield (
            "yes" if cell.answer_present else "not shown",
            "answered" if cell.answered else "abstained",
            f"{cell.rate.count:,} of {cell.rate.total:,}",
            number_text(cell.rate.share),
            range_text(cell.rate),
            cell.meaning,
        )


def quality_text(table: ValidationTable) -> str:
    counts = ", ".join(f"{name} {count:,}" for name, count in table.quality.items())
    return f"Retrieval quality: {counts}."


def stage_counts(stage: StageCount) -> list[tuple[int, str]]:
    """How a stage ended, and where its outcomes are from; only what there is of it."""
    done = "answered" if stage.stage == "generate" else "done"
    counts = (
        (stage.measured, done),
        (stage.abstained, "abstained"),
        (stage.skipped, "skipped"),
        (stage.failed, "failed"),
        (stage.reused, "reused"),
        (stage.recorded, "recorded"),
    )
    return [(count, word) for count, word in counts if count]
