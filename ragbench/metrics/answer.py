"""Answers: exact match, F1, edit similarity, ROUGE, BLEU, chrF; whether one declines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Annotated, Any, Literal

from ragbench.core.case import Case
from ragbench.core.metric import Skip
from ragbench.core.outcome import Outcome, Status
from ragbench.core.result import GenerationResult
from ragbench.metrics.metric import metric
from ragbench.plugins import require
from ragbench.text.declining import read_answer
from ragbench.text.tokens import multilingual_tokens, squad_tokens
from ragbench.text.wording import wording

_SQUAD = "Rajpurkar et al. 2016, SQuAD, arXiv:1606.05250; official evaluation script"
_SQUAD2 = "Rajpurkar, Jia and Liang 2018, SQuAD 2.0, arXiv:1806.03822; official evaluation script"
_Normalise = Annotated[
    Literal["multilingual", "squad"],
    "how texts become tokens: for any script, or exactly as SQuAD's script does",
]
_TOKENS = {"multilingual": multilingual_tokens, "squad": squad_tokens}


@metric(group="generator", abstains=True, aliases=("EM",), cite=_SQUAD)
def exact_match(
    response: str,
    reference: str,
    *,
    normalise: Annotated[
        Literal["multilingual", "squad", "none"],
        "how texts are made alike: for any script, as SQuAD's script does, not",
    ] = "multilingual",
) -> float:
    """1 when the answer equals a reference, normalised as in SQuAD, in any script; else 0.

    The strictest measure of a generated answer, for facts of a word or two. A change of its values
    needs a higher ``version`` in the decorator: stored scores of runs are compared by it.
    """
    if normalise == "none" or response == reference:
        return float(response == reference)
    tokens = _TOKENS[normalise]
    # SQuAD's script compares the tokens joined by spaces, which is the same.
    return float(tokens(response) == tokens(reference))


@metric(group="generator", abstains=True, aliases=("F1",), cite=_SQUAD)
def token_f1(response: str, reference: str, *, normalise: _Normalise = "multilingual") -> float:
    """F1 of the tokens that answer and reference share, as in SQuAD; characters in Chinese.

    Gives part of the credit for an answer that says more, or less, than the reference. A change of
    its values needs a higher ``version``: stored scores of runs are compared by it.
    """
    if response == reference:
        return 1.0
    tokens_of = _TOKENS[normalise]
    tokens = tokens_of(response)
    right_tokens = tokens_of(reference)
    if not tokens or not right_tokens:  # 1 when neither has any, else 0, as in SQuAD 2.0
        return float(tokens == right_tokens)
    distinct = set(tokens)
    right_distinct = set(right_tokens)
    shared = len(distinct & right_distinct)
    # Where either side repeats no token, no repetition can be shared.
    if len(distinct) < len(tokens) and len(right_distinct) < len(right_tokens):
        shared = (Counter(tokens) & Counter(right_tokens)).total()
    if not shared:
        return 0.0
    precision = shared / len(tokens)
    recall = shared / len(right_tokens)
    return 2 * precision * recall / (precision + recall)


@metric(group="overall", aliases=("squad2_em",), cite=_SQUAD2)
def end_to_end_em(
    declined: bool, response: str, case: Case, *, normalise: _Normalise = "multilingual"
) -> float | Skip:
    """exact_match over all cases: declining counts 1 where there is no answer, else 0.

    `exact_match` leaves declined answers out, so that a system could raise it by declining whatever
    is hard; here each such answer costs its case. Stored scores of runs are compared by
    ``version``: raise it in the decorator with a change of values.
    """
    return _end_to_end_score(declined, response, case, normalise, exact_match)


@metric(group="overall", aliases=("squad2_f1",), cite=_SQUAD2)
def end_to_end_f1(
    declined: bool, response: str, case: Case, *, normalise: _Normalise = "multilingual"
) -> float | Skip:
    """token_f1 over all cases: declining counts 1 where there is no answer, else 0.

    `token_f1` leaves declined answers out, so that a system could raise it by declining whatever is
    hard; here each such answer costs its case. Stored scores of runs are compared by ``version``:
    raise it in the decorator with a change of values.
    """
    return _end_to_end_score(declined, response, case, normalise, token_f1)


_NO_REFERENCE = Skip("no reference answer")


def _end_to_end_score(
    declined: bool, response: str, case: Case, normalise: str, score: Callable[..., float]
) -> float | Skip:
    """The score of an answer by SQuAD 2.0's script, which counts declined answers too.

    No answer is the empty text there, on both sides: the one who declines an unanswerable question
    gets 1, any other mismatch of declining and answering 0. Between two texts the best reference
    counts. The rules are the script's, whose published figures must be met. Another value needs a
    higher version of each metric that is computed by it.

    Args:
        score: `exact_match` or `token_f1`, which compares two texts.
    """
    if not case.references and case.answerable is not False:
        # Whoever declines a question with an answer is wrong, whatever the answer is.
        if declined and case.answerable:
            return 0.0
        return _NO_REFERENCE
    # Counted in tokens: the script of SQuAD sees an answer of marks alone as none.
    tokens_of = _TOKENS[normalise]
    has_answered = not declined and bool(tokens_of(response))
    references: list[str] = []
    if case.answerable is not False:
        references = [reference for reference in case.references if tokens_of(reference)]
    if not references:
        return float(not has_answered)
    if not has_answered:
        return 0.0
    return max([score(response, reference, normalise=normalise) for reference in references])


@metric(
    group="generator",
    abstains=True,
    aliases=("string_similarity",),
    cite="Levenshtein 1966, Binary codes capable of correcting deletions, insertions ...",
)
def edit_similarity(response: str, reference: str) -> float:
    """1 - Levenshtein distance / length of the longer text.

    Counts letters, so that a typo or another ending costs little. A change of its values needs a
    higher ``version`` in the decorator: stored scores of runs are compared by it.
    """
    from rapidfuzz.distance import Levenshtein

    return 1 - Levenshtein.normalized_distance(reference, response)


_LIN = "Lin 2004, ROUGE: A Package for Automatic Evaluation of Summaries; rouge_score"
_Stemmer = Annotated[bool, "whether words are compared by their Porter stems"]


def _load_rouge() -> Any:
    """The package rouge_score, which computes ROUGE as published.

    Called before a run begins, so that a missing package is an error then, with the line that
    installs it, and not one in each case.
    """
    return require("rouge_score.rouge_scorer", extra="text")


@metric(
    group="generator",
    abstains=True,
    extra="text",
    prepare=_load_rouge,
    cite=_LIN,
    version=2,
)
def rouge1(response: str, reference: str, *, stemmer: _Stemmer = True) -> float | Skip:
    """F-measure of shared words, as in rouge_score: of letters a-z and digits.

    In texts of other scripts nothing would be compared: those cases are skipped. Stored scores of
    runs are compared by ``version``: raise it in the decorator with a change of values.
    """
    return _rouge_score("rouge1", response, reference, stemmer)


@metric(
    group="generator",
    abstains=True,
    extra="text",
    prepare=_load_rouge,
    cite=_LIN,
    version=2,
)
def rouge2(response: str, reference: str, *, stemmer: _Stemmer = True) -> float | Skip:
    """F-measure of shared pairs of words, as in rouge_score: of letters a-z and digits.

    Order counts here, as it does not in `rouge1`. In texts of other scripts nothing would be
    compared: those cases are skipped. Stored scores of runs are compared by ``version``: raise it
    in the decorator with a change of values.
    """
    return _rouge_score("rouge2", response, reference, stemmer)


@metric(
    name="rougeL",
    group="generator",
    abstains=True,
    extra="text",
    aliases=("rouge",),
    prepare=_load_rouge,
    cite=_LIN,
    version=2,
)
def rouge_l(response: str, reference: str, *, stemmer: _Stemmer = True) -> float | Skip:
    """F-measure of the longest common subsequence, as in rouge_score: of letters a-z and digits.

    Words in the right order count, whatever is between them. In texts of other scripts nothing
    would be compared: those cases are skipped. Stored scores of runs are compared by ``version``:
    raise it in the decorator with a change of values.
    """
    return _rouge_score("rougeL", response, reference, stemmer)


def _load_sacrebleu() -> Any:
    """The package sacrebleu, which computes BLEU and chrF as published.

    Called before a run begins, so that a missing package is an error then. A function with a name,
    because the formula is sent to worker processes, and a lambda cannot be.
    """
    return require("sacrebleu.metrics", extra="text")


@metric(
    group="generator",
    abstains=True,
    extra="text",
    prepare=_load_sacrebleu,
    cite="Papineni et al. 2002; Post 2018, A Call for Clarity in Reporting BLEU Scores",
)
def bleu(response: str, references: Sequence[str]) -> float:
    """Sentence BLEU of sacrebleu, divided by 100; of characters where words have no spaces.

    The tokenizer follows from the script of the references; another choice gives other values,
    which needs a higher ``version`` in the decorator.
    """
    # Without effective order, an answer of fewer than four tokens is always 0.
    text = "".join(references)
    tokenizer = "13a"
    if re.search(_OTHER_SPACELESS, text):
        tokenizer = "char"
    elif re.search(_HAN, text):
        tokenizer = "zh"
    scorer = _sacrebleu_metric("BLEU", effective_order=True, tokenize=tokenizer)
    return _sentence_score(scorer, response, references)


@metric(
    group="generator",
    abstains=True,
    extra="text",
    prepare=_load_sacrebleu,
    cite="Popović 2015, chrF: character n-gram F-score for automatic MT evaluation",
)
def chrf(response: str, references: Sequence[str]) -> float:
    """F-score of shared character n-grams (chrF2 of sacrebleu), divided by 100.

    It needs no tokenizer, and so serves every language, also those with many endings of a word.
    Stored scores of runs are compared by ``version``: raise it in the decorator with a change of
    values.
    """
    return _sentence_score(_sacrebleu_metric("CHRF"), response, references)


_ROUGE_READS = re.compile("[a-z0-9]")
_NO_ROUGE = Skip("ROUGE reads a-z and 0-9, and the reference has neither: use token_f1 or chrf")


def _rouge_score(variant: str, response: str, reference: str, stemmer: bool) -> float | Skip:
    """The F-measure of rouge_score for an answer beside a reference, 0 to 1.

    A reference without a letter a-z or a digit has no token there, and would score 0 however good
    the answer is: the case is skipped, with a reason that names other metrics. Another value needs
    a higher version of each metric that is computed by it.

    Args:
        variant: the name of the score in rouge_score: ``rouge1``, ``rouge2`` or ``rougeL``.
        stemmer: whether words are compared by their stems.
    """
    if reference.strip() and not _ROUGE_READS.search(reference.lower()):
        return _NO_ROUGE
    scores = _rouge_scorer(variant, stemmer).score(reference, response)
    return float(scores[variant].fmeasure)


@cache
def _rouge_scorer(variant: str, stemmer: bool) -> Any:
    """The scorer of rouge_score for a variant of ROUGE, such as ``rougeL``, kept for the process.

    A scorer is made anew for each variant and stemmer, and not for each of thousands of answers.
    """
    return _load_rouge().RougeScorer([variant], use_stemmer=stemmer)


# Wide ranges take milliseconds to compile: re does it once, when they are first used.
_HAN = r"[\u3400-\u4dbf\u4e00-\u9fff]"
_OTHER_SPACELESS = r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff]"


@cache
def _sacrebleu_metric(kind: str, **settings: Any) -> Any:
    """A metric of sacrebleu by its class, ``BLEU`` or ``CHRF``, made once for the same settings.

    To make one takes longer than to score an answer with it.
    """
    package: Any = require("sacrebleu.metrics", extra="text")
    return getattr(package, kind)(**settings)


def _sentence_score(scorer: Any, response: str, references: Sequence[str]) -> float:
    """The score of one answer by a metric of sacrebleu, from its 0 to 100 brought to 0 to 1.

    All metrics of ragbench end at 1, and a cell above its metric's range is refused. Another value
    needs a higher version of each metric that is computed by it.

    Args:
        scorer: a BLEU or chrF object of sacrebleu.
    """
    percentage = scorer.sentence_score(response, list(references)).score
    # sacrebleu's 100 can be 100.00000000000004.
    return float(min(percentage / 100, 1.0))


# --- whether an answer declines


def abstained(result: GenerationResult[Any]) -> bool:
    """Whether a system declined to answer.

    What the system itself says counts. Where it says nothing (``abstained`` is None), it counts how
    the response reads, see `ragbench.text.declining`. A declined answer is no wrong one: metrics of
    answers leave it out, and metrics of declining count it.
    """
    if result.abstained is not None:
        return result.abstained
    return read_answer(result.response).declines


def declined(outcome: Outcome[GenerationResult[Any]]) -> bool:
    """Whether the generation of a case ended in a declined answer, by its status or its text.

    A run may have stored that the system declined (`Status.ABSTAINED`), or only a response that
    reads so. Metrics and pages ask here, so that all of them count the same cases.
    """
    if outcome.status is Status.ABSTAINED:
        return True
    return outcome.value is not None and abstained(outcome.value)


# --- whether a chunk holds an answer, by its words alone

_MOST_QUOTED = 12
"""Tokens up to which an answer is expected to be quoted as it is."""
_LEAST_COVERED = 0.7
"""Share of a long text's distinct tokens from which another text holds it."""
_UNTELLING = frozenset({"yes", "no", "true", "false", "none", "both", "neither", "ja", "nein"})
"""Answers that are in any chunk: their presence says nothing."""


