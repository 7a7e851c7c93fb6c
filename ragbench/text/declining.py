"""Whether a text declines to answer: the whole of it, or a part.

A text is taken sentence by sentence. It declines when one sentence says that there is no answer
and every other one only goes with that: an apology, an offer of help, advice to ask somebody else,
what the sources speak of instead. A sentence that none of the rules know is an answer, and so is
one that goes on behind a "but". The rules for English stand here, those for sixteen other languages
in ``declining.toml``.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from importlib import resources
from typing import NamedTuple

from ragbench.text.sentences import split_sentences

RULES = 2
"""Raised whenever another text than before counts as declined: scores of other rules do not
compare."""


class Reading(NamedTuple):
    """How an answer reads."""

    declines: bool
    """The whole of it says that there is no answer."""
    in_part: bool
    """A sentence says so, and others answer all the same."""


_LONGEST, _MOST = 600, 6
"""Characters and sentences: a longer text says more than that it has no answer."""


@lru_cache(maxsize=4096)
def read_answer(text: str) -> Reading:
    if not text.strip(_EDGES):
        return Reading(declines=True, in_part=False)
    head = text if len(text) <= _LONGEST else text[:_LONGEST]
    if _CUE.search(head.casefold()) is None:
        return Reading(declines=False, in_part=False)
    kinds = [_kind(part) for part in _parts(head)]
    core = _DECLINES in kinds
    whole = core and None not in kinds and len(kinds) <= _MOST and len(text) <= _LONGEST
    return Reading(declines=whole, in_part=core and not whole)


_DECLINES, _GOES_WITH = "declines", "goes with it"


def _parts(text: str) -> list[str]:
    """Its sentences, and what stands between semicolons, each in the form that the rules know."""
    plain = unicodedata.normalize("NFKC", text).translate(_APOSTROPHES)
    sentences = (plain[one.start : one.end].casefold() for one in split_sentences(plain))
    parts = (part for sentence in sentences for part in re.split(r"[;\n]|(?<=。)", sentence))
    stripped = (" ".join(part.split()).strip(_EDGES) for part in parts)
    return [part for part in stripped if part]


def _kind(part: str) -> str | None:
    rules = _rules()
    rest = rules.opening.sub("", part)
    if rules.declines.fullmatch(rest) and not _BUT.search(rest):
        return _DECLINES
    return _GOES_WITH if not rest or rules.goes_with.fullmatch(rest) else None


class _Rules(NamedTuple):
    """What is said of a sentence that may decline."""

    opening: re.Pattern[str]
    """Goes before what it says."""
    declines: re.Pattern[str]
    goes_with: re.Pattern[str]
    """What an answer that declines says beside that."""


@lru_cache(maxsize=1)
def _rules() -> _Rules:
    """The rules of all languages; compiled when an answer first needs them: 0.2 s."""
    openings, declines, goes_with = [*_OPENINGS], [*_ENGLISH], [*_ENGLISH_COMPANIONS]
    others = resources.files("ragbench.text").joinpath("declining.toml")
    for language in tomllib.loads(others.read_text(encoding="utf-8")).values():
        source = language.get("source", "")
        declines += [rule.replace("{source}", source) for rule in language["declines"]]
        openings += language.get("opens", [])
        goes_with += language.get("goes_with", [])
    return _Rules(
        re.compile(f"^(?:{_any_of(openings)}{_BEHIND_OPENING})+"),
        re.compile(_any_of(declines)),
        re.compile(_any_of(goes_with)),
    )


def _any_of(rules: Iterable[str]) -> str:
    return f"(?:{'|'.join(f'(?:{rule})' for rule in rules)})"


_EDGES = " \t\r\n.!。।…\"'“”«»()[]{}*_#>-"
_APOSTROPHES = str.maketrans({"’": "'", "‘": "'", "ʼ": "'", "`": "'"})
_BUT = re.compile(
    r"\b(?:but|however|although|though|instead|except|aber|jedoch|allerdings|sondern|mais|"
    r"cependant|toutefois|pero|sino|ma|però|tuttavia|mas|porém|maar|но|однако)\b"
    r"|但|不过|不過|然而|ただし|しかし|지만|그러나|لكن"
)
_CUE = re.compile(
    r"\bno\b|not\b|\bnone\b|nothing|n['’]t|insuff|unable|impossible|unanswer|unknown|unclear|"
    r"unspecified|outside|beyond|lack|n/a|only answer|only help|nicht|kein|nirgend|\bpas\b|aucun|"
    r"\bnon\b|\bnada\b|ningun|nessun|não|nenhum|geen|niet|不|无|無|没|沒|未|ない|ません|なし|모르|"
    r"모릅|없|않|\bне\b|нет|неизвест|недостат|لا |لم |ليس|nie |brak|bilmiyor|yok|không|नहीं|"
    r"\binte\b"
)
"""Every rule needs one of these: an answer without any is told apart at once."""

# --- English

_NOUN = (
    r"(?:contexts?|documents?|passages?|texts?|information|sources?|data|knowledge base|articles?|"
    r"excerpts?|snippets?|search results?|results|retrieved (?:content|materials?))"
)
_BARE = (
    r"(?:sections?|pages?|reports?|materials?|contents?|paragraphs?|chunks?|conversation|story|"
    r"transcripts?|records?|files?|references?|details)"
)
"""What is a source where it is said to be given: "the report" alone may be what was asked about."""
_GIVEN = r"(?:provided|given|retrieved|supplied|available|attached|uploaded|above|shared)"
_BEHIND = (
    rf"(?: (?:(?:that )?(?:(?:you|i)(?: have|'ve)? |(?:was|were|is|are|has been|have been) )?"
    rf"{_GIVEN}(?: to me)?|i have(?: access to)?|at hand|here))?"
)
_SOURCE = (
    rf"(?:(?:any|all|none|either|neither) of )?"
    rf"(?:the |this |these |those |that |your |my |our |any )?"
    rf"(?:(?:(?:{_GIVEN}|current|relevant|existing|following|source|background|search|specific) )*"
    rf"{_NOUN}|(?:{_GIVEN} )+{_BARE}|(?:{_BARE}|{_NOUN})(?= (?:you|i|that (?:was|were|is|are)|"
    rf"{_GIVEN})\b)){_BEHIND}"
)
_ADVERB = (
    r"(?:(?:currently|really|actually|also|simply|just|still|explicitly|specifically|directly|"
    r"clearly|definitively|accurately|reliably|fully|further|even|yet|ever|seem to|appear to|"
    r"confidently|conclusively|precisely) )*"
)
_KIND = (
    r"(?:(?:any|enough|sufficient|much|specific|relevant|direct|explicit|clear|clearly|exact|further|"
    r"additional|detailed|concrete|definitive|definite|precise|such|this|that|the|an|a|reliable|"
    r"adequate|real-time|current|up-to-date|available|necessary|required|requested|complete|other|"
    r"more|corresponding|useful|about|of) )*"
)
_INFO = rf"{_KIND}(?:information|info|details?|data|answers?|knowledge|mention|specifics|clue)"
_ABOUT = (
    r"(?:,? (?:about|on|regarding|concerning|of|in|for|to|available|provided|given|that|this|"
    r"whether|as|related|at|within|from|here|specified|found|which|who|what|when|where|why|how|is|was|were|"
    r"are|has|have|either|at|based|pertaining|specific|relevant|mentioned|retrieved|or|and|needed|"
    r"necessary|"
    r"required|beyond|with)\b.*)?"
)
_NOT = r"(?:do not|don't|did not|didn't|do not have|cannot|can't)"
_UNABLE = (
    r"(?:cannot|can't|can not|could not|couldn't|(?:(?:am|'m|was|were|are|is) )?unable to|"
    r"(?:am|'m|was|were|are) not able to|not able to)"
)
_FIND_OUT = r"(?:answer|determine|find|tell|say|infer|identify|ascertain|establish|deduce|conclude)"
_HELP = (
    r"(?:provide|give|offer|confirm|verify|help|assist|respond|comment|specify|locate|see|advise|"
    r"explain|recommend|do that)"
)
_LACK = (
    r"(?:contain|provide|include|mention|say|state|specify|answer|have|give|discuss|address|cover|"
    r"indicate|reveal|offer|list|describe|define|explain|identify|disclose|clarify|tell|refer|"
    r"detail|elaborate|name|touch|make|show|report|suggest|note)"
)
_TOLD = (
    r"(?:mentioned|specified|stated|provided|given|included|discussed|addressed|available|found|"
    r"listed|described|indicated|disclosed|answered|explained|covered|contained|present|detailed|"
    r"defined|clear|identified|known|reported|answerable)"
)
_FROM = rf"(?:in|by|within|from|anywhere in|based on|given|using|with|according to) {_SOURCE}"
_ENGLISH = [
    rf"(?:i |we )?{_ADVERB}(?:do not|don't|did not|didn't) {_ADVERB}know(?: (?!only\b).*)?",
    rf"(?:i |we )?{_ADVERB}(?:do not|don't|did not|didn't) {_ADVERB}"
    rf"(?:have|see|find|possess|hold) (?:{_INFO}{_ABOUT}|{_KIND}(?:access|context) to .*|"
    rf"(?:enough|sufficient|any) context\b.*)",
    r"(?:i )?have no (?:idea|clue|way of knowing)\b.*",
    rf"(?:i )?{_ADVERB}(?:do not|don't) {_ADVERB}have (?:the|a|any) (?:specific|exact|precise)\b.*",
    rf"(?:i |we )?(?:have|found|find|see) no {_INFO}{_ABOUT}",
    rf"(?:i |we )?{_UNABLE} {_ADVERB}{_FIND_OUT}\b.*",
    rf"i {_UNABLE} {_ADVERB}{_HELP}\b.*",
    r"(?:cannot|can't|unable to) (?:help|assist|provide|verify|confirm)\b.*",
    r"(?:i am|i'm) not (?:sure|certain|aware)\b.*",
    rf"{_SOURCE},? {_ADVERB}(?:does not|doesn't|do not|don't|did not|didn't|fails? to|never) "
    rf"{_ADVERB}{_LACK}\b.*",
    rf"{_SOURCE},? {_ADVERB}(?:contains?|provides?|includes?|has|have|gives?|makes?|offers?) "
    rf"(?:no|insufficient|not enough) {_INFO}{_ABOUT}",
    rf"(?:none|neither) of {_SOURCE} {_ADVERB}{_LACK}s?\b.*",
    rf"{_SOURCE} (?:is|are) (?:not (?:sufficient|enough)|insufficient|silent)\b.*",
    rf"there (?:is|are|was|were|seems to be|appears to be) (?:no|not any|not enough|insufficient) "
    rf"{_INFO}{_ABOUT}",
    rf"there (?:isn't|aren't|wasn't) (?:any |enough )?{_INFO}{_ABOUT}",
    rf"(?:sorry )?(?:no|not enough|insufficient) {_INFO}{_ABOUT}",
    rf"nothing (?:is |was )?(?:{_TOLD} )?{_FROM}\b.*",
    rf"(?:.{{0,120}} )?(?:is|are|was|were|has|have)(?: not|n't)(?: been)? {_ADVERB}{_TOLD} "
    rf"{_FROM}\b.*",
    rf".{{1,120}} (?:is|are|was|were)(?: not|n't) {_ADVERB}(?:mentioned|specified|stated)",
    rf"(?:it|this|that|the answer|(?:the|this|your|that) question|.{{1,80}}) "
    rf"(?:cannot|can't|can not|could not|couldn't) be {_ADVERB}"
    r"(?:answered|determined|inferred|ascertained|deduced)\b.*",
    r"(?:cannot|can't) be (?:answered|determined|inferred)\b.*",
    rf"it(?:(?: is|'s) (?:not possible|impossible)| isn't possible) (?:for me )?to {_ADVERB}"
    rf"(?:{_FIND_OUT}|know|{_HELP})\b.*",
    rf"it(?: is|'s) (?:unclear|not clear|uncertain|unknown|not known)\b.*\b{_FROM}\b.*",
    rf"{_FROM},? it(?: is|'s) (?:unclear|not clear|uncertain|unknown|not known)\b.*",
    r"(?:this|that|it|(?:your|the|this|that) question) (?:is|falls|lies|goes) (?:outside|beyond) "
    rf"(?:of )?(?:my|the scope|what i|{_SOURCE})\b.*",
    r"i can only (?:answer|help|assist)\b.*",
    rf"(?:the answer is )?(?:unknown(?: to me)?|un(?:specified|answerable|answered)|n/?a|"
    rf"not (?:specified|mentioned|stated|answerable|found|available|provided|given) {_FROM}|"
    r"not (?:specified|mentioned|stated|answerable))",
]
_ENGLISH_COMPANIONS = [
    r"(?:i am|i'm|we are|we're) (?:very |so )?sorry\b.*|(?:my )?apologies\b.*|sorry",
    r"i apologi[sz]e\b.*",
    r"please .*|(?:feel free|do not hesitate|don't hesitate) .*|let me know.*|thank you.*",
    r"if you (?:have|need|could|can|would|want|provide|share|are|'re|like|tell|give)\b.*",
    r"(?:you|i|we|one) (?:may|might|could|should|can|would|'d) (?:also )?"
    r"(?:(?:want|need|wish|like) to )?"
    r"(?:try to |try )?(?:recommend|suggest|advise|consult|check|contact|refer|reach|rephrase|"
    r"visit|ask|need|look it|search|happy|be happy|be glad)\b.*",
    r"(?:i|we) (?:recommend|suggest|advise|encourage)\b.*",
    r"(?:is there|do you have|can i|may i|could you|would you|can you|how can|what else)\b.*",
    r"(?:(?:further|additional|more) )?(?:information|details|context|research) "
    r"(?:is|are|would be|may be|might be) (?:needed|required|necessary|helpful)\b.*",
    rf"(?:{_SOURCE}|it|they) (?:only|mainly|merely|just|primarily|mostly|solely) "
    r"(?:mentions?|discusses?|discuss|provides?|describes?|talks?|focus(?:es)?|covers?|contains?|"
    r"states?|refers?|includes?|speaks?|says?|is|are)\b.*",
]
_OPENINGS = [
    r"(?:(?:i am|i'm|we are|we're) )?(?:very |so )?(?:sorry|afraid)(?: to say)?(?: that)?",
    r"(?:i|we) apologi[sz]e(?: for[^,]{0,60})?|(?:my )?apologies|unfortunately|regrettably",
    r"therefore|thus|hence|so|as such|as a result|consequently|in summary|overall|currently|again",
    r"at (?:this|the) (?:time|moment)|to (?:my|the best of my) knowledge",
    r"as an? (?:ai|artificial|large|language)[^,]{0,60}",
    rf"(?:based (?:only |solely )?on|according to|from|given|using|in|within|per|after reviewing|"
    rf"having reviewed) {_SOURCE}(?: alone)?",
    r"it (?:seems|appears|looks like)(?: that| as if| as though)?",
]
_BEHIND_OPENING = r"(?:[,:、.，] ?| |$)(?:(?:but|aber|mais|pero|ma|mas) )?"
