"""Slots: what a question names, and whether the text that seems to answer it is of just that.

A slot is unbound where the chunk does not have its value and the sentences that seem to answer
name a rival in its place: another identifier of that form, another year, the opposite. Each rule is
a line of `RULES`, called where a question holds what it is about; what each costs and gains on
labelled sets is in docs/measured/validators.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from difflib import get_close_matches
from functools import cache, lru_cache, partial
from typing import NamedTuple
from unicodedata import combining, normalize

from ragbench.text.language import function_words
from ragbench.text.question import parse_question
from ragbench.text.sentences import Span, split_sentences
from ragbench.text.table_rows import row_around
from ragbench.text.tables import Patterns, table
from ragbench.text.tokens import normalise, tokenise
from ragbench.validators.parts import named_words

_WORDS = Patterns("ragbench.validators", "slots", flags=re.IGNORECASE)
"""The expressions of ``slots.toml``, by their names there."""


def unbound(query: str, text: str, quoted: str, rules: Sequence[str]) -> str:
    """The reason why a chunk leaves a slot of a question unbound; empty where it leaves none.

    A slot is something that the question names, such as a year or an identifier; it is unbound
    where the chunk has another value in its place. A near miss reads like an answer and shares
    nearly all words with the question: an unbound slot tells the two apart.

    Args:
        query: the question.
        text: of the chunk.
        quoted: the sentences of it that seem to answer.
        rules: names of the rules of `RULES` that count.
    """
    applicable = _applicable_rules(query)
    # Looked up once for the question, and then used for each chunk.
    for name in rules:
        if name in applicable:
            # The first objection of the first rule is enough: one makes it a near miss.
            objection = next(RULES[name](query, text, quoted), "")
            if objection:
                return objection
    return ""


@lru_cache(maxsize=1024)
def _applicable_rules(query: str) -> frozenset[str]:
    """The names of the rules that are about something in a question.

    A rule objects to a chunk that answers for another name, year or the like. Which rules can apply
    depends on the question alone, and is looked up once for all of its chunks: most rules find
    nothing in a given question.
    """
    names: set[str] = set()
    if query:
        # These rules are always tried: they look into the question themselves.
        names.update(("unknown", "cause", "comparison", "definition", "life", "row"))
    if identifiers(query):
        names.add("identifier")
    # Whether the question asks for a date, a time or a number.
    if any(_WORDS[f"asks_{kind}"].match(query) for kind in _KINDS_OF_ANSWERS):
        names.add("time")
    if _asks_what_is_not(query):
        names.add("polarity")
    if is_yes_or_no(query):
        names.add("predicate")
        # "No, only in 1997" answers a yes-or-no question, in other numbers and in opposite words.
        return frozenset(names)
    has_number = _WORDS["number"].search(_normalised(query)) is not None
    # A text that states a rule answers "I drove 240 km: what do I get?" without that number.
    is_about_own_case = _WORDS["own_case"].search(query) is not None
    if has_number and not is_about_own_case:
        names.add("number")
    if _NAME.search(query, 1):  # the first word has a capital in any case
        names.add("entity")
    # By stems, since a text may have another form of the word.
    stems = _words_with_neighbours(query).keys()
    if not stems.isdisjoint(_opposites()):
        names.add("opposite")
    return frozenset(names)


def _asks_what_is_not(query: str) -> bool:
    """Whether a query asks for a fact with a negation, as "Which room is not heated?" does.

    A text that says which room is heated shares all words of the query, and answers the opposite.
    """
    if not _WORDS["not"].search(query) or not _WORDS["fact"].match(query):
        return False
    # "What can I do if it is not heated?" asks what is so, under a condition.
    if _WORDS["condition"].search(query):
        return False
    return "whether or not" not in query.lower()


@lru_cache(maxsize=1024)
def is_yes_or_no(query: str) -> bool:
    """Whether a question can be answered by yes or no.

    "Is smoking allowed?" is answered by "Smoking is forbidden": the opposite is no objection there.
    """
    return _WORDS["yes_or_no"].match(query) is not None


# --- identifiers: a token with letter and digit, an underscore or an inner dot; an option

_CODE = re.compile(r"(?<![\w.-])(?:--?)?[^\W_]\w*(?:[._/-]\w+)*")
"""A word with all that is joined to it by dots, slashes and dashes."""
_PLAIN = re.compile(
    r"""
    \d+(?:st|nd|rd|th|s)?(?:-[a-z-]{2,})?  # ordinals, decades, ages: 3rd, 1990s, 12-year-old
    |(?:mid|early|late|pre|post)-\d+\w*    # mid-1990s
    |\d+(?:[.,]\d+)?[a-z]{1,3}             # amounts: 2.5kg
    |(?:[a-z]\.)+[a-z]?                    # U.S
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""What looks like an identifier and is none."""
_FLAG = re.compile(r"--[a-z]|-[a-z]$", re.IGNORECASE)
"""An option of a command, long or of one letter."""
_DOTTED = re.compile(r"[a-z]\w+(?:\.[a-zA-Z]\w+)+")
"""Words joined by dots, as modules and fields are: config.timeout."""


@lru_cache(maxsize=4096)
def identifiers(text: str) -> tuple[str, ...]:
    """The identifiers in a text, in its order, such as INC-48213, load_config, v2.3 and --force.

    A text about another identifier is no answer, however alike it reads.
    """
    return tuple([word for word in _CODE.findall(text) if _is_identifier(word)])


def _is_identifier(word: str) -> bool:
    """Whether a word is an identifier: with letter and digit, underscore, dashes or inner dots.

    Dashes count at the beginning of a word, as in --force. A digit counts beside ASCII letters
    alone: in a script without spaces, such as Chinese, a whole clause with a digit looks like one
    word.
    """
    # Looked at first: amounts and ordinals have letters and digits, too.
    if _PLAIN.fullmatch(word):
        return False
    has_letter = re.search(r"[a-zA-Z]", word) is not None
    has_digit = re.search(r"\d", word) is not None
    if word.isascii() and has_letter and has_digit:
        return True
    if "_" in word or _FLAG.match(word):
        return True
    return _DOTTED.fullmatch(word) is not None


def _other_identifier(query: str, text: str, quoted: str) -> Iterator[str]:
    """The objections to a chunk without an identifier of the question, but with a rival.

    A rival is another identifier of the same form.

    An objection turns a seeming answer into a near miss. All rules take the same parameters: the
    question, the chunk's text, and its sentences that seem to answer.
    """
    # Each by itself: one that is missing is enough.
    for identifier in identifiers(query):
        # However its parts are joined: INC-48213 is INC 48213.
        parts = re.findall(r"[^\W\d_]+|\d+", identifier.lower())
        joined_anyhow = r"[\W_]{0,2}".join(re.escape(part) for part in parts)
        # In the chunk, in whatever form: it is about the right thing.
        if re.search(rf"(?<![^\W_]){joined_anyhow}(?![^\W_])", text.lower()):
            continue
        if _WORDS["version"].fullmatch(identifier) and _WORDS["range"].search(quoted):
            continue  # "Since v2.1" speaks of v2.3, too
        # Of the whole chunk: a near miss may name the rival anywhere.
        for rival in identifiers(text):
            if _is_rival(identifier.lower(), rival.lower()):
                yield f"'{identifier}' is not in this chunk; '{rival}' is"
                # One rival is enough for each identifier.
                break


def _is_rival(identifier: str, rival: str) -> bool:
    """Whether one identifier may stand in the place of another, since both are of one form.

    INC-48213 and INC-48231 are, load_config and save_config, api.v1.users and api.v1.orders. A text
    that names a rival answers the question for the wrong thing; any other identifier in it says
    nothing.
    """
    # Any other option is a rival of an option.
    if _FLAG.match(identifier):
        return _FLAG.match(rival) is not None
    has_digit = re.search(r"\d", identifier) is not None
    # Of one form but for the numbers.
    if has_digit and _without_digits(identifier) == _without_digits(rival):
        return True
    parts = re.split(r"[._/-]", identifier)
    rival_parts = re.split(r"[._/-]", rival)
    # Of another number of parts, it names another kind of thing.
    if len(parts) != len(rival_parts):
        return False
    differing = 0
    for part, rival_part in zip(parts, rival_parts, strict=True):
        if part != rival_part:
            differing += 1
            # No rivals: GPT-4 may stand for GPT-4o, IL-18 beside IL-1beta.
            if _form(part) != _form(rival_part):
                return False
    # Names in code share any part (load_config, save_config), others the first one.
    if "_" in identifier:
        # At least one part must be common.
        return differing < len(parts)
    return parts[0] == rival_parts[0]


def _without_digits(word: str) -> str:
    """A word with a 0 in the place of each number: INC-48213 and INC-7 are both INC-0.

    Two identifiers that are equal so are of one form, and may stand for each other.
    """
    return re.sub(r"\d+", "0", word)


def _form(part: str) -> str:
    """The form of a part of an identifier: its kinds of letters in order, so "v2b" gives "a0a".

    Only parts of one form can be rivals.
    """
    return re.sub(r"[^\W\d]+", "a", _without_digits(part))


# --- numbers and names, by the words beside them

Neighbour = tuple[str, str]
"""The word ``"before"`` or ``"behind"`` another one: which of both, and its stem."""
_REACH_OF_NEIGHBOUR = 30
"""Characters beside a place that are looked at for its neighbour: room for one long word."""


def _other_number(query: str, text: str, quoted: str) -> Iterator[str]:
    """The objections to a chunk that lacks a number of the question and has a rival in its place.

    Of two years one takes the other's place; of other numbers where the same word is beside it.

    An objection turns a seeming answer into a near miss. All rules take the same parameters: the
    question, the chunk's text, and its sentences that seem to answer.
    """
    question = _normalised(query)
    plain_text = _normalised(text)
    plain_quote = _normalised(quoted)
    for match in _WORDS["number"].finditer(question):
        number = match[0]
        # The chunk has the question's number, in whatever form it is written.
        if re.search(_forms(number), plain_text):
            continue
        # Percentages vary with each text, and name no thing.
        if _WORDS["percent"].match(question, match.end()):
            continue
        rivals: list[str] = []
        # Any year of the chunk, whatever is beside it.
        if _is_year(number):
            rivals += _years(plain_text)
        neighbours = _neighbours(question, match.span())
        # Numbers that are no years are rivals only in the sentences that seem to answer, and only
        # beside the same word as in the question.
        for candidate in _WORDS["number"].finditer(plain_quote):
            if neighbours & _neighbours(plain_quote, candidate.span()):
                rivals.append(candidate[0])
        for rival in rivals:
            # A number of the question's own is no rival.
            if rival not in question:
                yield f"'{number}' is not in this chunk; '{rival}' is"
                break


def _years(text: str) -> list[str]:
    """The numbers of a normalised text that may be years.

    One of them is a rival of the question's year.
    """
    return [number for number in _WORDS["number"].findall(text) if _is_year(number)]


_THOUSANDS = re.compile(r"(?<![\d,.])\d{1,3}(?:,\d{3})+(?!,?\d)")
"""A number with commas: 1,200,000. Not a row of a table, such as 1,2,345."""


def _normalised(text: str) -> str:
    """A text in small letters and plain signs for comparison, without the commas in numbers.

    In this form "1,200" equals "1200".
    """
    return _THOUSANDS.sub(lambda number: number[0].replace(",", ""), normalise(text))


def _is_year(number: str) -> bool:
    """Whether a number, in digits, may be a year from 1000 to 2099.

    Another year than the question's is a reason to object, whatever words are beside that year.
    """
    return re.fullmatch(r"1\d{3}|20\d\d", number) is not None


def _neighbours(text: str, span: tuple[int, int]) -> set[Neighbour]:
    """The words right before and right behind a place of a text, by their stems.

    Two numbers or names with the same neighbour say the same of two things: "room 12", "room 14".

    Args:
        span: start and end of the place in the text.
    """
    start, end = span
    neighbours: set[Neighbour] = set()
    # Cut, so that the search does not go through the whole text.
    text_before = text[max(0, start - _REACH_OF_NEIGHBOUR) : start]
    # One or two signs may lie between, such as a hyphen or a quote.
    word_before = re.search(r"([^\W\d_]+)\W{1,2}$", text_before)
    if word_before:
        neighbours.add(("before", _stem(word_before[1])))
    text_behind = text[end : end + _REACH_OF_NEIGHBOUR]
    # With a unit or a currency sign as its word.
    word_behind = re.match(r"[ -]?([^\W\d_]+|[%€$])", text_behind)
    if word_behind:
        neighbours.add(("behind", _stem(word_behind[1])))
    return neighbours


@lru_cache(maxsize=8192)
def _forms(number: str) -> str:
    """An expression for all ways to write a number: 1700s and 18th century, 2 and two and II.

    A chunk with any of them holds the question's number.
    """
    digits = number.removesuffix("s")
    is_decade = number.endswith("s") and len(digits) == 4
    if is_decade:
        # Any year of the decade names it: 1987 is in the 1980s.
        decade = digits[:3]
        # Of the 1700s, the decade and the century are both named so.
        if not digits.endswith("00"):
            return decade
        century = int(digits[:2]) + 1
        return f"{decade}|{century}th"
    in_digits = rf"(?<!\d){re.escape(digits)}(?!\d)"
    spelled = table("ragbench.validators", "slots")["spelled"].split()
    # Small numbers may be spelled out, or written in Roman letters.
    if digits.isdigit() and int(digits) < len(spelled):
        word = spelled[int(digits)]
        # Any Roman numeral may be it: where it is not, the chunk is only not objected to.
        return rf"{in_digits}|\b{word}\b|\b[ivx]+\b"
    return in_digits


_NAME = re.compile(r"(?<![\w.&-])[A-Z][a-zà-öø-þ][\w'’-]*\b")
"""A word that begins with a capital and goes on in small letters, unlike an abbreviation."""
_COMMON_NEIGHBOURS: set[Neighbour] = {
    ("before", word) for word in ("the", "a", "an", "did", "of", "is", "by", "to", "with")
}
"""Words before names of any kind: that two names follow them does not make them rivals."""
_COMMON_LETTERS = 4
"""Letters that two forms of one name share at their beginning: Korea and Korean."""
_SPELLED_ALIKE = 0.75
"""Similarity, by `difflib`, from which on two words are two spellings of one name."""


def _other_name(query: str, text: str, quoted: str) -> Iterator[str]:
    """The objections to a chunk that lacks a name of the question and has another in its place.

    A text about another person or product reads like the answer, and is of the wrong one.

    An objection turns a seeming answer into a near miss. All rules take the same parameters: the
    question, the chunk's text, and its sentences that seem to answer.
    """
    query_tokens = frozenset(tokenise(query))
    common = function_words()["en"].split()
    # From the second letter on: the first word has a capital anyway.
    for match in _NAME.finditer(query, 1):
        name = match[0]
        neighbours = _neighbours(query.lower(), match.span()) - _COMMON_NEIGHBOURS
        is_common_word = name.lower() in common
        # Without a telling neighbour no name can be said to be in its place.
        if not neighbours or is_common_word or _is_in(name, text):
            continue
        for candidate in _NAME.finditer(quoted):
            rival = candidate[0]
            # A name that is in the question as well is no rival.
            if not query_tokens.isdisjoint(tokenise(rival)):
                continue
            if neighbours & _neighbours(quoted.lower(), candidate.span()):
                yield f"'{name}' is not in this chunk; '{rival}' is"


def _is_in(name: str, text: str) -> bool:
    """Whether a text holds a name, perhaps in another spelling or as a word derived from it.

    A text often calls a thing by another form of its name, which is no reason to object.
    """
    folded_name = _folded(name)
    words = set(re.findall(r"[a-z]+", _folded(text)))
    beginning = folded_name[:_COMMON_LETTERS]
    # Four letters are enough for a form of a name; an objection must be sure.
    if any(word[:_COMMON_LETTERS] == beginning for word in words):
        return True
    similar_words = get_close_matches(folded_name, words, n=1, cutoff=_SPELLED_ALIKE)
    return bool(similar_words)


def _folded(text: str) -> str:
    """A text in small letters without accents, since names are often written without theirs.

    "Ångström" and "Angstrom" are then one name.
    """
    # NFKD parts a letter from its accent, which is then a combining character.
    decomposed = normalize("NFKD", text.casefold())
    return "".join([letter for letter in decomposed if not combining(letter)])


# --- polarity


class _Word(NamedTuple):
    """A word of a text, as it is written, with the words beside it."""

    written: str
    neighbours: set[Neighbour]


def _opposite(query: str, text: str, quoted: str) -> Iterator[str]:
    """The objections to sentences that say the opposite of a word of the question.

    Such sentences answer another question: the last director is not the first one.

    An objection turns a seeming answer into a near miss. All rules take the same parameters: the
    question, the chunk's text, and its sentences that seem to answer.
    """
    in_query = _words_with_neighbours(query)
    in_quote = _words_with_neighbours(quoted)
    for stem, word in in_query.items():
        # The sentences have the word itself.
        if stem in in_quote:
            continue
        # Sorted, so that the same objection comes in every process.
        for opposite, is_anywhere in sorted(_opposites().get(stem, {}).items()):
            # A question that has both words asks about both.
            if opposite not in in_quote or opposite in in_query:
                continue
            rival = in_quote[opposite]
            if is_anywhere or word.neighbours & rival.neighbours:
                yield f"it says '{rival.written}', not '{word.written}'"


@lru_cache(maxsize=1024)
def _words_with_neighbours(text: str) -> Mapping[str, _Word]:
    """The words of a text by their stems, each with its neighbours; articles do not count.

    With articles left out, "the first director" and "a last director" have the same neighbour.
    """
    # Articles would separate a word from its neighbour.
    plain = re.sub(r"\b(?:the|an?) ", "", text.lower())
    words: dict[str, _Word] = {}
    for match in re.finditer(r"[a-z]+", plain):
        neighbours = _neighbours(plain, match.span()) - _COMMON_NEIGHBOURS
        # Of a word that comes twice, the last place counts.
        words[_stem(match[0])] = _Word(match[0], neighbours)
    return words


@cache
def _opposites() -> Mapping[str, Mapping[str, bool]]:
    """By the stem of a word, its opposites, each with whether they are opposite anywhere.

    Verbs are opposite anywhere; other words only beside the same word: the first director, the last
    director. Each pair is there both ways.
    """
    entries = table("ragbench.validators", "slots")
    opposites: dict[str, dict[str, bool]] = {}
    # Verbs last: a pair of both lists counts as opposite anywhere.
    for key, is_anywhere in (("antonyms", False), ("verbs", True)):
        for pair in entries[key].split("|"):
            word, opposite = pair.split()
            word_stem = _stem(word)
            opposite_stem = _stem(opposite)
            opposites.setdefault(word_stem, {})[opposite_stem] = is_anywhere
            opposites.setdefault(opposite_stem, {})[word_stem] = is_anywhere
    return opposites


@lru_cache(maxsize=8192)
def _stem(word: str) -> str:
    """The stem of a word, the same for all of its forms: lost, loses and losing.

    Forms that mean two things keep their letters.

    A text may use another form of a question's word: it is the same word.
    """
    if _WORDS["ambiguous"].match(word):
        return word  # what is close to the station is not closed
    # Irregular forms are listed; the others are cut to their stem.
    irregular = table("ragbench.validators", "slots")["irregular"]
    return "".join(tokenise(irregular.get(word, word)))


_AFFIRMED = 0.6
"""Share of the question's words from which on a sentence says what the question denies."""


