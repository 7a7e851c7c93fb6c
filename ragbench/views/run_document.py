"""A run's report as a document, and what terminal, Markdown and page say alike of it.

`run_document` makes report.md. The page draws the first sections itself, and takes the others from
`detail_sections`; the terminal takes single rows and sentences.
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
"""Letters of the id of a case that are shown."""
_LONGEST_NAME = 60
"""Letters of a question, or of a stage's name, that is an example."""
_LONGEST_SENTENCE = 200
"""Letters of an expectation that does not hold."""
_LONGEST_ERROR = 1000
"""Letters of an error's message."""
_MOST_FAILURES = 100
"""Kinds of errors that the page lists."""
_MOST_EXAMPLES = 3
"""Cases that are named as examples of something."""
_LONGEST_TABLE = 50
"""Rows of a table that are shown: a comment on a pull request holds 65,536 letters."""


def run_document(report: Report) -> Document:
    """The document of report.md: only figures that are the same in every run on the same inputs.

    Times and other figures that differ from run to run are left out, so that report.md can be
    under version control, and a difference in it is one of the system.
    """
    notes = list(report.notes)
    lines: list[str] = []
    if not report.is_comparable:
        # `is_comparable` is False only with its reason as the first note.
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
        # Metrics of times would change report.md in each run.
        if summary.metric.definition.deterministic:
            steady.append(summary)
    return Document(
        kind="ragbench evaluation",
        title=f"{report.manifest['rag']['name']} on {report.manifest['dataset']['name']}",
        headline=headline(report),
        sections=(
            Section(title="Cases", lines=lines),
            *_metrics_sections(steady),
            causes_section(report.causes),
            unfulfilled_section(unfulfilled(report, most=_LONGEST_TABLE)),
            *detail_sections(report),
        ),
        notes=notes,
    )


def _drawn_cases(dataset: Mapping[str, Any]) -> str:
    """A text on how many cases of a dataset were asked, and how they were chosen.

    Figures of a sample are not those of the whole dataset, which a reader must see.

    Args:
        dataset: as the manifest of the run has it.
    """
    cases = counted(dataset["cases"], "case")
    # Only one of ``sample`` and ``limit`` is set: their options exclude each other.
    if dataset["sample"] is not None:
        return f"{cases}, drawn at random (seed {dataset['seed']})"
    if dataset["limit"] is not None:
        return f"{cases}, the first {dataset['limit']}"
    return cases


def headline(report: Report) -> str:
    """The headline of a report: how the answers compare, and how most cases are lost.

    Whoever reads no further knows how good the system is, and which stage to begin with.
    """
    total = sum(count.cases for count in report.causes)
    if not total:
        return "No case."
    text = answers_text(report)
    losses = [count for count in report.causes if count.cause in LOSSES]
    if not losses:
        return text
    worst = max(losses, key=lambda count: count.cases)
    lost = sum(count.cases for count in losses)
    share = f"{worst.cases / total:.0%}"
    # Some cases of this cause were put there by an estimate, so the share is an estimate, too.
    if worst.estimated:
        share += ", estimated"
    cases = f"{worst.cases:,} ({share})"
    # One cause has all losses: "most" would be wrong.
    if lost == worst.cases:
        verb = "is" if lost == 1 else "are"
        return f"{text} {cases} {verb} lost as “{worst.cause.label}”."
    group = "the largest group"
    # More than half of the lost ones; less is only the largest group.
    if 2 * worst.cases > lost:
        group = "most"
    return f"{text} {lost:,} are lost, {group} as “{worst.cause.label}”: {cases}."


def reused_text(report: Report) -> str:
    """A sentence on outcomes that were taken from an earlier run, and which; empty where none were.

    A reader must see that a figure was not measured anew.
    """
    counts = [f"{stage.reused:,} of {stage.stage}" for stage in report.stages if stage.reused]
    if not counts:
        return ""
    start = ""
    if report.reused_from is not None:
        # An ISO time such as 2026-11-29T14:15:02 to the minute, with a space.
        start = report.reused_from.replace("T", " ")[:16]
    return f"Reused from the run of {start}: {', '.join(counts)}."


