"""Whether people would call an answer right, from its words beside a reference."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

from ragbench.metrics.beside import LONGEST, Beside, Comparison, root, stem, stems
from ragbench.metrics.compared import compared, may_say_otherwise
from ragbench.metrics.compared_amounts import says_more_than_question
from ragbench.metrics.compared_words import is_unsure
from ragbench.metrics.metric import metric
from ragbench.metrics.word_lists import correct_table, word_list
from ragbench.text.amounts import Agreement
from ragbench.text.citations import MARKS, without_citations
from ragbench.text.declining import opens_with_refusal, read_answer
from ragbench.text.language import recognised_language
from ragbench.text.letters import as_written
from ragbench.text.vocabulary import is_spelling_of
from ragbench.text.wording import amount_is_among, wording

_CITE = (
    "logistic regression fitted on people's labels: EVOUNA (Wang et al. 2023, arXiv:2305.12421), "
    "for long references MTRAG's human evaluation (Katsis et al. 2025, arXiv:2501.03468)"
)


_LEAST_RIGHT = 0.8
"""Probability from which on an answer is called right: nearly sure."""
_MOST_WRONG = 0.2
"""Probability up to which an answer is called wrong: nearly sure."""

# Probabilities that people would call an answer right, by what the comparison shows.
AGREED = 0.95
"""Where an amount, a date or a name that can be compared is the same."""
CONTRADICTED = 0.08
"""At most, where it differs."""
REFUSED = 0.12
"""At most, where an answer begins with a refusal: some say what they know all the same."""
UNSAID = 0.22
"""At least, where only words are missing: another wording says the same, and is not known."""
NOT_SAID = 0.45
"""At most, of an answer that says nothing of the reference but what the question says."""
OPEN = 0.5
"""At most, where the words of the reference are there in another order, or among others."""
NOT_COMPARABLE = 0.25
"""Of an answer to a reference of amounts alone, which names none that compares."""
SAME = 0.9995
"""Of an answer in the words of the reference: people called all 2,023 of EVOUNA right, of which
Laplace's rule of succession makes 2024 / 2025."""

_LONGEST_PHRASE = 300
"""Characters that are compared letter by letter, which takes the product of both lengths."""
_MASK = "\0"
"""In the place of each letter of a word that the answer lacks: no text has it."""
_LIKE = 0.75
"""From which likeness on two words may be one, spelled in two ways."""
_MOST_OF_A_SENTENCE = 0.6
"""Share of a sentence's words from which on the answer says the sentence."""
_SAID_ALL_THE_SAME = 0.6
"""Share of the reference's new words from which on a refusal is none."""


@metric(group="generator", abstains=True, probability=True, cite=_CITE, version=8)
def answer_correct(query: str, response: str, references: Sequence[str]) -> float:
    """How likely people would call the answer right, given the references; by its words.

    Free and exact to repeat, where a judge costs calls. Its weights and limits were fitted by
    benchmarks/answer_correct.py; with any change of its values raise ``version``: stored scores of
    runs are compared by it.
    """
    return verdict(query, response, references).probability


class AnswerVerdict(NamedTuple):
    """What the words of an answer say of it."""

    probability: float
    """That people would call it right: 0 to 1."""
    reason: str
    """Why it is right or wrong; empty where only its words were weighed."""


def verdict(query: str, response: str, references: Sequence[str]) -> AnswerVerdict:
    """The verdict on an answer by the reference that speaks most for it: each is a way to be right.

    Besides the probability of ``answer_correct`` it says why, which is shown beside a case's score.
    """
    count = len(references)
    verdicts = [verdict_beside(query, response, reference, count) for reference in references]
    return max(verdicts, key=lambda verdict: verdict.probability)


def probability(query: str, response: str, reference: str, reference_count: int = 1) -> float:
    """How likely people would call an answer right by one of the case's references: 0 to 1.

    For callers that need no reason, which `verdict_beside` gives, too.

    Args:
        reference_count: of the case. An answer like none of many references is more likely wrong.
    """
    return verdict_beside(query, response, reference, reference_count).probability


