"""ablate(): variants of post-retrieval over one stored run, without retrieving again."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from ragbench.core.ablation import Ablation, VariantReport
from ragbench.core.case_table import clusters_of
from ragbench.core.chat import Price
from ragbench.core.fusion import ScoreOrders
from ragbench.core.metric import Group, Metric
from ragbench.core.record import Record, field, replace
from ragbench.core.trace import Trace
from ragbench.errors import ConfigError, RunMismatchError
from ragbench.gate.pairwise import Measured, variant_effects, what_to_keep
from ragbench.ledger.folder import Manifest, RunFolder, metrics_of, read_manifest
from ragbench.ledger.journal import Journal
from ragbench.ledger.scores import ScoreStore
from ragbench.metrics.matching import Matching
from ragbench.metrics.plan import Plan
from ragbench.metrics.registry import MetricLike, computable, parse_metrics
from ragbench.plugins import import_packages_of
from ragbench.post.build import Variant
from ragbench.safe_text import counted
from ragbench.stages.biography import best_order
from ragbench.stages.rag import RAG
from ragbench.stages.trial import NOT_GENERATED, Answering, Trial
from ragbench.stats.mean import mean_of
from ragbench.text.token_counter import APPROXIMATE, ESTIMATED, TokenCounter
from ragbench.verbs.report import open_traces

_WINDOW = 256
"""Cases that are taken through all variants before the next ones are read: memory holds no more."""
_SHALLOW = 20
"""Chunks of a stored retrieval below which a reranker has little to choose from."""
_OF_ANSWERS = ("end_to_end_f1", "token_f1")
"""What is measured of answers where nothing is named: declining is no way to win."""


def ablate(
    run: Path,
    variants: Sequence[Variant],
    *,
    metrics: Sequence[MetricLike] | None = None,
    counter: TokenCounter = APPROXIMATE,
    confidence: float = 0.95,
    limit: int | None = None,
    scores: ScoreStore | None = None,
    concurrency: int = 1,
    advance: Callable[[int], None] = lambda _: None,
    rag: RAG | None = None,
    price: Price | None = None,
) -> Ablation:
    """Takes the retrievals of a stored run through several variants of post-retrieval.

    Args:
        run: the run's folder. What its own post-retrieval did is not looked at.
        variants: at least one; the first is what the others are compared with.
        metrics: what to measure; the run's retriever metrics when not given, behind
            ``end_to_end_f1`` and ``token_f1`` where somebody answers.
        counter: counts the tokens that generation would be given.
        confidence: of all intervals of differences together.
        limit: how many of the run's cases are taken, from the first; all when not given.
        scores: keeps the scores of rerankers that are slow or paid, and knows those of before;
            without it each variant asks for its own.
        concurrency: cases in flight at once, at least 1. Results do not depend on it, times do.
        advance: called with how many more cases are through.
        rag: asked for an answer to what each variant leaves; it does not retrieve. Without it
            nothing is generated.
        price: of a million tokens of generation, where it is known.

    Returns:
        A score per variant and metric, with its mean paired difference from the first variant and
        intervals that hold together, see `ragbench.gate.pairwise`; what the operators did; the
        score of the best order of the same chunks.

    Raises:
        RunMismatchError: there is no run in the folder, or it holds no retrieval.
        ConfigError: there is no variant; a metric reads the answer, and nobody answers, or asks a
            model; the run has no retriever metric and none was named; the RAG does not generate.
        InputError: a variant needs something that is not installed or does not exist.
        LLMStoppedError: no model answers any more, or may be asked.
    """
    if not variants:
        raise ConfigError("there is no variant to try")
    if limit is not None and limit < 1:
        raise ConfigError(f"limit must be at least 1, not {limit}")
    manifest = read_manifest(RunFolder(path=run).manifest)
    # Refused before the cases are read: a metric that needs an answer or a model.
    columns, missing = _metrics_and_notes(manifest, metrics, has_answers=rag is not None)
    matching = Matching(manifest.settings["matching"])
    # Before the first case: a missing package is an error before anything is paid for.
    import_packages_of(variants, rag)
    with ExitStack() as stack:
        answering = None
        if rag is not None:
            answering = stack.enter_context(Answering(rag))
        trials: list[Trial] = []
        for variant in _dated(variants, run):
            trial = Trial(
                variant=variant,
                counter=counter,
                matching=matching,
                scores=scores,
                answering=answering,
            )
            trials.append(trial)
        # Threads, since operators wait for services or work outside of Python.
        pool = stack.enter_context(ThreadPoolExecutor(max_workers=max(1, concurrency)))
        replay = _Replay(
            trials=trials,
            matching=matching,
            plan=Plan(columns, matching=matching),
            # A list of its own for each metric, which `_score_best_orders` fills.
            best=[[] for _ in columns],
            pool=pool,
        )
        cases = islice(open_traces(run), limit)
        # An empty window is the end of the cases.
        while window := list(islice(cases, _WINDOW)):
            replay.take([_trace_as_retrieved(case.trace) for case in window])
            advance(len(window))
    if not replay.depths:
        raise RunMismatchError(f"{run} holds no retrieval to replay")
    ablation = replay.ablation(manifest, counter, confidence=confidence, price=price)
    generator = None if rag is None else type(rag).__name__
    # Named only where a RAG was asked for answers.
    return replace(ablation, generator=generator, notes=(*ablation.notes, *missing))


def _trace_as_retrieved(trace: Trace) -> Trace:
    """A case as retrieval left it, without the run's own post-retrieval and answer.

    The variants of an ablation all begin there.
    """
    return replace(trace, generation=NOT_GENERATED, post_retrieval=None)


def _dated(variants: Sequence[Variant], run: Path) -> list[Variant]:
    """The variants of post-retrieval with the day from which they count the ages of documents.

    The day is that of the run, unless a variant names one: an ablation of an old run gives the same
    results whenever it is made.
    """
    with Journal(RunFolder(path=run).journal) as journal:
        # The first of the run's starts: one that went on has several.
        began = min(journal.runs.started().values())
    now = datetime.fromisoformat(began[:10]).replace(tzinfo=UTC)
    return [replace(variant, stage=variant.stage.dated(now)) for variant in variants]


class _Replay(Record):
    """The cases of a run on their way through all variants."""

    trials: Sequence[Trial]
    matching: Matching
    plan: Plan
    pool: ThreadPoolExecutor
    best: Sequence[list[float]]
    """By metric, the scores of the best order of each case's chunks, where gold is known."""
    clusters: dict[str, str | None] = field(default_factory=dict[str, "str | None"])
    """What each case names, by its id."""
    gold: list[int] = field(default_factory=list[int])
    """`Case.gold_pair` of all of them."""
    depths: list[int] = field(default_factory=list[int])
    """How many chunks each stored retrieval holds."""
    score_orders: ScoreOrders = field(default_factory=ScoreOrders)

    def take(self, window: Sequence[Trace]) -> None:
        """Takes a window of a run's cases through all variants, and scores what each leaves.

        The first variant goes first, as the others are compared with it; memory is freed after each
        window.
        """
        self._score_best_orders(window)
        for trace in window:
            # In the order of the cases: the labels of clusters are paired with it at the end.
            self.clusters[trace.case.id] = trace.case.cluster
            self.gold.extend(trace.case.gold_pair)
            result = trace.retrieval.value
            if result is not None:
                self.depths.append(len(result))
                # Without scores nothing is counted.
                self.score_orders.add(result.scores or ())
        first_trial = self.trials[0]
        for trial in self.trials:
            trial.take(window, self.plan, first_trial, self.pool)  # compared with the first
        # Only variants of the same window are compared with each other, and share answers.
        first_trial.left.clear()
        if first_trial.answering is not None:
            first_trial.answering.forget()

    def _score_best_orders(self, window: Sequence[Trace]) -> None:
        """Scores the best order of each case's chunks: the ceiling that no reranker can exceed.

        A report shows how much there is to gain by another order at all.
        """
        # Cases without known gold have no best order, and no share in the ceiling.
        best_orders: list[Trace] = []
        for trace in window:
            best = best_order(trace, self.matching)
            if best is not None:
                best_orders.append(best)
        if not best_orders:
            return
        for cells in self.plan.score(best_orders):
            for scores, cell in zip(self.best, cells, strict=True):
                if cell.value is not None:
                    scores.append(cell.value)

    def ablation(
        self, manifest: Manifest, counter: TokenCounter, *, confidence: float, price: Price | None
    ) -> Ablation:
        """The finished report on all variants: scores, differences from the first, advice.

        Intervals hold together over all variants and metrics at the given confidence.
        """
        metrics = tuple(self.plan.metrics)
        measured: list[Measured] = []
        for trial in self.trials:
            has_acted = trial.acted > 0
            # A variant that acted on no case cannot differ from the first one.
            measured.append(Measured(name=trial.variant.name, acted=has_acted, values=trial.values))
        # Labels pair with `clusters` by position: both are in the order of the cases.
        labels = clusters_of([*self.clusters.values()], self.gold)
        clusters = dict(zip(self.clusters, labels, strict=True))
        effects, family = variant_effects(metrics, measured, clusters, confidence=confidence)
        reports: list[VariantReport] = []
        # Rows of effects come in the order of the trials.
        for position, (trial, row) in enumerate(zip(self.trials, effects, strict=True)):
            reports.append(trial.report(row, is_first=position == 0, price=price))
        return Ablation(
            dataset=manifest.dataset.name,
            rag=manifest.rag.name,
            cases=len(self.clusters),
            # Cases with a retrieval: the others could not be replayed.
            replayed=len(self.depths),
            depth=int(statistics.median(self.depths)),
            metrics=metrics,
            counter=counter.name,
            is_estimate=counter.approximate,
            confidence=confidence,
            variants=tuple(reports),
            family=family,
            ceiling=tuple(map(mean_of, self.best)),
            keep=what_to_keep(measured, effects),
            currency=None if price is None else price.currency,
            notes=tuple(self._notes(counter)),
        )

    def _notes(self, counter: TokenCounter) -> Iterator[str]:
        """The notes that a reader of an ablation needs, such as on shallow retrievals.

        Where no retrieval is deep, for example, a reranker has little to choose from.
        """
        rising = self.score_orders.note()
        if rising is not None:
            yield rising
        # `depths` is not empty: a run without any retrieval to replay is refused before.
        depth = int(statistics.median(self.depths))
        if depth < _SHALLOW:
            yield (
                f"The stored retrievals hold {counted(depth, 'chunk')}: a reranker can only "
                "move those. Evaluate with --top-k 50 to give it more to choose from."
            )
        if len(self.depths) < len(self.clusters):
            lacking = counted(len(self.clusters) - len(self.depths), "case")
            yield f"Without a retrieval to replay: {lacking}."
        if counter.approximate:
            yield f"{ESTIMATED[0].upper()}{ESTIMATED[1:]}; name one with --counter."