def detail_sections(report: Report) -> Iterator[Section]:
    """The sections of a report below the metrics and the causes, in report.md and on the page.

    They go from results to what the run rests on. Some may be empty: a document leaves those out.
    """
    # Sections are yielded in the order of the page.
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
        yield _validation_section(report.validation)
    if report.judging is not None:
        yield _judging_section(report.judging)
        yield _steadiness_section(report.judging)
    # Slices of a metric are there only where cases have tags or languages.
    if any(summary.slices for summary in report.summaries):
        yield _slices_section(report)
    yield _failures_section(report.failures)
    yield roles_section(_field_roles(report.manifest))
    yield _origin_section(report.manifest)


def _gold_section(gold: Mapping[GoldCause, int]) -> Section:
    """The table of how many cases had their gold (the content that answers them) retrieved or lost.

    Each way of losing it within the search needs another remedy.
    """
    total = sum(gold.values())
    rows: list[Sequence[object]] = []
    for cause, cases in gold.items():
        # Cases of every cause together: `gold` holds each case once.
        rows.append((_GOLD_CAUSES[cause], f"{cases:,}", number_text(cases / total)))
    return Section(
        title="Where the gold was",
        columns=("the gold is", "cases", "share"),
        rows=rows,
        hint="Of each case the gold context that came nearest to generation.",
    )


def _failures_section(failures: Sequence[FailureGroup]) -> Section:
    """The table of errors that stages and metrics raised, equal errors together, with examples.

    A thousand cases may fail by one error, whose message is worth a row.
    """
    rows: list[Sequence[object]] = []
    for group in failures[:_MOST_FAILURES]:
        error = f"{group.type}: {group.message}"
        # A reader knows a case by its question; a run that holds no texts has its ids alone.
        names = group.questions or group.examples
        examples = [shown_line(name, longest=_LONGEST_NAME) for name in names[:_MOST_EXAMPLES]]
        row = (group.stage, error[:_LONGEST_ERROR], f"{group.count:,}", "; ".join(examples))
        rows.append(row)
    columns = ("stage", "error", "cases", "for example")
    return Section(title="Failures", columns=columns, rows=rows, most=_LONGEST_TABLE)


def _metrics_sections(summaries: Sequence[Summary]) -> Iterator[Section]:
    """The two tables of metrics: those with figures, then why cases have no value.

    A metric without any value is in the second table alone: its row would hold nothing but dashes.
    """
    columns = metric_columns("markdown", summaries)
    rows: list[Sequence[object]] = []
    for summary in summaries:
        if not summary.measured:
            continue
        row: list[str] = []
        for column in columns:
            cell = metric_cell(column, summary)
            if column.is_of_total:
                cell += f" of {summary.total:,}"
            row.append(cell)
        rows.append(row)
    headings = [column.heading for column in columns]
    yield Section(title="Metrics", columns=headings, rows=rows)

    reason_rows: list[Sequence[object]] = []
    # Metrics with the same reasons share their rows.
    for names, reasons in why_not_measured(summaries):
        metrics = ", ".join(names)
        for reason, count in reasons:
            cases = "-"
            if count:
                cases = f"{count:,}"
            reason_rows.append((metrics, reason, cases))
            metrics = ""  # only the first row of the group names the metrics
    yield Section(title="Not measured", columns=("metric", "why", "cases"), rows=reason_rows)


def unfulfilled_section(unfulfilled: Unfulfilled | None) -> Section:
    """The table of expectations that do not hold, by case; empty where no case has any.

    An expectation is what a case's author demands of the answer, such as a word that it must hold.

    The gate's document has the same section.
    """
    title = "Expectations that do not hold"
    # Without an expectation in the dataset both forms are empty.
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


