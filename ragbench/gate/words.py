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
"""How many lost cases, or detectable losses, a sentence lists before it counts the others."""
UNDECIDED_NOTE = "Inconclusive checks pass; --strict blocks them."
"""What a reader must know of a gate that passes with open checks."""


def worded(check: GateCheck, *, least: int = 1) -> GateCheck:
    """The check with its summary and its reason in words.

    Every check passes through here, last of all, so that its sentences and its numbers agree. A
    headline has room for the summary alone; the reason adds what the numbers show, whether they are
    a judge's or people's, and how many labels of people would settle the check.

    Args:
        least: measured cases that were demanded.
    """
    summary = _summary_text(check, least)
    reason = summary
    reason += _evidence_text(check)
    reason += _source_of_figure(check)
    reason += _label_plan_text(check)
    return replace(check, summary=summary, reason=reason)


# --- numbers


def figure(value: float, unit: str = "") -> str:
    """A figure in words of a result, to three places or three digits, with its unit.

    A ``"share"`` is written in percent.

    All sentences about a gate's result round in this way, so that equal figures read alike.
    """
    if unit == "share":
        return f"{value:.1%}"
    # Whole numbers of any size keep their digits; small ones three places.
    size = abs(value)
    if 0 < size < 0.0005:  # with three places it would be zero
        text = f"{value:.2g}"
    elif size >= 1000:
        text = f"{value:,.0f}"
    elif size < 10 and not unit:
        text = f"{value:.3f}"
    else:
        text = f"{value:,.3g}"
    if not unit:
        return text
    return f"{text} {unit}"


_MOST_PLACES = 6
"""Decimal places of figures that are next to equal: with fewer, a change would read as none."""


def _moved_text(before: float, now: float, unit: str) -> str:
    """The move of a metric in words, from one figure to another; the numbers add up as printed.

    Each rounded by itself, .814 and .806 would be printed as .81 and .81 with a change of .01.
    Empty where the two are the same to the last place.
    """
    ending = ""
    if unit == "share":
        ending = "%"
        before *= 100.0
        now *= 100.0
    elif unit:
        ending = f" {unit}"
    # By the larger of the two, so that both have the same places.
    size = max(abs(before), abs(now))
    moved = movement(before, now, _decimal_places(size, unit), most_places=_MOST_PLACES)
    if not moved.change:
        return ""
    direction = "up" if moved.change > 0 else "down"
    change = f"{abs(moved.change):,.{moved.places}f}{ending}"
    old = f"{moved.before:,.{moved.places}f}{ending}"
    new = f"{moved.now:,.{moved.places}f}{ending}"
    return f"{direction} {change} from {old} to {new}"


def _decimal_places(size: float, unit: str) -> int:
    """How many decimal places a figure of a size is printed with.

    The rule of `figure`, so that a movement and the figure beside it are equally exact: one place
    for a percentage, three for a score without a unit, else as many as make three digits.
    """
    if unit == "share":
        return 1
    if size < 10 and not unit:
        return 3
    if not size:
        return 0
    digits_before_point = math.floor(math.log10(size)) + 1
    return max(0, 3 - digits_before_point)


def cases(count: int) -> str:
    """A number of cases in words, as ``1 case`` or ``1,200 cases``.

    Sentences of a verdict count cases everywhere in this one way.
    """
    return counted(count, "case")


def independent(drop: Drop) -> str:
    """The independent observations of a drop in words: cases of one cluster count once.

    Cases of a cluster, such as those about one passage, tend to be right or wrong together, so that
    many of them show no more than a few.
    """
    if drop.clusters == drop.cases:
        return counted(drop.clusters, "independent case")
    clusters = counted(drop.clusters, "cluster")
    return f"{cases(drop.cases)} in {clusters}"