def _affirms(query: str, text: str, quoted: str) -> Iterator[str]:
    """The objection to a sentence that says what is so where the question asks what is not.

    "Which room is not heated?" is not answered by "Room 5 is heated".

    An objection turns a seeming answer into a near miss. All rules take the same parameters: the
    question, the chunk's text, and its sentences that seem to answer.
    """
    # The question without its "not", as a text would say what is so.
    query_tokens = frozenset(parse_question(_WORDS["not"].sub(" ", query)).tokens)
    shared = query_tokens.intersection(tokenise(quoted))
    says_the_same = len(shared) >= _AFFIRMED * len(query_tokens)
    # A denial in the sentences may be the very answer.
    if says_the_same and not _WORDS["denies"].search(quoted):
        yield "it says what is so, and the question asks what is not"


_MOST_NEW_WORDS = 3
"""Words beside the question's up to which a sentence that says "unknown" says no more than that."""


def _says_unknown(query: str, text: str, quoted: str) -> Iterator[str]:
    """The objection to sentences that say that the answer is unknown, and hardly more.

    Such a sentence shares the question's words, and gives no answer.

    An objection turns a seeming answer into a near miss. All rules take the same parameters: the
    question, the chunk's text, and its sentences that seem to answer.
    """
    unknown = _WORDS["unknown"].search(quoted)
    if unknown is None:
        return
    last_word = unknown[0].split()[-1].lower()
    if last_word in query.lower():
        return  # a question about what is unknown
    # The sentences without the phrase that says so.
    around = f"{quoted[: unknown.start()]} {quoted[unknown.end() :]}"
    # Words that neither question nor phrase has.
    new_tokens = set(parse_question(around).tokens).difference(tokenise(query))
    if len(new_tokens) <= _MOST_NEW_WORDS:
        phrase = unknown[0].strip(" :")
        yield f"it says '{phrase}'"


