"""The sections `energy` and `power` of an SLA file.

    energy:
      per_inference_mj: {max: 400, kind: total}        # or marginal: above idle
      scope: module                                    # what the meter must cover
      routes: {fuse: {per_inference_mj: {max: 600, kind: total}}}
    power: {mean_w: 15, p95_w: 18, scope: module}

A limit on energy names its kind, since total and marginal energy of one frame can differ tenfold.
"""

from __future__ import annotations

from collections.abc import Iterator

from edge_sdk.errors import SlaFileError
from edge_sdk.measurements import Route
from edge_sdk.power import SCOPES
from edge_sdk.sla.section import Section
from edge_sdk.sla.terms import PowerLimit

__all__ = ["power_limits"]

_KINDS = ("total", "marginal")
_SCOPES = tuple(scope for scope in SCOPES if scope != "rails")


def power_limits(top: Section) -> tuple[PowerLimit, ...]:
    """Reads every clause on energy and power.

    Raises:
        SlaFileError: something in them is wrong.
    """
    return (*_energy(top.section("energy")), *_power(top.section("power")))


def _energy(section: Section) -> Iterator[PowerLimit]:
    section.refuse_unknown(("per_inference_mj", "routes", "scope"))
    scope = _one_of(section, "scope", _SCOPES)
    if "per_inference_mj" in section.entries:
        yield _per_inference(section, scope, None)
    routes = section.section("routes")
    routes.refuse_unknown([route.value for route in Route])
    for name in routes.entries:
        route = routes.section(name)
        route.refuse_unknown(("per_inference_mj",))
        if "per_inference_mj" not in route.entries:
            raise SlaFileError(
                route.path, route.key, "no limit in it", "Give per_inference_mj: {max: 400, kind: total}."
            )
        yield _per_inference(route, scope, Route(name))


def _per_inference(section: Section, scope: str | None, route: Route | None) -> PowerLimit:
    limit = section.section("per_inference_mj")
    limit.refuse_unknown(("max", "kind"))
    most = limit.number("max", above=0, most=1e9, unit="millijoules")
    kind = _one_of(limit, "kind", _KINDS)
    for key, value, example in (("max", most, "max: 400"), ("kind", kind, "kind: total, or kind: marginal")):
        if value is None:
            raise SlaFileError(limit.path, limit.dotted(key), "missing", f"Give {example}.")
    assert most is not None
    return PowerLimit(limit.key, "per_inference_mj", most, kind or "", route, scope)


def _power(section: Section) -> Iterator[PowerLimit]:
    section.refuse_unknown(("mean_w", "p95_w", "scope"))
    scope = _one_of(section, "scope", _SCOPES)
    for key in ("mean_w", "p95_w"):
        limit = section.number(key, above=0, most=1e6, unit="watts")
        if limit is not None:
            yield PowerLimit(section.dotted(key), key, limit, scope=scope)


def _one_of(section: Section, key: str, known: tuple[str, ...]) -> str | None:
    value = section.text(key)
    if value is not None and value not in known:
        raise section.wrong(key, f"one of {', '.join(known)}", value)
    return value
