"""What a record expects of an answer: `must_contain` and its kin become a case's expectations.

The names of these fields, and the rule that each means, are tables of fields.toml.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ragbench.core.case import Expectation, ExpectationKind
from ragbench.io.fields import field_names
from ragbench.io.values import as_list, as_object

Fields = dict[str, Any]


def take_expectations(fields: Fields) -> tuple[Expectation, ...]:
    """Takes the expectations out of the fields of a record, each once."""
    expectations = list[Expectation](fields.pop("expectations", ()))
    for name, rule in field_names("expectation_kinds").items():
        value = fields.pop(name, None)
        if value is not None:
            expectations += _of_field(value, rule)
    return tuple(dict.fromkeys(expectations))


def is_expectation(field: str) -> bool:
    return field in field_names("expectation_kinds")


def merged(first: Any, second: Any) -> Any:
    """The values of two fields of one meaning, such as `expected_keywords` and `must_contain`."""
    return first or second if isinstance(first, bool) else (*first, *second)


def _of_field(value: Any, rule: tuple[str, ...]) -> Iterator[Expectation]:
    kind, negated = ExpectationKind(rule[0]), "not" in rule
    if isinstance(value, bool):
        # `must_be_json: false` asks for nothing.
        if value:
            yield Expectation(kind=kind, negated=negated)
    elif "any" in rule:
        if value:
            yield Expectation(kind=kind, texts=value, negated=negated)
    else:
        for text in value:
            yield Expectation(kind=kind, texts=(text,), negated=negated)


# --- promptfoo

_VARIABLE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_KINDS = {
    "contains": ExpectationKind.SUBSTRING,
    "contains-all": ExpectationKind.SUBSTRING,
    "contains-any": ExpectationKind.SUBSTRING,
    "icontains": ExpectationKind.SUBSTRING_ANY_CASE,
    "icontains-all": ExpectationKind.SUBSTRING_ANY_CASE,
    "icontains-any": ExpectationKind.SUBSTRING_ANY_CASE,
    "regex": ExpectationKind.PATTERN,
    "starts-with": ExpectationKind.STARTS_WITH,
    "is-json": ExpectationKind.JSON,
    "contains-json": ExpectationKind.HOLDS_JSON,
}
_OF_JSON = (ExpectationKind.JSON, ExpectationKind.HOLDS_JSON)


def expectation_kinds() -> frozenset[str]:
    """The kinds of promptfoo's assertions that become expectations."""
    return frozenset(kind for name in _KINDS for kind in (name, f"not-{name}"))


def becomes_expectation(kind: str) -> bool:
    """Whether promptfoo's assertions of a kind become expectations."""
    name = kind.removeprefix("not-")
    return name in _KINDS and not (name != kind and name.endswith("-all"))


def promptfoo_expectations(
    assertions: object, variables: Mapping[str, object]
) -> list[dict[str, object]]:
    """What promptfoo's assertions expect, as a value of the field `expectations`.

    Left out is what a script, a model or a schema decides, a set of assertions of which some are
    enough (`threshold`), and `not-contains-all`.
    """
    expectations: list[dict[str, object]] = []
    for assertion in map(as_object, as_list(assertions)):
        if assertion.get("type") == "assert-set":
            if assertion.get("threshold") is None:
                expectations += promptfoo_expectations(assertion.get("assert"), variables)
        else:
            expectations += _of_assertion(assertion, variables)
    return expectations


def _of_assertion(
    assertion: Mapping[str, object], variables: Mapping[str, object]
) -> Iterator[dict[str, object]]:
    written, value = str(assertion.get("type")), assertion.get("value")
    name = written.removeprefix("not-")
    is_negated = name != written
    kind = _KINDS.get(name)
    if kind is None or (is_negated and name.endswith("-all")):
        return
    if kind in _OF_JSON:
        if value in (None, ""):
            yield {"kind": kind.value, "negated": is_negated}
        return
    texts = _assertion_texts(value, variables, is_list=name.endswith(("-all", "-any")))
    if name.endswith("-any") and not is_negated:
        if texts:
            yield {"kind": kind.value, "texts": texts, "negated": False}
        return
    for text in texts:
        yield {"kind": kind.value, "texts": [text], "negated": is_negated}


def _assertion_texts(value: object, variables: Mapping[str, object], *, is_list: bool) -> list[str]:
    """The texts of an assertion; none where one of them is a file, or holds an unknown variable."""
    items = as_list(value) or [value]
    if is_list and isinstance(value, str):
        items = [item.strip() for item in value.split(",")]
    texts: list[str] = []
    for item in items:
        if isinstance(item, bool) or not isinstance(item, (str, int, float)) or item == "":
            continue
        text = _VARIABLE.sub(lambda match: str(variables.get(match[1], match[0])), str(item))
        if _VARIABLE.search(text) or text.startswith("file://"):
            return []
        texts.append(text)
    return texts