_KINDS_OF_ANSWERS = ("date", "time", "number")
"""Each is asked for by the expression ``asks_...`` and recognised by ``holds_...``."""


def _lacks_kind(query: str, text: str, quoted: str) -> Iterator[str]:
    """The objections to sentences without a date, a time or a number where one is asked for.

    "It was built by hand" does not answer "When was it built?".

    An objection turns a seeming answer into a near miss. All rules take the same parameters: the
    question, the chunk's text, and its sentences that seem to answer.
    """
    for kind in _KINDS_OF_ANSWERS:
        if _WORDS[f"asks_{kind}"].match(query) and not _WORDS[f"holds_{kind}"].search(quoted):
            yield f"it names no {kind}"


# --- cause and effect, and the two sides of a comparison


class _Direction(NamedTuple):
    """Of a cause and its effect, which one is asked for: names of expressions in ``slots.toml``."""

    question: str
    """The expression for such a question."""
    wrong: str
    """The one for words that tell the other of the two: in "rust causes leaks" no cause of rust."""
    right: str
    """The one for words that tell what is asked: "rust comes from oxygen"."""
    objection: str


_DIRECTIONS = (
    _Direction("asks_cause", "leads_to", "comes_from", "leads to, not what causes it"),
    _Direction("asks_effect", "comes_from", "leads_to", "comes from, not what it leads to"),
)


