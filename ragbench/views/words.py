"""Whether an answer is present, in words, and how often these words were true."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragbench.core.validation import Verdict, WordCount


def presence_text(verdict: Verdict) -> str:
    """Yes or No, and beside it the word with what it is worth."""
    present = "Yes" if verdict.answer_present else "No"
    if verdict.answer_word is None:
        return f"{present}; not measured: the validator says {verdict.answer_probability:.2f}"
    text = f"{present}; {verdict.answer_word.value}"
    if verdict.answer_worth is not None:
        text += f": {verdict.answer_worth}"
    return text


def words_lines(words: Sequence[WordCount], *, of_run: bool) -> Iterator[str]:
    """How many queries have which word, and what would make the words hold for them.

    Args:
        of_run: whether they are the cases of a run, whose chunks ``ragbench label`` can show.
    """
    worths = [one.worth for one in words if one.worth is not None]
    for one in words:
        line = f"{one.word.value} {one.count:,}"
        if one.worth is not None:
            line += f": {one.worth}"
        yield line
    if worths and not worths[0].labels:
        label = "label 20 queries (answer_present true or false), then ragbench calibrate FILE"
        if of_run:
            label = (
                "ragbench label RUN -m answer_present -n 20, then ragbench calibrate labels.jsonl"
            )
        yield f"calibrate: {label}"