def _interval_text(drop: Drop, unit: str) -> str:
    """The confidence interval of a drop, in brackets; empty where nothing moved.

    The interval shows how large the drop may truly be, beside the figure that was seen.

    Args:
        unit: of the metric; empty without one.
    """
    if drop.difference == 0 or drop.low is None or drop.high is None:
        return ""
    # A unit is written once, behind the upper end; the percent sign belongs to each number.
    unit_of_low = unit if unit == "share" else ""
    low = figure(drop.low, unit_of_low)
    high = figure(drop.high, unit)
    return f" ({drop.confidence:.0%} interval {low} to {high})"


def _p_value_text(value: float, resolution: float = 0.0) -> str:
    """A p-value in words, never finer than its test can give.

    A test that draws some of all arrangements gives no p-value below its resolution: a smaller
    number would claim more than was shown.

    Args:
        resolution: the smallest that the test can give; 0 where it counts every arrangement.
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
    """The decision with its main ground: the one line of a result that everybody reads.

    In a continuous-integration log it is often all that is seen, so it names the main reason.

    Args:
        settle_command: asks both systems again about what is open; None where they cannot be asked.
    """
    if outcome is GateOutcome.PASSED:
        return _passed_headline(checks, settle_command)
    # Without failed checks, the refusals are the reason.
    if outcome is GateOutcome.INCONCLUSIVE and refusals:
        differing = [refusal.what for refusal in refusals]
        if "baseline" in differing:
            return "there is no baseline"
        return f"this run and the baseline do not compare ({', '.join(differing)})"

    failed: list[GateCheck] = []
    undecided: list[GateCheck] = []
    for check in checks:
        if check.outcome is GateOutcome.FAILED:
            failed.append(check)
        elif check.outcome is GateOutcome.INCONCLUSIVE and not check.is_small_slice:
            undecided.append(check)
    grounds = failed if outcome is GateOutcome.FAILED else undecided
    if not grounds:
        # A gate also fails on open checks alone, where the configuration says so.
        grounds = undecided
    # Sorting keeps the checks' own order otherwise.
    grounds.sort(key=_is_about_cases, reverse=True)
    sentences: list[str] = []
    for check in grounds[:_MAX_GROUNDS]:
        text = check.summary
        # Where nearly everything is lost on too few cases for a test, the summary shows a drop like
        # any other.
        if check.ground is Ground.ALL_OF_FEW_LOST:
            text = check.reason  # only the reason says that next to nothing is left
        sentences.append(f"{check.label} {text}")
    text = "; ".join(sentences)
    text += _further_count(grounds)
    return text + _settle_with(settle_command, grounds)


def _is_about_cases(check: GateCheck) -> bool:
    """Whether a check is about cases that failed or are gone.

    A headline begins with such checks, because lost cases explain what the metrics lost.
    """
    is_of_cases = check.kind in (CheckKind.COVERAGE, CheckKind.MUST_PASS)
    return is_of_cases and check.drop is None


def _further_count(checks: Sequence[GateCheck]) -> str:
    """How many checks a headline has no room for; empty where it shows them all.

    A headline names the first few checks, and must not hide that there are others.
    """
    count = len(checks) - _MAX_GROUNDS
    if count <= 0:
        return ""
    return f"; and {count:,} more"


def _settle_with(command: str | None, checks: Sequence[GateCheck]) -> str:
    """The end of a headline with the command that asks both systems again; empty without one.

    Also empty where more questions would settle none of the checks.
    """
    if command is None:
        return ""
    if not any(check.can_settle for check in checks):
        return ""
    return f". Settle it: {command}"


def labels_way(checks: Sequence[GateCheck]) -> str:
    """The end of a headline with the command that asks people for lacking labels; else empty.

    Where a judge cannot settle a drop, labels can.
    """
    for check in checks:
        if check.is_open_drop and check.plan is not None:
            return f". Ask people: {check.plan.command}"
    return ""


def _passed_headline(checks: Sequence[GateCheck], settle_command: str | None) -> str:
    """The headline of a gate that passed: its warnings, or how many checks passed.

    What was lost and may be chance comes first; then how many checks passed, and what is open.
    """
    # Losses that are open and large.
    warnings = [check for check in checks if check.is_warning]
    if warnings:
        text = f"not shown, and not ruled out: {_open_drops_text(warnings)}"
        return text + _settle_with(settle_command, warnings)
    passed = [check for check in checks if check.outcome is GateOutcome.PASSED]
    text = f"{counted(len(passed), 'check')} passed"
    open_drops = [check for check in checks if check.is_open_drop]
    if not open_drops:
        return text + _detectable_losses(checks)
    return f"{text}, {len(open_drops):,} inconclusive: {_open_drops_text(open_drops)}"


def _open_drops_text(checks: Sequence[GateCheck]) -> str:
    """The first undecided checks of a headline in words, and how many more there are.

    A headline has room for two of them.
    """
    texts = [_open_drop_text(check) for check in checks[:_MAX_GROUNDS]]
    return "; ".join(texts) + _further_count(checks)


def _open_drop_text(check: GateCheck) -> str:
    """An undecided check in words: how its metric moved, and which drop its cases could show.

    A reader needs both to judge whether the open loss matters.
    """
    if check.is_near_limit:
        return f"{check.label} {check.reason}"
    text = f"{check.label} {check.summary}"
    drop = check.drop
    if drop is None:
        return f"{text} (what its cases could show is unknown)"
    if check.is_warning:
        text += _interval_text(drop, check.unit)
        text += f", more than the tolerated {figure(drop.tolerance, check.unit)}"
        # Where a drop can be shown at all, the interval says enough; else the text says that these
        # cases can never show it.
        if drop.can_show:
            return text
        return f"{text}, which {independent(drop)} can never show"
    if drop.detectable_drop is not None:
        smallest_drop = figure(drop.detectable_drop, check.unit)
        return f"{text} (its {cases(check.cases)} would show a drop of {smallest_drop})"
    if drop.can_show:
        return f"{text} (what its cases could show is unknown)"
    return f"{text} ({independent(drop)} can never show a drop)"


def _detectable_losses(checks: Sequence[GateCheck]) -> str:
    """The losses that the cases of a gate would have shown, at the end of a headline that passed.

    "No loss was seen" says little of a set of cases too small to show one.
    """
    losses: list[str] = []
    for check in checks:
        # Checks of slices and coverage would make the sentence too long.
        if check.kind is not CheckKind.DROP or check.drop is None:
            continue
        if check.drop.detectable_drop is not None:
            smallest_drop = figure(check.drop.detectable_drop, check.unit)
            losses.append(f"{smallest_drop} of {check.subject}")
    if not losses:
        return ""
    return f"; these cases would show a loss of {as_line(losses, _MAX_NAMES)}"


# --- the summary of a check: what was seen


def _summary_text(check: GateCheck, least: int) -> str:
    """The summary of a check, without what its numbers show: such as ``down .02 from .81 to .79``.

    A check of which nothing was measured comes first, because it has no figure to word.
    """
    ground = check.ground
    observed = check.observed
    # From the ground that leaves least to say, to a figure beside its limit.
    if ground is Ground.NOT_STORED:
        missing = check.missing or "times"
        return f"the run stores no {missing}"
    if ground is Ground.TOO_FEW_CASES:
        in_runs = "" if check.drop is None else " in both runs"
        return f"only {cases(check.cases)} measured{in_runs}, fewer than min_cases ({least:,})"
    # `observed` is None only with such a ground; the test satisfies the type.
    if ground is Ground.NOTHING_MEASURED or observed is None:
        # Without a case there is no drop either: the bound says that two runs were compared.
        in_runs = " in both runs" if check.bound == "max_drop" else ""
        return f"no case was measured{in_runs}"
    if check.drop is not None:
        return _movement_text(check, check.drop)
    if check.kind is CheckKind.MUST_PASS:
        return _lost_cases_text(check)
    if check.trend is not None:
        return _trend_text(check.trend)
    if check.kind is CheckKind.COVERAGE:
        return _coverage_text(check, observed)
    # A figure beside a limit, for floors and budgets.
    side = _side_of_limit(check, below="below", above="above")
    limit = figure(check.limit, check.unit)
    text = f"{figure(observed, check.unit)} is {side} {limit}"
    if ground is Ground.HARDLY_MEASURED:
        text += f", but on {check.cases:,} of the {cases(check.applies)} that it applies to"
    return text


def _side_of_limit(check: GateCheck, *, below: str, above: str) -> str:
    """The words for the side of its limit on which a check's figure lies.

    A figure that keeps its limit reads the same everywhere; the wording of a broken one depends on
    what is counted.

    Args:
        below: wording of a figure that should reach a lower limit and does not.
        above: wording of a figure that exceeds its upper limit.
    """
    if check.bound == "min":
        return "at least" if check.holds else below
    return "at most" if check.holds else above


def _coverage_text(check: GateCheck, share: float) -> str:
    """How many cases were measured, or may go unmeasured, beside the limit of that share.

    A share alone hides how few cases it may be of, and the check holds no count: it is the share of
    all cases, which rounds to a whole number.
    """
    count = round(share * check.cases)
    side = _side_of_limit(check, below="less than", above="more than")
    counts = f"{count:,} of {check.cases:,} {check.counted}"
    return f"{counts} ({share:.1%}), {side} {check.limit:.1%}"


def _movement_text(check: GateCheck, drop: Drop) -> str:
    """The change of a check's metric in words, or of how many cases it measured.

    Figures that are equal are worded as such, not as a change of zero.
    """
    if check.ground is Ground.HALVED and check.kind is CheckKind.COVERAGE:
        # Less than half of what the baseline measured is measured now: the two counts say that
        # better than shares of all cases.
        measured_before = round(drop.before * drop.cases)
        measured_now = round(drop.after * drop.cases)
        counts = f"{measured_now:,} of {cases(measured_before)}"
        return f"measured on {counts} that the baseline measured"
    text = _moved_text(drop.before, drop.after, check.unit)
    if text:
        return text
    return f"{figure(drop.after, check.unit)} as before"


def _trend_text(trend: MainTrend) -> str:
    """The levels between which main's runs went, in words, with their number and first date.

    The text is the summary of a check of main's drift.
    """
    runs = counted(trend.runs, "run")
    start = figure(trend.start)
    end = figure(trend.end)
    text = f"main went from {start} to {end} over {runs}"
    if trend.since is None:
        return text
    day = trend.since[:10]  # of a date with its time, such as 2026-11-29T14:15:00Z
    return f"{text} since {day}"


def _lost_cases_text(check: GateCheck) -> str:
    """How many of the cases that must pass were lost, and which: the summary of that check.

    The text names the first lost cases, so that a reader can look at them.
    """
    text = f"{len(check.lost):,} of {cases(check.cases)} lost"
    if check.lost:
        lost_cases = [_lost_case(change) for change in check.lost]
        text += f": {as_line(lost_cases, _MAX_NAMES)}"
    if check.ground is Ground.LOST_ONCE:
        text += ", which chance may explain: asked three times, most of them decide"
    if check.failed_before:
        text += f"; {check.failed_before:,} fail as before"
    return text


def _lost_case(change: CaseChange) -> str:
    """A lost case that must pass, in words: its id, and its metric's value now and before.

    Of a case that is missing from the run, which has no value, the text says so.
    """
    if not change.metric:
        return f"{change.id} (not in this run)"
    now = change.status  # a case without a figure was declined, or failed
    if change.after is not None:
        now = figure(change.after)
    if change.before is None:
        return f"{change.id} ({change.metric} {now})"
    before = figure(change.before)
    return f"{change.id} ({change.metric} {before}, now {now})"


# --- the rest of a check's reason: what that shows, who says so, what would settle it


def _evidence_text(check: GateCheck) -> str:
    """The part of a check's reason that says what its numbers show, and how surely.

    A summary says only that a figure moved; whether chance explains it is added here.
    """
    drop = check.drop
    ground = check.ground
    # On these grounds a check has no figure, or too few cases for one.
    if ground in (Ground.TOO_FEW_CASES, Ground.NOTHING_MEASURED, Ground.NOT_STORED):
        return ""  # nothing was seen that could show anything
    if ground is Ground.HARDLY_MEASURED:
        return ": more than half were declined or failed"
    # Before drops: a trend has no paired cases.
    if check.trend is not None:
        return _drift_text(check, check.trend)
    if drop is None:
        return _near_limit_text(check)
    text = _interval_text(drop, check.unit)
    text += _pairing_text(drop)
    text += _drop_ground_text(check, drop)
    second_asking = again_text(check)
    if second_asking:
        text += f" ({second_asking})"
    if check.outcome is GateOutcome.INCONCLUSIVE and drop.needed is not None:
        # The number is planned for a power of 80 %.
        text += f". {cases(drop.needed)} would settle it in 4 of 5 runs if nothing has changed"
    return text


def _pairing_text(drop: Drop) -> str:
    """The number of cases that a drop's two means are of, where a run measured others as well.

    Without that number a reader would look for these means in the reports, which have the means of
    all cases.
    """
    unpaired: list[str] = []
    if drop.cases_only_before:
        unpaired.append(f"{drop.cases_only_before:,} only before")
    if drop.cases_only_now:
        unpaired.append(f"{drop.cases_only_now:,} only now")
    if not unpaired:
        return ""
    return f", on {cases(drop.cases)} in both ({', '.join(unpaired)})"


def _near_limit_text(check: GateCheck) -> str:
    """The words for a figure too near to its limit to say on which side it belongs; else empty.

    Without them a reader would wonder why a figure beyond its limit does not fail.
    """
    interval = check.interval
    if interval is None:
        return ""
    # On one side alone, its outcome needs no further word.
    if not interval.low < check.limit < interval.high:
        return ""
    low = figure(interval.low, check.unit)
    high = figure(interval.high, check.unit)
    return f", but its interval ({low} to {high}) lies on both sides"


def _drop_ground_text(check: GateCheck, drop: Drop) -> str:
    """The reason for the outcome of a drop in words: one sentence for each ground that it may have.

    A `Ground` that a drop can newly have needs an entry here.
    """
    tolerance = figure(drop.tolerance, check.unit)
    loss = f"a loss of more than the tolerated {tolerance}"
    # Only the test of a loss draws arrangements, and so has a finest p-value.
    p_worse = _p_value_text(drop.p_worse, drop.resolution)
    p_not_worse = _p_value_text(drop.p_not_worse)
    case_count = cases(drop.cases)
    observations = independent(drop)
    half = "less than half is left, which needs no test"
    if check.kind is CheckKind.COVERAGE:
        half = "fewer than half"
    texts = {
        Ground.SHOWN: f": {loss} is shown ({p_worse})",
        Ground.RULED_OUT: f": {loss} is ruled out ({p_not_worse})",
        Ground.SETTLED_WORSE: f", and {loss} is shown",
        Ground.SETTLED_NOT_WORSE: f", and {loss} is ruled out",
        Ground.UNCHANGED: f": none of {case_count} changed",
        Ground.NOT_LOWER: ": no loss is seen",
        Ground.NOT_HELD: ": nothing is demanded of it",
        Ground.NONE_LOST: f": none of {case_count} lost",
        Ground.HALVED: f": {half}",
        Ground.ALL_LOST: ": next to nothing is left, which needs no test",
        Ground.ALL_OF_FEW_LOST: (
            f": next to nothing is left, and {observations} are too few to tell it from chance"
        ),
        Ground.EXACTLY_TOLERATED: (
            ": every case lost exactly what is tolerated, which no number of cases can tell from "
            "more or from less"
        ),
        Ground.TOO_FEW_CLUSTERS: f": {observations} can never show a drop, more are needed",
        Ground.RARE_GAINS: (
            f": {loss} is unlikely to be chance, but {observations} are too few to rule out "
            "rare large gains that make up for it"
        ),
        Ground.RARE_LOSSES: (
            f": {loss} is unlikely, but {observations} are too few to rule out a rare large one"
        ),
        Ground.OUTWEIGHED: (
            f": {loss} is neither shown nor ruled out; another metric is shown to be better, and "
            "no less is right with refusals counted as not right"
        ),
        Ground.OPEN: f": {loss} is neither shown nor ruled out",
    }
    return texts[check.ground]


def _drift_text(check: GateCheck, trend: MainTrend) -> str:
    """The words on whether main's runs, taken together, show a loss, and what to do about it.

    If the lower level is wanted, the command that accepts it ends the alarm.
    """
    loss = f"a loss of more than the tolerated {figure(check.limit)}"
    # The test of a trend is made for repeated looks: each run of main adds one.
    certainty = f"({_p_value_text(trend.p_value)}, however often one looks)"
    if check.ground is not Ground.SHOWN:
        return f": {loss} is not shown {certainty}"
    text = f": {loss} is shown {certainty}"
    if trend.is_back:
        level = figure(check.observed or 0.0)
        return f"{text}, and this run is back at {level}"
    return f"{text}. Accept the lower level with: ragbench baseline add RUN --accept"


def again_text(check: GateCheck) -> str:
    """The outcome of asking both systems again, in words; empty where they were not asked.

    The text gives the size and the p-value of the second asking, which decided the check.
    """
    settled = check.settled
    if settled is None or settled.drop is None:
        return ""
    direction = "a drop" if settled.drop >= 0 else "a gain"
    size = figure(abs(settled.drop), check.unit)
    # The p-value of what the drop speaks for: above the limit a loss, else that there is none.
    p_value = settled.p_not_worse
    if settled.drop > check.limit:
        p_value = settled.p_worse
    times = counted(settled.asked, "time")
    questions = f"asked again {times} about {cases(settled.cases)}"
    if settled.unmeasured:
        questions += f", {settled.unmeasured:,} not measured"
    return f"{questions}: {direction} of {size}, {_p_value_text(p_value)}"


def _source_of_figure(check: GateCheck) -> str:
    """The words for whose figure a check shows, if it is no fact: people's, or a judge's.

    A figure that people corrected differs from the one in reports, which is named beside it.
    """
    correction = check.corrected
    # Before labels: an opinion has none on both sides.
    if check.is_opinion and check.observed is not None:
        return "; judge's opinion, unproved"
    if correction is None:
        return ""
    kind = "pairs" if correction.runs else "cases"
    judged = figure(correction.judged, check.unit)
    interval = correction.judged_interval
    if interval is not None:
        low = figure(interval.low, check.unit)
        high = figure(interval.high, check.unit)
        judged += f" ({low} to {high})"
    return f". By people, from {correction.labels:,} labelled {kind}; uncorrected {judged}"


def _label_plan_text(check: GateCheck) -> str:
    """How many labels of people would settle a check that rests on a judge, and how likely.

    A reader decides by it whether labelling is worth the time.
    """
    plan = check.plan
    if plan is None:
        return ""
    chances: list[str] = []
    # One or two numbers of labels, the smaller first.
    for labels, chance in plan.chances:
        chances.append(f"{chance:.0%} with {labels:,}")
    text = f". Chance that labelled pairs settle it: {', '.join(chances)}"
    if plan.needed:
        return text
    return f"{text}, which are all that differ: add cases"
