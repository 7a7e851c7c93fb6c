"""Conversations: what was said in turn, in the forms of other tools, and one case per answer.

Facts of the forms, as the tools write them: OpenAI's ``messages`` have a role and a content, a text
or a list of parts; RAGAS' ``MultiTurnSample`` a type and a content under ``user_input``; DeepEval's
``ConversationalTestCase`` ``turns`` with role, content and retrieval context; MTRAG a speaker and a
text. Histories are also written as pairs of a speaker and a text.

MTRAG and MTRAG-UN (IBM/mt-rag-benchmark): conversations that people had with a RAG.

Facts of their forms:

- tasks, a line each: ``history`` (pairs) or ``input`` (speaker, text), the question last;
  ``contexts`` that people marked as relevant, ``targets``; of a system ``predictions``.
- analytics: JSON with ``tasks``, ``documents`` and the answers of several models.
- conversations: JSON, a list with ``retriever`` and ``messages``; passages with ``feedback``.
- retrieval tasks: BEIR's queries as ``lastturn``, ``questions`` and ``rewrite`` of the same ids,
  judgements beside them under ``qrels/``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, cast

from ragbench.core.case import Turn
from ragbench.io.detect import container_rows
from ragbench.io.fields import QRELS_FOLDER, field_names
from ragbench.io.json_files import load, read_json_lines
from ragbench.io.read import FieldMap
from ragbench.io.source import Kind, Problems, Row, Source
from ragbench.io.trec import judged_queries
from ragbench.io.values import (
    ASSISTANT,
    SYSTEM,
    USER,
    ValueProblem,
    as_list,
    as_object,
    as_turns,
    is_list,
    is_object,
)
from ragbench.safe_text import counted

_SAID_OF_ALL_QUESTIONS = frozenset({"cluster", "tags", "language", "metadata"})
"""Fields in which a record speaks of each question of its conversation. Its other fields, such as
the right answer, are those of the last question alone."""

_SAID_BY = (
    "a case an answer, with what was said before; the assistant's messages are read as a system's "
    "answers: where they are the right ones, add --field reference=response"
)


def turn_object(turn: Turn) -> dict[str, Any]:
    """A turn of a conversation as a JSON object; without contexts where none are recorded.

    The history of a case is exported so, and `as_turns` reads it back: the keys are a stored form.
    """
    values: dict[str, Any] = {"role": turn.role, "text": turn.text}
    if turn.contexts is not None:
        values["contexts"] = list(turn.contexts)
    return values


def in_turn(
    history: Sequence[Turn], cluster: str, tags: object = (), *, number: object = None
) -> dict[str, object]:
    """The fields that place a case in its conversation: ``history``, ``cluster`` and ``tags``.

    The tag ``turn-NUMBER`` splits a report's scores by turn.

    Args:
        history: what was said before the question.
        cluster: the id of the conversation; its cases are not independent of each other.
        tags: the case's own tags, a list or a single one; ``turn-NUMBER`` is added to them.
        number: which of the user's questions this is; counted in the history when not given.
    """
    if not number:
        earlier_questions = [turn for turn in history if turn.role == USER]
        number = len(earlier_questions) + 1
    case_tags: list[object] = []
    if is_list(tags):
        case_tags += tags
    elif tags is not None:
        case_tags.append(tags)
    case_tags.append(f"turn-{number}")
    turns = [turn_object(turn) for turn in history]
    return {"history": turns, "cluster": cluster, "tags": case_tags}


def exchanges(turns: Sequence[Turn]) -> Iterator[tuple[int, int | None]]:
    """Yields the positions of each question of a conversation and of its answer.

    A case is made of each such pair. The answer is the last text of the assistant before the next
    question: earlier ones are remarks on the way to it. A question without an answer is left out,
    but the last one comes with None.
    """
    questions = [position for position, turn in enumerate(turns) if turn.role == USER]
    # Each question's turns go on to the next question, those of the last one to the end.
    ends = [*questions, len(turns)][1:]
    for question, end in zip(questions, ends, strict=True):
        answer = None
        for position in range(question, end):
            if turns[position].role == ASSISTANT and turns[position].text:
                answer = position
        if answer is not None or end == len(turns):
            yield question, answer


def before(turns: Sequence[Turn], question: int) -> list[Turn]:
    """The history of a question: all texts of the conversation before it, but system messages.

    Orders to the system are no part of what the user and the assistant said to each other.

    Args:
        question: the position of the question among the turns.
    """
    return [turn for turn in turns[:question] if turn.role != SYSTEM and turn.text]


def conversation_of(value: object) -> bool:
    """Whether a value is a conversation: a list of objects that all name who speaks.

    By this a field with messages is recognised, from which cases are made.
    """
    messages = as_list(value)
    if not messages:
        return False
    role_names = field_names("turn")["role"]
    for message in messages:
        if not is_object(message):
            return False
        says_role = any(name in message for name in role_names)
        if not says_role:
            return False
    return True


def conversation_rows(row: Row, field: str, problems: Problems) -> Iterator[Row]:
    """Yields a row per answer of the conversation in a field, with the turns before it.

    A record that ends with a question, and says what its answer should be or was, is one case: its
    last question. Fields of the record that are not of the whole conversation go to the last case.

    Args:
        field: the field of the row that holds the conversation.
    """
    record = dict(row.values)
    del record[field]  # the others speak of the conversation
    bindings = FieldMap("cases", {})[tuple(record)].bindings
    target_of_name = {source: target for target, source in bindings}
    try:
        turns = as_turns(row.values[field])
    except ValueProblem as problem:
        problems.add(str(problem), path=row.path, line=row.line, field=field)
        return
    pairs = list(exchanges(turns))
    if not pairs:
        message = "expected a conversation in which a user asks something"
        problems.add(message, path=row.path, line=row.line, field=field)
        return

    last_question, last_answer = pairs[-1]
    of_any_question = {*_SAID_OF_ALL_QUESTIONS, "id", "query"}
    speaks_of_last = any(target not in of_any_question for target in target_of_name.values())
    if last_answer is None and speaks_of_last:
        pairs = pairs[-1:]

    conversation = _conversation_id(record, row.line)
    id_names = field_names("turn")["name"]
    of_last = {name: value for name, value in record.items() if name not in id_names}
    orders = [turn.text for turn in turns if turn.role == SYSTEM]
    rules = "\n".join(orders)
    if rules:
        of_last["system"] = rules
    of_all = _fields_of_all_questions(of_last, target_of_name)

    for question, answer in pairs:
        place = in_turn(before(turns, question), conversation, record.get("tags"))
        values = dict(of_last if question == last_question else of_all)
        values.update(place)
        turn_tag = cast("list[str]", place["tags"])[-1]
        values["id"] = f"{conversation}/{turn_tag}"
        values["query"] = turns[question].text
        if "cluster" in record:
            values["cluster"] = record["cluster"]
        if answer is not None:
            values["response"] = turns[answer].text
            contexts = turns[answer].contexts
            if contexts is not None:
                values["retrieved_contexts"] = list(contexts)
        yield row._replace(values=values)


def _fields_of_all_questions(
    record: Mapping[str, object], target_of_name: Mapping[str, str]
) -> dict[str, object]:
    """The fields in which a record speaks of its whole conversation, such as its tags.

    The others, such as the right answer, belong to the last question alone: copied to each case
    they would make right answers wrong.

    Args:
        target_of_name: the field of a case that each name of the record means, if it is known.
    """
    fields: dict[str, object] = {}
    for name, value in record.items():
        # A field that means nothing known becomes metadata.
        target = target_of_name.get(name, "metadata")
        if target in _SAID_OF_ALL_QUESTIONS:
            fields[name] = value
    return fields


def _conversation_id(record: Mapping[str, object], line: object) -> str:
    """The id that a record gives its conversation, or one made of the record's line.

    A conversation's cases are one cluster under this id: they are not independent of each other.
    """
    for name in field_names("turn")["name"]:
        if record.get(name) not in (None, ""):
            return str(record[name])
    return f"conversation-{line}"


def read_conversations(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields a row per answer of each record's conversation, such as OpenAI's ``messages``.

    ``formats.toml`` names this reader.

    A record without a conversation is a row as it is.
    """
    conversation_names = field_names("turn")["conversation"]
    for row in container_rows(source, problems, field_names("array")["conversations"]):
        for name in conversation_names:
            if conversation_of(row.values.get(name)):
                source.notes[_SAID_BY] = None
                yield from conversation_rows(row, name, problems)
                break
        else:
            yield row