def _other_direction(query: str, text: str, quoted: str) -> Iterator[str]:
    """The objections to a chunk with the effects of a thing where its causes are asked for.

    The same holds for causes where the effects are asked for.

    An objection turns a seeming answer into a near miss. All rules take the same parameters: the
    question, the chunk's text, and its sentences that seem to answer.
    """
    for direction in _DIRECTIONS:
        question = _WORDS[direction.question].match(query)
        if question is None:
            continue
        topic = question["named"]
        topic_tokens = frozenset(parse_question(topic).tokens)
        # Anywhere in the chunk: then it does tell what is asked.
        if any(_tells(sentence, topic_tokens, direction) for sentence in _sentences(text)):
            return
        for sentence in _sentences(quoted):
            verb = _WORDS[direction.wrong].search(sentence)
            if verb is None:
                continue
            # What comes before the verb is its subject.
            subject_tokens = tokenise(sentence[: verb.start()])
            # Half of its words as the subject of the verb are enough: "acid rain" is "the rain".
            if 2 * len(topic_tokens.intersection(subject_tokens)) >= len(topic_tokens):
                yield f"it says what '{topic.strip(' ?')}' {direction.objection}"


def _tells(sentence: str, topic_tokens: Set[str], direction: _Direction) -> bool:
    """Whether a sentence tells what is asked: "oxygen causes rust", "rust is caused by oxygen".

    Both sentences answer "what causes rust". The topic there is rust: "causes" with rust as its
    subject would tell effects, so it is the verb of the wrong direction, and tells a cause only
    with rust as its object. "Is caused by" is of the right direction.
    """
    wrong_verb = _WORDS[direction.wrong].search(sentence)
    if wrong_verb is not None:
        # What comes behind the verb is its object.
        object_tokens = tokenise(sentence[wrong_verb.end() :])
        if not topic_tokens.isdisjoint(object_tokens):
            return True
    # Without a verb of the right direction either, the sentence does not tell what is asked.
    if _WORDS[direction.right].search(sentence) is None:
        return False
    return not topic_tokens.isdisjoint(tokenise(sentence))


