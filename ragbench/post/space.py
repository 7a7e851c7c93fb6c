"""A space of post-retrieval stages: one file, in which settings and operators have alternatives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, cast

from ragbench.core.space_search import Choice
from ragbench.errors import ConfigError, DataError, MissingExtraError, Problem
from ragbench.io.yaml_file import Place, YamlFile, read_yaml
from ragbench.post.build import Resources, Variant, build_operator
from ragbench.post.operator import Operator
from ragbench.post.stage import PostRetrieval

MOST_CANDIDATES = 512
"""The largest space: all of it is tried."""
_ANY = "any"
_NONE = "none"
_OF_OPERATOR = 2
"""Parts of the place of an operator: the list, and its number there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """One point of a space."""

    variant: Variant
    choices: tuple[Choice, ...]
    """What was taken of each ``any``, in the order of the file."""


def load_space(path: Path, resources: Resources | None = None) -> tuple[Candidate, ...]:
    """Reads a space from a YAML file with a list ``operators``.

    A value ``{any: [a, b]}``, in the place of an operator or of one of its settings, stands for
    each of its alternatives; ``none`` for no operator. The space is all combinations.
    """
    file = read_yaml(path)
    operators = _operators(file)
    factors = list(_factors(operators, ("operators",)))
    problems = [
        file.problem(place, "any takes a list of at least two alternatives")
        for place, values in factors
        if not isinstance(values, list) or len(cast("list[Any]", values)) < 2
    ]
    if not factors:
        problems.append(
            file.problem(("operators",), "nothing has alternatives: write {any: [...]}")
        )
    if problems:
        raise DataError(problems)
    size = _size(factors)
    if size > MOST_CANDIDATES:
        said = f"the space has {size:,} combinations; at most {MOST_CANDIDATES} are tried"
        raise DataError([file.problem(("operators",), said)])
    return tuple(_candidates(file, operators, factors, resources or Resources()))


def _operators(file: YamlFile) -> list[Any]:
    value: object = file.value
    if not isinstance(value, Mapping) or "operators" not in value:
        raise DataError([file.problem((), "the key 'operators' is missing")])
    unknown = [str(key) for key in cast("Mapping[Any, Any]", value) if key != "operators"]
    if unknown:
        raise DataError([file.problem((key,), "unknown key. Known: operators") for key in unknown])
    found: object = cast("Mapping[Any, Any]", value)["operators"]
    if not isinstance(found, list):
        raise DataError([file.problem(("operators",), "expected a list of operators")])
    return cast("list[Any]", found)


def _factors(value: object, place: Place) -> Iterator[tuple[Place, Any]]:
    """Every ``any`` that is not inside of another one, with its alternatives."""
    if isinstance(value, Mapping):
        held = cast("Mapping[Any, Any]", value)
        if set(held) == {_ANY}:
            yield place, held[_ANY]
            return
        for key, item in held.items():
            yield from _factors(item, (*place, key))
    elif isinstance(value, list):
        for at, item in enumerate(cast("list[Any]", value)):
            yield from _factors(item, (*place, at))


def _size(factors: Sequence[tuple[Place, Any]]) -> int:
    size = 1
    for _, values in factors:
        size *= sum(_size(list(_factors(value, ()))) for value in values)
    return size


def _candidates(
    file: YamlFile, operators: list[Any], factors: Sequence[tuple[Place, Any]], resources: Resources
) -> list[Candidate]:
    places = [place for place, _ in factors]
    problems: dict[tuple[Place, str], Problem] = {}
    found: list[Candidate] = []
    for taken in product(*(_alternatives(values) for _, values in factors)):
        chosen = dict(zip(places, taken, strict=True))
        built: list[Operator] = []
        for at, given in enumerate(operators):
            place: Place = ("operators", at)
            one = _resolved(given, place, chosen)
            if one == _NONE:
                continue
            try:
                built.append(build_operator(one, resources))
            except (ConfigError, MissingExtraError) as error:
                for line in str(error).splitlines():
                    problems.setdefault((place, line), file.problem(place, line))
        choices = tuple(
            Choice(factor=_factor_name(place), text=_text(place, value, values))
            for (place, values), value in zip(factors, taken, strict=True)
        )
        name = ", ".join(choice.text for choice in choices)
        stage = PostRetrieval(operators=tuple(built))
        found.append(Candidate(variant=Variant(name=name, stage=stage), choices=choices))
    if problems:
        raise DataError(list(problems.values()))
    return found


def _alternatives(values: Sequence[Any]) -> list[Any]:
    """The alternatives of an ``any``, with those inside of them spread out."""
    found: list[Any] = []
    for value in values:
        inner = list(_factors(value, ()))
        for taken in product(*(_alternatives(within) for _, within in inner)):
            chosen = {place: one for (place, _), one in zip(inner, taken, strict=True)}
            found.append(_resolved(value, (), chosen))
    return found


def _resolved(value: object, place: Place, chosen: Mapping[Place, Any]) -> Any:
    if place in chosen:
        return chosen[place]
    if isinstance(value, Mapping):
        held = cast("Mapping[Any, Any]", value)
        return {key: _resolved(item, (*place, key), chosen) for key, item in held.items()}
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return [_resolved(item, (*place, at), chosen) for at, item in enumerate(items)]
    return value


def _factor_name(place: Place) -> str:
    """Where an ``any`` stands: ``operator 1``, or ``operator 2, similarity``."""
    named = [str(part) for part in place[2:]]
    number = int(place[1]) + 1 if len(place) > 1 else 0
    return ", ".join([f"operator {number}", *named])


def _text(place: Place, value: object, values: Sequence[Any]) -> str:
    """An alternative in words: ``lexical k1=0.9``, ``similarity=0.8``, ``no rerank``."""
    if isinstance(value, Mapping):
        held = {str(key): item for key, item in cast("Mapping[Any, Any]", value).items()}
        action, kind = held.pop("action", ""), held.pop("type", None)
        rest = " ".join(f"{key}={item}" for key, item in held.items())
        return f"{action if kind is None else kind} {rest}".strip()
    if len(place) > _OF_OPERATOR:
        return f"{place[-1]}={value}"
    return f"no {_shared(values) or _factor_name(place)}" if value == _NONE else str(value)


def _shared(values: Sequence[Any]) -> str | None:
    """The type, or else the action, that all operators among alternatives have."""
    found = [cast("Mapping[Any, Any]", one) for one in values if isinstance(one, Mapping)]
    for key in ("type", "action"):
        named = {str(one.get(key)) for one in found}
        if len(named) == 1:
            return named.pop()
    return None
