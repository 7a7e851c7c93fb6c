"""What one endpoint was found to understand, how it is asked, and whether it reads all of it."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, Literal, cast

import msgspec

from ragbench.core.chat import Message, Usage
from ragbench.errors import LLMError, LLMPromptCutError, LLMStoppedError, warn
from ragbench.llm.answers import WIDER, Answer, says
from ragbench.llm.endpoint import Endpoint, StructuredOutput
from ragbench.masking import mask_text

_LADDER = tuple(StructuredOutput)[1:]
"""Without AUTO, the strongest first."""
_REJECTING = frozenset({400, 404, 415, 422, 501})
"""Statuses with which servers refuse the form of a request, such as a field of it."""
_OFTEN = 3
"""Answers without the structure that was asked for, after which a way of asking is given up: one or
two may be slips of a small model."""
_IN_PROMPT = "Reply with one JSON value that follows this JSON schema, and with nothing else:\n"
"""How a prompt says what structure is wanted, where the request has no field for that."""
_LIMIT = "max_tokens"
_NEWER_LIMIT = "max_completion_tokens"
"""The two names of the field that limits an answer's length: an endpoint takes one of them."""
SPARE = 16
"""Tokens that a chat template may add beside what was counted."""
_NARROW = 512
"""Tokens of room for an answer below which an estimate of a prompt's length is too coarse."""
_TOKENS_A_BYTE = 0.3
"""The first estimate, until an answer reports more: English has about 0.25."""
_MEASURABLE = 1_000
"""Bytes of a prompt from which on its tokens a byte are taken up: in a shorter one the tokens that
the chat template adds would count for too much."""
_NUMBER = re.compile(r"(?<![\w.])\d{2,7}(?![\w.])")
"""A number in an error that may be a limit of tokens; parts of names and versions are none."""


class Learned(msgspec.Struct, frozen=True, kw_only=True):
    """What an endpoint was found to understand; kept over several commands."""

    structured: StructuredOutput | None = None
    """How it is asked for JSON; None while no answer that was as asked has confirmed it."""
    token_limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """The name of the field that limits an answer's length."""
    not_sent: dict[str, str] = {}
    """Parameters that the endpoint refuses, with what it says of them."""
    reasons: bool = False
    """Whether the model thinks before it answers: then its answers are given more room."""
    most_tokens: Annotated[int, msgspec.Meta(gt=0)] | None = None
    """The longest answer that the endpoint allows, where it has said so."""
    room: Annotated[int, msgspec.Meta(gt=0)] | None = None
    """Tokens that prompt and answer may have together, where it has said so."""
    read_whole: int = 0
    """Words of the longest prompt that was shown to be read as a whole, though fewer tokens were
    reported: how it counts says nothing."""


