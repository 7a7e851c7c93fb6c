"""What a check and a result say: the one place that words them.

A check holds its numbers and its `Ground`; every sentence is made of these, here.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragbench.core.gate_result import CheckKind, Drop, GateCheck, GateOutcome, Ground, Refusal
from ragbench.core.history import MainTrend
from ragbench.core.record import replace
from ragbench.safe_text import as_line, counted

_SHOWN = 2
"""How many reasons a headline has room for."""
_NAMED = 3
"""How many lost cases are named."""


def worded(check: GateCheck, *, least: int = 1) -> GateCheck:
    summary = _summary(check, least)
    reason = f"{summary}{_rest(check)}{_whose(check)}{_lacking(check)}"
    return replace(check, summary=summary, reason=reason)


def _whose(check: GateCheck) -> str:
    """Who says so, where it is no fact: people, or a judge alone."""
    found, unit = check.corrected, check.unit
    if check.is_opinion and check.observed is not None:
        return "; judge's opinion, unproved"
    if found is None:
        return ""
    labels = f"{found.labels:,} labelled {'pairs' if found.runs else 'cases'}"
    ends = found.judged_interval
    interval = "" if ends is None else f" ({figure(ends.low, unit)} to {figure(ends.high, unit)})"
    return f". By people, from {labels}; by the judge alone {figure(found.judged, unit)}{interval}"


def _lacking(check: GateCheck) -> str:
    """How many labels would settle it."""
    plan = check.plan
    if plan is None:
        return ""
    chances = [f"{chance:.0%} with {labels:,}" for labels, chance in plan.chances]
    rest = "" if plan.needed else ", which are all that differ: add cases"
    return f". Chance that labelled pairs settle it: {', '.join(chances)}{rest}"


def labels_way(checks: Sequence[GateCheck]) -> str:
    """The command that asks people for what is lacking; empty where nothing is open."""
    lacking = (check.plan for check in checks if check.is_open_drop and check.plan is not None)
    plan = next(lacking, None)
    return "" if plan is None else f". Ask people: {plan.command}"


def figure(value: float, unit: str = "") -> str:
    """A figure, to three places or three digits."""
    if unit == "share":
        return f"{value:.1%}"
    text = f"{value:.3f}" if abs(value) < 10 and not unit else f"{value:,.3g}"
    if abs(value) >= 1000:
        text = f"{value:,.0f}"
    if 0 < abs(value) < 0.0005:
        text = f"{value:.2g}"
    return f"{text} {unit}" if unit else text


def cases(count: int) -> str:
    return counted(count, "case")


def headline(
    outcome: GateOutcome,
    checks: Sequence[GateCheck],
    refusals: Sequence[Refusal],
    way_on: str | None,
) -> str:
    """The decision with its main ground; ``way_on`` is the command that settles what is open."""
    if outcome is GateOutcome.PASSED:
        return _passed(checks, way_on)
    if outcome is GateOutcome.INCONCLUSIVE and refusals:
        differing = [refusal.what for refusal in refusals]
        if "baseline" in differing:
            return "there is no baseline"
        return f"this run and the baseline do not compare ({', '.join(differing)})"
    found = [check for check in checks if check.outcome is outcome]
    if outcome is GateOutcome.INCONCLUSIVE or not found:  # or undecided: fail
        open_ones = [check for check in checks if check.outcome is GateOutcome.INCONCLUSIVE]
        found = [check for check in open_ones if not check.is_small_slice]
    # Cases that failed, or are gone, explain what is lost elsewhere.
    found.sort(key=lambda check: (check.kind, check.drop is None) not in _FIRST)
    grounds = [
        f"{check.label} {check.reason if check.ground is _FEW_LOST else check.summary}"
        for check in found[:_SHOWN]
    ]
    text = "; ".join(grounds) + _more(found)
    return text + _settle(found, way_on)


def _more(checks: Sequence[GateCheck]) -> str:
    return f"; and {len(checks) - _SHOWN:,} more" if len(checks) > _SHOWN else ""


def _settle(checks: Sequence[GateCheck], way_on: str | None) -> str:
    can_settle = way_on is not None and any(check.can_settle for check in checks)
    return f". Settle it: {way_on}" if can_settle else ""


_HALVED = ("less than half is left, which needs no test", "fewer than half")
_FEW_LOST = Ground.ALL_OF_FEW_LOST
_FIRST = ((CheckKind.COVERAGE, True), (CheckKind.MUST_PASS, True))
"""Kinds of what explains the rest, and whether they compare nothing."""
UNDECIDED_NOTE = "Inconclusive checks pass; --strict blocks them."


def _undecided(check: GateCheck) -> str:
    """What was seen of an undecided drop, and what its cases would have shown."""
    drop, seen = check.drop, f"{check.label} {check.summary}"
    if check.is_near_limit:
        return f"{check.label} {check.reason}"
    if drop is not None and check.is_warning:
        interval, limit = _interval(drop, check.unit), figure(drop.tolerance, check.unit)
        why = "" if drop.can_show else f", which {independent(drop)} can never show"
        return f"{seen}{interval}, more than the tolerated {limit}{why}"
    if drop is not None and drop.detectable_drop is not None:
        smallest = figure(drop.detectable_drop, check.unit)
        return f"{seen} (its {cases(check.cases)} would show a drop of {smallest})"
    if drop is None or drop.can_show:
        return f"{seen} (what its cases could show is unknown)"
    return f"{seen} ({independent(drop)} can never show a drop)"


def independent(drop: Drop) -> str:
    """The observations, where cases that share a cluster are one."""
    if drop.clusters == drop.cases:
        return counted(drop.clusters, "independent case")
    return f"{cases(drop.cases)} in {counted(drop.clusters, 'cluster')}"


def _passed(checks: Sequence[GateCheck], way_on: str | None) -> str:
    """What was lost and may be chance comes first; then how many passed, and what is open."""
    warnings = [check for check in checks if check.is_warning]
    if warnings:
        seen = "; ".join(_undecided(check) for check in warnings[:_SHOWN])
        return f"not shown, and not ruled out: {seen}{_more(warnings)}{_settle(warnings, way_on)}"
    passed = sum(check.outcome is GateOutcome.PASSED for check in checks)
    text = f"{counted(passed, 'check')} passed"
    open_drops = [check for check in checks if check.is_open_drop]
    if open_drops:
        seen = "; ".join(_undecided(check) for check in open_drops[:_SHOWN])
        return f"{text}, {len(open_drops):,} inconclusive: {seen}{_more(open_drops)}"
    return f"{text}{_would_show(checks)}"


def _would_show(checks: Sequence[GateCheck]) -> str:
    """What loss the cases could have shown, where none is open."""
    sizes: list[str] = []
    for check in checks:
        drop = check.drop
        if check.kind is CheckKind.DROP and drop is not None and drop.detectable_drop is not None:
            sizes.append(f"{figure(drop.detectable_drop, check.unit)} of {check.subject}")
    return f"; these cases would show a loss of {as_line(sizes, _NAMED)}" if sizes else ""


def _summary(check: GateCheck, least: int) -> str:
    ground, observed = check.ground, check.observed
    if ground is Ground.NOT_STORED:
        return f"the run stores no {check.missing or 'times'}"
    if ground is Ground.TOO_FEW_CASES:
        where = " in both runs" if check.drop is not None else ""
        return f"only {cases(check.cases)} measured{where}, fewer than min_cases ({least:,})"
    if ground is Ground.NOTHING_MEASURED or observed is None:
        where = " in both runs" if check.bound == "max_drop" else ""
        return f"no case was measured{where}"
    if check.drop is not None:
        return _moved(check, check.drop)
    if check.kind is CheckKind.MUST_PASS:
        return _must_pass(check)
    if check.trend is not None:
        day = "" if check.trend.since is None else f" since {check.trend.since[:10]}"
        ends = f"from {figure(check.trend.start)} to {figure(check.trend.end)}"
        return f"main went {ends} over {check.trend.runs:,} runs{day}"
    if check.kind is CheckKind.COVERAGE:
        few, many = {"min": ("at least", "less than"), "max": ("at most", "more than")}[check.bound]
        count = f"{round(observed * check.cases):,} of {check.cases:,} {check.counted}"
        return f"{count} ({observed:.1%}), {few if check.holds else many} {check.limit:.1%}"
    side = {"min": ("at least", "below"), "max": ("at most", "above")}[check.bound]
    word = side[0] if check.holds else side[1]
    rests = ""
    if ground is Ground.HARDLY_MEASURED:
        rests = f", but on {check.cases:,} of the {check.applies:,} cases that it applies to"
    return f"{figure(observed, check.unit)} is {word} {figure(check.limit, check.unit)}{rests}"


def _must_pass(check: GateCheck) -> str:
    text = f"{len(check.lost):,} of {cases(check.cases)} lost"
    shown: list[str] = []
    for one in check.lost:
        now = one.status if one.after is None else figure(one.after)
        became = now if one.before is None else f"{figure(one.before)}, now {now}"
        shown.append(f"{one.id} ({f'{one.metric} {became}' if one.metric else 'not in this run'})")
    text += f": {as_line(shown, _NAMED)}" if shown else ""
    if check.ground is Ground.LOST_ONCE:
        text += ", which chance may explain: asked three times, most of them decide"
    return text + (f"; {check.failed_before:,} fail as before" if check.failed_before else "")


def _drift(check: GateCheck, trend: MainTrend) -> str:
    p_value, loss = _p(trend.p_value), f"a loss of more than the tolerated {figure(check.limit)}"
    if check.ground is not Ground.SHOWN:
        return f": {loss} is not shown ({p_value}, however often one looks)"
    shown = f": {loss} is shown ({p_value}, however often one looks)"
    if trend.is_back:
        return f"{shown}, and this run is back at {figure(check.observed or 0.0)}"
    return f"{shown}. Accept the lower level with: ragbench baseline add RUN --accept"


def _moved(check: GateCheck, drop: Drop) -> str:
    unit = check.unit
    if check.ground is Ground.HALVED and check.kind is CheckKind.COVERAGE:
        counts = f"{round(drop.after * drop.cases):,} of {round(drop.before * drop.cases):,}"
        return f"measured on {counts} cases that the baseline measured"
    if drop.difference == 0:
        return f"{figure(drop.after, unit)} as before"
    way = "up" if drop.difference > 0 else "down"
    before, after = figure(drop.before, unit), figure(drop.after, unit)
    return f"{way} {figure(abs(drop.difference), unit)} from {before} to {after}"


def _rest(check: GateCheck) -> str:
    drop, ground = check.drop, check.ground
    if ground in (Ground.TOO_FEW_CASES, Ground.NOTHING_MEASURED, Ground.NOT_STORED):
        return ""
    if ground is Ground.HARDLY_MEASURED:
        return ": more than half were declined or failed"
    if check.trend is not None:
        return _drift(check, check.trend)
    if drop is None:
        ends = check.interval
        if ends is None or not ends.low < check.limit < ends.high:
            return ""
        low, high = figure(ends.low, check.unit), figure(ends.high, check.unit)
        return f", but its interval ({low} to {high}) lies on both sides"
    tolerated = f"a loss of more than the tolerated {figure(drop.tolerance, check.unit)}"
    text = {
        Ground.SHOWN: f": {tolerated} is shown ({_p(drop.p_worse, drop.resolution)})",
        Ground.RULED_OUT: f": {tolerated} is ruled out ({_p(drop.p_not_worse)})",
        Ground.SETTLED_WORSE: f", and {tolerated} is shown",
        Ground.SETTLED_NOT_WORSE: f", and {tolerated} is ruled out",
        Ground.UNCHANGED: f": none of {cases(drop.cases)} changed",
        Ground.NOT_LOWER: ": no loss is seen",
        Ground.NOT_HELD: ": nothing is demanded of it",
        Ground.NONE_LOST: f": none of {cases(drop.cases)} lost",
        Ground.HALVED: f": {_HALVED[check.kind is CheckKind.COVERAGE]}",
        Ground.ALL_LOST: ": next to nothing is left, which needs no test",
        Ground.ALL_OF_FEW_LOST: f": next to nothing is left, and {independent(drop)} are too few "
        "to tell it from chance",
        Ground.EXACTLY_TOLERATED: ": every case lost exactly what is tolerated, which no number of "
        "cases can tell from more or from less",
        Ground.TOO_FEW_CLUSTERS: f": {independent(drop)} can never show a drop, more are needed",
        Ground.RARE_GAINS: f": {tolerated} is unlikely to be chance, but {independent(drop)} are "
        "too few to rule out rare large gains that make up for it",
        Ground.RARE_LOSSES: f": {tolerated} is unlikely, but {independent(drop)} are too few to "
        "rule out a rare large one",
        Ground.OPEN: f": {tolerated} is neither shown nor ruled out",
    }[ground]
    advice = ""
    if check.outcome is GateOutcome.INCONCLUSIVE and drop.needed is not None:
        advice = f". {cases(drop.needed)} would settle it in 4 of 5 runs if nothing has changed"
    again = again_text(check)
    return f"{_interval(drop, check.unit)}{text}{f' ({again})' if again else ''}{advice}"


def again_text(check: GateCheck) -> str:
    """What asking both systems again brought; empty where it was not asked."""
    settled = check.settled
    if settled is None or settled.drop is None:
        return ""
    way = "a drop" if settled.drop >= 0 else "a gain"
    p_value = settled.p_worse if settled.drop > check.limit else settled.p_not_worse
    lost = f", {settled.unmeasured:,} not measured" if settled.unmeasured else ""
    return (
        f"asked again {settled.asked:,} times about {cases(settled.cases)}{lost}: {way} of "
        f"{figure(abs(settled.drop), check.unit)}, {_p(p_value)}"
    )


def _interval(drop: Drop, unit: str) -> str:
    if drop.difference == 0 or drop.low is None or drop.high is None:
        return ""
    ends = f"{figure(drop.low, '' if unit != 'share' else unit)} to {figure(drop.high, unit)}"
    return f" ({drop.confidence:.0%} interval {ends})"


def _p(value: float, resolution: float = 0.0) -> str:
    """A p-value, never finer than its test can give."""
    if value <= resolution:
        return f"p <= {resolution:.1g}"
    return f"p = {value:.2g}" if value >= 1e-6 else "p < 1e-06"
