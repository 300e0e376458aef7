"""Command line of the renderer: ``python -m engines.recipe.render {dataset,sheet,clip}``."""

from __future__ import annotations

import argparse
from pathlib import Path

from engines.recipe.world.scene import SPLIT_SEEDS


def _worlds(text: str) -> range:
    first, _, last = text.partition(":")
    return range(int(first), int(last)) if last else range(int(first), int(first) + 1)


def _shard(text: str) -> tuple[int, int]:
    index, _, count = text.partition("/")
    if not 0 <= int(index) < int(count):
        raise argparse.ArgumentTypeError(f"shard {text} should be i/n with 0 <= i < n")
    return int(index), int(count)


def main(arguments: list[str] | None = None) -> int:
    """Runs a command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="engines.recipe.render", description=__doc__)
    parser.add_argument("--threads", type=int, default=1, help="threads of the renderer")
    commands = parser.add_subparsers(dest="command", required=True)
    dataset = commands.add_parser("dataset", help="render worlds of a split; existing pairs are skipped")
    dataset.add_argument("--out", type=Path, required=True)
    dataset.add_argument("--split", choices=[name for name in SPLIT_SEEDS if name != "clip"], required=True)
    dataset.add_argument("--worlds", type=_worlds, required=True, help="seeds first:last, last excluded")
    dataset.add_argument("--shard", type=_shard, default=(0, 1), help="i/n: every n-th world from the i-th")
    sheet = commands.add_parser("sheet", help="draw a contact sheet")
    sheet.add_argument("--out", type=Path, required=True)
    sheet.add_argument("--worlds", type=_worlds, default=range(0, 4))
    clip = commands.add_parser("clip", help="render the clip: a moving camera, day into night")
    clip.add_argument("--out", type=Path, required=True)
    clip.add_argument("--seed", type=int, default=None)
    clip.add_argument("--frames", type=int, default=150)
    clip.add_argument(
        "--stride", type=int, default=1, help="render every n-th frame only, to look at the story"
    )
    options = parser.parse_args(arguments)
    if options.command == "dataset":
        from engines.recipe.render.dataset import write_dataset

        count = write_dataset(
            options.out, options.split, options.worlds, *options.shard, threads=options.threads
        )
        print(f"wrote {count} pairs")
    elif options.command == "sheet":
        from engines.recipe.render.sheet import write_sheet
        from engines.recipe.render.shoot import shoot_world

        write_sheet(
            options.out, [pair for seed in options.worlds for pair in shoot_world(seed, options.threads)]
        )
    else:
        from engines.recipe.render.clip import CLIP_SEED, write_clip

        seed = CLIP_SEED if options.seed is None else options.seed
        write_clip(options.out, seed, options.frames, options.stride, options.threads)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
