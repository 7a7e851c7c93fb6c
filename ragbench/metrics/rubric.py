"""Criteria in the user's own words, as metrics: ``rubric:NAME``.

A language model passes or fails each answer by them: see `ragbench.metrics.rubric_judge`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ragbench.core.metric import (
    RUBRIC,
    Cost,
    Direction,
    Group,
    Metric,
    MetricDefinition,
    Need,
)
from ragbench.errors import ConfigError
from ragbench.ledger.fingerprint import fingerprint
from ragbench.text.tables import read_prompt

_NAME = re.compile(r"[^\W\d][\w.-]*")
_ANOTHER = re.compile(rf"[\s,]\+?{RUBRIC}[\w.-]+=")
"""The beginning of a second criterion in the words of the first."""


def rubric(name: str, words: str) -> Metric:
    """The metric of a criterion in the user's words, which a language model checks answers by.

    The words are the summary of the metric, and part of its digest: scores by other words under the
    same name do not compare.

    Args:
        name: without ``rubric:``.
        words: such as "The answer is polite and does not blame the user."

    Raises:
        ConfigError: the name cannot be written in a list of metrics, or there are no words.
    """
    # Line breaks of YAML do not make another criterion.
    words = " ".join(words.split())
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"'{name}' cannot be the name of a rubric: write letters, digits, '_', '-' and '.', "
            "with a letter first"
        )
    if not words:
        raise ConfigError(f"the rubric '{name}' has no words: write {RUBRIC}{name}=WORDS")
    definition = MetricDefinition(
        name=f"{RUBRIC}{name}",
        group=Group.GENERATOR,
        needs=frozenset({Need.RESPONSE, Need.LLM}),
        direction=Direction.HIGHER,
        # The prompt around the words; the words themselves are in the digest.
        version=read_prompt("ragbench.metrics", "rubric").version,
        summary=words,
        citation="your own words",
        scorer="ragbench.metrics.rubric_judge:RubricJudge",
        extra="llm",
        cost=Cost.LLM,
        calls="1",
        digest=fingerprint(words)[:16],
    )
    return Metric(definition=definition)


def parse_rubric(text: str, rubrics: Mapping[str, str]) -> Metric:
    """The metric of ``rubric:NAME=WORDS``, or of ``rubric:NAME`` whose words are in the settings.

    A rubric is a criterion in the user's own words, which a language model checks answers by.

    Args:
        rubrics: the words of each, by name.

    Raises:
        ConfigError: as `rubric`; or no criterion has that name, or two have it.
    """
    name, equals, words = text.removeprefix(RUBRIC).partition("=")
    name = name.strip()
    if not equals:
        if name not in rubrics:
            known = f" It has {', '.join(rubrics)}." if rubrics else ""
            raise ConfigError(
                f"the rubric '{name}' has no words: write {RUBRIC}{name}=WORDS, or "
                f"'{name}: WORDS' under rubrics in ragbench.yaml.{known}"
            )
        return rubric(name, rubrics[name])
    # Commas part metrics elsewhere, so "rubric:a=..., rubric:b=..." would be one long criterion.
    if _ANOTHER.search(words):
        raise ConfigError(
            f"'{text}' describes two rubrics: a rubric takes the whole rest of the text. Describe "
            "several under rubrics in ragbench.yaml"
        )
    metric = rubric(name, words)
    # The same words twice are one rubric, and no mistake.
    if name in rubrics and rubric(name, rubrics[name]).identity != metric.identity:
        raise ConfigError(
            f"two rubrics are called '{name}', one of them in ragbench.yaml: give one another name"
        )
    return metric
