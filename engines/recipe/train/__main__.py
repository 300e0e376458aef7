"""`python -m engines.recipe.train`: trains the reference detector."""

from __future__ import annotations

import argparse
from pathlib import Path

from engines.recipe.train.fit import FitConfig, fit


def main(arguments: list[str] | None = None) -> None:
    """Reads the command line and trains."""
    parser = argparse.ArgumentParser(prog="python -m engines.recipe.train", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with train/ and val/")
    parser.add_argument("--out", type=Path, required=True, help="folder for checkpoint.pt and history.json")
    parser.add_argument("--epochs", type=int, default=FitConfig.epochs)
    parser.add_argument("--whole-epochs", type=int, default=FitConfig.whole_epochs)
    parser.add_argument("--batch", type=int, default=FitConfig.batch)
    parser.add_argument("--learning-rate", type=float, default=FitConfig.learning_rate)
    parser.add_argument("--seed", type=int, default=FitConfig.seed)
    parser.add_argument("--threads", type=int, default=FitConfig.threads)
    parser.add_argument("--validate-every", type=int, default=FitConfig.validate_every, help="epochs")
    parser.add_argument("--first-weights", type=Path, help="checkpoint to go on from with a new schedule")
    fit(FitConfig(**vars(parser.parse_args(arguments))))


if __name__ == "__main__":
    main()
