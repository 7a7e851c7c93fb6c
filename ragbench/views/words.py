"""Whether an answer is present, in words, and how often these words were true."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragbench.core.validation import AnswerWorth, Verdict, WordCount


def presence_text(verdict: Verdict) -> str:
    """Whether a validator finds the answer in the chunks, in words.

    The words are Yes or No, and how sure that is. A validator's probability is its own number. The
    word beside it, such as "likely", has what it is worth: how often it was right with such a
    number. Where that was never measured, the bare number is shown.
    """
    present = "Yes" if verdict.answer_present else "No"
    # None where the validator was never measured against labels.
    if verdict.answer_word is None:
        return f"{present}; not measured: the validator says {verdict.answer_probability:.2f}"
    text = f"{present}; {verdict.answer_word.value}"
    if verdict.answer_worth is not None:
        text += f": {verdict.answer_worth}"
    return text


def words_lines(words: Sequence[WordCount], *, of_run: bool) -> Iterator[str]:
    """The lines that count queries by the validator's word for the answer, such as "likely".

    Beside each word is how often it was true. Where that was measured on other data than the
    user's, a last line says how to measure it on his own.

    Args:
        of_run: whether they are the cases of a run, whose chunks ``ragbench label`` can show.
    """
    worths: list[AnswerWorth] = []
    for word_count in words:
        line = f"{word_count.word.value} {word_count.count:,}"
        worth = word_count.worth
        # None where the word was never measured.
        if worth is not None:
            line += f": {worth}"
            worths.append(worth)
        yield line
    # Words that were measured on labels of the user's own need no calibration.
    if not worths or worths[0].labels:
        return
    if of_run:
        yield (
            "calibrate: ragbench label RUN -m answer_present -n 20, then ragbench calibrate "
            "labels.jsonl"
        )
    else:
        yield (
            "calibrate: label 20 queries (answer_present true or false), then ragbench calibrate "
            "FILE"
        )