def _sentences(text: str) -> list[str]:
    """The sentences of a text, each as a text of its own.

    Whether a text tells a cause is decided sentence by sentence.
    """
    return [text[span.start : span.end] for span in split_sentences(text)]


def _one_side(query: str, text: str, quoted: str) -> Iterator[str]:
    """The objections to a chunk that lacks one of two things that a question compares.

    Only words that the two do not share name a side: of "red wine and white wine" not "wine".

    An objection turns a seeming answer into a near miss. All rules take the same parameters: the
    question, the chunk's text, and its sentences that seem to answer.
    """
    comparison = _WORDS["compares"].search(query)
    if comparison is None:
        return
    left = comparison["one"]
    right = comparison["other"]
    left_tokens = set(parse_question(left).tokens)
    right_tokens = set(parse_question(right).tokens)
    sides = ((left, left_tokens - right_tokens), (right, right_tokens - left_tokens))
    for name, own_tokens in sides:
        # A side without words of its own cannot be looked for.
        if own_tokens and not _is_named(name, own_tokens, text):
            yield f"'{name.strip()}' is not in this chunk"


def _is_named(name: str, tokens: Set[str], text: str) -> bool:
    """Whether a chunk holds a token of a name, or the name joined in another way, such as t-DPT.

    A chunk that names a thing in any form is not objected to.
    """
    if not tokens.isdisjoint(tokenise(text)) or _is_in(name, text):
        return True
    # Without spaces and dashes: "t-DPT" is "tDPT".
    name_letters = re.sub(r"\W+", "", name).lower()
    text_letters = re.sub(r"\W+", "", text).lower()
    return name_letters in text_letters


