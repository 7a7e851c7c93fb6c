"""What a check and a result say: the one place that words them.

A check holds its numbers and its `Ground`; every sentence is made of these, here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ragbench.core.gate_result import (
    CaseChange,
    CheckKind,
    Drop,
    GateCheck,
    GateOutcome,
    Ground,
    Refusal,
)
from ragbench.core.history import MainTrend
from ragbench.core.movement import movement
from ragbench.core.record import replace
from ragbench.safe_text import as_line, counted

_MAX_GROUNDS = 2
"""How many reasons a headline has room for."""
_MAX_NAMES = 3
"""How many lost cases are named."""
UNDECIDED_NOTE = "Inconclusive checks pass; --strict blocks them."


def worded(check: GateCheck, *, least: int = 1) -> GateCheck:
    """The check with its summary and its reason.

    Args:
        least: measured cases that were demanded.
    """
    summary = _summary_text(check, least)
    reason = summary + _evidence_text(check) + _source_of_figure(check) + _label_plan_text(check)
    return replace(check, summary=summary, reason=reason)


# --- numbers


def figure(value: float, unit: str = "") -> str:
    """A figure, to three places or three digits."""
    if unit == "share":
        return f"{value:.1%}"
    size = abs(value)
    if 0 < size < 0.0005:  # with three places it would be zero
        text = f"{value:.2g}"
    elif size >= 1000:
        text = f"{value:,.0f}"
    elif size < 10 and not unit:
        text = f"{value:.3f}"
    else:
        text = f"{value:,.3g}"
    return f"{text} {unit}" if unit else text


_MOST_PLACES = 6
"""Decimal places of figures that are next to equal: with fewer, a change would read as none."""


def _moved_text(before: float, now: float, unit: str) -> str:
    """From which figure to which one a metric went; the three numbers add up as printed.

    Empty where the two are the same to the last place.
    """
    ending = f" {unit}" if unit else ""
    if unit == "share":
        ending = "%"
        before *= 100.0
        now *= 100.0
    places = _places(max(abs(before), abs(now)), unit)
    moved = movement(before, now, places, most_places=_MOST_PLACES)
    if not moved.change:
        return ""
    direction = "up" if moved.change > 0 else "down"
    change = f"{abs(moved.change):,.{moved.places}f}{ending}"
    old = f"{moved.before:,.{moved.places}f}{ending}"
    new = f"{moved.now:,.{moved.places}f}{ending}"
    return f"{direction} {change} from {old} to {new}"


def _places(size: float, unit: str) -> int:
    """How many decimal places a figure of a size is printed with, as `figure` does."""
    if unit == "share":
        return 1
    if size < 10 and not unit:
        return 3
    if not size:
        return 0
    return max(0, 2 - math.floor(math.log10(size)))


def cases(count: int) -> str:
    """A number of cases, as ``1 case`` or ``1,200 cases``."""
    return counted(count, "case")


def independent(drop: Drop) -> str:
    """The observations, where cases that share a cluster are one."""
    if drop.clusters == drop.cases:
        return counted(drop.clusters, "independent case")
    return f"{cases(drop.cases)} in {counted(drop.clusters, 'cluster')}"


def _interval_text(drop: Drop, unit: str) -> str:
    """The interval of a difference, in brackets; empty where nothing moved."""
    if drop.difference == 0 or drop.low is None or drop.high is None:
        return ""
    # A unit is written once, behind the upper end; the percent sign belongs to each number.
    low = figure(drop.low, unit) if unit == "share" else figure(drop.low)
    return f" ({drop.confidence:.0%} interval {low} to {figure(drop.high, unit)})"


def _p_value_text(value: float, resolution: float = 0.0) -> str:
    """A p-value, never finer than its test can give.

    Args:
        resolution: the smallest that the test can give on so few cases.
    """
    if value <= resolution:
        return f"p <= {resolution:.1g}"
    if value >= 1e-6:
        return f"p = {value:.2g}"
    return "p < 1e-06"


# --- the headline of a result


def headline(
    outcome: GateOutcome,
    checks: Sequence[GateCheck],
    refusals: Sequence[Refusal],
    settle_command: str | None,
) -> str:
    """The decision with its main ground.

    Args:
        settle_command: asks both systems again about what is open; None where they cannot be asked.
    """
    if outcome is GateOutcome.PASSED:
        return _passed_headline(checks, settle_command)
    if outcome is GateOutcome.INCONCLUSIVE and refusals:
        differing = [refusal.what for refusal in refusals]
        if "baseline" in differing:
            return "there is no baseline"
        return f"this run and the baseline do not compare ({', '.join(differing)})"

    grounds = [check for check in checks if check.outcome is outcome]
    if outcome is GateOutcome.INCONCLUSIVE or not grounds:
        # A gate also fails on open checks alone, where the configuration says so.
        grounds = [
            check
            for check in checks
            if check.outcome is GateOutcome.INCONCLUSIVE and not check.is_small_slice
        ]
    grounds.sort(key=_is_about_cases, reverse=True)
    sentences: list[str] = []
    for check in grounds[:_MAX_GROUNDS]:
        text = check.summary
        if check.ground is Ground.ALL_OF_FEW_LOST:
            text = check.reason  # it alone says that next to nothing is left
        sentences.append(f"{check.label} {text}")
    return "; ".join(sentences) + _further_count(grounds) + _settle_with(settle_command, grounds)


def _is_about_cases(check: GateCheck) -> bool:
    """Whether it is about cases that failed or are gone: that explains what is lost elsewhere."""
    return check.kind in (CheckKind.COVERAGE, CheckKind.MUST_PASS) and check.drop is None


def _further_count(checks: Sequence[GateCheck]) -> str:
    """How many checks a headline has no room for."""
    count = len(checks) - _MAX_GROUNDS
    if count <= 0:
        return ""
    return f"; and {count:,} more"


def _settle_with(command: str | None, checks: Sequence[GateCheck]) -> str:
    """The command that settles what is open; empty where none of the checks can be settled."""
    if command is None or not any(check.can_settle for check in checks):
        return ""
    return f". Settle it: {command}"


def labels_way(checks: Sequence[GateCheck]) -> str:
    """The command that asks people for the labels that are lacking; empty where none are."""
    for check in checks:
        if check.is_open_drop and check.plan is not None:
            return f". Ask people: {check.plan.command}"
    return ""


def _passed_headline(checks: Sequence[GateCheck], settle_command: str | None) -> str:
    """The headline of a gate that passed.

    What was lost and may be chance comes first; then how many checks passed, and what is open.
    """
    warnings = [check for check in checks if check.is_warning]
    if warnings:
        text = f"not shown, and not ruled out: {_open_drops_text(warnings)}"
        return text + _settle_with(settle_command, warnings)
    passed = sum(check.outcome is GateOutcome.PASSED for check in checks)
    text = f"{counted(passed, 'check')} passed"
    open_drops = [check for check in checks if check.is_open_drop]
    if open_drops:
        return f"{text}, {len(open_drops):,} inconclusive: {_open_drops_text(open_drops)}"
    return text + _detectable_losses(checks)


def _open_drops_text(checks: Sequence[GateCheck]) -> str:
    """The first of some undecided checks, and how many more there are."""
    texts = [_open_drop_text(check) for check in checks[:_MAX_GROUNDS]]
    return "; ".join(texts) + _further_count(checks)


def _open_drop_text(check: GateCheck) -> str:
    """How an undecided check moved, and what its cases could have shown."""
    if check.is_near_limit:
        return f"{check.label} {check.reason}"
    movement = f"{check.label} {check.summary}"
    drop = check.drop
    if drop is None:
        return f"{movement} (what its cases could show is unknown)"
    if check.is_warning:
        movement += _interval_text(drop, check.unit)
        text = f"{movement}, more than the tolerated {figure(drop.tolerance, check.unit)}"
        if drop.can_show:
            return text
        return f"{text}, which {independent(drop)} can never show"
    if drop.detectable_drop is not None:
        smallest_drop = figure(drop.detectable_drop, check.unit)
        return f"{movement} (its {cases(check.cases)} would show a drop of {smallest_drop})"
    if drop.can_show:
        return f"{movement} (what its cases could show is unknown)"
    return f"{movement} ({independent(drop)} can never show a drop)"


def _detectable_losses(checks: Sequence[GateCheck]) -> str:
    """Which losses the cases would have shown, where no check is open."""
    losses: list[str] = []
    for check in checks:
        drop = check.drop
        if check.kind is CheckKind.DROP and drop is not None and drop.detectable_drop is not None:
            losses.append(f"{figure(drop.detectable_drop, check.unit)} of {check.subject}")
    if not losses:
        return ""
    return f"; these cases would show a loss of {as_line(losses, _MAX_NAMES)}"


# --- the summary of a check: what was seen


def _summary_text(check: GateCheck, least: int) -> str:
    """What was seen, without what it shows: such as ``down .02 from .81 to .79``."""
    ground = check.ground
    observed = check.observed
    if ground is Ground.NOT_STORED:
        return f"the run stores no {check.missing or 'times'}"
    if ground is Ground.TOO_FEW_CASES:
        in_runs = "" if check.drop is None else " in both runs"
        return f"only {cases(check.cases)} measured{in_runs}, fewer than min_cases ({least:,})"
    if ground is Ground.NOTHING_MEASURED or observed is None:
        in_runs = " in both runs" if check.bound == "max_drop" else ""
        return f"no case was measured{in_runs}"
    if check.drop is not None:
        return _movement(check, check.drop)
    if check.kind is CheckKind.MUST_PASS:
        return _lost_cases_text(check)
    if check.trend is not None:
        return _trend_text(check.trend)
    if check.kind is CheckKind.COVERAGE:
        return _coverage_text(check, observed)
    side = _side_of_limit(check, below="below", above="above")
    text = f"{figure(observed, check.unit)} is {side} {figure(check.limit, check.unit)}"
    if ground is Ground.HARDLY_MEASURED:
        text += f", but on {check.cases:,} of the {cases(check.applies)} that it applies to"
    return text


def _side_of_limit(check: GateCheck, *, below: str, above: str) -> str:
    """On which side of its limit a figure lies; ``below`` and ``above`` word the wrong ones."""
    if check.bound == "min":
        return "at least" if check.holds else below
    return "at most" if check.holds else above


def _coverage_text(check: GateCheck, share: float) -> str:
    """How many cases were measured, or may go unmeasured, beside the limit for that share."""
    count = f"{round(share * check.cases):,} of {check.cases:,} {check.counted}"
    side = _side_of_limit(check, below="less than", above="more than")
    return f"{count} ({share:.1%}), {side} {check.limit:.1%}"


def _movement(check: GateCheck, drop: Drop) -> str:
    """From which figure to which a metric, or how much of it was measured, went."""
    unit = check.unit
    if check.ground is Ground.HALVED and check.kind is CheckKind.COVERAGE:
        counts = f"{round(drop.after * drop.cases):,} of {cases(round(drop.before * drop.cases))}"
        return f"measured on {counts} that the baseline measured"
    return _moved_text(drop.before, drop.after, unit) or f"{figure(drop.after, unit)} as before"


def _trend_text(trend: MainTrend) -> str:
    """From which level to which main went."""
    runs = counted(trend.runs, "run")
    text = f"main went from {figure(trend.start)} to {figure(trend.end)} over {runs}"
    if trend.since is None:
        return text
    return f"{text} since {trend.since[:10]}"  # the day, of a date with its time


def _lost_cases_text(check: GateCheck) -> str:
    """How many of the cases that must pass were lost, and which."""
    text = f"{len(check.lost):,} of {cases(check.cases)} lost"
    if check.lost:
        text += f": {as_line([_lost_case(change) for change in check.lost], _MAX_NAMES)}"
    if check.ground is Ground.LOST_ONCE:
        text += ", which chance may explain: asked three times, most of them decide"
    if check.failed_before:
        text += f"; {check.failed_before:,} fail as before"
    return text


def _lost_case(change: CaseChange) -> str:
    """A case that must pass, with how it ended now, and before where that is known."""
    if not change.metric:
        return f"{change.id} (not in this run)"
    now = change.status if change.after is None else figure(change.after)
    if change.before is None:
        return f"{change.id} ({change.metric} {now})"
    return f"{change.id} ({change.metric} {figure(change.before)}, now {now})"


# --- the rest of a check's reason: what that shows, who says so, what would settle it


def _evidence_text(check: GateCheck) -> str:
    """What the numbers of the summary show, and how surely."""
    drop = check.drop
    ground = check.ground
    if ground in (Ground.TOO_FEW_CASES, Ground.NOTHING_MEASURED, Ground.NOT_STORED):
        return ""
    if ground is Ground.HARDLY_MEASURED:
        return ": more than half were declined or failed"
    if check.trend is not None:
        return _drift_text(check, check.trend)
    if drop is None:
        return _near_limit_text(check)
    text = _interval_text(drop, check.unit) + _pairing_text(drop) + _drop_ground_text(check, drop)
    again = again_text(check)
    if again:
        text += f" ({again})"
    if check.outcome is GateOutcome.INCONCLUSIVE and drop.needed is not None:
        text += f". {cases(drop.needed)} would settle it in 4 of 5 runs if nothing has changed"
    return text


def _pairing_text(drop: Drop) -> str:
    """On how many cases the two means are, where one of the runs measured others as well."""
    others: list[str] = []
    if drop.cases_only_before:
        others.append(f"{drop.cases_only_before:,} only before")
    if drop.cases_only_now:
        others.append(f"{drop.cases_only_now:,} only now")
    if not others:
        return ""
    return f", on {cases(drop.cases)} in both ({', '.join(others)})"


def _near_limit_text(check: GateCheck) -> str:
    """That a figure lies too near to its limit to say on which side it belongs."""
    interval = check.interval
    if interval is None or not interval.low < check.limit < interval.high:
        return ""
    low = figure(interval.low, check.unit)
    high = figure(interval.high, check.unit)
    return f", but its interval ({low} to {high}) lies on both sides"


def _drop_ground_text(check: GateCheck, drop: Drop) -> str:
    """Why a drop has its outcome, one sentence for each ground that a drop may have."""
    loss = f"a loss of more than the tolerated {figure(drop.tolerance, check.unit)}"
    half = "less than half is left, which needs no test"
    if check.kind is CheckKind.COVERAGE:
        half = "fewer than half"
    texts = {
        Ground.SHOWN: f": {loss} is shown ({_p_value_text(drop.p_worse, drop.resolution)})",
        Ground.RULED_OUT: f": {loss} is ruled out ({_p_value_text(drop.p_not_worse)})",
        Ground.SETTLED_WORSE: f", and {loss} is shown",
        Ground.SETTLED_NOT_WORSE: f", and {loss} is ruled out",
        Ground.UNCHANGED: f": none of {cases(drop.cases)} changed",
        Ground.NOT_LOWER: ": no loss is seen",
        Ground.NOT_HELD: ": nothing is demanded of it",
        Ground.NONE_LOST: f": none of {cases(drop.cases)} lost",
        Ground.HALVED: f": {half}",
        Ground.ALL_LOST: ": next to nothing is left, which needs no test",
        Ground.ALL_OF_FEW_LOST: (
            f": next to nothing is left, and {independent(drop)} are too few to tell it from chance"
        ),
        Ground.EXACTLY_TOLERATED: (
            ": every case lost exactly what is tolerated, which no number of cases can tell from "
            "more or from less"
        ),
        Ground.TOO_FEW_CLUSTERS: f": {independent(drop)} can never show a drop, more are needed",
        Ground.RARE_GAINS: (
            f": {loss} is unlikely to be chance, but {independent(drop)} are too few to rule out "
            "rare large gains that make up for it"
        ),
        Ground.RARE_LOSSES: (
            f": {loss} is unlikely, but {independent(drop)} are too few to rule out a rare large "
            "one"
        ),
        Ground.OUTWEIGHED: (
            f": {loss} is neither shown nor ruled out; another metric is shown to be better, and "
            "no less is right with refusals counted as not right"
        ),
        Ground.OPEN: f": {loss} is neither shown nor ruled out",
    }
    return texts[check.ground]


def _drift_text(check: GateCheck, trend: MainTrend) -> str:
    """Whether main's runs, taken together, show a loss, and what to do about it."""
    loss = f"a loss of more than the tolerated {figure(check.limit)}"
    certainty = f"({_p_value_text(trend.p_value)}, however often one looks)"
    if check.ground is not Ground.SHOWN:
        return f": {loss} is not shown {certainty}"
    shown = f": {loss} is shown {certainty}"
    if trend.is_back:
        return f"{shown}, and this run is back at {figure(check.observed or 0.0)}"
    return f"{shown}. Accept the lower level with: ragbench baseline add RUN --accept"


