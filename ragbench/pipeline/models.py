"""The language models of a pipeline: one for all stages, or one that a stage changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragbench.data.yaml_file import Place
from ragbench.errors import ConfigError
from ragbench.llm.budget import Budget
from ragbench.llm.chat import ChatModel, Message
from ragbench.llm.late_chat import LateChat
from ragbench.llm.reply import Reply
from ragbench.llm.settings import resolve
from ragbench.pipeline.reading import Chosen, Reading
from ragbench.settings.from_settings import Makers
from ragbench.settings.spoken_of import spoken_of

__all__ = ["Models"]

_HOW = (
    "name one in a section 'llm' of this file, in that of ragbench.yaml, or in RAGBENCH_LLM_MODEL"
)


@dataclass(kw_only=True, slots=True)
class Models:
    """Makes the models that stages need, each once; none is connected."""

    reading: Reading
    environ: Mapping[str, str]
    defaults: Mapping[str, object]
    """Settings that hold where the file says nothing."""
    budget: Budget | None = None
    """Caps what all of them cost together."""
    _known: dict[Place, LateChat | None] = field(default_factory=dict[Place, LateChat | None])

    def check(self) -> None:
        """Notes what is wrong with the section ``llm``, also when no stage needs it."""
        if self.reading.at(("llm",)) is not None:
            self.shared()

    def shared(self) -> LateChat | None:
        """The model of the file; None when there is none."""
        return self._model(("llm",))

    def for_stage(self, chosen: Chosen) -> Makers:
        """What makes a stage's model: the file's, with the stage's own ``llm`` over it.

        Takes ``llm`` out of the stage's settings.
        """
        own = "llm" in chosen.settings
        settings: Any = chosen.settings
        settings.pop("llm", None)

        def make(value: object) -> ChatModel:
            model = self._model((*chosen.place, "llm")) if own else self.shared()
            if model is not None:
                return model.booked_under(str(chosen.place[0]))
            if not self._is_told(chosen, own=own):
                self.reading.wrong(chosen.place, f"{chosen.name} needs a language model: {_HOW}")
            return _NoModel()

        return {ChatModel: make}

    def opened(self) -> tuple[LateChat, ...]:
        """All models that were made."""
        return tuple(model for model in self._known.values() if model is not None)

    def _is_told(self, chosen: Chosen, *, own: bool) -> bool:
        """Whether what is wrong with a stage's model is noted already."""
        place = (*chosen.place, "llm") if own else ("llm",)
        return self.reading.at(place) is not None

    def _model(self, place: Place) -> LateChat | None:
        if place not in self._known:
            self._known[place] = self._made(place)
        return self._known[place]

    def _made(self, place: Place) -> LateChat | None:
        shared = self.reading.mapping(("llm",))
        given = self.reading.mapping(place)
        section = {**self.defaults, **shared, **given}
        named = "model" in section or bool(self.environ.get("RAGBENCH_LLM_MODEL"))
        if not named and not given:
            return None  # whoever needs one says so
        try:
            settings = resolve({}, self.environ, section=section)
            return LateChat(settings, budget=self.budget)
        except ConfigError as error:
            message = str(error).removeprefix(": llm.")
            self.reading.problems.extend(spoken_of(self.reading.file, place, given, message))
            return None


class _NoModel:
    """Stands in for a model that is not there, so that the other settings are looked at too."""

    name = "none"
    temperature: float | None = None

    def complete(self, messages: Sequence[Message]) -> str:
        """Is never called: a file with problems is never opened."""
        raise ConfigError(_HOW)

    def ask(self, messages: Sequence[Message], *, repeat: int = 0) -> Reply[str]:
        """See `complete`."""
        raise ConfigError(_HOW)
