"""The options of `edge-sdk run` that make a run watched, recorded and told of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer
import typer.core

from edge_sdk.credentials import find_credential
from edge_sdk.errors import ConfigError

if TYPE_CHECKING:
    from edge_sdk.live.session import LiveOptions
    from edge_sdk.publish.mqtt import Broker

__all__ = ["RunCommand", "live_options_from", "warn"]

_MQTT_PASSWORD_VARIABLE = "EDGE_SDK_MQTT_PASSWORD"


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
    token_file: Path | None,
    behind_proxy: str | None,
    proxy_address: str | None,
    names: tuple[str, ...],
    record_dir: Path,
    registration_file: Path,
    sla: Path | None,
    alarm_rise_k: float | None,
    alarm_max_c: float | None,
    mqtt: str | None,
    mqtt_password_file: Path | None,
    mqtt_spool: Path,
    mqtt_every: bool,
    force: str | None,
) -> LiveOptions | None:
    """Makes the options of a live session; None where none was asked for.

    Raises:
        ConfigError: an option is wrong, or makes no sense without another.
    """
    for option, given, needed in (
        ("--token", token, serve),
        ("--token-file", token_file, serve),
        ("--behind-proxy", behind_proxy, serve),
        ("--proxy-address", proxy_address, behind_proxy),
        ("--mqtt-password-file", mqtt_password_file, mqtt),
    ):
        if given is not None and needed is None:
            missing = {"--proxy-address": "--behind-proxy", "--mqtt-password-file": "--mqtt"}
            raise ConfigError(f"{option}: of no use alone; add {missing.get(option, '--serve')}")
    if sla is not None and serve is None and mqtt is None:
        raise ConfigError("--sla: nothing shows it; add --serve or --mqtt, or use `edge-sdk sla check`")
    if record is None and serve is None and mqtt is None:
        return None
    from edge_sdk.live.alarms import AlarmRule
    from edge_sdk.live.guard import parse_address
    from edge_sdk.live.proxy import parse_proxy
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
        token=None if serve is None else _token(token, token_file),
        token_file=token_file,
        proxy=None if behind_proxy is None else parse_proxy(behind_proxy, proxy_address),
        names=names,
        record=None if record is None else plan(record, "wait"),
        record_on_demand=None if serve is None else plan(record_dir, "drop"),
        registration_file=registration_file,
        sla=None if sla is None else load_sla(sla),
        alarms=AlarmRule(rise_k=alarm_rise_k, max_c=alarm_max_c),
        broker=None if mqtt is None else _with_password(parse_broker(mqtt), mqtt_password_file),
        spool=None if mqtt is None else mqtt_spool,
        every_result=mqtt_every,
        force=None if force is None else Route(force),
    )


def _token(token: str | None, file: Path | None) -> str | None:
    from edge_sdk.live.guard import page_token

    found = page_token(token, file)
    warn(found.warning if found else "")
    return found.value if found else None


def _with_password(broker: Broker, file: Path | None) -> Broker:
    found = find_credential(
        "--mqtt", broker.password, file, _MQTT_PASSWORD_VARIABLE, file_option="--mqtt-password-file"
    )
    if found is None:
        return broker
    warn(found.warning)
    if broker.user is None:
        raise ConfigError(f"{found.origin}: a password needs a user: --mqtt mqtt://USER@{broker.host}")
    return replace(broker, password=found.value)


def warn(warning: str) -> None:
    """Says on standard error what is unwise; nothing where there is nothing to say."""
    if warning:
        typer.secho(f"warning: {warning}", err=True, fg="yellow")
