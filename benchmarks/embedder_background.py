"""What an embedder's cosines mean, by language: the scale that every index keeps with it.

    python -m benchmarks.embedder_background [--embedder NAME] [--setting NAME=VALUE ...]

``unrelated`` and ``related`` are mean cosines of the sample's pairs, ``background`` is the cosine
that scores 0, ``even`` the one at which both are equally probable. ``nonsense`` is the share of
pairs of a random string and a passage that score above 0: how often gibberish finds something among
as many passages as the sample has, ``any`` the share of random strings that find anything.
"""

from __future__ import annotations

import argparse
import json
import random
import string
from importlib.resources import files

from ragbench import open_embedder
from ragbench.search.embedders.embedder import measure_calibration
from ragbench_cli.stores import settings_of

STRINGS = 200


def nonsense(language: str, draw: random.Random) -> str:
    if language == "zh":
        return "".join(chr(draw.randint(0x4E00, 0x9FA5)) for _ in range(draw.randint(4, 15)))
    letters = [string.ascii_lowercase, string.ascii_letters + string.digits + "#$%&!?;/"]
    kind = draw.choice(letters)
    words = ("".join(draw.choices(kind, k=draw.randint(3, 10))) for _ in range(draw.randint(2, 6)))
    return " ".join(words)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--embedder", default="multilingual")
    parser.add_argument("--setting", action="append")
    given = parser.parse_args()
    embedder = open_embedder(given.embedder, **settings_of(given.setting, "--setting"))
    sample = json.loads(
        files("ragbench.search.embedders").joinpath("sample.json").read_text("utf-8")
    )
    print("| language | unrelated | related | background | even | nonsense | any |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for language, pairs in sample.items():
        scale = measure_calibration(embedder, [language])
        draw = random.Random(7)
        queries = embedder.embed_queries([nonsense(language, draw) for _ in range(STRINGS)])
        passages = embedder.embed_passages([passage for _, passage in pairs])
        above = queries @ passages.T > scale.background
        print(
            f"| {language} | {scale.unrelated:.3f} | {scale.related:.3f} | "
            f"{scale.background:.3f} | {scale.midpoint:.3f} | {above.mean():.1%} | "
            f"{above.any(axis=1).mean():.1%} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
