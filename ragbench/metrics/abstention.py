"""Declining to answer."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Any

from ragbench.core.metric import Skip
from ragbench.core.outcome import Outcome, Status
from ragbench.core.result import GenerationResult
from ragbench.metrics.metric import metric

__all__ = [
    "abstained",
    "abstention_accuracy",
    "abstention_precision",
    "abstention_recall",
    "answer_rate",
    "declined",
]

_LONGEST = 200
"""A longer response says more than that it has no answer."""

_SOURCE_EN = (
    r"(?:provided |given |retrieved |available |supplied )*"
    r"(?:contexts?|documents?|passages?|texts?|information|sources?|data|knowledge base)"
)
_WHOLE = [
    # English
    r"(?:i am|i'm) (?:not sure|unable to (?:answer|say|tell|help)\b[^.;]*)",
    r"(?:i )?(?:do not|don't) (?:know(?: the answer)?|have (?:enough|sufficient|any) "
    r"(?:information|context|data)\b[^.;]*)",
    r"(?:i )?(?:cannot|can't|can not|could not|couldn't) "
    r"(?:answer(?: (?:this|that|the|your) question)?|find (?:an|the) answer)\b[^.;]*",
    r"(?:this|the|your) question (?:cannot|can't|can not|could not) be answered\b[^.;]*",
    r"(?:it )?cannot be (?:answered|determined)\b[^.;]*",
    r"(?:there is |sorry )?(?:no|not enough|insufficient) (?:relevant )?(?:answer|information|"
    r"context|data)(?: (?:was |were |is )?(?:found|available|given|provided))?\b[^.;]*",
    rf"(?:the |this |these )?{_SOURCE_EN} (?:does not|doesn't|do not|don't) "
    r"(?:contain|provide|include|mention|say|state|specify|answer|have)\b[^.;]*",
    r"(?:the answer is )?(?:unknown to me|unanswerable|not answerable|not found in the "
    rf"{_SOURCE_EN})",
    # Chinese
    r"(?:对不起|抱歉|很抱歉)?[,、 ]*(?:我)?(?:不知道|不清楚|无法回答|無法回答|不确定)"
    r"(?:这个问题|该问题|此问题|答案)?",
    r"(?:根据|依据)?(?:所给|提供的|给定的|已有的|现有)?(?:的)?(?:上下文|资料|文档|信息|材料)?(?:中)?"
    r"(?:无法(?:回答|得知|确定)|没有(?:提到|提及|提供|找到)?(?:相关)?(?:的)?(?:信息|内容|答案))[^。；]*",
    r"(?:未找到|找不到|没有找到)(?:相关)?(?:的)?(?:信息|内容|答案|资料)",
    # Japanese, Korean
    r"(?:申し訳(?:ありません|ございません)(?:が)?)?(?:答え(?:は|が)?)?"
    r"(?:わかりません|分かりません|回答できません|答えられません|情報がありません)",
    r"(?:죄송합니다만 ?)?(?:답을 ?)?(?:모르겠습니다|모릅니다|알 수 없습니다|답할 수 없습니다)",
    # German, French, Spanish, Italian, Portuguese, Russian
    r"(?:das )?(?:ich )?(?:weiß|weiss) (?:ich )?(?:es )?(?:leider )?nicht",
    r"(?:ich kann )?(?:die|diese) frage (?:leider )?(?:kann )?nicht "
    r"(?:beantworten|beantwortet werden)",
    r"(?:dazu )?(?:es )?(?:gibt es |liegen )?(?:dazu )?keine "
    r"(?:informationen|antwort|angaben)(?: vor| gefunden)?",
    r"je ne (?:sais pas|connais pas la réponse|peux pas répondre(?: à (?:cette|la) question)?)",
    r"(?:il n'y a )?(?:aucune|pas d'|pas de )(?:information|réponse)s?(?: trouvée| disponible)?",
    r"(?:yo )?no (?:lo )?(?:sé|conozco la respuesta|puedo responder(?: (?:a )?esta pregunta)?)",
    r"no (?:hay|se encontró) (?:información|respuesta)(?: disponible| suficiente)?",
    r"non (?:lo )?(?:so|conosco la risposta|posso rispondere(?: (?:a )?questa domanda)?)",
    r"(?:eu )?não (?:sei|posso responder(?: (?:a )?esta pergunta)?|há informação)",
    r"(?:я )?(?:не знаю|не могу ответить(?: на (?:этот|ваш) вопрос)?)(?: ответа)?",
    r"(?:нет|недостаточно) (?:информации|данных|ответа)",
]
_OPENING = (
    r"(?P<opening>(?:i am |i'm |we are )?(?:sorry|afraid)[, ]*(?:but )?|unfortunately,? |leider )?"
)
_ABSTENTION_FAMILY = re.compile(f"{_OPENING}(?:{'|'.join(f'(?:{part})' for part in _WHOLE)})")
_EDGES = " \t\r\n.!。…\"'“”«»()[]"
_BUT = re.compile(r"\b(?:but|however|although|though|instead|except|only)\b|但|不过|aber|mais|pero")
_CUE = re.compile(
    r"no[tn ]|n['’]t|insuff|unable|unanswer|unknown|nicht|keine|pas|aucune|não|"
    r"不|无|無|没|未|ません|모르|모릅|없습|не |нет|недост"
)
"""Every pattern above needs one of these: an answer without any is told apart at once."""
_APOSTROPHES = str.maketrans({"’": "'", "‘": "'", "ʼ": "'", "`": "'"})


def abstained(result: GenerationResult[Any]) -> bool:
    """Whether a system declined to answer.

    What the system itself says counts. Where it says nothing (``abstained`` is None), a response
    counts as declined when it is empty, or when the whole of it is a short phrase that says so in
    one of eleven languages. That is cautious on purpose: a response that goes on ("..., but the
    limit is 5") is an answer, and so is one that no pattern knows.
    """
    if result.abstained is not None:
        return result.abstained
    return len(result.response) <= _LONGEST and _declines(result.response)


def declined(outcome: Outcome[GenerationResult[Any]]) -> bool:
    """Whether generation ended in a declined answer."""
    if outcome.status is Status.ABSTAINED:
        return True
    return outcome.value is not None and abstained(outcome.value)


@lru_cache(maxsize=4096)
def _declines(response: str) -> bool:
    if response and _CUE.search(response.casefold()) is None:
        return not response.strip(_EDGES)
    text = unicodedata.normalize("NFKC", response).translate(_APOSTROPHES).casefold()
    text = " ".join(text.split()).strip(_EDGES)
    if not text:
        return True
    found = _ABSTENTION_FAMILY.fullmatch(text)
    return found is not None and _BUT.search(text, found.end("opening")) is None


_RAJPURKAR = "Rajpurkar, Jia and Liang 2018, Know What You Don't Know, arXiv:1806.03822"


@metric(group="overall", cite=_RAJPURKAR)
def abstention_accuracy(declined: bool, answerable: bool) -> float:
    """1 when the system declines exactly where there is no answer, else 0."""
    return float(declined != answerable)


@metric(group="overall", aliases=("answered_when_answerable",), cite=_RAJPURKAR)
def answer_rate(declined: bool, answerable: bool) -> float | Skip:
    """1 when an answerable case is answered, 0 when it is declined; others are skipped."""
    return float(not declined) if answerable else _IS_UNANSWERABLE


@metric(group="overall", aliases=("abstained_when_unanswerable",), cite=_RAJPURKAR)
def abstention_recall(declined: bool, answerable: bool) -> float | Skip:
    """1 when an unanswerable case is declined, 0 when it is answered; others skipped."""
    return _IS_ANSWERABLE if answerable else float(declined)


@metric(group="overall", cite=_RAJPURKAR)
def abstention_precision(declined: bool, answerable: bool) -> float | Skip:
    """1 when a declined case is unanswerable, 0 when it is not; answered ones skipped."""
    return float(not answerable) if declined else _WAS_ANSWERED


_IS_UNANSWERABLE = Skip("the case is unanswerable")
_IS_ANSWERABLE = Skip("the case is answerable")
_WAS_ANSWERED = Skip("the system did not decline")
