"""Files of other evaluation tools: RAGAS, DeepEval, RAGChecker, promptfoo, open-rag-eval.

Facts of their forms, as these tools write them:

- DeepEval 4: ``TestRun`` with ``testCases`` in camel case (``.latest_test_run.json`` holds it
  under ``testRunData``); saved datasets in snake case, in CSV and JSONL with the texts of a list
  joined by ``|``. ``completionTime`` is in seconds. A retrieved text with a source is written as
  ``deepeval_source=S,deepeval_context=T``.
- RAGChecker 0.1: ``results`` with ``query_id, query, gt_answer, response, retrieved_context``.
- promptfoo: ``results.results`` (an ``EvaluateSummary`` of version 2 or 3), a row per test, prompt
  and provider. ``error`` also reports a failed assertion; ``failureReason`` 2 is an error.
- open-rag-eval 0.2: CSV with a passage per row; ``NO_ANSWER`` and ``API_ERROR`` as answers.

What such a tool measured is left out: it would be the same case in another run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TypeVar

from ragbench.io.deepeval_cells import split_texts
from ragbench.io.detect import container_rows, detect_container
from ragbench.io.expected import promptfoo_expectations
from ragbench.io.fields import case_fields, named, outcome_fields, read_table
from ragbench.io.limits import UnreadableError
from ragbench.io.promptfoo_asserts import references
from ragbench.io.read import FieldMap
from ragbench.io.source import Kind, Problems, Row, Source
from ragbench.io.turns import conversation_of, conversation_rows
from ragbench.io.values import ValueProblem, as_list, as_object, is_list, is_missing, is_object

Values = Mapping[str, object]


def read_ragas(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row a sample, of several turns one an answer; ``eval_sample`` is unpacked."""
    container, _ = detect_container(source, "cases", problems)
    for row in container_rows(source, problems, named("array")["ragas"]):
        values = {**as_object(row.values.get("eval_sample")), **row.values}
        if is_object(values.get("eval_sample")):
            del values["eval_sample"]
        # RAGAS writes every field of every sample, null where it has none.
        values = {name: value for name, value in values.items() if value is not None}
        if not _TEST_SET_MARKS.isdisjoint(values):
            if _has_unclear_contexts(values):
                answer = " --field response=answer" if "answer" in values else ""
                message = _WHOSE_CONTEXTS.format(container=container, answer=answer)
                problems.add_kind("whose contexts", message, path=row.path, line=row.line)
                continue
            values = _ragas_test_set(values)
            if "reference_contexts" in values:
                source.roles["reference_contexts"] = "contexts"
        row = row._replace(values=values)
        if isinstance(values.get("user_input"), list):
            yield from conversation_rows(row, "user_input", problems)
        else:
            yield row


_TEST_SET_MARKS = frozenset({"evolution_type", "episode_done"})
"""Fields that only the test sets of ragas 0.1 and 0.0 have."""
_WHOSE_CONTEXTS = (
    "'contexts' are the gold contexts of a ragas test set, or what a system retrieved for the "
    "answer beside them{{more}}. Choose one: --format {container} --field metadata= "
    "--field reference_contexts=contexts{answer}, or --format {container} --field metadata= "
    "--field retrieved_contexts=contexts"
)


def _has_unclear_contexts(values: Values) -> bool:
    """Whether an answer is beside contexts that may be its own, or those of the test set."""
    names = outcome_fields()
    has_answer = any(name in values for name in ("answer", *names["response"]))
    has_own = any(name in values for name in names["retrieved_contexts"] if name != "contexts")
    return "contexts" in values and has_answer and not has_own


def _ragas_test_set(values: Values) -> dict[str, object]:
    """A row of a test set of ragas 0.1: its ``contexts`` are the texts it was generated from.

    ``metadata`` is a list there, with the metadata of each context.
    """
    case = dict(values)
    if "contexts" in case:
        case["reference_contexts"] = case.pop("contexts")
    if not is_object(case.get("metadata", {})):
        case["source_metadata"] = case.pop("metadata")
    return case


# --- DeepEval and RAGChecker: a table of names

_MARKED = re.compile(r"deepeval_source=(?P<source>.*?),deepeval_context=(?P<text>.*)", re.DOTALL)
_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")