def _metrics_and_notes(
    manifest: Manifest, metrics: Sequence[MetricLike] | None, *, has_answers: bool
) -> tuple[tuple[Metric, ...], list[str]]:
    """The metrics of an ablation, and a note about each metric of the run that is left out.

    Refuses metrics of answers where no RAG answers, and metrics that ask a model.
    """
    if metrics is None:
        return _metrics_of_run(manifest, has_answers=has_answers)
    parsed = parse_metrics(metrics)
    of_answers = [metric.name for metric in parsed if metric.reads_answer]
    if of_answers and not has_answers:
        raise ConfigError(
            f"{', '.join(of_answers)}: needs an answer, and no RAG is called. Add --rag or "
            "--pipeline, or choose metrics of the retriever: 'ragbench show metrics' lists them"
        )
    judged = [metric.name for metric in parsed if metric.is_judged]
    if judged:
        raise ConfigError(
            f"{', '.join(judged)}: asks a model, which an ablation does not. Evaluate the variant "
            "that you keep with: ragbench eval --post-retrieval"
        )
    return parsed, []


def _metrics_of_run(
    manifest: Manifest, *, has_answers: bool
) -> tuple[tuple[Metric, ...], list[str]]:
    """The run's own metrics of the retriever, behind those of answers if a RAG answers; and notes.

    A note names a metric that cannot be computed on this machine.
    """
    computed: list[Metric] = []
    missing: list[str] = []
    # First, so that tables show the answers before the retriever.
    if has_answers:
        computed += parse_metrics(_OF_ANSWERS)
    for metric in metrics_of(manifest):
        definition = metric.definition
        # A metric that asks a model, or draws at random, would differ without any change.
        if definition.group is not Group.RETRIEVER or not definition.deterministic:
            continue
        # No model is asked by an ablation, and the run's answers belong to other contexts.
        if metric.is_judged or metric.reads_answer:
            continue
        try:
            computed.append(computable(metric))
        except ConfigError as error:
            missing.append(f"Left out: {error}.")
    if not computed:
        raise ConfigError("the run measured nothing of the retriever: name metrics with --metrics")
    return tuple(computed), missing