def is_telling(answer: str) -> bool:
    """Whether it means anything that a normalised answer occurs in a text.

    "no" or "2" occurs in nearly every chunk: such an answer shows neither that a chunk is relevant
    nor that an answer is supported. Four bytes are four letters of English, or two characters of
    Chinese.
    """
    is_long_enough = len(answer.encode()) >= 4
    return is_long_enough and answer.strip(".!") not in _UNTELLING


@lru_cache(maxsize=8192)
def holds_answer(chunk: str, answer: str) -> bool:
    """Whether a chunk holds an answer, both in the form of `ragbench.metrics.matching.normalised`.

    A short answer is in the chunk verbatim, or, where it is amounts and dates, in another form; a
    long one mostly. By this a chunk counts as evidence of an answer where no gold context is known.
    """
    plain = answer.rstrip(".")
    start = chunk.find(plain)
    # Every place is tried: the first one may be a part of another word.
    while start >= 0:
        end = start + len(plain)
        before = chunk[max(start - 1, 0) : start]
        after = chunk[end : end + 1]
        # "art" does not stand in "part", nor "1" in "12".
        is_within_word = before.isalnum() and plain[:1].isalnum()
        if not is_within_word and not after.isdigit():
            return True
        start = chunk.find(plain, start + 1)
    answer_wording = wording(answer)
    # Amounts and dates may be written otherwise: "two weeks" for "14 days".
    if answer_wording.is_typed:
        return answer_wording.is_named_by(wording(chunk))
    tokens = set(multilingual_tokens(answer))
    # A short answer that is not there as it is, is not there.
    if len(tokens) <= _MOST_QUOTED:
        return False
    shared = tokens.intersection(multilingual_tokens(chunk))
    return len(shared) >= _LEAST_COVERED * len(tokens)