def _undefined(query: str, text: str, quoted: str) -> Iterator[str]:
    """The objections to a chunk that lacks the term whose meaning is asked, or only contrasts it.

    "Unlike photosynthesis, respiration takes place in the mitochondria" says what respiration is.

    An objection turns a seeming answer into a near miss. All rules take the same parameters: the
    question, the chunk's text, and its sentences that seem to answer.
    """
    question = _WORDS["asks_definition"].match(query)
    if question is None:
        return
    term = question["named"]
    tokens = set(parse_question(term).tokens)
    # Not named at all: nothing can define it there.
    if not _is_named(term, tokens, text):
        yield f"'{term}' is not in this chunk"
        return
    in_contrast = re.compile(_WORDS["contrast"].pattern + re.escape(term), re.IGNORECASE)
    # Without the contrasts, the term must still be there.
    without_contrasts, contrasts = in_contrast.subn(" ", text)
    if contrasts and not _is_named(term, tokens, without_contrasts):
        yield f"it names '{term}' only beside another thing"


_SHORTEST_LIFE = 25
_LONGEST_LIFE = 110
"""Years between the two dates of a life: (1677-1683) is when something was built."""


def _life_date(query: str, text: str, quoted: str) -> Iterator[str]:
    """The objection to sentences whose only date is of a life, where the question asks when.

    "Ada Lovelace (1815-1852) wrote the first program" does not say when she wrote it.

    An objection turns a seeming answer into a near miss. All rules take the same parameters: the
    question, the chunk's text, and its sentences that seem to answer.
    """
    asks_when = _WORDS["asks_time"].match(query) or _WORDS["asks_date"].match(query)
    asks_about_life = _WORDS["life"].search(query) is not None
    if not asks_when or asks_about_life:
        # A question about a life is answered by just such dates.
        return
    lives: list[str] = []
    for dates in _WORDS["life_date"].finditer(quoted):
        if _is_life(dates):
            lives.append(dates[0])
    if not lives:
        return
    # What is left without the dates of lives.
    elsewhere = quoted
    for life in lives:
        elsewhere = elsewhere.replace(life, " ")
    if not _WORDS["a_date"].search(elsewhere):
        yield f"its only date is of a life: '{lives[0]}'"


