"""The SLA file: what a run must keep to, read from YAML and checked to the last key.

    name: substation-line-7
    engine: substation-rgbt
    source: clip:substation          # any URI that `edge-sdk run` takes
    device: auto
    latency:
      p50_ms: 40
      p99_ms: 60
      stages: {engine: {p95_ms: 45}}
      routes: {thermal: {p50_ms: 20}}
    throughput: {min_fps: 20}
    frames: {max_dropped_share: 0.01}
    machine: {power_mode: 30W, clocks_locked: true, throttled: false}
    memory: {peak_mb: 900, rss_slope_mb_per_h: 60}
    energy: {per_inference_mj: {max: 400, kind: total}}
    power: {mean_w: 15, p95_w: 18, scope: module}
    run: {duration_s: 60, pace_hz: 25, warm_up_s: 5, warm_up_frames: 100, seed: 1}

Latency runs from the pair in memory to the result; reading it is the stage `source`. Any percentile may be
asked for (`p95_ms`, `p99_9_ms`, ...). `max_ms` and a `max_dropped_share` of 0 are read as counts in this very
run: no number of frames bounds a maximum, or shows a share of exactly 0. A run that is shorter than `run`
states passes no clause. A slow head of the run within `warm_up_s`, `warm_up_frames` and a tenth of the run
is warm-up; a longer one is judged with the rest. Paths in `engine` and `source` are relative to the file.
A key that is not known is refused by name: a limit with a typing error in it would otherwise never be judged.
Numbers that YAML reads otherwise than people (`010`, `1:30`), anchors, aliases and duplicate keys too.
"""

from edge_sdk.sla.parse import load_sla, parse_sla
from edge_sdk.sla.paths import located_engine, located_source
from edge_sdk.sla.sense import contradictions
from edge_sdk.sla.terms import LatencyLimit, MachineLimits, MemoryLimits, PowerLimit, RunPlan, Sla

__all__ = [
    "LatencyLimit",
    "MachineLimits",
    "MemoryLimits",
    "PowerLimit",
    "RunPlan",
    "Sla",
    "contradictions",
    "load_sla",
    "located_engine",
    "located_source",
    "parse_sla",
]