@lru_cache(maxsize=8192)
def verdict_beside(
    query: str, response: str, reference: str, reference_count: int = 1
) -> AnswerVerdict:
    """How likely people would call an answer right by one of the case's references, and why.

    An answer in the words of the reference is right. In others, what a reference says in a form
    that can be compared comes first: an amount, a date, yes or no, a name, a negation. An answer
    that contradicts it, or declines, is wrong, whatever else it shares. Otherwise a logistic
    regression on words decides, which calls no answer wrong for words that are missing: another
    wording may say the same.

    Args:
        reference_count: how many references the case has.
    """
    # Marks of citations are cut off unless the reference has some: then "[1, 3]" may be the answer.
    if not MARKS.search(reference):
        response = without_citations(response[:LONGEST])
    if response == reference or is_same(response, reference):
        return AnswerVerdict(SAME, "the words of the reference")
    answer = AnswerBeside(query, response, reference, reference_count)
    # The common case of a short answer needs no features.
    if answer.comparison.is_all:
        return _verdict_by_comparison(answer)
    features = answer.features()
    likely = answer.probability_by_words(features)
    return ruled(answer, features, likely)


def ruled(answer: AnswerBeside, features: Mapping[str, float], likely: float) -> AnswerVerdict:
    """The verdict on an answer from the probability by its words and the rules that overrule words.

    A comparison that differs, a refusal or another order of the words limits the probability; only
    missing words never make an answer surely wrong (`UNSAID`). The order of the rules matters, and
    the limits were measured by benchmarks/answer_correct.py: change them only with that.

    Args:
        likely: the probability by its words alone.
    """
    # From here on each test is passed only by answers that the tests above leave open.
    comparison = answer.comparison
    if comparison.is_all:
        return _verdict_by_comparison(answer)
    if comparison.agreement is Agreement.DIFFERENT:
        return AnswerVerdict(min(likely, CONTRADICTED), comparison.reason)
    # The share of the reference's new words: what the question says already shows nothing.
    said = features["recall_of_new"]
    # Asked before a refusal of the answer alone, which is wrong: where both decline, it is right.
    if answer.declines() and answer.reference_declines():
        return AnswerVerdict(max(likely, _LEAST_RIGHT), "both decline")
    # An answer that says most of the reference and declines something else has not declined.
    if said < _SAID_ALL_THE_SAME and answer.declines():
        return AnswerVerdict(min(likely, REFUSED), "the answer declines")
    if not answer.is_long and may_say_otherwise(answer):
        likely = min(likely, OPEN)
    # The feature "unlike" exists for short references alone: it is 0 where a word of the answer is
    # spelled so much like a missing one that it may be that word.
    is_nothing_said = not said and features.get("unlike", 1.0)
    if is_nothing_said or answer.only_repeats_question():
        likely = min(likely, NOT_SAID)
    return AnswerVerdict(max(likely, UNSAID), "")


def _verdict_by_comparison(answer: AnswerBeside) -> AnswerVerdict:
    """The verdict on an answer whose reference was compared as a whole, as one of amounts alone.

    No words are weighed: the comparison, a refusal, or that nothing compares decides. Another
    result for any answer needs a higher version of ``answer_correct``.
    """
    comparison = answer.comparison
    is_same = comparison.agreement is Agreement.SAME
    if is_same and says_more_than_question(answer):
        return AnswerVerdict(AGREED, comparison.reason)
    # "state 0 if there is none": who declines may repeat a number of the question.
    if answer.declines():
        return AnswerVerdict(REFUSED, "the answer declines")
    if is_same:
        return AnswerVerdict(AGREED, comparison.reason)
    if comparison.agreement is Agreement.DIFFERENT:
        return AnswerVerdict(CONTRADICTED, comparison.reason)
    if answer.answer.names_any:
        return AnswerVerdict(OPEN, "")
    return AnswerVerdict(NOT_COMPARABLE, "")


def is_same(response: str, reference: str) -> bool:
    """Whether an answer and a reference have the same words in the same order, and at least one.

    Case, marks and ways to write a number do not count. People call all such answers right. Such an
    answer needs no features, which saves most of the time on short answers.
    """
    words = wording(reference[:LONGEST]).tokens
    answer_words = wording(response[:LONGEST]).tokens
    if len(words) != len(answer_words) or not words:
        return False
    if answer_words == words:
        return True
    if response.isascii() and reference.isascii():
        return False
    # "Muller" is "Müller", where only an accent is left out.
    return as_written(answer_words, words) == words


