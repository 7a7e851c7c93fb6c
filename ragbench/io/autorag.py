"""AutoRAG's questions (``qa.parquet``): ``qid, query, retrieval_gt, generation_gt``.

``retrieval_gt`` is a list of groups of ids. Every group is needed for the answer; within a group
one id is as good as another. It may also be a plain list, which is one group, or a single id. A
corpus (``doc_id, contents, metadata``) has fields that are recognised by themselves.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import chain

from ragbench.io.detect import container_rows
from ragbench.io.fields import field_names
from ragbench.io.source import Kind, Problems, Row, Source
from ragbench.io.values import ValueProblem, as_ids, describe, is_list, is_missing

_NAMES = {"qid": "id", "query": "query", "generation_gt": "answers"}
_ALTERNATIVES = (
    "AutoRAG's alternatives within a group of 'retrieval_gt' all count as relevant: recall expects "
    "each of them"
)


def read_autorag(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row per question of AutoRAG, with the ids of all its groups as the relevant ones.

    AutoRAG's groups say which ids are needed together and which replace each other; a case here has
    one list of ids. Where that loses something, a note goes to ``source.notes``.
    """
    for row in container_rows(source, problems, field_names("array")["cases"]):
        case: dict[str, object] = {}
        for name, value in row.values.items():
            if name != "retrieval_gt":
                target = _NAMES.get(name, name)
                source.roles[target] = name
                case[target] = value
        answers = case.get("answers")
        field = "retrieval_gt"  # the field that is being read, which a problem names
        try:
            groups = _groups_of_ids(row.values.get(field))
            if row.cells and isinstance(answers, str):
                field = source.roles["answers"]
                case["answers"] = _list_in_cell(answers)
        except ValueProblem as problem:
            problems.add(str(problem), path=row.path, line=row.line, field=field)
            continue
        if groups is not None:
            source.roles["reference_context_ids"] = "retrieval_gt"
            case["reference_context_ids"] = list(chain.from_iterable(groups))
            has_alternatives = any(len(group) > 1 for group in groups)
            if has_alternatives:
                source.notes[_ALTERNATIVES] = None
            elif len(groups) > 1:  # of single ids, each of which the answer needs
                case["needs"] = "all"
        # The lists are spelled out already: a text that looks like one is a text from here on.
        yield row._replace(values=case, cells=False)


def _groups_of_ids(value: object) -> list[list[str]] | None:
    """The groups of chunk ids in a question's ``retrieval_gt``; None where they are unknown.

    AutoRAG writes a list of groups, a plain list of ids, a single id, or in a CSV cell the spelling
    of any of them: callers get one form. Empty ids and empty groups are dropped.

    Raises:
        ValueProblem: a cell begins like a list and is none.
    """
    if isinstance(value, str):
        value = _list_in_cell(value)
    if value is None or (not is_list(value) and is_missing(value)):
        return None
    if not is_list(value):
        return [[*as_ids(value)]]
    # A plain list of ids is one group.
    items = value if any(map(is_list, value)) else [value]
    groups: list[list[str]] = []
    for item in items:
        if item is None:
            continue
        ids = [id for id in as_ids(item) if id.strip()]
        if ids:
            groups.append(ids)
    return groups


def _list_in_cell(text: str) -> object:
    """The list that a CSV cell spells, as JSON or as Python prints it; other texts as they are.

    AutoRAG's tables hold lists, and pandas writes those into CSV as Python prints them. Only
    literals are evaluated, never code.

    Raises:
        ValueProblem: the text begins like a list and is none.
    """
    if not text.strip().startswith("["):
        return text
    try:
        # A JSON list of texts and numbers is a literal of Python, too.
        value: object = ast.literal_eval(text.strip())
    # Python raises the last two for a text that is nested too deep.
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        message = f"expected a list as JSON or as Python prints it, found {describe(text)}"
        raise ValueProblem(message) from None
    return value
