"""What a viewer may do to a run, as the page asks for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from edge_sdk.errors import ConfigError
from edge_sdk.live.board import Board
from edge_sdk.live.control import Control
from edge_sdk.registering import RegistrationFit, fit_registration

__all__ = ["viewer_actions"]


def viewer_actions(
    board: Board, control: Control
) -> dict[str, Callable[[dict[str, Any]], dict[str, Any] | None]]:
    """Makes the table of what may be done, by path; each takes a JSON object and tells another, or nothing.

    An act raises ConfigError, or ValueError, KeyError or TypeError, where the object is not what it needs.
    """

    def force(body: dict[str, Any]) -> None:
        control.set_force(body["route"])

    def record(body: dict[str, Any]) -> None:
        control.record(body["on"] is True)

    def fit(body: dict[str, Any]) -> dict[str, Any]:
        return _told(_fitted(board, body))

    def apply(body: dict[str, Any]) -> dict[str, Any]:
        fitted = _fitted(board, body)
        control.apply_registration(fitted)
        return _told(fitted)

    def reset(body: dict[str, Any]) -> None:
        control.apply_registration(None)

    def save(body: dict[str, Any]) -> dict[str, Any]:
        return {"file": control.save_registration().name}

    return {
        "/api/force": force,
        "/api/record": record,
        "/api/registration/fit": fit,
        "/api/registration/apply": apply,
        "/api/registration/reset": reset,
        "/api/registration/save": save,
    }


def _fitted(board: Board, body: dict[str, Any]) -> RegistrationFit:
    latest = board.latest
    if latest is None or latest[1].rgb is None or latest[1].thermal is None:
        raise ConfigError("a pair with both frames is needed, and none is here now")
    points = [tuple(float(number) for number in point) for point in body["points"]]
    if any(len(point) != 4 for point in points):
        raise ValueError("each point is [thermal x, thermal y, RGB x, RGB y] in pixels")
    return fit_registration(
        [(point[0], point[1]) for point in points],
        [(point[2], point[3]) for point in points],
        latest[1].thermal.size_wh,
        latest[1].rgb.size_wh,
    )


def _told(fit: RegistrationFit) -> dict[str, Any]:
    return {
        "homography": fit.registration.homography,
        "residual_px": fit.residual_px,
        "rms_px": fit.rms_px,
        "left_out_px": fit.left_out_px,
        "note": fit.note,
    }