def sure_verdict(probability: float) -> bool | None:
    """Whether an answer is right, where its probability makes that nearly sure; else None.

    True from 0.8 on, False up to 0.2. What is unsure counts as unchecked, not as wrong.
    """
    if probability >= _LEAST_RIGHT:
        return True
    if probability <= _MOST_WRONG:
        return False
    return None


class AnswerBeside(Beside):
    """An answer beside a reference, as a model weighs it."""

    def __init__(self, query: str, response: str, reference: str, reference_count: int = 1) -> None:
        """Takes an answer apart beside one of a case's references, for ``answer_correct``.

        Each reference of a case gets such an object, and the best one decides.

        Args:
            reference_count: how many references the case has.
        """
        super().__init__(query, response, reference)
        self.reference_count = reference_count
        """How many references the case has: an answer that is like none of twenty is wrong more
        often than one that is not like the only one."""

    @cached_property
    def language(self) -> str:
        """The language of question and reference, where it is clear; else English.

        By it two similar words are looked up, to know a typo from another word.
        """
        return recognised_language(f"{self.query} {self.reference}") or "en"

    @cached_property
    def comparison(self) -> Comparison:
        """How the answer compares by amounts, dates, yes or no: these decide before words do.

        Computed once, though a verdict asks for it in several places.
        """
        return compared(self)

    def only_repeats_question(self) -> bool:
        """Whether the question has all words of the answer, and not all of the reference.

        "What is the capital of Peru?" - "The capital of Peru" shares words with the reference and
        says nothing of it. Another result for any answer needs a higher version of
        ``answer_correct``.
        """
        question_stems = stems(self.query_tokens)
        answer_stems = stems(self.answer_words)
        if not answer_stems or not answer_stems <= question_stems:
            return False
        # Where the reference itself only has words of the question, repeating them does answer it.
        return not stems(self.new_words) <= question_stems

    def probability_by_words(self, features: Mapping[str, float]) -> float:
        """How likely people would call the answer right by its words alone: a logistic regression.

        A short and a long reference have weights of their own in ``correct.toml``, written by
        benchmarks/answer_correct.py. A feature without a weight there is a `KeyError`.

        Args:
            features: of `features`.
        """
        length = "long" if self.is_long else "short"
        weights = correct_table()["weights"][length]
        logit = sum([weights[name] * value for name, value in features.items()])
        # Clipped, so that the exponential stays finite.
        clipped = max(min(logit, 30.0), -30.0)
        return 1 / (1 + math.exp(-clipped))

    def declines(self) -> bool:
        """Whether the answer begins with a refusal to answer this question, as "I don't know" is.

        Words that it repeats from the question must then not make it right.
        """
        return opens_with_refusal(self.response, self.query)

    def reference_declines(self) -> bool:
        """Whether the reference itself says that there is no answer.

        Then an answer that declines is right. Datasets write such references for questions that
        their documents do not answer.
        """
        return read_answer(self.reference).opens

    def features(self) -> dict[str, float]:
        """What the words of the answer say of it, as numbers of about 0 to 1 by name.

        The weights in ``correct.toml`` have the same names, and their sum of products gives the
        probability. A feature that is added, renamed or computed otherwise needs weights fitted
        anew (benchmarks/answer_correct.py) and a higher version of ``answer_correct``.
        """
        unsure = float(is_unsure(self.response))
        # A reference of several facts has features and weights of its own.
        if self.is_long:
            return {**self._features_of_long_reference(), "unsure": unsure}
        return {
            **self._features_of_short_reference(),
            "unsure": unsure,
            **self._features_of_amounts(),
        }

    def _features_of_long_reference(self) -> dict[str, float]:
        """The features of a reference of several facts: how much of it is said, in any order.

        The names are those of weights in ``correct.toml``, which were fitted to these values.
        Whether a fact is said counts there, and not its wording.
        """
        answer_stems = stems(self.answer_words)
        right_stems = stems(self.right_words)
        said = [word for word in self.new_words if stem(word) in answer_stems]
        # Counted over the answer's words: what it adds beyond the reference lowers the precision.
        common = [word for word in self.answer_words if stem(word) in right_stems]
        return {
            "bias": 1.0,
            "recall_of_new": len(said) / max(len(self.new_words), 1),
            "sentences": self._share_of_sentences(answer_stems),
            "precision": len(common) / max(len(self.answer_words), 1),
        }

    def _features_of_short_reference(self) -> dict[str, float]:
        """The features of a reference of one fact: how much of it is said, exactly or nearly.

        An inflected or derived word is the same word. The names are those of weights in
        ``correct.toml``, which were fitted to these values.
        """
        right_roots = tuple(map(root, self.right_words))
        answer_roots = tuple(map(root, self.answer_words))
        distinct_right_roots = set(right_roots)
        distinct_answer_roots = set(answer_roots)
        missing = [word for word in self.new_words if root(word) not in distinct_answer_roots]
        recall_of_new = 0.0
        if self.new_words:
            recall_of_new = 1 - len(missing) / len(self.new_words)
        common = [word for word in answer_roots if word in distinct_right_roots]
        precision = len(common) / max(len(answer_roots), 1)
        recalled = [word for word in right_roots if word in distinct_answer_roots]
        recall = len(recalled) / max(len(right_roots), 1)
        f1 = 0.0
        if recall + precision:
            f1 = 2 * recall * precision / (recall + precision)
        # Ten words here and 60 below are free, but the weights were fitted with them.
        size = min(len(right_roots), 10) / 10
        denials = word_list("denials")
        answer_denies = not denials.isdisjoint(self.answer.tokens)
        right_denies = not denials.isdisjoint(self.right.tokens)
        return {
            "bias": 1.0,
            "recall": recall,
            "recall_of_new": recall_of_new,
            "precision": precision,
            "f1": f1,
            "size": size,
            "recall_by_size": recall * size,
            "length": min(len(answer_roots), 60) / 60,
            # The words are in their order: a name's first and last word tell more than those
            # between.
            "first": float(bool(right_roots) and right_roots[0] in distinct_answer_roots),
            "last": float(bool(right_roots) and right_roots[-1] in distinct_answer_roots),
            "in_question": float(len(self.new_words) < len(right_roots)),
            "turned": float(answer_denies != right_denies),
            "few": 1 / self.reference_count,
            **self._features_of_likeness(right_roots, answer_roots, missing),
        }

    def _features_of_likeness(
        self, right_roots: Sequence[str], answer_roots: Sequence[str], missing: Sequence[str]
    ) -> dict[str, float]:
        """The features of how alike an answer and a short reference are, letter by letter.

        An answer with a typo in the decisive word is right to people, and shares no word. The names
        are those of weights in ``correct.toml``, which were fitted to these values.

        Args:
            missing: the new words of the reference that the answer lacks.
        """
        phrase = " ".join(right_roots)
        whole = " ".join(answer_roots)
        likenesses = [1.0] * (len(self.new_words) - len(missing))
        if missing:
            candidates = _words_without_numbers(self.answer_words)
            other_roots: set[str] = set()
            for word in missing:
                likeness = _likeness_to_nearest(word, candidates, self.language)
                likenesses.append(likeness)
                if likeness <= _OTHER_WORD:
                    other_roots.add(root(word))
            # A word of which the answer has only a look-alike is not in the phrase.
            masked_roots: list[str] = []
            for word in right_roots:
                is_masked = word in other_roots
                masked_roots.append(_MASK * len(word) if is_masked else word)
            phrase = " ".join(masked_roots)
        nearest = max(likenesses, default=0.0)
        near_phrase = _phrase_likeness(phrase, whole)
        if whole:
            near_phrase = max(near_phrase, _OTHER_WORD)
        return {
            "phrase": float(f" {phrase} " in f" {whole} "),
            "near_phrase": near_phrase,
            "near": sum(likenesses) / max(len(likenesses), 1),
            "least_near": min(likenesses, default=0.0),
            "unlike": float(nearest < _LIKE),
        }

    def _features_of_amounts(self) -> dict[str, float]:
        """The features of a short reference's amounts: how many are said, and how many others.

        The names are those of weights in ``correct.toml``, which were fitted to these values.
        """
        in_answer = self.answer.amounts
        right = self.right.amounts
        in_query = self.query_wording.amounts
        if not right and not in_answer:
            return _NO_AMOUNTS
        # What the question says already shows nothing, unless it says them all. The five other
        # numbers below are a free bound that the weights were fitted with.
        new_amounts = [amount for amount in right if amount not in in_query] or right
        held_count = 0
        for amount in new_amounts:
            if amount in in_answer or amount_is_among(amount, in_answer):
                held_count += 1
        share_held = 0.0
        if new_amounts:
            share_held = held_count / len(new_amounts)
        other_numbers = {amount.number for amount in in_answer}
        other_numbers.difference_update([amount.number for amount in right + in_query])
        return {
            "amounts": float(share_held == 1.0),
            "amounts_missing": float(held_count < len(new_amounts)),
            "amounts_held": share_held,
            "other_amounts": min(len(other_numbers), 5) / 5,
        }

    def _share_of_sentences(self, answer_stems: set[str]) -> float:
        """Share of the reference's sentences of which the answer has most words, 0 to 1.

        A long reference is a list of facts: an answer that says half of them is not the one that
        has half of the words of each. `_MOST_OF_A_SENTENCE` was chosen with the fitted weights.

        Args:
            answer_stems: the stems of the answer's words.
        """
        common = word_list("common")
        said = 0
        count = 0
        for sentence in _REFERENCE_SENTENCE.split(self.reference):
            words = [word for word in wording(sentence).tokens if word not in common]
            # A sentence of common words alone has no words to be said, and does not count.
            if not words:
                continue
            count += 1
            shared = len([word for word in words if stem(word) in answer_stems])
            if shared / len(words) >= _MOST_OF_A_SENTENCE:
                said += 1
        if not count:
            return 0.0
        return said / count


