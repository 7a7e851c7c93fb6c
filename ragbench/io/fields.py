"""Which field of a source means which field of a record, and by which files folders are known."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache, partial
from pkgutil import get_data
from typing import Any, Literal

from ragbench.shell import shell_quoted

Names = Mapping[str, tuple[str, ...]]
"""Field of a record to the names recognised for it."""

HIT_FIELDS: Mapping[str, str] = {
    "chunk_id": "id",
    "chunk_text": "text",
    "chunk_score": "score",
    "chunk_metadata": "metadata",
}
"""What only a user's mapping names: a path in a retrieved chunk that is an object, and the field
of the chunk that stands there."""

IGNORED = re.compile(r"[\s_.\-]+")
"""What does not count in a name; its case does not, either."""
ANSWER_FIELDS = frozenset(
    {"response", "multi_responses", "retrieved_contexts", "retrieved_context_ids"}
)
"""Fields without which a record holds nothing that a system did."""


@cache
def read_table(name: str) -> dict[str, Any]:
    """The content of one of this package's TOML files with data, such as ``fields.toml``.

    Names of other tools' fields are data, not code. Parsed once; the package may be in a ZIP file.
    """
    content = get_data("ragbench.io", name) or b""
    return tomllib.loads(content.decode())


@cache
def field_names(kind: str, file: str = "fields.toml") -> Names:
    """The names that other people's files have for things of a kind, the more telling ones first.

    Readers recognise the fields of files by these names; a new name is added to the table alone.

    Example:
        >>> field_names("hit")["score"][:2]
        ('score', 'similarity')

    Args:
        kind: a table of the file, such as ``hit`` for the fields of a retrieved chunk.
        file: the file of data that has the table.
    """
    names_of: dict[str, tuple[str, ...]] = {}
    for name, names in read_table(file)[kind].items():
        names_of[name] = tuple(names.split())
    return names_of


case_fields = partial(field_names, "case")
"""What a case is: its question and what is right."""
outcome_fields = partial(field_names, "outcome")
"""What a system did with a case."""
document_fields = partial(field_names, "document")


@cache
def entry_fields() -> Names:
    """The recognised names of all fields that a record of a case may have.

    These are the case, its expectations and the recorded outcomes of a system.
    """
    return {**case_fields(), **field_names("expectation"), **outcome_fields()}


@cache
def targets(kind: Literal["cases", "documents"]) -> Mapping[str, str]:
    """The field of a record that each recognised name means, in the spelling of `squash`.

    Readers look up every name of every file here, so the table is turned round once.
    """
    names_of_fields = entry_fields() if kind == "cases" else document_fields()
    field_by_name: dict[str, str] = {}
    for field, names in names_of_fields.items():
        for name in names:
            field_by_name[squash(name)] = field
    return field_by_name


_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_]+")
"""A word in a name: of ``goldDocs``, ``docs_gold`` and ``QA.gold`` each time ``gold`` is one."""


def name_words(name: str) -> list[str]:
    """The words of a field's name in lower case: ``goldDocs`` and ``docs_gold`` both have ``gold``.

    A field whose whole name is not known may still be recognised by a word in it.
    """
    words = _WORD.findall(name)
    return [word.casefold() for word in words]


@cache
def says_gold(path: str) -> bool:
    """Whether a field's name says that it holds the gold: what is right or wrong for a question.

    Such a field is one of the dataset, and not of a system. The outputs of a system never go by
    such a name.

    Args:
        path: the field's name with those that lead to it, joined by dots.
    """
    gold = field_names("gold")
    if any(squash(name).startswith(gold["beginnings"]) for name in path.split(".")):
        return True
    return not set(gold["words"]).isdisjoint(name_words(path))


def says_verdict(name: str) -> bool:
    """Whether a column's name says that it holds verdicts of people on answers, such as ``OK?``.

    Both ends of the scale may be in the name: ``Correct (yes/no)``. A word of another kind in it
    means that the column holds something else.
    """
    words = set(name_words(name))
    for scale in ({"yes", "no"}, {"oui", "non"}, {"si", "no"}):
        if scale <= words:
            # Left in, "no" would count as a word of another kind.
            words -= scale
    word_lists = field_names("verdict")
    if not words.isdisjoint(word_lists["others"]):
        return False
    return not words.isdisjoint(word_lists["words"])


def may_be_reference(name: str) -> bool:
    """Whether an unknown field name speaks of a right answer, such as ``truth``.

    Beside such a field, one called ``answer`` is probably the system's. No word may be in the name
    that speaks of anything else: ``truth_source`` holds no answer.
    """
    words = set(name_words(name))
    word_lists = field_names("gold")
    of_answers = set(word_lists["of_answers"])
    if words.isdisjoint(of_answers):
        return False
    return words <= of_answers.union(word_lists["beside"])


def is_known_field(name: str) -> bool:
    """Whether a field name is one of those recognised, for cases or for documents.

    A text is taken for a table only if one of its columns has such a name.
    """
    squashed_name = squash(name)
    return squashed_name in targets("cases") or squashed_name in targets("documents")


def squash(name: str) -> str:
    """A field's name without case, blanks, dots and dashes: ``Gold_Docs`` is ``golddocs``.

    Names are compared in this form, as people spell the same name in many ways. The known names are
    compared in the same form: without another sign, two of them may become one.
    """
    return IGNORED.sub("", name).casefold()


# --- folders

CASES_FILE = "cases.jsonl"
CORPUS_FILE = "corpus.jsonl"
"""In a folder of ragbench's own form; BEIR's corpus is called so, too."""
QUERIES_FILE = "queries.jsonl"
QRELS_FOLDER = "qrels"
"""A folder with both is one of BEIR."""
QUERY_FILES = ("queries.tsv", "topics.tsv", "queries.txt", "topics.txt")
"""A folder with one of these is one of TREC."""


# --- what errors say of fields


def disagreement(target: str, field: str, other_field: str) -> str:
    """The error's text for a record in which two fields hold different values for the same thing.

    It gives the options with which a user chooses one of the fields. A field called ``answer`` may
    be the system's in place of the right one: then the text offers that, too.

    Args:
        target: the field of a case that both fields mean.
        field: the first of the two, as the file names it.
        other_field: the second.
    """
    message = (
        f"'{field}' and '{other_field}' both hold the {target} and disagree; "
        f"choose one: --field {target}={shell_quoted(field)} or "
        f"--field {target}={shell_quoted(other_field)}"
    )
    for name in (field, other_field):
        if name.casefold() == "answer":
            return f"{message}; or, for a system's answer, --field response={name}"
    return message


def absence(target: str, values: Mapping[str, object]) -> str:
    """The error's text for records that have no field for a target, with the fields that they have.

    ``{more}`` in it takes the number of further such records. The text may have several lines to be
    shown.
    """
    field_list = ", ".join(sorted(map(str, values))) or "none"
    documents = [name for name in document_fields()["text"] if name in values]
    hint = ""
    if target == "query" and documents:
        hint = f" (Documents, with a text under '{documents[0]}', are named with --corpus)"
    similar_names = get_close_matches(target, map(str, values), n=1)
    likely_name = similar_names[0] if similar_names else "NAME"
    message = (
        f"no field for the {target}{{more}} (the fields are: {field_list}). Rename one, or map it "
        f"with --field {target}={shell_quoted(likely_name)}.{hint}"
    )
    return message.rstrip(".")
