"""Which rails add up to the power of a Jetson module, by board.

Rails nest: VDD_CPU_GPU_CV and VDD_SOC are fed from VDD_IN, VDDQ_VDD2_1V8AO of an AGX Orin is fed from
VIN_SYS_5V0. Adding up all that a board shows counts some of it twice.

Source: NVIDIA, Jetson Linux Developer Guide, "Software-Based Power Consumption Modeling"; device trees
tegra234-p3701 and p3767; energymon, `jetson/JetsonPowerRails.md`; NVIDIA forum thread 223111.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from edge_sdk.meter.files import Tree

__all__ = ["Board", "board_of_labels", "identify"]


@dataclass(frozen=True)
class Board:
    """A board as far as its power is concerned.

    Attributes:
        model: as the device tree names it, or "unknown".
        family: the module's family, or "" where unknown.
        totals: sets of rails that each add up to the module's power, the first that is whole counts.
        shunt_uohm: the shunt resistors where the driver does not tell, in microohms.
    """

    model: str
    family: str = ""
    totals: tuple[tuple[str, ...], ...] = ()
    shunt_uohm: int = 2000

    def total_of(self, labels: set[str]) -> tuple[tuple[str, ...], str]:
        """Returns the rails that add up to the module's power, or none and why."""
        if not self.totals:
            return (), f"board {self.model!r} is not known here: its rails are shown, not added up"
        for total in self.totals:
            if labels.issuperset(total):
                return total, ""
        missing = [label for label in self.totals[0] if label not in labels]
        return (), f"{self.family}: no total without {', '.join(missing)}"


_AGX_ORIN = ("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0")
_AGX_XAVIER = ("GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V")
# (number of the module in `compatible`, words of the model, family, totals, shunt in microohms)
_BOARDS: tuple[tuple[str, str, str, tuple[tuple[str, ...], ...], int], ...] = (
    ("p3701", r"AGX Orin|IGX Orin", "AGX Orin", (_AGX_ORIN,), 2000),
    ("p3767", r"Orin NX|Orin Nano", "Orin NX or Orin Nano", (("VDD_IN",),), 5000),
    ("p3668", r"Xavier NX", "Xavier NX", (("VDD_IN",),), 5000),
    ("p2888", r"AGX Xavier|Xavier AGX", "AGX Xavier", (_AGX_XAVIER,), 5000),
    ("p3834", r"Thor", "Thor", (("VIN",),), 2000),
    ("p3310|p3489|p3636", r"TX2", "TX2", (("VDD_IN",),), 5000),
    ("p3448", r"Jetson Nano", "Nano", (("POM_5V_IN",),), 5000),
)


def identify(tree: Tree) -> Board:
    """Finds out which board a tree is of, by the device tree's `compatible` and `model`."""
    base = Path("proc/device-tree")
    model = tree.text_or(tree.root / base / "model") or tree.text_or(
        tree.root / "sys/firmware/devicetree/base/model"
    )
    compatible = tree.text_or(tree.root / base / "compatible") or tree.text_or(
        tree.root / "sys/firmware/devicetree/base/compatible"
    )
    for number, _, family, totals, shunt_uohm in _BOARDS:
        if re.search(rf"nvidia,(?:{number})\b", compatible):
            return Board(model or f"NVIDIA Jetson {family}", family, totals, shunt_uohm)
    for _, words, family, totals, shunt_uohm in _BOARDS:
        if re.search(words, model):
            return Board(model, family, totals, shunt_uohm)
    return Board(model or "unknown")


def board_of_labels(labels: set[str]) -> Board:
    """Guesses the board of a log, which does not name it, where only one kind has such rails."""
    for _, _, family, totals, shunt_uohm in _BOARDS:
        if any(labels.issuperset(total) for total in totals):
            named = "a board with VDD_IN" if totals == (("VDD_IN",),) else family
            return Board(f"{named}, by its rails", family, totals, shunt_uohm)
    return Board("unknown")