class Dialect:
    """What one endpoint understands. Starts with what most do, and learns from what it rejects."""

    def __init__(self, endpoint: Endpoint, *, must_limit: bool = False) -> None:
        """Starts with the user's settings of the endpoint, and with most endpoints' habits.

        A dialect is what one endpoint understands: how it is asked for JSON, and which parameters
        it takes.

        Args:
            must_limit: no request may go without a limit of its answer's length, because a cap on
                costs has to know the most that a call can cost.
        """
        self._endpoint = endpoint
        self._must_limit = must_limit
        self._fixed: StructuredOutput | None = None
        """The way of asking for JSON that the user chose; None where it is to be found out."""
        if endpoint.structured is not StructuredOutput.AUTO:
            self._fixed = endpoint.structured
        self.structured = self._fixed or _LADDER[0]
        """The way of asking for JSON that calls start with."""
        self._ignored: Counter[StructuredOutput] = Counter()
        """How many answers lacked the structure asked for, by the way of asking for JSON."""
        self._tokens_a_byte = _TOKENS_A_BYTE
        """The highest count of tokens per byte seen in a prompt: by it `longest_beside` estimates
        the length of others."""
        self.learned = Learned(reasons=endpoint.reasoning_effort not in (None, "none"))
        """What was learned of the endpoint so far; a new object with every change, so that callers
        can see a change by ``is``."""

    @property
    def mode_is_known(self) -> bool:
        """Whether the endpoint's way of being asked for JSON is settled.

        The user settles it, or an answer that has the structure.
        """
        return self._fixed is not None or self.learned.structured is not None

    @property
    def longest(self) -> int | None:
        """The longest answer that the endpoint is asked for, in tokens; None without a limit.

        A model that thinks before it answers gets room for its thoughts on top.
        """
        learned = self.learned
        longest = self._endpoint.max_tokens
        if longest is None or _LIMIT in learned.not_sent:
            return None
        if learned.reasons:
            longest += self._endpoint.reasoning_tokens
        # The endpoint's own limit holds for thoughts and answer together.
        if learned.most_tokens is not None:
            longest = min(longest, learned.most_tokens)
        return longest

    def longest_beside(self, messages: Sequence[Message]) -> int | None:
        """The longest answer that fits beside a prompt in the model's context.

        None where answers have no limit. The prompt's length in tokens is an estimate from its
        bytes (see `learn_prompt_size`).
        """
        longest = self.longest
        room = self.learned.room
        if room is None or longest is None:
            return longest
        prompt = round(self._tokens_a_byte * _byte_count(messages))
        room_for_answer = room - prompt - SPARE
        # Where the prompt nearly fills the context, the full length is asked for: a rejection costs
        # nothing, and says how much is left.
        if room_for_answer < _NARROW:
            return longest
        return min(longest, room_for_answer)

    def learn_prompt_size(self, messages: Sequence[Message], tokens: int) -> None:
        """Adjusts the estimate of tokens per byte of a prompt to the endpoint's count.

        The estimate only rises. Some endpoints report fewer tokens than a prompt has, such as only
        those that were not in their cache. And a prompt that is longer than estimated costs a
        rejection, one that is shorter only some room for the answer.
        """
        size = _byte_count(messages)
        if size >= _MEASURABLE:
            # Every token is a byte or more: a higher count is no count of this prompt.
            density = min(1.0, tokens / size)
            self._tokens_a_byte = max(self._tokens_a_byte, density)

    def learn(self, **changes: Any) -> None:
        """Takes up changes of what was learned of the endpoint.

        Without a change the object stays the same. Callers compare the object itself to see whether
        a call has learned something.
        """
        learned: Learned = msgspec.structs.replace(self.learned, **changes)
        if learned != self.learned:
            self.learned = learned

    def payload(
        self,
        messages: Sequence[Message],
        schema: Mapping[str, Any] | None,
        mode: StructuredOutput,
        limit: int | None,
    ) -> dict[str, Any]:
        """The JSON body of a chat request, in the form that this endpoint understands.

        Parameters that the endpoint refused before are left out. The form is part of what answers
        depend on.

        Args:
            schema: of the JSON that is wanted; None for a text.
            mode: how JSON is asked for.
            limit: tokens of the answer.
        """
        chat = [{"role": message.role, "content": message.content} for message in messages]
        body: dict[str, Any] = {"model": self._endpoint.model, "messages": chat}
        for name, value in self._endpoint.parameters.items():
            if name not in self.learned.not_sent and name != _LIMIT:
                body[name] = value
        if limit is not None:
            body[self.learned.token_limit] = limit
        if schema is None:
            return body
        if mode is StructuredOutput.JSON_SCHEMA:
            # OpenAI takes names of these characters alone, and at most 64 of them.
            title = str(schema.get("title", ""))
            name = re.sub(r"[^A-Za-z0-9_-]+", "_", title)[:64]
            named_schema = {
                "name": name or "answer",
                "schema": dict(schema),
                "strict": _is_strict(schema),
            }
            body["response_format"] = {"type": "json_schema", "json_schema": named_schema}
            return body
        # In all other ways of asking for JSON, the prompt has the schema.
        chat[-1]["content"] += f"\n\n{schema_text(schema)}"
        if mode is StructuredOutput.JSON_OBJECT_SCHEMA:
            body["response_format"] = {"type": "json_object", "schema": schema}
        elif mode is StructuredOutput.JSON_OBJECT:
            body["response_format"] = {"type": "json_object"}
        return body

    # --- structure

    def weaker(self, mode: StructuredOutput, status: int, text: str) -> StructuredOutput | None:
        """The next way of asking for JSON after a rejection of a request that asked for JSON.

        Endpoints differ in the field that demands JSON; the ways are tried from the strictest on.

        None when the rejection has another reason, or no way is left.
        """
        if self._fixed is not None or mode is StructuredOutput.NONE:
            return None
        is_stronger = _LADDER.index(mode) < _LADDER.index(self.structured)
        if self.mode_is_known and is_stronger:
            return self.structured  # another call has found it out meanwhile
        is_about_format = says("about_format").search(text) is not None
        if status < 500:
            # While no way is known to work, any refusal of a request's form may be about the way of
            # asking for JSON.
            may_be_about_format = is_about_format or not self.mode_is_known
            is_about_format = status in _REJECTING and may_be_about_format
        return _next_weaker(mode) if is_about_format else None

    def ignored(self, mode: StructuredOutput) -> StructuredOutput | None:
        """The next way of asking for JSON after an answer without the structure asked for.

        An endpoint that takes a request for JSON has not said that it follows it: some drop the
        field without a word. Nobody knows until an answer is as asked.

        None when the way is known to work, or none is left: then it was the model that erred.
        """
        if self._fixed is not None or mode is StructuredOutput.NONE:
            return None
        if self.mode_is_known:
            return None if mode is self.structured else self.structured
        self._ignored[mode] += 1
        # Only where the mode is still the one that calls start with: another call may have moved
        # it.
        if self._ignored[mode] >= _OFTEN and self.structured is mode:
            self.structured = _next_weaker(mode)  # others need not try in vain, too
        return _next_weaker(mode)

    def confirmed(self, mode: StructuredOutput) -> None:
        """Notes that an answer asked for in this way has the structure: then the way is kept.

        A single odd answer proves nothing against the stronger way that was tried before: that way
        is left for good only when it has failed twice.
        """
        if self.mode_is_known:
            return
        if mode is not self.structured and self._ignored[self.structured] == 1:
            return
        self.structured = mode
        self.learn(structured=mode)

    # --- parameters

    def learns(self, status: int, body: str, sent: Mapping[str, Any]) -> str | None:
        """Learns which parameter a rejection is about, and gives its name.

        A request without that parameter may pass. None when the rejection is about something else.
        """
        if status not in _REJECTING or says("about_length").search(body):
            return None
        learned = self.learned
        if learned.token_limit != _NEWER_LIMIT and _LIMIT in sent and _NEWER_LIMIT in body:
            # Only models that think demand the newer field, which counts their thoughts, too.
            self.learn(token_limit=_NEWER_LIMIT, reasons=True)
            return _LIMIT
        answer = Answer(status=status, headers={}, body=body)
        name = _named_parameter(answer, sent)
        if name is None:
            return None
        # Cut short, since the reason is kept in the cache and printed in reports.
        reason = mask_text(answer.message)[:300]
        if name in (_LIMIT, _NEWER_LIMIT):
            limit = int(sent[name])
            name = _LIMIT  # what is learned of a limit holds under both of its names
            numbers = [int(digits) for digits in _NUMBER.findall(reason)]
            # "must be at most 4096, not 8192": the largest number below the limit that was sent is
            # what the endpoint allows.
            allowed = [number for number in numbers if number < limit]
            if allowed and learned.most_tokens is None:
                self.learn(most_tokens=max(allowed))
                return name
            # Without the field, a cap on costs could not be kept.
            if self._must_limit:
                return None
        # The parameter was left out of this request already: the rejection is about something else.
        if name in learned.not_sent:
            return None
        self.learn(not_sent={**learned.not_sent, name: reason})
        return name

    def forgets(self, names: Collection[str]) -> None:
        """Sends refused parameters again from now on: leaving them out did not help.

        Else an unrelated rejection would drop a setting of the user's, such as the temperature, for
        good.
        """
        not_sent: dict[str, str] = {}
        for name, reason in self.learned.not_sent.items():
            if name not in names:
                not_sent[name] = reason
        self.learn(not_sent=not_sent)

    def restore(self, learned: Learned) -> None:
        """Takes over what an earlier command learned of the endpoint.

        What the user set now wins: with a cap on costs, an answer keeps its limit of length.
        """
        # A cap needs the limit of length: an earlier command without one may have dropped the
        # field.
        not_sent = dict(learned.not_sent)
        if self._must_limit:
            not_sent.pop(_LIMIT, None)
        reasons = learned.reasons or self.learned.reasons
        self.learned = msgspec.structs.replace(learned, not_sent=not_sent, reasons=reasons)
        self.structured = self._fixed or learned.structured or self.structured