_REFERENCE_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_NO_AMOUNTS = {"amounts": 0.0, "amounts_missing": 0.0, "amounts_held": 0.0, "other_amounts": 0.0}


def _phrase_likeness(phrase: str, text: str) -> float:
    """How alike a phrase and the nearest stretch of a text are, 0 to 1, by their letters.

    A value that ``answer_correct`` has a weight for: it was fitted with rapidfuzz's partial ratio.
    """
    if not phrase or not text:
        return 0.0
    if f" {phrase} " in f" {text} ":
        return 1.0
    # Imported when an answer is first compared by letters: most runs never do.
    from rapidfuzz.fuzz import partial_ratio

    return partial_ratio(phrase[:_LONGEST_PHRASE], text) / 100


def _words_without_numbers(words: Sequence[str]) -> list[str]:
    """The distinct words that are no numbers, as `_likeness_to_nearest` compares them.

    Each is cut after `_LONGEST_PHRASE` letters: comparing takes the product of both lengths.
    """
    distinct_words = dict.fromkeys(words)
    return [word[:_LONGEST_PHRASE] for word in distinct_words if not word[-1].isdecimal()]


def _likeness_to_nearest(word: str, candidates: Sequence[str], language: str) -> float:
    """How alike a word and the nearest of an answer's words are, 0 to 1, by their letters.

    A typo in an answer is nearly the word that was meant. Another word that exists is no more alike
    than any other, however near its letters are; a number is itself or not. ``answer_correct`` has
    weights that were fitted to these values.

    Args:
        word: of the reference, which the answer lacks.
        candidates: the answer's words, from `_words_without_numbers`.
        language: of the texts.
    """
    from rapidfuzz import fuzz, process

    if word[-1].isdecimal() or not candidates:
        return 0.0
    word_start = word[:_LONGEST_PHRASE]
    _, score, _ = process.extractOne(word_start, candidates, scorer=fuzz.ratio)
    if score / 100 <= _OTHER_WORD:
        return score / 100
    for candidate in candidates:  # several may be as near
        is_as_near = fuzz.ratio(word_start, candidate) >= score
        if is_as_near and is_spelling_of(word, candidate, language):
            return score / 100
    return _OTHER_WORD


_OTHER_WORD = 0.5
"""How alike the nearest word of an answer to a word that it lacks is on EVOUNA, in the mean."""
