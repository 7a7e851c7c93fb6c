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

from ragbench.core.in_words import UnreadableError
from ragbench.io.deepeval_cells import split_texts
from ragbench.io.detect import container_rows, detect_container
from ragbench.io.expected import promptfoo_expectations
from ragbench.io.fields import case_fields, field_names, outcome_fields, read_table
from ragbench.io.promptfoo_asserts import references
from ragbench.io.read import FieldMap
from ragbench.io.source import Kind, Problems, Row, Source
from ragbench.io.turns import conversation_of, conversation_rows
from ragbench.io.values import ValueProblem, as_list, as_object, is_list, is_missing, is_object

Values = Mapping[str, object]


def read_ragas(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row per sample of RAGAS; of a sample with several turns, one per answer.

    Test sets of old versions call the gold contexts as results call the retrieved ones: where both
    are possible, the user is asked to choose.
    """
    container, _ = detect_container(source, "cases", problems)
    for row in container_rows(source, problems, field_names("array")["ragas"]):
        # A result of RAGAS has its sample in a field, and scores beside it: of two fields with one
        # name that of the result counts.
        sample = {**as_object(row.values.get("eval_sample")), **row.values}
        if is_object(sample.get("eval_sample")):
            del sample["eval_sample"]
        # RAGAS writes every field of every sample, null where it has none.
        values = {name: value for name, value in sample.items() if value is not None}
        if not _TEST_SET_MARKS.isdisjoint(values):
            if _has_unclear_contexts(values):
                answer_option = " --field response=answer" if "answer" in values else ""
                # `add_kind` puts the number of further records in the place of {more}.
                message = _WHOSE_CONTEXTS.format(container=container, answer=answer_option)
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
    """Whether a row has an answer beside ``contexts`` that may be its own, or the gold ones.

    A RAGAS test set has gold contexts under the name by which results have the retrieved ones.
    Beside another field with the retrieved ones, ``contexts`` can only be the gold.
    """
    names = outcome_fields()
    if "contexts" not in values:
        return False
    has_answer = any(name in values for name in ("answer", *names["response"]))
    # A field with any other of these names has what was retrieved: ``contexts`` is the gold then.
    names_of_retrieved = set(names["retrieved_contexts"]) - {"contexts"}
    has_retrieved = not names_of_retrieved.isdisjoint(values)
    return has_answer and not has_retrieved


def _ragas_test_set(values: Values) -> dict[str, object]:
    """The fields of a row of a RAGAS 0.1 test set, with its ``contexts`` as the gold ones.

    The texts that a question was generated from are its gold. ``metadata`` is a list there, with
    the metadata of each context, and moves to ``source_metadata``: a case's own is an object.
    """
    case = dict(values)
    if "contexts" in case:
        case["reference_contexts"] = case.pop("contexts")
    if not is_object(case.get("metadata", {})):
        case["source_metadata"] = case.pop("metadata")
    return case


# --- DeepEval and RAGChecker: a table of names

_TEXT_WITH_SOURCE = re.compile(
    r"deepeval_source=(?P<source>.*?),deepeval_context=(?P<text>.*)", re.DOTALL
)
"""How DeepEval writes a text with its source into a list of texts."""
_WORD_BORDER = re.compile(r"(?<=[a-z])(?=[A-Z])")
"""Where a name in camel case begins a new word."""


def _snake_case(name: str) -> str:
    """A DeepEval field's name as its saved datasets spell it: ``actualOutput``, ``actual_output``.

    DeepEval's results are in camel case, its datasets in snake case: one table serves both.
    """
    return _WORD_BORDER.sub("_", name).lower()


def read_deepeval(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row per test case of DeepEval; of a conversation, one per answer.

    DeepEval's own names of fields are translated; names that ragbench recognises anyway stay.
    Scores of DeepEval are left out.
    """
    # A name that ragbench recognises anyway stays as it is; DeepEval's own names are translated.
    targets: dict[str, str] = {}
    for table in (case_fields(), field_names("expectation")):
        for names in table.values():
            targets.update(zip(names, names, strict=True))
    targets.update(read_table("fields.toml")["deepeval"])
    for row in container_rows(source, problems, field_names("array")["deepeval"]):
        if conversation_of(row.values.get("turns")):
            conversation: dict[str, object] = {}
            for name, value in row.values.items():
                if value is not None:
                    conversation[_snake_case(name)] = value
            yield from conversation_rows(row._replace(values=conversation), "turns", problems)
            continue
        case = _deepeval_case(row, targets, source, problems)
        if case is not None:
            yield row._replace(values=case)


def _deepeval_case(
    row: Row, targets: Mapping[str, str], source: Source, problems: Problems
) -> dict[str, object] | None:
    """The fields of a DeepEval test case; None, and a problem, where a list of texts is unclear.

    A field that ``targets`` does not name, such as a metric's result, is left out: it would make
    the same case in another run a new one.

    Args:
        targets: DeepEval's names of fields, in snake case, to the fields of a case.
    """
    case: dict[str, object] = {}
    for name, value in row.values.items():
        target = targets.get(_snake_case(name))
        if target is None:
            continue
        # An empty text is a value: an answer of no words is an answer.
        if value != "" and is_missing(value):
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
    """The texts of a DeepEval context field: plain, or all as objects if one has a source.

    A list of a case is of one form only, so that each text is read alike.

    Raises:
        ValueProblem: the texts are joined by ``|``, and where one ends is unclear.
    """
    # What begins with a bracket is a list in JSON, which is read like a list of any other form.
    if isinstance(value, str) and value and not value.lstrip().startswith("["):
        value, has_own_bars = split_texts(value)
        if has_own_bars:
            source.notes[_OWN_BARS] = None
    if not is_list(value):
        return value
    texts = [_deepeval_text(item) for item in as_list(value)]
    if not any(map(is_object, texts)):
        return texts
    objects: list[object] = []
    for text in texts:
        if is_object(text):
            objects.append(text)
        else:
            objects.append({"text": text})
    return objects


def _deepeval_text(item: object) -> object:
    """A retrieved text of DeepEval's with its source, where the item has one; else the item.

    DeepEval writes the source into the text itself, or into an object with ``context``.
    """
    if isinstance(item, str):
        match = _TEXT_WITH_SOURCE.fullmatch(item)
        if match is None:
            return item
        return {"text": match["text"], "metadata": {"source": match["source"]}}
    if is_object(item) and isinstance(item.get("context"), str):
        return {"text": item["context"], "metadata": {"source": item.get("source")}}
    return item


def read_ragchecker(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row per result of RAGChecker; its claims and their checks are left out.

    Claims and checks are what RAGChecker's own scores are made of: they would make the same case in
    another run a new one.
    """
    targets = read_table("fields.toml")["ragchecker"]
    for row in container_rows(source, problems, field_names("array")["ragchecker"]):
        case: dict[str, object] = {}
        for name, value in row.values.items():
            if name in targets:
                source.roles[targets[name]] = name
                case[targets[name]] = value
        yield row._replace(values=case)


# --- promptfoo

_ERROR = 2
"""promptfoo's ``ResultFailureReason.ERROR``."""
_TOKENS = {"prompt": "prompt_tokens", "completion": "completion_tokens", "total": "total_tokens"}
"""promptfoo's names of token counts, with the fields of a case that they fill."""


def read_promptfoo(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row per test of promptfoo, with the system's answer and the test's assertions.

    With several providers or prompts, `source.split` names one of them.
    """
    fields = FieldMap("cases", {})
    # All rows first: what tells the systems apart is seen in all of them together.
    rows = list(container_rows(source, problems, field_names("array")["promptfoo"]))
    for row in one_part(rows, _promptfoo_parts(rows), source):
        test = as_object(row.values.get("testCase"))
        variables = as_object(row.values.get("vars"))
        if not variables:
            variables = as_object(test.get("vars"))
        recognised = {target for target, _ in fields[tuple(variables)].bindings}
        case: dict[str, object] = {**variables, **_promptfoo_answer(row.values)}
        if "context" in variables:  # by promptfoo's convention the retrieved text
            case.setdefault("contexts", variables["context"])
            del case["context"]
        if "query" not in recognised:
            # No variable has a name for a query: the only text among them must be it.
            texts = [value for value in variables.values() if isinstance(value, str)]
            if len(texts) == 1:
                case["query"] = texts[0]
            elif not variables:  # then the prompt is the same for every test, and the question
                case["query"] = as_object(row.values.get("prompt")).get("raw")
        if recognised.isdisjoint({"reference", "answers"}):
            assertions = [as_object(assertion) for assertion in as_list(test.get("assert"))]
            case["answers"] = references(assertions, variables)
        expectations = promptfoo_expectations(test.get("assert"), variables)
        if expectations:
            case["expectations"] = expectations
        if test.get("metadata"):
            case["metadata"] = test["metadata"]
        yield row._replace(values=case)


def _promptfoo_parts(rows: Iterable[Row]) -> list[str]:
    """For each row of promptfoo's results the name of the system that answered.

    A system is a provider with a prompt. Only the part that differs from row to row is in the name,
    because the user types it after ``--split``.
    """
    pairs: list[tuple[str, str]] = []
    for row in rows:
        provider_name = row.values.get("provider")
        provider = as_object(provider_name)
        if provider:  # an object with a label, which its user gave it, and an id
            provider_name = provider.get("label") or provider.get("id") or ""
        prompt = as_object(row.values.get("prompt"))
        label = prompt.get("label")
        # A prompt without a label of its own has its whole text as the label.
        if not label or label == prompt.get("raw"):
            label = f"prompt {row.values.get('promptIdx', 0)}"
        pairs.append((str(provider_name), str(label)))
    # Provider and prompt as columns, to see which of the two differs from row to row.
    columns = list(zip(*pairs, strict=True))
    differing = [column for column in columns if len(set(column)) > 1]
    if not differing:
        differing = columns[:1]
    return [" / ".join(parts) for parts in zip(*differing, strict=True)]


def _promptfoo_answer(values: Values) -> dict[str, object]:
    """The outcome of a promptfoo test as fields of a case: answer or error, contexts, time, tokens.

    A failed assertion is also an ``error`` there, which is none of the system's: only an error
    without an output, or one marked as such, counts.
    """
    response = as_object(values.get("response"))
    output = response.get("output")
    output_object = as_object(output)
    outcome: dict[str, object] = {}
    error = response.get("error") or values.get("error")
    # The error of a failed assertion is beside an output, and says nothing of the system.
    has_only_error = bool(error) and output in (None, "")
    if has_only_error or values.get("failureReason") == _ERROR:
        outcome["error"] = error or "an error without a message"
    elif output_object or isinstance(output, list):
        text = _promptfoo_text(output_object)
        if text is None:
            text = json.dumps(output, ensure_ascii=False)
        outcome["response"] = text
    elif output is not None:
        outcome["response"] = output
    contexts = _promptfoo_contexts(output_object, as_object(response.get("metadata")))
    if contexts is not None:
        outcome["contexts"] = contexts
    if response.get("isRefusal") is True:
        outcome["abstained"] = True
    if not response.get("cached"):  # else it is the cache that was timed
        outcome["latency_ms"] = values.get("latencyMs")
    usage = as_object(response.get("tokenUsage")) or as_object(values.get("tokenUsage"))
    for name, target in _TOKENS.items():
        # For a cached answer promptfoo knows the total alone and writes 0 for its parts: a 0 is not
        # taken over.
        if usage.get(name):
            outcome[target] = usage[name]
    return outcome


def _promptfoo_text(output: Values) -> str | None:
    """The text of an answer that promptfoo stored as an object; None where no field holds it.

    Providers return an answer as an object in forms of their own; without its text, the whole
    object would be compared with the right answer.
    """
    for name in field_names("promptfoo")["answer"]:
        text = output.get(name)
        if isinstance(text, str):
            return text
    return None


def _promptfoo_contexts(output: Values, metadata: Values) -> object:
    """The retrieved texts of a promptfoo test, in its answer's object or its metadata; else None.

    promptfoo has no field for them: users return them beside the answer, or as metadata.
    """
    for values in (output, metadata):
        for name in ("context", *outcome_fields()["retrieved_contexts"]):
            if values.get(name):
                return values[name]
    return None


# --- open-rag-eval

_NO_ANSWER = "NO_ANSWER"
_API_ERROR = "API_ERROR"
"""Instead of an answer open-rag-eval writes the one for an abstention, the other for an error."""


def read_open_rag_eval(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row per query of open-rag-eval, which writes a line for each passage of an answer.

    The lines of an answer follow one another. `source.split` names a run where there are several.
    """
    groups: list[list[Row]] = []
    passage_rows = container_rows(source, problems)
    for _, rows_of_query in groupby(passage_rows, _query_and_run):
        groups.append(list(rows_of_query))
    runs = [str(rows[0].values.get("query_run") or "1") for rows in groups]
    for rows in one_part(groups, runs, source):
        # What belongs to the query is repeated in each of its rows; the answer may be in one alone.
        query = rows[0].values
        passages = [row.values for row in rows if not is_missing(row.values.get("passage"))]
        answer = None
        for row in rows:
            if not is_missing(row.values.get("generated_answer")):
                answer = row.values["generated_answer"]
                break
        case: dict[str, object] = {
            "id": query.get("query_id"),
            "query": query.get("query"),
            "reference": query.get("expected_answer"),
            "retrieved_contexts": [passage["passage"] for passage in passages],
            "response": answer,
            "abstained": None,
        }
        if answer == _NO_ANSWER:
            case["abstained"] = True
        ids = [passage.get("passage_id") for passage in passages]
        if not any(map(is_missing, ids)):
            case["retrieved_context_ids"] = ids
        if answer == _API_ERROR:
            case["error"] = f"{_API_ERROR}, as open-rag-eval recorded it"
        yield rows[0]._replace(values=case, cells=False)


def _query_and_run(row: Row) -> list[object]:
    """The columns that say to which answer a row of open-rag-eval belongs: the query and its run.

    That tool writes a row for each passage of an answer. Neighbouring rows with the same values
    here become one case.
    """
    return [row.values.get(name) for name in ("query_id", "query", "query_run")]


_ItemT = TypeVar("_ItemT")


def one_part(items: Sequence[_ItemT], parts: Sequence[str], source: Source) -> Iterator[_ItemT]:
    """Yields the items of the part that `source.split` names, such as one provider's or one run's.

    Several systems' answers to a question are not several answers of one system, so the user must
    name one where there are several.

    Args:
        items: rows, or groups of them.
        parts: for each item the name of its part, such as a provider, a prompt or a run.
        source: where they are from.

    Raises:
        UnreadableError: there are several parts and none is named, or there is none of that name.
    """
    names = list(dict.fromkeys(parts))
    part_to_read = source.split
    if part_to_read is None and len(names) == 1:
        part_to_read = names[0]
    # A source without rows has no part, which its caller reports.
    if items and part_to_read not in names:
        reason = f"no '{source.split}'"
        if source.split is None:
            reason = "answers of several systems"
        raise UnreadableError(f"found {reason}; name one of them with --split: {', '.join(names)}")
    for item, part in zip(items, parts, strict=True):
        if part == part_to_read:
            yield item
