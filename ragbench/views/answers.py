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
    """One or two sentences on how a run's answers compare with the references, for its headline.

    They head the report in each of its forms: terminal, Markdown and page.
    """
    # A run of retrieval alone.
    if report.answers is None:
        return "No answer was compared."
    judge = _judge_name(report)
    share = corrected_share(report.corrections)
    return answer_counts_text(report.answers, judge=judge, share=share)


def answer_counts_text(
    answers: AnswerCounts, *, judge: str = "", share: Correction | None = None
) -> str:
    """The share of right answers where labels correct it, then the counts, and what decided them.

    Reports begin with these sentences, and a gate notes them: whoever reads no further knows how
    good the answers are.

    Args:
        judge: the model that judged; empty without one.
        share: the corrected share.
    """
    if not answers.cases:
        return "No case."
    # Where nothing was answered, a row of counts with one entry says less.
    if answers.failed == answers.cases:
        return f"No case was answered: {counted(answers.failed, 'case')} failed."
    if answers.no_answer == answers.cases:
        return f"No case was answered: {counted(answers.cases, 'case')} without generation."
    sentences: list[str] = []
    if share is not None:
        sentences.append(_share_sentence(share))
    # All by words, so that no judge is named.
    is_by_words = answers.by_words == answers.answers
    if is_by_words:
        counts = list(_word_parts(answers))
    else:
        counts = list(_verdict_parts(answers))
    counts += _other_parts(answers)
    cases = counted(answers.cases, "case")
    sentences.append(f"Of {cases}: {', '.join(counts)}.")
    if not is_by_words:
        sentences.append(_decider_sentence(answers, judge))
    return " ".join(sentences)


def _share_sentence(share: Correction) -> str:
    """A sentence with the share of right answers, its interval, and the number of labels behind it.

    The share is printed only where labels of people correct it: words and judges alone mislead.
    """
    text = f"Right: {share.corrected:.0%}"
    if share.interval is not None:
        text += f" ({share.interval.low:.0%} to {share.interval.high:.0%})"
    answers = counted(share.cases, "answer")
    labels = counted(share.labels, "label")
    return f"{text} of {answers}, corrected by {labels}."


def _word_parts(answers: AnswerCounts) -> Iterator[str]:
    """The counts of answers that agree with the reference or contradict it, as words alone show it.

    It does not say "right": words that agree are a sign of that, and no verdict.
    """
    if answers.right:
        verb = "agrees" if answers.right == 1 else "agree"
        yield f"{answers.right:,} {verb} with the reference"
    if answers.wrong:
        verb = "contradicts" if answers.wrong == 1 else "contradict"
        # "it" is clear only where the text before names the reference.
        reference = "it" if answers.right else "the reference"
        yield f"{answers.wrong:,} {verb} {reference}"


def _verdict_parts(answers: AnswerCounts) -> Iterator[str]:
    """The counts of answers that people or judges call right, partly right and wrong.

    Counts of 0 are shown for right and wrong, which every reader looks for, and left out for partly
    right.
    """
    yield f"{answers.right:,} right"
    if answers.partly:
        yield f"{answers.partly:,} partly right"
    yield f"{answers.wrong:,} wrong"


def _other_parts(answers: AnswerCounts) -> Iterator[str]:
    """The counts of cases whose answer is neither right nor wrong, so that all counts add up.

    A reader would else take the cases that are missing for wrong answers.
    """
    if answers.undecided:
        yield f"{answers.undecided:,} cannot be told by words"
    # All that declined, rightly or not: declining is right where the question has no answer.
    declined = answers.declined + answers.declined_rightly
    if declined:
        text = f"{declined:,} declined"
        if answers.declined_rightly:
            text += f" ({answers.declined_rightly:,} rightly)"
        yield text
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
    """A sentence on who decided about the answers: people, a judge, or the comparison of words.

    A reader trusts people more than a judge.

    Args:
        judge: the model that judged; empty where it is not known.
    """
    name = "the judge"
    if judge:
        name += f" {shown_line(judge, longest=_LONGEST_NAME)}"
    if not answers.by_label:
        name += " (not checked by labels)"
    # One decider for all answers needs no numbers.
    if answers.by_judge == answers.answers:
        return f"Decided by {name}."
    if answers.by_label == answers.answers:
        return "Decided by labels of people."
    parts: list[str] = []
    if answers.by_label:
        parts.append(f"{answers.by_label:,} by label")
    if answers.by_judge:
        # Beside labels it is "judge" without the judge's name, for a short sentence.
        decider = "judge" if answers.by_label else name
        parts.append(f"{answers.by_judge:,} by {decider}")
    if answers.by_words:
        parts.append(f"{answers.by_words:,} by words")
    return f"Decided: {', '.join(parts)}."


def corrected_share(corrections: Sequence[Correction]) -> Correction | None:
    """The share of right answers as labels of people correct it; None where they are too few.

    Where labels correct two metrics of right answers, that by a judge comes before the one by
    words.
    """
    for metric in (*JUDGED_RIGHT, WORDS_RIGHT):
        for correction in corrections:
            is_of_run = len(correction.runs) < 2  # a correction of two runs is of their difference
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
    ways: list[str] = []
    label_advice = _label_advice(report, answers, with_command=with_command)
    if label_advice:
        ways.append(label_advice)
    # A judge helps where words leave answers undecided, and may help where labels are advised. Else
    # words have decided about the few answers that there are, and there is nothing to advise.
    if not answers.by_judge and (label_advice or answers.undecided):
        ways.append("add --judge MODEL")
    separator = ", or "
    if with_command:
        separator = "; or "  # the command is behind a comma
    sentence = separator.join(ways)
    return sentence[:1].upper() + sentence[1:]


def _label_advice(report: Report, answers: AnswerCounts, *, with_command: bool) -> str:
    """The advice to label answers by hand, which gives the share of right ones; or nothing.

    Empty where the run measures no metric of right answers that labels could correct, or has fewer
    answers than a correction needs labels.
    """
    measured = {metric.name for metric in report.metrics}
    correctable = [name for name in (*JUDGED_RIGHT, WORDS_RIGHT) if name in measured]
    if not correctable or answers.answers < FEWEST_LABELS:
        return ""
    number = min(_ENOUGH, answers.answers)
    advice = f"label {number} for the share of right ones"
    if number == _ENOUGH:  # how sure fewer labels are is not known beforehand
        advice += " (about ±10 points)"
    if with_command:
        advice += f", with: ragbench label RUN -m {correctable[0]} -n {number}"
    return advice


def deciders_text(count: CauseCount) -> str:
    """Who decided about the answers of a cause: "by label", or "3 by label, 9 by judge".

    Numbers are left out where one decider decided about all cases of the cause.
    """
    # One decider may have decided only some cases of the cause.
    if len(count.deciders) == 1:
        decider, cases = count.deciders[0]
        if cases == count.cases:
            return f"by {decider.value}"
    parts = [f"{cases:,} by {decider.value}" for decider, cases in count.deciders]
    return ", ".join(parts)


def _judge_name(report: Report) -> str:
    """The name of the model that judged whether answers are right; empty where none did.

    Headlines name it, since other judges give other verdicts. Embeddings judge no answer by
    themselves.
    """
    if report.judging is None:
        return ""
    chat = report.judging.judge.get("chat")
    if not chat:  # judged by embeddings alone
        return ""
    return str(chat["model"])