_GOLD_CAUSES: Mapping[GoldCause, str] = {
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
"""What became of the gold in the search, as it ends the sentence "the gold is ..."."""


def _validation_section(table: ValidationTable) -> Section:
    """The section on a validator's verdicts.

    It shows how often the answer is in the chunks, and how often it was given.
    """
    share = number_text(table.answer_present.share)
    cases = counted(table.verdicts, "case")
    lines = [
        f"By {table.validator}: the answer is shown to be in the chunks of "
        f"{table.answer_present.count:,} ({share}) of {cases}. {quality_text(table)}"
    ]
    for line in words_lines(table.words, of_run=True):
        # Made for the terminal; here each is a sentence.
        lines.append(f"{line[0].upper()}{line[1:]}.")
    # The validator judged these cases, and generation gave nothing to set beside its verdict.
    if table.unmatched:
        cases = counted(table.unmatched, "case")
        lines.append(f"Neither an answer nor an abstention, but a verdict: {cases}.")
    rows = list(verdict_rows(table))
    return Section(title="Validation", lines=lines, columns=VERDICT_COLUMNS, rows=rows)


def _judging_section(judging: JudgeReport) -> Section:
    """The section on which models judged, with answers, tokens and money for each metric.

    Scores of other models or prompts cannot be compared, so a report names its judge.
    """
    judge = judging.judge
    lines: list[str] = []
    models = {"judge": judge["chat"], "embeddings": judge["embeddings"]}
    # Either may be missing: not each metric needs both.
    for role, model in models.items():
        if model:
            lines.append(f"{role}: {model['model']} at {model['base_url']}")
    price_origin = judging.price_origin or "unknown"
    lines.append(f"price: {price_origin}")
    lines.append(f"fingerprint {judge['fingerprint']}")
    lines.extend(judge_remarks(judging))

    rows: list[Sequence[object]] = []
    for line in judging.lines:
        cost = "unknown"
        # An endpoint without a known price costs an unknown sum, and not 0.
        if line.cost is not None:
            cost = f"{line.cost:.4f}"
        rows.append(
            (
                line.metric,
                f"{line.answers:,}",
                f"{line.prompt_tokens:,}",
                f"{line.completion_tokens:,}",
                cost,
            )
        )
    cost_heading = "cost"
    if judging.currency:
        cost_heading += f" ({judging.currency})"
    columns = ("metric", "answers", "tokens in", "tokens out", cost_heading)
    return Section(title="Judging", lines=lines, columns=columns, rows=rows)


def _steadiness_section(judging: JudgeReport) -> Section:
    """The table of how far repeated judgements of the same case agree.

    It is empty where none was repeated. A difference between two systems that is smaller than the
    error of the mean is the judge's own.
    """
    rows: list[Sequence[object]] = []
    for line in judging.lines:
        steadiness = line.steadiness
        # Judged once: nothing to compare.
        if steadiness is None:
            continue
        rows.append(
            (
                line.metric,
                f"{steadiness.cases:,}",
                f"{steadiness.deviation:.3f}",
                f"{steadiness.changed:,}",
                f"{steadiness.error:.4f}",
            )
        )
    columns = (
        "metric",
        "cases",
        "deviation within a case",
        "cases that changed",
        "error of the mean",
    )
    repeats = counted(judging.judge["repeats"], "time")
    return Section(title=f"Judgements repeated {repeats}", columns=columns, rows=rows)


def _slices_section(report: Report) -> Section:
    """The table of scores by tag and language, which shows where a system is weak.

    A slice is the cases of one tag or language. The mean over all hides such a weakness.
    """
    summaries: list[Summary] = []
    for summary in report.summaries:
        is_measured = any(part.measured for part in summary.slices)
        if summary.metric.definition.deterministic and is_measured:
            summaries.append(summary)
    # Columns for as many as the page's width has room for.
    summaries = summaries[:_MOST_SLICED]
    rows: list[Sequence[object]] = []
    # Every summary has the same slices in the same order.
    slices_by_metric = [summary.slices for summary in summaries]
    for slices in zip(*slices_by_metric, strict=True):
        name = f"{slices[0].by}: {slices[0].value}"
        scores = [_slice_text(slice_of_metric) for slice_of_metric in slices]
        rows.append((name, f"{slices[0].total:,}", *scores))
    metric_names = [summary.metric.name for summary in summaries]
    return Section(
        title="Slices",
        columns=("slice", "cases", *metric_names),
        rows=rows,
        most=_LONGEST_TABLE,
        folded=f"{len(rows):,} slices by tag and language",
        hint="In brackets the 95% interval of that slice alone: among many slices some stand out "
        "by chance. report.json holds all of them, and how many cases were measured.",
    )


def _slice_text(part: Slice) -> str:
    """The cell of a metric's score on a slice (cases of one tag or language), with its interval.

    A slice of few cases has a wide one: the score alone would mislead.
    """
    text = number_text(part.score)
    if part.interval is not None:
        text += f" ({part.interval.low:.2f} .. {part.interval.high:.2f})"
    return text


def _field_roles(manifest: Mapping[str, Any]) -> list[FieldRole]:
    """The fields or columns that each part of a case was read from; none of an older run.

    A column read as the wrong field makes all figures wrong; reports show the roles for that.
    """
    return [msgspec.convert(role, FieldRole) for role in manifest.get("roles", ())]


def _origin_section(manifest: Mapping[str, Any]) -> Section:
    """The section on what a run rests on: dataset, fingerprints, commit, versions of packages.

    Two runs with other scores are explained by it, or repeated with it.
    """
    dataset = manifest["dataset"]
    git = manifest["git"]
    # A dataset of objects in memory has no file.
    source = dataset["source"] or dataset["name"]
    lines = [f"dataset: {source}"]
    for part, fingerprint in manifest["fingerprints"].items():
        lines.append(f"fingerprint of {part}: {fingerprint}")
    # None outside a repository.
    if git is not None:
        commit = f"commit: {git['commit']}"
        if git["dirty"]:
            commit += " with uncommitted changes"
        lines.append(commit)
    versions = [f"{name} {version}" for name, version in manifest["packages"].items()]
    lines.append(f"packages: {', '.join(versions)}")
    return Section(title="Origin", lines=lines, folded="Dataset, fingerprints, versions")


_OF_RETRIEVAL = ("recall@5", "nDCG@10")
"""Default metrics of retrieval that a short screen shows."""
_OF_GROUNDING = ("numbers_supported", "citation_validity", "citation_attribution")
"""Default metrics that a short screen shows only where something is wrong."""
_OF_ABSTENTION = "abstention_accuracy"
"""The one that it shows where no grounding is wrong."""


def has_default_metrics(report: Report) -> bool:
    """Whether the run measures the default metrics, alone or with others.

    Else the user has named the metrics, and each of them is shown.
    """
    names = {metric.name for metric in report.metrics}
    return names.issuperset(DEFAULT)


def headline_metrics(report: Report) -> list[Summary]:
    """The metrics that a short screen shows.

    They are at most four of the default ones, and those that the user names beside. The four are
    whether answers are right, two of retrieval, and one of grounding or abstention.
    """
    summaries = {summary.metric.name: summary for summary in report.summaries if summary.measured}
    # Metrics that the user chose are all shown.
    if not has_default_metrics(report):
        return list(summaries.values())
    shown_names: list[str] = []
    # Only the first of these that was measured, and a judge's goes before that by words.
    for name in (*JUDGED_RIGHT, WORDS_RIGHT):
        if name in summaries:
            shown_names.append(name)
            break
    shown_names.extend(_OF_RETRIEVAL)
    shown_names.extend(_of_grounding_or_abstention(report, summaries))
    named_beside = [name for name in summaries if name not in DEFAULT]
    # Each once, in this order: the user's own come last.
    shown_names = list(dict.fromkeys([*shown_names, *named_beside]))
    return [summaries[name] for name in shown_names if name in summaries]


def _of_grounding_or_abstention(report: Report, summaries: Mapping[str, Summary]) -> Iterator[str]:
    """The name of the default metric of grounding or abstention that a short screen shows.

    It is one of grounding where something is wrong with it, and else that of abstention, which
    applies where a case has no answer. A short screen has no room for metrics at their best.
    """
    for name in _OF_GROUNDING:
        summary = summaries.get(name)
        # The first metric below 1: one at 1 is as good as can be, and takes no room.
        if summary is not None and summary.score is not None and summary.score < 1:
            yield name
            return
    answers = report.answers
    if answers is not None and answers.declined_rightly + answers.answered_without_evidence:
        yield _OF_ABSTENTION


def unmeasured_text(report: Report) -> str | None:
    """A text that names the metrics without a figure, each reason with its count.

    It is None where all metrics have one. Without it a reader would believe that they were not
    asked for.
    """
    unmeasured = [summary for summary in report.summaries if not summary.measured]
    groups: list[str] = []
    for names, reasons in why_not_measured(unmeasured):
        texts: list[str] = []
        # Reasons of one group of metrics, which is named once.
        for reason, count in reasons:
            # "no case" is a reason without a number.
            if count:
                texts.append(f"{reason} ({count:,})")
            else:
                texts.append(reason)
        groups.append(f"{', '.join(names)}: {', '.join(texts)}")
    if not groups:
        return None
    return "; ".join(groups)


def why_not_measured(
    summaries: Iterable[Summary],
) -> list[tuple[tuple[str, ...], tuple[tuple[str, int], ...]]]:
    """The metrics that lack a value for some case, those with the same reasons together.

    Without a reference a dozen metrics have no value: the reason is said once for all of them.

    Returns:
        The names of metrics, and each reason with the number of its cases.
    """
    names_by_reasons: dict[tuple[tuple[str, int], ...], list[str]] = {}
    for summary in summaries:
        # A run without cases has every metric unmeasured, for one reason.
        if summary.measured < summary.total or not summary.total:
            reasons = summary.reasons or (("no case", 0),)
            names_by_reasons.setdefault(reasons, []).append(summary.metric.name)
    return [(tuple(names), reasons) for reasons, names in names_by_reasons.items()]


_MOST_STAGES = 3
"""Stages or operators that are named for a cause."""


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
    """The steps from all cases to those that are left: the cases that each cause takes away.

    Terminal, Markdown and page show it as their table or drawing of where cases were lost.
    """
    total = sum(count.cases for count in causes)
    remaining = total
    falls: list[Fall] = []
    for count in causes:
        remaining -= count.cases
        note = "; ".join(_cause_notes(count))
        share = count.cases / total
        fall = Fall(cause=count.cause, cases=count.cases, left=remaining, share=share, note=note)
        falls.append(fall)
    return tuple(falls)


def _cause_notes(count: CauseCount) -> Iterator[str]:
    """The notes beside a cause of losses.

    They say by which stages it came about, how far it is an estimate, and who decided.
    """
    # Only for causes that leave the stage open: the names of the others say it.
    if count.stages and count.cause in (Cause.DROPPED, Cause.FAILED):
        stages: list[str] = []
        for name, cases in count.stages:
            stages.append(f"{shown_line(name, longest=_LONGEST_NAME)} {cases:,}")
        yield as_line(stages, _MOST_STAGES)
    if count.estimated:
        yield f"{count.estimated:,} estimated"
    if count.deciders:
        yield deciders_text(count)


def causes_section(causes: Sequence[CauseCount]) -> Section:
    """The table of what became of the cases, by cause in the order of the stages.

    It shows which stage of the system to mend first.
    """
    rows: list[Sequence[object]] = []
    for fall in waterfall(causes):
        rows.append((fall.cause.label, f"{fall.cases:,}", f"{fall.share:.0%}", fall.note))
    columns = ("what became of the cases", "cases", "share", "by")
    return Section(title="Where the answers were lost", columns=columns, rows=rows)


def flow_text(flow: CauseFlow) -> str:
    """A text on how many cases went from one cause to another between two runs.

    A change of the system may cure one loss and cause another.
    """
    return f"{flow.before.label} -> {flow.after.label}: {flow.cases:,}"


def judge_remarks(judging: JudgeReport) -> Iterator[str]:
    """The sentences that a reader must know of a run's judges before he relies on their scores.

    Their verdicts, quotes that they made up, how far several judges agree, and how often they are
    wrong about claims of known truth.
    """
    # By metric, its sentences together; canaries of all metrics come last.
    for line in judging.lines:
        if line.verdicts:
            yield f"{line.metric}: {_verdicts_text(line.verdicts)}"
        yield from _proof_remarks(line)
        yield from _panel_remarks(line)
    canaries_by_metric: dict[str, list[CanaryLine]] = {}
    # A metric has a line for each kind of claim.
    for canary_line in judging.canaries:
        canaries_by_metric.setdefault(canary_line.metric, []).append(canary_line)
    for metric, canary_lines in canaries_by_metric.items():
        yield _canaries_remark(metric, canary_lines)


def _verdicts_text(verdicts: Mapping[str, int]) -> str:
    """A text on how often a judge gave each verdict: ``12 right, 3 partly, 5 wrong``.

    A score is their mean, and does not show that a judge never says "wrong".
    """
    return ", ".join(f"{count:,} {verdict}" for verdict, count in verdicts.items())


def _proof_remarks(line: JudgeLine) -> Iterator[str]:
    """The sentences on weak proofs of a judge.

    They name invented quotes, unproved verdicts, and parameters that its endpoint refused.
    """
    if line.fabricated_quotes:
        # Made-up quotes are a part of all quotes, so there is one at least.
        share = line.fabricated_quotes / line.quotes
        yield (
            f"{line.metric}: {line.fabricated_quotes:,} of {line.quotes:,} quotes of the judge "
            f"stand in no context ({share:.1%})"
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
    """The sentences on a panel of judges: the score by each, and how far two of them agree.

    The run's score is the mean of the panel, which hides a judge that differs. A single judge has
    none.
    """
    for juror in line.jurors:
        score = "-"
        if juror.score is not None:
            score = f"{juror.score:.3f}"
        remark = f"{line.metric} by {juror.judge}: {score} over {counted(juror.measured, 'case')}"
        if juror.unproved:
            remark += f", {juror.unproved:,} unproved"
        if juror.verdicts:
            remark += f" ({_verdicts_text(juror.verdicts)})"
        yield remark
    for pair in line.pairs:
        # Without a case that both judged there is no agreement to name.
        if pair.same is None:  # the two judges share no case
            continue
        cases = counted(pair.cases, "case")
        remark = (
            f"{line.metric}: {pair.first} and {pair.second} say the same of {pair.same:.0%} of "
            f"{cases}"
        )
        if pair.kappa is not None:
            remark += f", kappa {pair.kappa:.2f}"
        yield remark


def _canaries_remark(metric: str, lines: Sequence[CanaryLine]) -> str:
    """A sentence on how often a metric's judge is wrong about canaries.

    Canaries are claims whose truth is known. They are asked by ``--judge-controls``, to see how far
    the judge can be trusted.

    Args:
        lines: the counts of each kind of claims.
    """
    # Claims that the judge gave no verdict on are in no figure.
    judged = sum(line.judged for line in lines)
    wrong = sum(line.wrong for line in lines)
    if not judged:
        return f"{metric}: no canary got a verdict"
    share = wrong / judged
    low, high = proportion_interval(wrong, judged)
    kinds = [f"{line.kind} {line.wrong:,} of {line.judged:,}" for line in lines]
    return (
        f"{metric}: the judge is wrong about {wrong:,} of {judged:,} canaries "
        f"({share:.1%}, {low:.1%} .. {high:.1%}): {', '.join(kinds)}"
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
"""The columns of `operator_rows`, in terminal, Markdown and page."""
_MOST_NOTES = 3
"""Notes of an operator that are shown."""


def operator_rows(table: OperatorTable) -> Iterator[tuple[str, ...]]:
    """The rows of post-retrieval's operators under `OPERATOR_COLUMNS`.

    They show how often each acted, and on what.
    """
    for operator in table.operators:
        # How often the operator acted, of the cases that it was given.
        row = [operator.operator, f"{operator.acted:,} of {operator.cases:,}"]
        for field in _OPERATOR_COUNTS.values():
            count: int = getattr(operator, field)
            if count:
                row.append(f"{count:,}")
            else:
                row.append("-")
        yield tuple(row)


def operator_remarks(table: OperatorTable) -> Iterator[str]:
    """The sentences to know of post-retrieval's operators, the losses of gold first.

    Gold is the content that answers a question. The losses come first, one sentence per loser in
    the order of the table: an ablation's page takes only so many of them.
    """
    for loser in table.losers:
        lost = counted(loser.lost_for_good, "gold context")
        examples = ", ".join(loser.examples[:_MOST_EXAMPLES])
        yield f"{loser.operator} lost {lost} that generation was not given (as in {examples})."
    # Without gold nothing is known of what was kept.
    if table.gold:
        contexts = counted(table.found, "gold context")
        line = f"Of {contexts} that were found, generation was given {table.kept:,}."
        missing = table.gold - table.found
        if missing:
            line += f" {counted(missing, 'gold context')} never found."
        yield line
    # Cases without gold, by why they have none.
    for reason, cases in table.no_gold:
        yield f"Nothing is known of the gold of {counted(cases, 'case')}: {reason}."
    for operator in table.operators:
        notes = operator.notes[:_MOST_NOTES]
        all_cases = counted(operator.cases, "case")
        # Notes of an operator that acted are sentences of their own; else they say why it did not.
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
    """The rows that set a validator's verdicts beside the system's answers, for four combinations.

    They are under `VERDICT_COLUMNS`. An answer that was given though it is not in the chunks may be
    made up.
    """
    for cell in table.matrix:
        presence = "not shown"  # a validator never shows that an answer is nowhere
        if cell.answer_present:
            presence = "yes"
        reaction = "abstained"
        if cell.answered:
            reaction = "answered"
        yield (
            presence,
            reaction,
            f"{cell.rate.count:,} of {cell.rate.total:,}",
            number_text(cell.rate.share),
            range_text(cell.rate),
            cell.meaning,
        )


def quality_text(table: ValidationTable) -> str:
    """A sentence with the numbers of cases that have a good, a partial and a poor retrieval.

    The rating is the validator's.
    """
    counts = [f"{name} {count:,}" for name, count in table.quality.items()]
    return f"Retrieval quality: {', '.join(counts)}."


def stage_counts(stage: StageCount) -> list[tuple[int, str]]:
    """The counts of how cases ended in a stage and where its outcomes are from, with their words.

    Counts of 0 are left out.
    """
    done = "done"
    if stage.stage == "generate":
        done = "answered"
    # The first four are how cases ended, the last two where outcomes are from.
    counts = (
        (stage.measured, done),
        (stage.abstained, "abstained"),
        (stage.skipped, "skipped"),
        (stage.failed, "failed"),
        (stage.reused, "reused"),
        (stage.recorded, "recorded"),
    )
    return [(count, word) for count, word in counts if count]