def again_text(check: GateCheck) -> str:
    """What asking both systems again brought; empty where they were not asked."""
    settled = check.settled
    if settled is None or settled.drop is None:
        return ""
    direction = "a drop" if settled.drop >= 0 else "a gain"
    # The p-value of what the drop speaks for: above the limit a loss, else that there is none.
    p_value = settled.p_worse if settled.drop > check.limit else settled.p_not_worse
    unmeasured = f", {settled.unmeasured:,} not measured" if settled.unmeasured else ""
    return (
        f"asked again {counted(settled.asked, 'time')} about {cases(settled.cases)}{unmeasured}: "
        f"{direction} of {figure(abs(settled.drop), check.unit)}, {_p_value_text(p_value)}"
    )


def _source_of_figure(check: GateCheck) -> str:
    """Whose figure it is, where it is no fact: people's, or a judge's alone."""
    correction = check.corrected
    if check.is_opinion and check.observed is not None:
        return "; judge's opinion, unproved"
    if correction is None:
        return ""
    kind = "pairs" if correction.runs else "cases"
    judged = figure(correction.judged, check.unit)
    interval = correction.judged_interval
    if interval is not None:
        judged += f" ({figure(interval.low, check.unit)} to {figure(interval.high, check.unit)})"
    return f". By people, from {correction.labels:,} labelled {kind}; uncorrected {judged}"


def _label_plan_text(check: GateCheck) -> str:
    """How many labels would settle it."""
    plan = check.plan
    if plan is None:
        return ""
    chances = ", ".join(f"{chance:.0%} with {labels:,}" for labels, chance in plan.chances)
    text = f". Chance that labelled pairs settle it: {chances}"
    if plan.needed:
        return text
    return f"{text}, which are all that differ: add cases"
