"""why(): what keeps the gold out of the context, over a live store, and what would bring it in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ragbench.core.case import Case
from ragbench.core.case_table import clusters_among
from ragbench.core.chunk import Chunk
from ragbench.core.matched import GoldSearch
from ragbench.core.record import Record, replace
from ragbench.errors import ConfigError, DataError, Problem
from ragbench.post.stage import PostRetrieval
from ragbench.safe_text import counted
from ragbench.search.pipeline.agreement import resized, usual_tokens
from ragbench.search.pipeline.baseline import Bm25Index
from ragbench.search.pipeline.gold import Gold, golds_of
from ragbench.search.pipeline.index import ENGLISH_EMBEDDER
from ragbench.search.stores.attached import ForeignCollection
from ragbench.search.stores.base import Effort
from ragbench.search.stores.collection import OwnCollection
from ragbench.stats.mean import MeanInterval, mean_interval
from ragbench.verbs.tune import SearchSetting, TunedCollection, gain_of, settings_of
from ragbench.verbs.why_bench import ESTIMATED, TEXTS, Bench, View, Way

_DEPTH = 100
"""Chunks of each ranking in which the gold is looked for."""
_FEWEST = 10
"""Questions that an interval needs."""
_TOGETHER = 3
"""Changes that are made at once, at most: with more, nobody can say which of them matters."""
_LEAST_TOKENS = 32
"""Chunks that are usually smaller than this are not tried at half their size."""
_FAMILY_ALPHA = 0.05
"""Chance that any of the intervals of all trials misses its true gain."""


class Change(Record):
    """One thing that could be done otherwise, and what that gains."""

    name: str
    how: str
    """The command or the lines of a file that do it."""
    gain: MeanInterval
    """Of the share of the gold in the context, question by question; the intervals of all changes
    that were tried hold together."""
    is_sure: bool
    """Whether the interval lies above 0."""
    is_estimate: bool = False
    """Whether the store would have to be indexed for it: it was tried on its texts in memory."""

    @property
    def mean(self) -> float:
        """The mean gain of a change of the search, by which changes are sorted.

        0 without any question, where nothing was measured.
        """
        return self.gain.mean or 0.0


class Together(Record):
    """The changes that add most to each other, all of them made."""

    changes: tuple[str, ...]
    gain: MeanInterval


class Rank(Record):
    """Where one way of searching has the gold of the question."""

    way: str
    ranks: tuple[int | None, ...]
    """Of each gold, from 1; None where it is not among those that were looked at."""
    looked_at: int
    """How many chunks that is."""


class Reasons(Record):
    """Why questions do not find their gold, and what would change it."""

    k: int
    now: str
    """How the store is searched as it is configured, before any change."""
    questions: int
    skipped: int
    """Without gold."""
    recall: MeanInterval
    """Share of the gold in the context."""
    lost: Mapping[str, int]
    """Where the gold that came nearest is, by `GoldCause`, of questions that lack some."""
    changes: tuple[Change, ...]
    """Of one question the cheapest first, of several the greatest gain."""
    together: Together | None = None
    golds: GoldSearch | None = None
    """Of one question."""
    ranks: tuple[Rank, ...] = ()
    """Of one question."""
    notes: tuple[str, ...] = ()


def why(
    collection: TunedCollection,
    cases: Sequence[Case],
    *,
    k: int,
    post_retrieval: PostRetrieval | None = None,
    command: str = "ragbench search",
    advance: Callable[[str], None] = lambda _: None,
) -> Reasons:
    """Tries what could be done otherwise with the questions of some cases.

    Nothing is written to the store. What needs another index is estimated on the store's own texts.

    Args:
        k: how many chunks are retrieved.
        post_retrieval: the operators between retrieval and generation.
        command: how the store is searched, for the commands that are proposed.

    Raises:
        DataError: no case says what should be found, or several do and fewer than ten.
    """
    if post_retrieval is None:
        post_retrieval = PostRetrieval()
    bench = _bench_of_questions(collection, cases, k, post_retrieval, advance)
    all_operators = tuple(range(len(bench.stage.operators)))
    now = Way(setting=collection.present, k=k, operators=all_operators)
    # Of each question, the share of its gold that is in its context now.
    shares = bench.shares(now)
    is_single = len(bench.cases) == 1
    clusters = clusters_among(bench.cases)

    trials: list[_Trial] = []
    for name, remedy, way in _other_ways(bench, now, command):
        trial = _Trial(name, remedy, bench.shares(way), shares, way)
        trials.append(trial)
    # Trials of other chunk sizes need many questions: with a single one, chance would decide.
    if not is_single:
        trials += _size_trials(bench, k)
    # Bonferroni: the intervals of all trials hold together at 95 %.
    # Each interval at a share of the chance of error; there is always at least one trial.
    level = 1 - _FAMILY_ALPHA / len(trials)
    changes: list[Change] = []
    for trial in trials:
        change = trial.change(clusters, level)
        # Of one question an estimate that gains nothing is not worth an index; of several the
        # reader sees that it was tried.
        if change.mean > 0 or (change.is_estimate and not is_single):
            changes.append(change)
    if not is_single:
        changes.sort(key=lambda change: -change.mean)

    lacking = [position for position, share in enumerate(shares) if share < 1]
    # A single question is always shown with where its gold is.
    # Several are shown only where something is lost.
    shown = [0] if is_single else lacking
    searches = bench.located(now, shown)
    lost: dict[str, int] = {}
    # Of one question without a loss, the search is shown but counted nowhere.
    if lacking:
        lost = dict(Counter(search.cause.value for search in searches))
    reasons = Reasons(
        k=k,
        now=now.setting.name,
        questions=len(bench.cases),
        skipped=len(cases) - len(bench.cases),
        recall=mean_interval(shares, clusters, bounds=(0.0, 1.0)),
        lost=lost,
        changes=tuple(changes),
        notes=() if bench.texts else (_NO_TEXTS,),
    )
    if is_single:
        # One question: its only search, and its rank by each way.
        return replace(reasons, golds=searches[0], ranks=tuple(_ranks_by_way(bench, now)))
    return replace(reasons, together=_best_together(bench, now, trials, clusters))


def _bench_of_questions(
    collection: TunedCollection,
    cases: Sequence[Case],
    k: int,
    stage: PostRetrieval,
    advance: Callable[[str], None],
) -> Bench:
    """The questions that have gold (chunks that answer them), ready to be searched in many ways.

    Raises:
        ConfigError: no chunk is retrieved.
        DataError: no question has gold, or several have and fewer than an interval needs.
    """
    # Before any search: 0 would find nothing, and look like a store without the gold.
    if k < 1:
        raise ConfigError(f"k must be at least 1, not {k}")
    questions = [case for case in cases if case.query.strip() and golds_of(case)]
    # One question is shown by its ranks, and needs no interval.
    if not questions or 1 < len(questions) < _FEWEST:
        message = (
            f"{len(questions)} of {counted(len(cases), 'question')} say what should be found: "
            "one, or at least ten, are needed"
        )
        raise DataError([Problem(message=message)])
    golds = [_as_spans(golds_of(case), collection.store) for case in questions]
    return Bench(
        collection=collection,
        cases=questions,
        golds=golds,
        stage=stage,
        depth=max(_DEPTH, k),
        advance=advance,
    )


def _as_spans(golds: Sequence[Gold], store: OwnCollection | ForeignCollection) -> tuple[Gold, ...]:
    """The gold of a question as spans of documents, so that it is recognised however they are cut.

    A gold that names a chunk of a longer document becomes the span that the chunk is; any other
    stays as it is, and so does all gold of a foreign store, which has no spans.
    """
    if isinstance(store, ForeignCollection):
        return tuple(golds)
    # A gold that is known by its text alone has no id to look up.
    gold_ids = [gold.id for gold in golds if gold.id is not None]
    chunks = store.get(gold_ids)
    spans: list[Gold] = []
    for gold in golds:
        chunk = None
        if gold.id is not None:
            chunk = chunks.get(gold.id)
        # A whole document under its own id needs no span.
        if chunk is not None and chunk.document_id not in (None, gold.id):
            gold = Gold(
                document_id=chunk.document_id, start=chunk.start, end=chunk.end, text=chunk.text
            )
        spans.append(gold)
    return tuple(spans)


class _Trial(NamedTuple):
    """A change that was tried: what each question's context holds with it, and without."""

    name: str
    """As the report names the change."""
    remedy: str
    """The command or the lines of a file that make the change."""
    values: Sequence[float]
    """Of each question the share of its gold in the context, with the change."""
    base: Sequence[float]
    """The same shares without it."""
    way: Way | None = None
    """None where it is no other search of the same chunks."""

    @property
    def is_estimate(self) -> bool:
        """Whether the change that was tried needs another index, which is only imitated here.

        The report marks it: another index may gain more or less.
        """
        return self.way is None or self.way.view in ESTIMATED

    def change(self, clusters: Sequence[str | None], level: float) -> Change:
        """The report's line on the change that was tried: its gain, with an interval of the level.

        Args:
            clusters: questions with the same label are not independent.
        """
        gain = gain_of(self.values, self.base, clusters, level)
        # None where there are too few independent questions for an interval.
        is_above_zero = gain.low is not None and gain.low > 0
        return Change(
            name=self.name,
            how=self.remedy,
            gain=gain,
            is_sure=bool(gain.mean) and is_above_zero,
            is_estimate=self.is_estimate,
        )


