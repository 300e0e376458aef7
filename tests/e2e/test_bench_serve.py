"""`edge-sdk bench serve`: its figures are of what it says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from frames_on_disk import write_pairs


def test_it_reports_both_paces_with_conditions(toy_fusion: Path, tmp_path: Path) -> None:
    write_pairs(tmp_path / "site")
    done = subprocess.run(
        [
            sys.executable, "-m", "edge_sdk.cli.main", "bench", "serve", "--engine", str(toy_fusion),
            "--source", f"pairs:{tmp_path}/site", "--viewers", "2", "--seconds", "0.4", "--repeats", "2",
            "--threads", "1", "--json", str(tmp_path / "serve.json"),
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "serve.json").read_text())
    for pace in ("paced", "back_to_back"):
        assert report[f"fps_alone_{pace}"] > 0
        assert report[f"fps_watched_{pace}"] > 0
        assert 0 < report[f"page_cores_{pace}"] < 1
        assert report[f"pictures_per_viewer_per_s_{pace}"] > 0
        assert (
            "2 viewers (nice 10) on this machine"
            in report["conditions"][f"fps_with_viewers_over_none_{pace}"]
        )
    assert report["fps_alone_paced"] < 31
