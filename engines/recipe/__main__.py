"""`python -m engines.recipe all`: from nothing to the finished bundle, step by step.

Renders what is missing of the data, trains, exports, quantises, calibrates the gate, evaluates and
writes the bundle. Each step can be run alone (`python -m engines.recipe.<step> --help`). What was
interrupted goes on where it stopped: rendered pairs are kept, and a training has its checkpoint.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from engines.recipe import bundle, evaluate, export, gate, quantise
from engines.recipe.render import __main__ as render
from engines.recipe.train import __main__ as train
from engines.recipe.train import screen

WORLDS = {"train": "0:390", "val": "10000:10060", "test": "20000:20060"}
"""Seeds of the worlds of each split; a world gives about three pairs under as many lights."""


def main(arguments: list[str] | None = None) -> None:
    """Reads the command line and runs the steps."""
    parser = argparse.ArgumentParser(prog="python -m engines.recipe", description=__doc__)
    parser.add_argument("step", choices=("all", "after-training"), help="what to run")
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder with train/, val/ and test/")
    parser.add_argument("--build", type=Path, default=Path("build/engine"))
    parser.add_argument("--out", type=Path, default=Path("engines/substation-rgbt"))
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args(arguments)
    data, build = str(options.data), str(options.build)
    if options.step == "all":
        for split, worlds in WORLDS.items():
            render.main(["dataset", "--out", data, "--split", split, "--worlds", worlds])
        epochs = ["--epochs", str(options.epochs), "--seed", str(options.seed)]
        train.main(["--data", data, "--out", f"{build}/training", *epochs])
        screen.main(["--data", data, "--out", f"{build}/training"])
    export.main(["--training", f"{build}/training", "--out", f"{build}/fp32"])
    shutil.copyfile(options.build / "training" / "history.json", options.build / "history.json")
    quantise.main(["--build", build, "--data", data])
    gate.main(["--build", build, "--data", data])
    evaluate.main(["--bundle", build, "--data", f"{data}/test", "--json", f"{build}/evaluation.json"])
    bundle.main(["--build", build, "--out", str(options.out)])


if __name__ == "__main__":
    main()
