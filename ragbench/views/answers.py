"""How a run's answers compare with the right ones, in sentences: counts, and the share if known.

Words count and rank answers, and do not tell the share that people would call right: unlike data
gave the same figures with .36 and .85 (docs/intervals.md). So a share is printed where labels of
people correct it, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragbench.core.attribution import AnswerCounts, CauseCount
from ragbench.core.report import JUDGED_RIGHT, WORDS_RIGHT, Correction, Report
from ragbench.safe_text import counted, shown_line
from ragbench.stats.corrected import FEWEST_LABELS

_ENOUGH = 40
"""Labels that are advised: after so many the interval of the share of right answers reaches about
10 points to each side, as measured on four domains with 40 to 60 (docs/intervals.md)."""
_LONGEST_NAME = 80
"""Characters of the judge's name that are shown."""


def answers_text(report: Report) -> str:
    """The answers of a report, in one or two sentences."""
    if report.answers is None:
        return "No answer was compared."
    return answer_counts_text(
        report.answers, judge=_judge_name(report), share=corrected_share(report.corrections)
    )


def answer_counts_text(
    answers: AnswerCounts, *, judge: str = "", share: Correction | None = None
) -> str:
    """The share of right answers where labels correct it, then the counts, and what decided them.

    Args:
        judge: the model that judged; empty without one.
        share: the corrected share.
    """
    if not answers.cases:
        return "No case."
    if answers.failed == answers.cases:
        return f"No case was answered: {counted(answers.failed, 'case')} failed."
    if answers.no_answer == answers.cases:
        return f"No case was answered: {counted(answers.cases, 'case')} without generation."
    sentences: list[str] = []
    if share is not None:
        sentences.append(_share_sentence(share))
    is_by_words = answers.by_words == answers.answers
    parts = _word_parts(answers) if is_by_words else _verdict_parts(answers)
    counts = ", ".join([*parts, *_other_parts(answers)])
    sentences.append(f"Of {counted(answers.cases, 'case')}: {counts}.")
    if not is_by_words:
        sentences.append(_decider_sentence(answers, judge))
    return " ".join(sentences)


def _share_sentence(share: Correction) -> str:
    """The share of right answers, its interval, and how many labels it rests on."""
    text = f"Right: {share.corrected:.0%}"
    if share.interval is not None:
        text += f" ({share.interval.low:.0%} to {share.interval.high:.0%})"
    cases = counted(share.cases, "answer")
    return f"{text} of {cases}, corrected by {counted(share.labels, 'label')}."


def _word_parts(answers: AnswerCounts) -> Iterator[str]:
    """What words alone say of the answers."""
    if answers.right:
        verb = "agrees" if answers.right == 1 else "agree"
        yield f"{answers.right:,} {verb} with the reference"
    if answers.wrong:
        verb = "contradicts" if answers.wrong == 1 else "contradict"
        yield f"{answers.wrong:,} {verb} {'it' if answers.right else 'the reference'}"


def _verdict_parts(answers: AnswerCounts) -> Iterator[str]:
    """What people and judges say of the answers."""
    yield f"{answers.right:,} right"
    if answers.partly:
        yield f"{answers.partly:,} partly right"
    yield f"{answers.wrong:,} wrong"


def _other_parts(answers: AnswerCounts) -> Iterator[str]:
    """The cases of which nothing had to be judged, or nothing can be."""
    if answers.undecided:
        yield f"{answers.undecided:,} cannot be told by words"
    declined = answers.declined + answers.declined_rightly
    if declined:
        rightly = f" ({answers.declined_rightly:,} rightly)" if answers.declined_rightly else ""
        yield f"{declined:,} declined{rightly}"
    if answers.answered_without_evidence:
        yield f"{answers.answered_without_evidence:,} answered without evidence"
    if answers.unchecked:
        verb = "has" if answers.unchecked == 1 else "have"
        yield f"{answers.unchecked:,} {verb} nothing to compare with"
    if answers.no_answer:
        yield f"{answers.no_answer:,} not answered"
    if answers.failed:
        yield f"{answers.failed:,} failed"


def _decider_sentence(answers: AnswerCounts, judge: str) -> str:
    """What decided how many of the answers."""
    name = f"the judge {shown_line(judge, longest=_LONGEST_NAME)}" if judge else "the judge"
    if not answers.by_label:
        name += " (not checked by labels)"
    if answers.by_judge == answers.answers:
        return f"Decided by {name}."
    if answers.by_label == answers.answers:
        return "Decided by labels of people."
    parts: list[str] = []
    if answers.by_label:
        parts.append(f"{answers.by_label:,} by label")
    if answers.by_judge:
        parts.append(f"{answers.by_judge:,} by {'judge' if answers.by_label else name}")
    if answers.by_words:
        parts.append(f"{answers.by_words:,} by words")
    return f"Decided: {', '.join(parts)}."


def corrected_share(corrections: Sequence[Correction]) -> Correction | None:
    """The share of right answers as labels correct it; None where they are too few.

    Where labels correct both, the share that a judge finds comes before the one by words.
    """
    for metric in (*JUDGED_RIGHT, WORDS_RIGHT):
        for correction in corrections:
            is_of_run = len(correction.runs) < 2  # of two it is their difference
            if correction.metric == metric and is_of_run and correction.interval is not None:
                return correction
    return None


def share_hint(report: Report, *, with_command: bool = True) -> str:
    """A sentence of advice: how to learn the share of right answers, or more about each of them.

    Labels of people give the share of right answers; a judge decides about one answer at a time.
    Empty where labels give that share already, and where no answer was compared with a reference.

    Args:
        with_command: whether the command that asks for labels is named.
    """
    answers = report.answers
    if answers is None or corrected_share(report.corrections) is not None:
        return ""
    if not answers.by_judge + answers.by_words:  # none was compared, or people decided about all
        return ""
    measured = {metric.name for metric in report.metrics}
    metric = next((name for name in (*JUDGED_RIGHT, WORDS_RIGHT) if name in measured), None)
    ways: list[str] = []
    if metric is not None and answers.answers >= FEWEST_LABELS:
        number = min(_ENOUGH, answers.answers)
        way = f"label {number} for the share of right ones"
        if number == _ENOUGH:  # of fewer answers nothing is known beforehand
            way += " (about ±10 points)"
        if with_command:
            way += f", with: ragbench label RUN -m {metric} -n {number}"
        ways.append(way)
    # A judge helps where words leave answers undecided, and may help where labels are advised. Else
    # words have decided about the few answers that there are, and there is nothing to advise.
    if not answers.by_judge and (ways or answers.undecided):
        ways.append("add --judge MODEL")
    # A way that names its command has a comma inside.
    sentence = ("; or " if with_command else ", or ").join(ways)
    return sentence[:1].upper() + sentence[1:]


def deciders_text(count: CauseCount) -> str:
    """What decided about the answers of a cause; with numbers where it is not one for all."""
    if [cases for _, cases in count.deciders] == [count.cases]:
        ((decider, _),) = count.deciders
        return f"by {decider.value}"
    return ", ".join(f"{cases:,} by {decider.value}" for decider, cases in count.deciders)


def _judge_name(report: Report) -> str:
    """The model that judged whether answers are right; empty without one."""
    if report.judging is None:
        return ""
    chat = report.judging.judge.get("chat")
    return str(chat["model"]) if chat else ""
