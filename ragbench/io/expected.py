"""What a record expects of an answer: `must_contain` and its kin become a case's expectations.

The names of these fields, and the rule that each means, are tables of fields.toml.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from ragbench.core.case import Expectation, ExpectationKind
from ragbench.io.fields import field_names
from ragbench.io.values import as_list, as_object

Fields = dict[str, Any]


def take_expectations(fields: Fields) -> tuple[Expectation, ...]:
    """Takes the expectations out of a record's fields: the demands that an answer must meet.

    Many fields demand something, such as ``must_contain``; a case has all demands in one field,
    each once.

    Args:
        fields: by their names, with their values converted; those that are taken are gone.
    """
    expectations = list[Expectation](fields.pop("expectations", ()))
    for name, rule in field_names("expectation_kinds").items():
        value = fields.pop(name, None)
        if value is not None:
            expectations += _expectations_of_field(value, rule)
    return tuple(dict.fromkeys(expectations))


def is_expectation(field: str) -> bool:
    """Whether a field of a record demands something of the answer, such as ``must_contain``.

    Two such fields add up; two fields of any other kind must agree.
    """
    return field in field_names("expectation_kinds")


def merged(first: Any, second: Any) -> Any:
    """The demands of two fields of one meaning, such as `expected_keywords` and `must_contain`.

    An answer must meet both: a flag of either field counts, and the texts add up.
    """
    if isinstance(first, bool):
        return first or second
    return (*first, *second)


def _expectations_of_field(value: Any, rule: tuple[str, ...]) -> Iterator[Expectation]:
    """Yields the expectations of one field of a record: one per text, so that each is scored alone.

    Args:
        value: the field's value, converted: a flag, or texts.
        rule: the kind of expectation, then ``any`` if one of the texts is enough, and ``not``.
    """
    kind = ExpectationKind(rule[0])
    negated = "not" in rule
    if isinstance(value, bool):
        # `must_be_json: false` asks for nothing.
        if value:
            yield Expectation(kind=kind, negated=negated)
    elif "any" in rule:
        if value:  # without texts it would be an expectation of the form alone
            yield Expectation(kind=kind, texts=value, negated=negated)
    else:
        for text in value:
            yield Expectation(kind=kind, texts=(text,), negated=negated)


# --- promptfoo

_VARIABLE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
"""A variable of a promptfoo test in the text of an assertion, such as ``{{city}}``."""
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
"""Types of promptfoo's assertions that need no script, model or service, and the kind of each."""
_OF_JSON = (ExpectationKind.JSON, ExpectationKind.HOLDS_JSON)


def expectation_kinds() -> frozenset[str]:
    """The readable kinds of promptfoo's assertions on an answer's text, each also with ``not-``.

    A cell in a table of tests may begin with the name of a kind.
    """
    kinds: set[str] = set()
    for name in _KINDS:
        kinds.update((name, f"not-{name}"))
    return frozenset(kinds)


def becomes_expectation(kind: str) -> bool:
    """Whether promptfoo's assertions of a kind become expectations: none needs program or model.

    ``not-contains-all`` does not: it allows each text as long as one is missing, and no list of
    texts that each must be in the answer, or must not be, says the same.
    """
    name = kind.removeprefix("not-")
    is_negated = name != kind
    if is_negated and name.endswith("-all"):
        return False
    return name in _KINDS


def promptfoo_expectations(
    assertions: object, variables: Mapping[str, object]
) -> list[dict[str, object]]:
    """The demands of a test's assertions in promptfoo, as a value of the field `expectations`.

    Left out is what a script, a model or a schema decides, a set of assertions of which some are
    enough (`threshold`), and `not-contains-all`.
    """
    expectations: list[dict[str, object]] = []
    for assertion in map(as_object, as_list(assertions)):
        if assertion.get("type") == "assert-set":
            if assertion.get("threshold") is None:
                expectations += promptfoo_expectations(assertion.get("assert"), variables)
        else:
            expectations += _expectations_of_assertion(assertion, variables)
    return expectations


def _expectations_of_assertion(
    assertion: Mapping[str, object], variables: Mapping[str, object]
) -> Iterator[dict[str, object]]:
    """Yields the expectations of one assertion of promptfoo; none where texts cannot express it.

    Args:
        variables: the test's variables, which a text of the assertion may hold.
    """
    written_kind = str(assertion.get("type"))
    if not becomes_expectation(written_kind):
        return
    name = written_kind.removeprefix("not-")
    is_negated = name != written_kind
    kind = _KINDS[name]
    value = assertion.get("value")
    if kind in _OF_JSON:
        if value in (None, ""):  # else it is a schema that the JSON has to fit
            yield {"kind": kind.value, "negated": is_negated}
        return
    texts = _assertion_texts(value, variables, is_list=name.endswith(("-all", "-any")))
    if name.endswith("-any") and not is_negated:
        if texts:
            yield {"kind": kind.value, "texts": texts, "negated": False}
        return
    # "Not any of them" asks that each is absent, as "all of them" asks that each is there.
    for text in texts:
        yield {"kind": kind.value, "texts": [text], "negated": is_negated}


def _assertion_texts(value: object, variables: Mapping[str, object], *, is_list: bool) -> list[str]:
    """The texts of an assertion of promptfoo, with the test's variables filled in.

    None of them where one is a file, or holds an unknown variable: the others alone would demand
    less, or more.

    Args:
        is_list: whether the assertion's kind takes several texts, which may be joined by commas.
    """
    items = as_list(value) or [value]
    if is_list and isinstance(value, str):  # promptfoo takes a list as text with commas, too
        items = [item.strip() for item in value.split(",")]
    texts: list[str] = []
    for item in items:
        if isinstance(item, bool) or not isinstance(item, (str, int, float)):
            continue
        if item == "":
            continue
        text = _VARIABLE.sub(partial(_value_of_variable, variables), str(item))
        if _VARIABLE.search(text) or text.startswith("file://"):
            return []  # without one of its texts, the assertion would ask for less, or for more
        texts.append(text)
    return texts


def _value_of_variable(variables: Mapping[str, object], variable: re.Match[str]) -> str:
    """The value of a variable of a promptfoo test, to be put into the text of an assertion.

    A variable that is not known stays as it is written: the caller sees by it that the text is not
    complete.

    Args:
        variables: the test's variables by name.
        variable: a match of `_VARIABLE`.
    """
    return str(variables.get(variable[1], variable[0]))