def _byte_count(messages: Sequence[Message]) -> int:
    """The length of a prompt's texts in bytes of UTF-8, from which its tokens are estimated.

    A lone surrogate, which has no UTF-8, counts as one byte.
    """
    return sum(len(message.content.encode("utf-8", "replace")) for message in messages)


def schema_text(schema: Mapping[str, Any]) -> str:
    """The sentence that asks for JSON in a prompt, with the schema that the answer must follow.

    Endpoints without a field for a schema get the sentence. The prompt is a part of what answers
    depend on: other words may change scores.
    """
    return f"{_IN_PROMPT}{json.dumps(schema, ensure_ascii=False)}"


def _next_weaker(mode: StructuredOutput) -> StructuredOutput:
    """The next weaker way of asking for JSON.

    Ways are tried from the strictest on until one works. There is none below the weakest (to ask in
    the prompt alone): callers stop at that one, for which this function would raise.
    """
    return _LADDER[_LADDER.index(mode) + 1]


_NEVER_DROPPED = frozenset({"model", "messages", "response_format"})
"""Fields that a request cannot do without; the last has rules of its own, see `Dialect.weaker`."""


def _named_parameter(answer: Answer, sent: Mapping[str, Any]) -> str | None:
    """The parameter of a request that a rejection is about, by its ``param`` or its words, or None.

    Without that parameter the request may pass. Endpoints word rejections in their own ways.

    Args:
        sent: the body of the rejected request; only its fields can be meant.
    """
    # Only a field of this request can be left out of the next one.
    candidates = [name for name in sent if name not in _NEVER_DROPPED]
    param = str(answer.error.get("param") or "").rpartition(".")[2]
    if param in candidates:
        return param
    if says("about_parameter").search(answer.body) is None:
        # "max_tokens: 8192 > 4096, which is the maximum allowed number of output tokens"
        if "maximum" not in answer.body:
            return None
        candidates = [name for name in (_LIMIT, _NEWER_LIMIT) if name in sent]
    for name in candidates:
        # As a whole word: "top_p" is no part of "top_priority".
        if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", answer.body):
            return name
    return None


