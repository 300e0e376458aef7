"""The options of `edge-sdk run` that make a run watched, recorded and told of."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer
import typer.core

from edge_sdk.errors import ConfigError

if TYPE_CHECKING:
    from edge_sdk.live.session import LiveOptions

__all__ = ["RunCommand", "live_options_from"]


class RunCommand(typer.core.TyperCommand):
    """A command whose `--serve` may stand alone."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Puts the default address behind a bare `--serve`."""
        for at in range(len(args) - 1, -1, -1):
            if args[at] == "--serve" and (at + 1 == len(args) or args[at + 1].startswith("-")):
                args.insert(at + 1, "127.0.0.1:8080")
        return super().parse_args(ctx, args)


def live_options_from(
    *,
    record: Path | None,
    record_rgb: str,
    record_limit_mib: int,
    record_full: str,
    serve: str | None,
    token: str | None,
    names: tuple[str, ...],
    record_dir: Path,
    registration_file: Path,
    sla: Path | None,
    alarm_rise_k: float | None,
    alarm_max_c: float | None,
    mqtt: str | None,
    mqtt_spool: Path,
    mqtt_every: bool,
    force: str | None,
) -> LiveOptions | None:
    """Makes the options of a live session; None where none was asked for.

    Raises:
        ConfigError: an option is wrong, or makes no sense without another.
    """
    if token is not None and serve is None:
        raise ConfigError("--token: there is no page to guard; add --serve")
    if sla is not None and serve is None and mqtt is None:
        raise ConfigError("--sla: nothing shows it; add --serve or --mqtt, or use `edge-sdk sla check`")
    if record is None and serve is None and mqtt is None:
        return None
    from edge_sdk.live.alarms import AlarmRule
    from edge_sdk.live.guard import parse_address
    from edge_sdk.live.session import LiveOptions
    from edge_sdk.measurements import Route
    from edge_sdk.publish.mqtt import parse_broker
    from edge_sdk.recording import RecordingPlan
    from edge_sdk.sla import load_sla

    def plan(path: Path, when_behind: str) -> RecordingPlan:
        return RecordingPlan(
            path, record_rgb, limit_mib=record_limit_mib, when_full=record_full, when_behind=when_behind
        )

    if force is not None and force not in [route.value for route in Route]:
        raise ConfigError(f"--force: expected rgb, fuse or thermal, found {force!r}")
    return LiveOptions(
        serve=None if serve is None else parse_address(serve),
        token=token,
        names=names,
        record=None if record is None else plan(record, "wait"),
        record_on_demand=None if serve is None else plan(record_dir, "drop"),
        registration_file=registration_file,
        sla=None if sla is None else load_sla(sla),
        alarms=AlarmRule(rise_k=alarm_rise_k, max_c=alarm_max_c),
        broker=None if mqtt is None else parse_broker(mqtt),
        spool=None if mqtt is None else mqtt_spool,
        every_result=mqtt_every,
        force=None if force is None else Route(force),
    )