# --- what could be done otherwise, and how


def _other_ways(bench: Bench, now: Way, command: str) -> Iterator[tuple[str, str, Way]]:
    """The other ways to search, each with its name and the command or lines that bring it about.

    Cheap changes come first: another setting, then what could be left out, then another index. The
    names and commands are shown to the user.

    Args:
        now: how the store is searched without any change.
        command: the user's own command, for those that are proposed.
    """
    # Settings that only combine rankings which are made already.
    for setting in settings_of(bench.legs(""), now.setting):
        if setting != now.setting:
            remedy = _search_command(command, setting)
            yield f"search by {setting.name}", remedy, replace(now, setting=setting)
    for position in now.operators:
        name = bench.stage.operators[position].name
        # By position, since two operators may have the same name.
        others = tuple(operator for operator in now.operators if operator != position)
        remedy = f"take operator {position + 1} ({name}) out of the file of post-retrieval"
        yield f"without the operator {name}", remedy, replace(now, operators=others)
    collection = bench.collection
    store = bench.store
    # With no threshold set, a collection of our own still finds nothing for a question whose best
    # chunk scores below 0.
    if collection.threshold is not None or isinstance(store, OwnCollection):
        remedy = f"{command} --score-threshold -9"
        yield "without the threshold", remedy, replace(now, view="threshold")
    if collection.filters is not None or store.native_filter is not None:
        remedy = "leave out --filter and --native-filter"
        yield "without the filter", remedy, replace(now, view="filter")
    top_k = _wider_top_k(bench, now)
    remedy = f"{command} --top-k {top_k}"
    yield f"the first {counted(top_k, 'chunk')}", remedy, replace(now, k=top_k)
    if bench.texts:
        yield from _estimated_ways(bench, now)