def _is_strict(schema: object) -> bool:
    """Whether every object in a schema names all its fields: what strict servers demand.

    A request that is called strict, and is not, would be refused as a whole.
    """
    if isinstance(schema, (list, tuple)):
        parts = cast("Sequence[object]", schema)
        return all(_is_strict(part) for part in parts)
    if not isinstance(schema, Mapping):
        return True
    part = cast("Mapping[str, Any]", schema)
    if "properties" in part or part.get("type") == "object":
        properties = set(part.get("properties", ()))
        required = set(part.get("required", ()))
        if part.get("additionalProperties") is not False or properties != required:
            return False
    return all(_is_strict(entry) for entry in part.values())


# --- whether an endpoint reads all of a prompt: something is hidden in one and asked for

_FILLER = "The river runs past the mill and the road goes on over the hill to the next village. "
"""A sentence that says nothing, to make a prompt long."""


class Marked:
    """A prompt of so many words with a code at its beginning, in its middle and at its end."""

    def __init__(self, words: int) -> None:
        """Writes a prompt of so many words with a code at its beginning, middle and end.

        An endpoint that reads the whole prompt can repeat the three codes, between which lies
        filling text.
        """
        # Seeded by the length: every command hides the same codes in a prompt of that length.
        draw = random.Random(words)
        # Two gaps lie between three codes: each gets half of the filling.
        self._codes = [f"{draw.randrange(10_000, 99_999)}" for _ in range(3)]
        repetitions = words // len(_FILLER.split())
        half = _FILLER * (repetitions // 2)
        sentences: list[str] = []
        for number, code in enumerate(self._codes, start=1):
            sentences.append(f"Code {number} is {code}. ")
        text = half.join(sentences)
        self.messages = [Message(role="user", content=f"{text}\n\nWhich are the three codes?")]

    def missing(self, answer: str) -> Sequence[int]:
        """The numbers (1 to 3) of the prompt's hidden codes that an answer lacks.

        None is missing where the endpoint read the whole prompt.
        """
        codes = enumerate(self._codes, start=1)
        return [number for number, code in codes if code not in answer]


_CUT = 0.75
"""A prompt of which less than this share of its fewest tokens was read has been cut. Below 1, since
some newer tokenizers merge words that often stand together."""
_FEWEST_MISSING = 128
"""Tokens. No endpoint has so small a context that less is cut; counts of short prompts differ."""


_SILENT = 1_500
"""Words of a prompt from which on an endpoint that reports no tokens is tried out."""
_SHORT = 60
"""Words of a prompt that every endpoint reads: a model that finds no code in it shows nothing."""


class Reading:
    """Looks whether prompts are read as a whole, by what is reported of their tokens.

    A count alone proves nothing: some endpoints count only what they had not kept, or always the
    same. It is a reason to hide something in a prompt of that length, once, and to ask for it.
    """

    def __init__(
        self, where: str, dialect: Dialect, ask: Callable[[Sequence[Message]], Awaitable[str]]
    ) -> None:
        """Begins without a doubt about the endpoint: nothing is asked yet.

        Args:
            where: the model and its address, for messages.
            dialect: keeps what was learned of the endpoint, how long a prompt it reads included.
            ask: asks for a text, without any check of its own.
        """
        self._where = where
        self._dialect = dialect
        self._ask = ask
        self._whole = 0
        """Words of the longest prompt tried out by this command: up to twice as many, no prompt is
        tried again."""
        self._cut: int | None = None
        """Words of the shortest prompt that was found to be cut; None where none was."""
        self._asking = asyncio.Lock()
        """Held by the call that tries a prompt out, while other calls wait for the outcome."""

    async def check(self, usage: Usage, fewest: int) -> None:
        """Raises `LLMPromptCutError` where an answer's token count shows that its prompt was cut.

        A server may drop the beginning of a long prompt without a word: scores of such answers are
        wrong.

        A doubtful count alone costs one trial: a prompt of that length with something hidden in it.
        Calls at once wait for the same trial.
        """
        if not is_short(usage, fewest):
            return
        async with self._asking:
            if self._cut is None or fewest < self._cut:
                # A prompt that is twice as long may be cut where this one was not.
                longest_read = max(self._whole, self._dialect.learned.read_whole)
                if fewest <= 2 * longest_read:
                    return
                await self._try_out(usage, fewest)
        if self._cut is not None and fewest >= self._cut:
            read = f"{usage.prompt_tokens:,} tokens" if usage.reported else "a part"
            raise LLMPromptCutError(
                f"the endpoint read {read} of a prompt of {fewest:,} words or more, not the marker "
                f"hidden in it: {WIDER}"
            )

    async def _try_out(self, usage: Usage, fewest: int) -> None:
        """Hides codes in a prompt as long as the doubtful one, and asks the model for them.

        A code that is missing shows that the endpoint cut the prompt. A model that does not find
        the codes in a short prompt either shows nothing about the length; then a warning is given.

        Args:
            usage: the tokens that the endpoint reported of the doubtful prompt.
            fewest: words that the doubtful prompt has at least.
        """
        marked = Marked(fewest)
        short = Marked(_SHORT)
        reported = f"{usage.prompt_tokens:,} tokens" if usage.reported else "no tokens"
        doubt = f"{self._where} reports {reported} of a prompt of {fewest:,} words or more"
        unsure = ""
        try:
            answer = await self._ask(marked.messages)
            if marked.missing(answer):
                answer_to_short = await self._ask(short.messages)
                if not short.missing(answer_to_short):
                    # Every later prompt of this length is refused by the caller, with the reason:
                    # nothing need be said here.
                    self._cut = fewest
                    return
                unsure = "does not find what is hidden even in a short one"
        # The run or the endpoint is stopped: that shows nothing about the prompt.
        except LLMStoppedError:
            raise
        except LLMError as error:
            unsure = f"could not be tried out ({error})"
        # Whatever came out: prompts of this length are not tried again in this command.
        self._whole = fewest
        if unsure:
            warn(f"{doubt}, and {unsure}: whether it reads all of it is unknown")
        else:
            is_new = not self._dialect.learned.read_whole
            self._dialect.learn(read_whole=fewest)
            if is_new and usage.reported:
                warn(f"{doubt}, and reads all of it: costs that rest on its count are too low")


def is_short(usage: Usage, fewest: int) -> bool:
    """Whether an endpoint reports fewer tokens than the prompt can have, so it may have been cut.

    An endpoint that reports none is doubted from a long prompt on. `_CUT` and `_FEWEST_MISSING`
    leave room for tokenizers that count differently.

    Args:
        fewest: the least that the prompt has, in tokens; see `fewest_prompt_tokens`.
    """
    if not usage.reported or not usage.prompt_tokens:
        return fewest >= _SILENT
    # Some endpoints count the tokens that they had in their cache apart from the others.
    read = usage.prompt_tokens + usage.cached_prompt_tokens
    missing = fewest - read
    return read < _CUT * fewest and missing >= _FEWEST_MISSING


_WORD = re.compile(r"\S+")
"""What white space parts."""
_DENSE = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
)
"""Letters of scripts that are written without spaces."""
_LETTERS_A_TOKEN = 4
"""Letters of these scripts that a token holds at the most."""


def fewest_prompt_tokens(messages: Sequence[Mapping[str, Any]]) -> int:
    """A lower bound of the tokens in a prompt, before any endpoint has counted them.

    A lower count from the endpoint thereby shows that it did not read the whole prompt.

    Tokenizers split at white space before they merge anything, so each word is a token at the
    least; in scripts without spaces a token holds some letters.
    """
    tokens = 0
    for message in messages:
        text = str(message.get("content", ""))
        tokens += len(_WORD.findall(text))
        # Most prompts are ASCII, which has none of these letters: the second search is spared.
        if not text.isascii():
            tokens += len(_DENSE.findall(text)) // _LETTERS_A_TOKEN
    return tokens