def _is_life(dates: re.Match[str]) -> bool:
    """Whether dates in brackets are those of a life: a birth alone, or two a life apart.

    Other dates in brackets may be the answer: (1677-1683) is when something was built.
    """
    if dates["birth"] is None:
        return True  # "born in 1815" is written with the word
    # The expression that found the dates takes only years for birth and death.
    years = int(dates["death"]) - int(dates["birth"])
    return _SHORTEST_LIFE <= years <= _LONGEST_LIFE


def _other_row(query: str, text: str, quoted: str) -> Iterator[str]:
    """The objection to a quoted row of a table that shares no word with the question.

    The words of its header count, too. Numbers are no such words: those of a question may be in any
    row.

    An objection turns a seeming answer into a near miss. All rules take the same parameters: the
    question, the chunk's text, and its sentences that seem to answer.
    """
    start = text.find(quoted)
    if start < 0 or not quoted:
        return  # quotes of several places are no row
    row = row_around(text, Span(start, start + len(quoted)))
    if row is None:
        return
    row_text = text[row.span.start : row.span.end]
    if row.header is not None:
        # The header may have the word that the question asks by.
        row_text += f" {text[row.header.start : row.header.end]}"
    # Digits are in many rows by chance.
    query_words = {token for token in parse_question(query).tokens if not token.isdigit()}
    if query_words and query_words.isdisjoint(tokenise(row_text)):
        yield "its row is of another thing"


_WORDS_OF_PREDICATE = 2
"""Last words of a question of yes or no that say what is asked of its subject."""
_BEHIND_NAME = re.compile(r"[A-Z0-9][\w-]* ([a-z]+)")
"""A noun behind a name is its subject, too: "the X200 printer"."""


def _no_predicate(query: str, text: str, quoted: str) -> Iterator[str]:
    """The objection to a chunk that names a yes-or-no question's subject and nothing else.

    Such a chunk tells other features of the subject. Where no name is in the question, an answer in
    other words looks just like such a chunk, and nothing is objected.

    An objection turns a seeming answer into a near miss. All rules take the same parameters: the
    question, the chunk's text, and its sentences that seem to answer.
    """
    names = named_words(query)
    # A text that denies something may answer no in words of its own.
    if not names or _WORDS["denies"].search(text):
        return
    # All that names the subject, with the noun behind a name.
    subject_tokens = _tokens_of([*names, *_BEHIND_NAME.findall(query)])
    verb_tokens = _tokens_of(_WORDS["any_feature"].findall(query))
    content_tokens: list[str] = []
    # What is neither subject nor an auxiliary such as "support".
    for token in parse_question(query).tokens:
        if token not in subject_tokens and token not in verb_tokens:
            content_tokens.append(token)
    predicate = content_tokens[-_WORDS_OF_PREDICATE:]
    # The words before the last two are the subject's, too.
    subject_tokens.update(content_tokens[:-_WORDS_OF_PREDICATE])
    text_tokens = set(tokenise(text))
    has_subject = subject_tokens <= text_tokens
    # The chunk is about the subject, and has no word of what is asked about it.
    if predicate and has_subject and text_tokens.isdisjoint(predicate):
        yield "it tells other things of what the question names"


def _tokens_of(words: Sequence[str]) -> set[str]:
    """The tokens of several words in one set.

    Words of a question and of a text are compared by their tokens, in one form.
    """
    tokens: set[str] = set()
    for word in words:
        tokens.update(tokenise(word))
    return tokens


# --- repeated questions

_FEWEST_WORDS = 3
"""Words that a question must have to be looked for: one or two may be anywhere in a text that
answers it, and are no repeated question."""
_ANSWER_WITHIN = 400
"""Characters behind a repeated question that are looked at for a reply: room for a sentence."""
_CLAIM_WITHIN = 1_000
"""Characters before a repeated question that are looked at for a claim to answer it: room for a
long sentence, and not for a whole text without a full stop."""