def _wider_top_k(bench: Bench, now: Way) -> int:
    """The number of chunks to try in place of the present one: twice as many.

    For one question as many as it takes to have all of its gold that is ranked at all.
    """
    # For several questions no single number of chunks brings all gold.
    if len(bench.cases) > 1:
        return 2 * now.k
    (ranking,) = bench.rankings(now)
    ranks = [rank or 0 for rank in _gold_ranks(ranking, bench)]
    return max(now.k + 1, *ranks)  # one more at least: as many as now would change nothing


def _estimated_ways(bench: Bench, now: Way) -> Iterator[tuple[str, str, Way]]:
    """The ways to search that would need another index: with BM25, or with static English vectors.

    No such index is made: the ways are tried in memory on the store's texts, and are estimates.
    Each comes with its name and the command that makes the index.
    """
    # A collection of our own ranks by BM25 already.
    if isinstance(bench.store, ForeignCollection):
        remedy = "ragbench index CORPUS --store memory:words --embedder none"
        words = replace(now, view="bm25", setting=SearchSetting(strategy="sparse"))
        yield "BM25 in place of the store's words", remedy, words
        if bench.collection.dense is not None:
            # Half of what words count, where the setting has no weight: only collections of our own
            # have one that was measured.
            dense_weight = now.setting.dense_weight or 0.5
            hybrid = SearchSetting(
                strategy="hybrid", effort=now.setting.effort, dense_weight=dense_weight
            )
            name = f"BM25 beside its vectors, weight {hybrid.dense_weight:g}"
            yield name, remedy, replace(now, view="bm25", setting=hybrid)
    if bench.english is not None:
        hybrid = SearchSetting(strategy="hybrid", dense_weight=bench.english.weight)
        remedy = f"ragbench index CORPUS --store memory:english --embedder {ENGLISH_EMBEDDER}"
        name = f"the static embedder {ENGLISH_EMBEDDER} beside words"
        yield name, remedy, replace(now, view="english", setting=hybrid)