def read_deepeval(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row per test case, of a conversation one per answer."""
    tables = (case_fields(), named("expectation"))
    known = {name: name for table in tables for names in table.values() for name in names}
    targets = known | read_table("fields.toml")["deepeval"]
    for row in container_rows(source, problems, named("array")["deepeval"]):
        if conversation_of(row.values.get("turns")):
            own = {_CAPITAL.sub("_", n).lower(): v for n, v in row.values.items() if v is not None}
            yield from conversation_rows(row._replace(values=own), "turns", problems)
            continue
        case = _deepeval_case(row, targets, source, problems)
        if case is not None:
            yield row._replace(values=case)


def _deepeval_case(
    row: Row, targets: Mapping[str, str], source: Source, problems: Problems
) -> dict[str, object] | None:
    """The fields of a test case; None, and a problem, where a list of texts is unclear."""
    case: dict[str, object] = {}
    for name, value in row.values.items():
        target = targets.get(_CAPITAL.sub("_", name).lower())
        if target is None or (value != "" and is_missing(value)):
            continue
        if target in ("retrieved_contexts", "reference_contexts"):
            try:
                value = _deepeval_texts(value, source)
            except ValueProblem as problem:
                problems.add(str(problem), path=row.path, line=row.line, field=name)
                return None
        source.roles[target] = name
        case[target] = value
    return case


_OWN_BARS = (
    "A '|' in a table, in code or between blanks is a part of a text; any other joins two texts, "
    "as DeepEval writes them"
)


def _deepeval_texts(value: object, source: Source) -> object:
    if isinstance(value, str) and value and not value.lstrip().startswith("["):
        value, has_own_bars = split_texts(value)
        if has_own_bars:
            source.notes[_OWN_BARS] = None
    if not is_list(value):
        return value
    texts = [_deepeval_text(item) for item in as_list(value)]
    if any(map(is_object, texts)):
        return [text if is_object(text) else {"text": text} for text in texts]
    return texts


def _deepeval_text(item: object) -> object:
    if isinstance(item, str) and (marked := _MARKED.fullmatch(item)) is not None:
        return {"text": marked["text"], "metadata": {"source": marked["source"]}}
    if is_object(item) and isinstance(item.get("context"), str):
        return {"text": item["context"], "metadata": {"source": item.get("source")}}
    return item


def read_ragchecker(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields a row per result; claims and their checks are left out."""
    names = read_table("fields.toml")["ragchecker"]
    for row in container_rows(source, problems, named("array")["ragchecker"]):
        case: dict[str, object] = {}
        for name, value in row.values.items():
            if name in names:
                source.roles[names[name]] = name
                case[names[name]] = value
        yield row._replace(values=case)


# --- promptfoo

_ERROR = 2
"""promptfoo's ``ResultFailureReason.ERROR``."""
_TOKENS = {"prompt": "prompt_tokens", "completion": "completion_tokens", "total": "total_tokens"}


def read_promptfoo(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields a row per test. With several providers or prompts, `source.split` names one."""
    fields = FieldMap("cases", {})
    rows = list(container_rows(source, problems, named("array")["promptfoo"]))
    for row in one_part(rows, _promptfoo_parts(rows), source):
        values = row.values
        test = as_object(values.get("testCase"))
        given = dict(as_object(values.get("vars")) or as_object(test.get("vars")))
        assertions = [as_object(assertion) for assertion in as_list(test.get("assert"))]
        known = {target for target, _ in fields[tuple(given)].bindings}
        found: dict[str, object] = {**given, **_promptfoo_answer(values)}
        if "context" in given:  # by promptfoo's convention what was retrieved
            found.setdefault("contexts", given["context"])
            del found["context"]
        if "query" not in known:
            texts = [value for value in given.values() if isinstance(value, str)]
            if len(texts) == 1 or not given:
                found["query"] = texts[0] if texts else as_object(values.get("prompt")).get("raw")
        if known.isdisjoint({"reference", "answers"}):
            found["answers"] = references(assertions, given)
        expectations = promptfoo_expectations(test.get("assert"), given)
        if expectations:
            found["expectations"] = expectations
        if test.get("metadata"):
            found["metadata"] = test["metadata"]
        yield row._replace(values=found)


def _promptfoo_parts(rows: Iterable[Row]) -> list[str]:
    """What each row is an answer of: provider and prompt, as far as they differ."""
    pairs: list[tuple[str, str]] = []
    for values in (row.values for row in rows):
        provider, prompt = values.get("provider"), as_object(values.get("prompt"))
        known = as_object(provider)
        label = prompt.get("label") if prompt.get("label") != prompt.get("raw") else None
        pairs.append(
            (
                str(known.get("label") or known.get("id") or (provider if not known else "")),
                str(label or f"prompt {values.get('promptIdx', 0)}"),
            )
        )
    columns = [*zip(*pairs, strict=True)]
    differing = [column for column in columns if len(set(column)) > 1] or columns[:1]
    return [" / ".join(parts) for parts in zip(*differing, strict=True)]


def _promptfoo_answer(values: Values) -> dict[str, object]:
    response = as_object(values.get("response"))
    output, metadata = response.get("output"), as_object(response.get("metadata"))
    said = as_object(output)
    found: dict[str, object] = {}
    error = response.get("error") or values.get("error")
    if values.get("failureReason") == _ERROR or (error and output in (None, "")):
        found["error"] = error or "an error without a message"
    elif said or isinstance(output, list):
        text = next(
            (said[n] for n in named("promptfoo")["answer"] if isinstance(said.get(n), str)), None
        )
        found["response"] = json.dumps(output, ensure_ascii=False) if text is None else text
    elif output is not None:
        found["response"] = output
    names = ("context", *outcome_fields()["retrieved_contexts"])
    held = (holder[n] for holder in (said, metadata) for n in names if holder.get(n))
    if (contexts := next(held, None)) is not None:
        found["contexts"] = contexts
    if response.get("isRefusal") is True:
        found["abstained"] = True
    if not response.get("cached"):  # else it is the cache that was timed
        found["latency_ms"] = values.get("latencyMs")
    usage = as_object(response.get("tokenUsage")) or as_object(values.get("tokenUsage"))
    # Of a cached answer only the total is known; the parts are then zero.
    return found | {target: usage[name] for name, target in _TOKENS.items() if usage.get(name)}


# --- open-rag-eval

_NO_ANSWER, _API_ERROR = "NO_ANSWER", "API_ERROR"


def read_open_rag_eval(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields a row per query; its passages follow one another. `source.split` names a run."""
    names = ("query_id", "query", "query_run")
    rows = container_rows(source, problems)
    groups = [
        list(group) for _, group in groupby(rows, lambda row: [row.values.get(n) for n in names])
    ]
    parts = [str(group[0].values.get("query_run") or "1") for group in groups]
    for group in one_part(groups, parts, source):
        first = group[0].values
        passages = [row.values for row in group if not is_missing(row.values.get("passage"))]
        answers = (row.values.get("generated_answer") for row in group)
        answer = next((answer for answer in answers if not is_missing(answer)), None)
        found: dict[str, object] = {
            "id": first.get("query_id"),
            "query": first.get("query"),
            "reference": first.get("expected_answer"),
            "retrieved_contexts": [passage["passage"] for passage in passages],
            "response": answer,
            "abstained": True if answer == _NO_ANSWER else None,
        }
        ids = [passage.get("passage_id") for passage in passages]
        if not any(map(is_missing, ids)):
            found["retrieved_context_ids"] = ids
        if answer == _API_ERROR:
            found["error"] = f"{_API_ERROR}, as open-rag-eval recorded it"
        yield group[0]._replace(values=found, cells=False)


_ItemT = TypeVar("_ItemT")


def one_part(items: Sequence[_ItemT], parts: Sequence[str], source: Source) -> Iterator[_ItemT]:
    """The items of the part that is wanted, which has to be said where there are several.

    Several systems' answers to a question are not several answers of one system.
    """
    known = list(dict.fromkeys(parts))
    wanted = source.split if source.split is not None else (known[0] if len(known) == 1 else None)
    if items and wanted not in known:
        found = "answers of several systems" if source.split is None else f"no '{source.split}'"
        raise UnreadableError(f"found {found}; name one of them with --split: {', '.join(known)}")
    return (item for item, part in zip(items, parts, strict=True) if part == wanted)