def without_echo(query: str, text: str) -> str:
    """The text with each mere repetition of the question blanked out, so that it is no answer.

    Lists of questions, tickets, and pages that promise an answer share all words of a question and
    do not answer it. Each place that repeats the question is blanked: the sentence with the
    question, and a promise right behind it ("This passage answers it"). A repetition stays where a
    reply follows: "When does it close? At nine." Blanks take the place of letters, so positions in
    the text stay the same.
    """
    question = query.strip(" ?!.\n").lower()
    lower_text = text.lower()
    # The quick test first: most texts hold no echo.
    if len(question.split()) < _FEWEST_WORDS or question not in lower_text:
        return text
    if len(lower_text) != len(text):
        return text  # a letter such as "İ" is two in small letters: positions would move
    letters = list(text)
    start = 0  # of the sentence that holds the echo
    echo_before = 0  # where the echo before begins
    blanked = 0  # up to where letters are blanks already
    # With the marks behind it, which belong to the echo.
    for echo in re.finditer(re.escape(question) + r"[ ?!.]*", lower_text):
        # The sentence with the question begins behind the mark that ends the one before. Up to the
        # last echo every letter was looked at: a text may be one long sentence full of echoes.
        last_mark = max(lower_text.rfind(mark, echo_before, echo.start()) for mark in ".?!\n|")
        start = max(start, last_mark + 1)
        echo_before = echo.start()
        end = echo.end()
        before = lower_text[max(start, echo.start() - _CLAIM_WITHIN) : echo.start()]
        # A few hundred characters: a reply begins at once.
        behind = lower_text[end : end + _ANSWER_WITHIN]
        # "This passage answers it" behind the question, unless a yes or a no comes first.
        promise = None
        if not _WORDS["yes"].match(behind):
            promise = _WORDS["promise"].match(behind)
        # A query that asks nothing, such as "opening hours on Sunday", is part of a statement where
        # a text has it: there is no reply to wait for.
        is_question = "?" in echo[0] or _WORDS["asks"].match(query)
        has_reply = not is_question or _is_reply(question, behind)
        # The echo stays where a reply follows, with no promise behind the echo and no claim before
        # it, such as "Related questions:", which says that answers are here and is none.
        if has_reply and not promise and not _WORDS["claim"].search(before):
            continue
        if promise:
            end += promise.end()
        # Two echoes may be in one sentence: its beginning is blanked once.
        blank_start = max(start, blanked)
        letters[blank_start:end] = " " * (end - blank_start)
        blanked = end
    return "".join(letters)


def _is_reply(question: str, behind: str) -> bool:
    """Whether the text right behind a repeated question says something of its own, as a reply does.

    A reply is a yes or a no, a number, or two words that the question does not have; neither a
    promise of an answer nor another question is one.

    Args:
        behind: what follows the question, cut after some hundred characters.
    """
    if _WORDS["yes"].match(behind):
        return True
    # Only the sentence right behind the question counts.
    sentence = _WORDS["next"].split(behind, maxsplit=1)[0]
    is_next_question = behind[len(sentence) : len(sentence) + 1] == "?"
    if _WORDS["promise"].match(sentence) or is_next_question:
        return False
    new_tokens = set(parse_question(sentence).tokens).difference(tokenise(question))
    # Two new words, or one with a digit.
    if len(new_tokens) > 1:
        return True
    return any(letter.isdigit() for letter in "".join(new_tokens))


def without_marks(query: str, text: str) -> str:
    """A text with the marks of lists, HTML and Markdown blanked, and labels; positions stay.

    A number and a label stay, too, where the question names them: "What comes in step 2?".

    To the reader, a model, an item of a list looks like one that is asked for: of 200 texts that do
    not answer, the reader took 48 for answers with a bullet at each sentence, and 17 without.
    """
    # Words and numbers of the question, which labels may be.
    query_words = re.findall(r"[\d.]*\d|[^\W\d_]+", query.lower())
    unmarked = _WORDS["marks"].sub(partial(_blanked_mark, query_words), text)
    if not unmarked.strip():
        return text  # there is nothing but marks
    return unmarked


def _blanked_mark(query_words: Sequence[str], mark: re.Match[str]) -> str:
    """As many blanks as a mark has letters; the mark itself if its label is in the question.

    Blanks keep the positions of the text.

    Args:
        query_words: words and numbers of the question, in small letters.
        mark: of a list, HTML or Markdown; its group that matched, if any, is its number or label.
    """
    label = mark[mark.lastindex or 0]
    # A label that the question names is part of the answer.
    if label.lower() in query_words:
        return mark[0]
    return " " * len(mark[0])


Rule = Callable[[str, str, str], Iterator[str]]
"""Takes the question, the chunk and the sentences that seem to answer, and yields objections to
them, in words."""
RULES: Mapping[str, Rule] = {
    "identifier": _other_identifier,
    "number": _other_number,
    "entity": _other_name,
    "time": _lacks_kind,
    "opposite": _opposite,
    "polarity": _affirms,
    "unknown": _says_unknown,
    "cause": _other_direction,
    "comparison": _one_side,
    "definition": _undefined,
    "life": _life_date,
    "row": _other_row,
    "predicate": _no_predicate,
}
"""The rules by name, in their order."""
SLOTS = tuple(RULES)
"""The names of all rules."""