# --- MTRAG

Values = Mapping[str, object]

_ANSWERABLE = {"ANSWERABLE": True, "PARTIAL": True, "UNANSWERABLE": False}
"""Of questions that are underspecified, or no questions, it is unknown what is right."""
_FIELDS_READ = frozenset(
    {
        "task_id",
        "conversation_id",
        "history",
        "input",
        "contexts",
        "targets",
        "predictions",
        "annotations",
        "task_type",
    }
)
"""Fields of a task that are read, or of no use to a case; the others become its metadata."""
_SEPARATOR = re.compile("<::>|::")
"""Between the id of a conversation and the number of a turn."""
_SPEAKER = re.compile(r"^\|(\w+)\|: ?", re.MULTILINE)
"""Who speaks, before each question in the text of a retrieval task, such as ``|user|: ``."""


def read_mtrag(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row per question of a file of MTRAG, with the turns before it.

    ``formats.toml`` names this reader.

    Retrieval tasks and tasks have a line each; analytics and conversations are one JSON value.
    """
    if source.suffix != ".json":
        rows = read_json_lines(source, kind=kind, problems=problems)
        first_rows = list(islice(rows, 1))  # a list, as a file may have no rows
        rows = chain(first_rows, rows)
        if any("text" in row.values for row in first_rows):
            yield from _retrieval_task_rows(rows, source, problems)
        else:
            yield from _task_rows(rows, problems)
        return

    content = load(source, problems)
    # Conversations are a list, analytics an object: of the two loops one has nothing to do.
    for number, conversation in enumerate(as_list(content), start=1):
        if is_object(conversation):
            yield from _rows_of_mtrag_conversation(Row(source.name, number, conversation), problems)
    analytics = as_object(content)
    texts: dict[str, object] = {}
    for document in as_list(analytics.get("documents")):
        if is_object(document):
            texts[str(document.get("document_id"))] = document.get("text")
    answers = _answers_of_model(analytics, source)
    for number, task in enumerate(as_list(analytics.get("tasks")), start=1):
        if is_object(task):
            answer = answers.get(task.get("task_id"))
            yield from _task_row(Row(source.name, number, task), texts, answer, problems)


def _answers_of_model(analytics: Values, source: Source) -> dict[object, object]:
    """The answers of the model that ``--split`` names in MTRAG's analytics, by task id.

    Without a name there are none, and a note lists the models: several models' answers to a
    question are not one system's.
    """
    evaluations = [item for item in as_list(analytics.get("evaluations")) if is_object(item)]
    models_of_evaluations = [str(evaluation.get("model_id")) for evaluation in evaluations]
    models = list(dict.fromkeys(models_of_evaluations))  # each once, in the file's order
    if source.split is None:
        if models:
            note = f"MTRAG: it holds {counted(len(evaluations), 'answer')} of {', '.join(models)}"
            source.notes[f"{note}; --split MODEL scores those of one"] = None
        return {}
    model = source.chosen(models, noun="model")
    answers: dict[object, object] = {}
    for evaluation in evaluations:
        if str(evaluation.get("model_id")) == model:
            answers[evaluation.get("task_id")] = evaluation.get("model_response")
    return answers


def _retrieval_task_rows(rows: Iterator[Row], source: Source, problems: Problems) -> Iterator[Row]:
    """Yields a row per retrieval task of MTRAG, with judgements from the file beside it, if any.

    Without judgements the questions have no gold, and only a judge can score what is retrieved.
    """
    queries = map(_retrieval_task_row, rows)
    if source.path is not None:
        # MTRAG's repository has the judgements in this folder beside its tasks.
        qrels = source.path.parent / QRELS_FOLDER / "dev.tsv"
        if qrels.is_file():
            yield from judged_queries(queries, Source.of(qrels), problems)
            return
    yield from queries


def _retrieval_task_row(row: Row) -> Row:
    """A retrieval task of MTRAG as a row: the last question, with those before it as its history.

    The task's text holds all of them, each behind a mark such as ``|user|: ``.
    """
    task_id = str(row.values.get("_id"))
    # The split gives what stands before the first speaker, then speakers and texts in turn.
    texts = _SPEAKER.split(str(row.values.get("text")))[2::2]
    turns = [Turn(role=USER, text=text.strip()) for text in texts]
    cluster, *numbers = _SEPARATOR.split(task_id)
    number = numbers[-1] if numbers else None
    query = turns[-1].text if turns else ""
    place = in_turn(turns[:-1], cluster, number=number)
    return row._replace(values={"_id": task_id, "query": query, **place})


def _task_rows(rows: Iterator[Row], problems: Problems) -> Iterator[Row]:
    """Yields a row per task of MTRAG, with the first recorded prediction as its answer.

    The contexts of a task have their texts beside their ids; in MTRAG's files of analytics the
    texts are in a list of their own.
    """
    for row in rows:
        answer: object = None
        predictions = as_list(row.values.get("predictions"))
        if predictions:
            answer = as_object(predictions[0]).get("text")
        yield from _task_row(row, {}, answer, problems)


def _task_row(row: Row, texts: Values, answer: object, problems: Problems) -> Iterator[Row]:
    """Yields the row of a task of MTRAG; none where its turns are wrong, which is a problem.

    All of MTRAG's forms come down to this one.

    Args:
        texts: of documents by their ids, for contexts that have an id alone.
        answer: a system's; None where none is recorded.
    """
    task = row.values
    turn_values: object = task.get("history", task.get("input")) or ()
    try:
        turns = as_turns(turn_values)
    except ValueProblem as problem:
        problems.add(str(problem), path=row.path, line=row.line)
        return
    if not turns or turns[-1].role != USER:
        message = "expected turns of a conversation that end with the user's question"
        problems.add(message, path=row.path, line=row.line)
        return

    # The names of these labels are read in upper and lower case.
    labels = {name.casefold(): value for name, value in task.items()}
    kinds = [str(kind) for kind in as_list(labels.get("answerability"))]
    turn_kinds = as_list(labels.get("multiturn", labels.get("multi-turn")))
    tags = kinds + [str(kind) for kind in turn_kinds]
    cluster = task.get("conversation_id")
    if not cluster:
        cluster = _SEPARATOR.split(str(task.get("task_id")))[0]
    history = before(turns, len(turns) - 1)  # the last turn is the question
    answerable = None
    if len(kinds) == 1:  # of several kinds it is unclear which holds
        answerable = _ANSWERABLE.get(kinds[0])

    values: dict[str, object] = {"id": task.get("task_id"), "query": turns[-1].text}
    values.update(in_turn(history, str(cluster), tags))
    values["reference"] = [_text_of_target(target) for target in as_list(task.get("targets"))]
    values.update(_gold_of_contexts(task.get("contexts"), texts))
    values["answerable"] = answerable
    if answer is not None:
        values["response"] = answer
    values["metadata"] = {name: value for name, value in task.items() if name not in _FIELDS_READ}
    yield row._replace(values=values)


def _text_of_target(target: object) -> object:
    """The text of a right answer of MTRAG, whose files write it in three ways.

    It is an object with the text, a pair of speaker and text, or the text itself.
    """
    if is_object(target):
        return target.get("text")
    pair = as_list(target)
    return pair[-1] if pair else target


def _gold_of_contexts(contexts: object, texts: Values) -> dict[str, object]:
    """The gold of a task of MTRAG: ids and texts of its relevant contexts; None where it has none.

    A context without a text of its own has that of the document with its id.

    Args:
        texts: of documents by their ids.
    """
    gold_ids: list[object] = []
    gold_texts: list[object] = []
    for context in as_list(contexts):
        if not is_object(context) or not _is_relevant(context):
            continue
        # MTRAG's files name it in either way.
        context_id = context.get("document_id", context.get("pid"))
        gold_ids.append(context_id)
        text = context.get("text", texts.get(str(context_id)))
        if text:
            gold_texts.append(text)
    return {
        "reference_contexts": gold_texts or None,
        "reference_context_ids": gold_ids or None,
    }


def _is_relevant(context: Values) -> bool:
    """Whether a context of MTRAG is gold: one person who voted found it relevant, or none voted.

    The contexts of a task are without votes: people marked each of them as relevant.
    """
    feedback = as_object(context.get("feedback"))
    vote_of_person = as_object(feedback.get("relevant"))
    votes: list[object] = []
    for vote in vote_of_person.values():
        if is_object(vote):
            votes.append(vote.get("value"))
    return not votes or "yes" in votes


def _rows_of_mtrag_conversation(row: Row, problems: Problems) -> Iterator[Row]:
    """Yields a row per question of a conversation of MTRAG; the agent's answer is the right one.

    Annotators of MTRAG mended these answers: they are references, and no system's.
    """
    messages = [message for message in as_list(row.values.get("messages")) if is_object(message)]
    try:
        turns = as_turns(messages)
    except ValueProblem as problem:
        problems.add(str(problem), path=row.path, line=row.line, field="messages")
        return
    conversation = str(row.values.get("id") or f"conversation-{row.line}")
    for question, answer in exchanges(turns):
        number = sum(turn.role == USER for turn in turns[: question + 1])
        # Each question is made a task of the form that MTRAG's other files have.
        task = dict(as_object(messages[question].get("enrichments")))
        task["task_id"] = f"{conversation}<::>{number}"
        task["conversation_id"] = conversation
        task["input"] = messages[: question + 1]
        if answer is not None:
            task["targets"] = [turns[answer].text]
            task["contexts"] = messages[answer].get("contexts")
        yield from _task_row(row._replace(values=task), {}, None, problems)