def _size_trials(bench: Bench, k: int) -> Iterator[_Trial]:
    """Trials of chunks of half and of twice the size, by words alone, in contexts of equal length.

    By words alone, because vectors of the new chunks would have to be made.
    """
    tokens = usual_tokens(bench.texts)
    if not bench.texts or tokens < _LEAST_TOKENS:
        return
    queries = [case.query for case in bench.cases]
    present_rankings = bench.words.batch_search(queries, k)
    base = bench.gold_shares(present_rankings)
    # Contexts must be of one length, or longer ones would win.
    # Half as many chunks of twice the size, and the other way round: the context is as long.
    for size, top_k in ((tokens // 2, 2 * k), (2 * tokens, max(1, k // 2))):
        chunks = resized(bench.texts, size)
        # As many chunks as before: the documents are shorter than the size, nothing was cut anew.
        if len(chunks) == len(bench.texts):
            continue
        rankings = Bm25Index(chunks).batch_search(queries, top_k)
        shares = bench.gold_shares(rankings)
        remedy = f"ragbench index CORPUS --store memory:size --chunk-size {size}"
        yield _Trial(f"chunks of {size} tokens, {top_k} of them, by words", remedy, shares, base)


def _search_command(command: str, setting: SearchSetting) -> str:
    """The command that searches by a setting, for the user to copy.

    Settings without an option of the command are set by variables of the environment.
    """
    variables = ""
    for name, value in setting.settings.items():
        if name != "type":  # the strategy, which is an option
            text = "true" if value is True else f"{value:g}"
            variables += f"RAGBENCH_{name.upper()}={text} "
    return f"{variables}{command} --strategy {setting.strategy}"


# --- what came of it

_NO_TEXTS = (
    f"nothing is estimated: the store has a native filter, more than {TEXTS:,} chunks, or does "
    "not give all of its rows"
)


def _best_together(
    bench: Bench, now: Way, trials: Sequence[_Trial], clusters: Sequence[str | None]
) -> Together | None:
    """Up to three changes at once, each the one that adds most to those before it.

    Changes overlap: what each gains alone cannot be added up. None where no two of them help.

    Args:
        trials: the changes that were tried alone.
        clusters: questions with the same label are not independent.
    """
    candidates: list[tuple[str, Way]] = []
    # A trial of other chunk sizes is no way of this search, and cannot be joined with others.
    for trial in trials:
        # More chunks always hold more gold, and would be chosen each time.
        if trial.way is not None and not trial.is_estimate and trial.way.k == now.k:
            candidates.append((trial.name, trial.way))
    base = bench.shares(now)
    way = now
    names: list[str] = []
    gain = gain_of(base, base, clusters)
    while len(names) < _TOGETHER:
        best: tuple[MeanInterval, str, Way] | None = None
        for name, candidate in candidates:
            next_way = _with_change(way, now, candidate)
            # The same thing is changed already: nothing would be new.
            if next_way == way:
                continue
            next_gain = gain_of(bench.shares(next_way), base, clusters)
            # Rounded: of equal gains the first is taken, on every machine.
            if best is None or _rounded_mean(next_gain) > _rounded_mean(best[0]):
                best = next_gain, name, next_way
        if best is None:
            break
        best_gain, name, best_way = best
        # By more than rounding, so that a change that adds nothing is not named.
        # The first change must gain something, and each further one must add to it.
        if (best_gain.mean or 0.0) <= (gain.mean or 0.0) + 1e-9:
            break
        gain = best_gain
        way = best_way
        names.append(name)
    if len(names) < 2:
        return None
    return Together(changes=tuple(names), gain=gain)


def _rounded_mean(gain: MeanInterval) -> float:
    """The mean of a gain without its last digits, which differ between machines.

    The last digits must not decide which of two changes is recommended.
    """
    return round(gain.mean or 0.0, 9)


def _with_change(way: Way, now: Way, changed: Way) -> Way:
    """A way to search with one more change; as it is where the same thing was changed already.

    Several changes are so made at once.

    Args:
        way: the changes that are made so far.
        now: how the store is searched without any.
        changed: `now` with a single change.
    """
    # One setting at a time: the first that was taken stays.
    if changed.setting != now.setting:
        if way.setting != now.setting:
            return way
        return replace(way, setting=changed.setting)
    if changed.operators != now.operators:
        operators = tuple(operator for operator in way.operators if operator in changed.operators)
        return replace(way, operators=operators)
    # A view stands for what is left out; two views cannot be had at once.
    if way.view:
        return way
    return replace(way, view=changed.view)


def _ranks_by_way(bench: Bench, now: Way) -> Iterator[Rank]:
    """The ranks of the gold of a single question, in the ranking of each way to search.

    The ranks show at which step the gold is lost: by words, by vectors, by a limit, by an operator.
    """
    # As deep as rankings are, and before any operator.
    plain = replace(now, k=bench.depth, operators=())
    legs = bench.legs("")
    ways: list[tuple[str, Way]] = [(f"now: {now.setting.name}", plain)]
    if "sparse" in legs:
        by_words = SearchSetting(strategy="sparse")
        ways.append(("by words", replace(plain, setting=by_words)))
    efforts = {"by vectors": now.setting.effort, "by vectors, exactly": Effort(exact=True)}
    for name, effort in efforts.items():
        if effort in legs:
            setting = SearchSetting(strategy="dense", effort=effort)
            ways.append((name, replace(plain, setting=setting)))
    views: list[View] = ["threshold"]
    if bench.collection.filters is not None or bench.store.native_filter is not None:
        views.append("filter")
    for view in views:
        ways.append((f"without the {view}", replace(plain, view=view)))
    for position, operator in enumerate(bench.stage.operators):
        up_to_it = tuple(range(position + 1))
        # In a context of the real size: an operator sees no more than that.
        ways.append((f"after {operator.name}", replace(now, operators=up_to_it)))
    for name, way in ways:
        (ranking,) = bench.contexts(way)
        yield Rank(way=name, ranks=_gold_ranks(ranking, bench), looked_at=len(ranking))


def _gold_ranks(ranking: Sequence[Chunk], bench: Bench) -> tuple[int | None, ...]:
    """The best rank of each gold of the single question, from 1; None for unranked gold.

    Only for a report on one question: the gold of any other question is not looked at.
    """
    ranks: list[int | None] = []
    for gold in bench.golds[0]:
        rank = None
        for position, chunk in enumerate(ranking, 1):
            if gold.is_held_by(chunk):
                rank = position
                break
        ranks.append(rank)
    return tuple(ranks)
