"""The stages that a pipeline file can name.

Other packages add theirs through entry points: the target is a frozen dataclass whose fields are
the settings. See `ragbench.pipeline.pipeline.Retrieval` and `ragbench.pipeline.stages.Generator`
for what it must do, and `ragbench.preretrieval.registry` and `ragbench.postretrieval.catalogue` for
the stages in between::

    [project.entry-points."ragbench.generations"]
    mine = "my_package.answers:MyGenerator"
"""

from __future__ import annotations

from ragbench.registry import Registry

__all__ = ["GENERATIONS", "ORCHESTRATIONS", "RETRIEVALS"]

_HERE = "ragbench.pipeline"

RETRIEVALS = Registry(
    kind="retrievals",
    builtin={
        "bm25": f"{_HERE}.bm25:Bm25Retrieval",
        "dense": f"{_HERE}.engine:DenseRetrieval",
        "sparse": f"{_HERE}.engine:SparseRetrieval",
        "hybrid": f"{_HERE}.engine:HybridRetrieval",
    },
)

GENERATIONS = Registry(
    kind="generations",
    builtin={
        "extractive": f"{_HERE}.extractive:ExtractiveGeneration",
        "chat": "ragbench.generation.chat:ChatGenerator",
    },
)

ORCHESTRATIONS = Registry(
    kind="orchestrations",
    builtin={"sequential": f"{_HERE}.orchestration:Orchestration"},
)
