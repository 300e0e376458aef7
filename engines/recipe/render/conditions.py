"""Weather and light of a picture: drawn at random, or set by a storyboard."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

import numpy as np

from engines.recipe.world.vectors import Array

DAY_KINDS, NIGHT_KINDS = ("noon", "day"), ("lit", "dark")
LIGHT_OF_KIND = {"noon": "day", "day": "day", "dusk": "dusk", "lit": "night", "dark": "night"}
SUN_SWEEP_DEG_PER_MINUTE = 0.25


@dataclass(frozen=True)
class Condition:
    """Light and weather. Illuminances in lux, angles in degrees, azimuth clockwise from +y.

    ``night_lux`` is what moon, stars and far lights give; ``lamp_lux`` is what the yard lamp gives at 6 m.
    """

    kind: str
    sun_elevation_deg: float
    sun_azimuth_deg: float
    cloud: float
    turbidity: float
    wind_m_s: float
    wetness: float
    fog_per_m: float
    rain: bool
    lamp_lux: float
    night_lux: float
    ambient_c: float
    ground_offset_k: float
    load_share: float
    cloud_seed: int

    @property
    def light(self) -> str:
        """The label of the light: day, dusk or night."""
        return LIGHT_OF_KIND[self.kind]

    @property
    def direct_klx(self) -> float:
        """Sunlight on a surface that faces the sun, kilolux.

        Source: IES clear sky model, thinned by cloud.
        """
        if self.sun_elevation_deg <= 0:
            return 0.0
        sine = max(float(np.sin(np.radians(self.sun_elevation_deg))), 0.02)
        return float(127.5 * np.exp(-0.21 / sine) * max(0.0, 1 - 1.25 * self.cloud))

    @property
    def diffuse_klx(self) -> float:
        """Skylight on the horizontal, kilolux.

        Source: IES clear and overcast sky, log-linear fit through twilight.
        """
        floor = 1e-3 * self.night_lux
        if self.sun_elevation_deg <= 0:
            return float(
                max(10 ** (-0.15 + 0.39 * max(self.sun_elevation_deg, -15.0)) * (1 - 0.4 * self.cloud), floor)
            )
        sine = float(np.sin(np.radians(self.sun_elevation_deg)))
        return (0.75 + 15.5 * np.sqrt(sine)) * (1 - self.cloud) + (0.4 + 18 * sine) * self.cloud

    @property
    def lux(self) -> float:
        """Illuminance on the horizontal, lamp included, for the record."""
        sine = max(float(np.sin(np.radians(self.sun_elevation_deg))), 0.0)
        return 1000 * (self.diffuse_klx + self.direct_klx * sine) + self.lamp_lux

    def earlier(self, minutes: float) -> Condition:
        """Returns the same weather some minutes earlier.

        The sun west of due south sinks, east of it it rises.
        """
        turn = SUN_SWEEP_DEG_PER_MINUTE * minutes
        lift = turn * 0.75 * float(np.sin(np.radians(self.sun_azimuth_deg - 180.0)))
        elevation = float(np.clip(self.sun_elevation_deg + lift, -20.0, 78.0))
        return replace(self, sun_elevation_deg=elevation, sun_azimuth_deg=self.sun_azimuth_deg - turn)

    def sun_direction(self) -> Array:
        """Returns the unit vector to the sun."""
        azimuth, elevation = np.radians(self.sun_azimuth_deg), np.radians(max(self.sun_elevation_deg, 0.3))
        flat = np.cos(elevation)
        return np.array([np.sin(azimuth) * flat, np.cos(azimuth) * flat, np.sin(elevation)])

    def to_record(self) -> dict[str, object]:
        """Copies the fields into plain values for JSON."""
        return {
            name: round(value, 4) if isinstance(value, float) else value
            for name, value in asdict(self).items()
        }


def draw_kinds(seed: int) -> list[str]:
    """Draws the three kinds of light of a world: always a day and a night, and one more."""
    rng = np.random.default_rng([seed, 2])
    kinds = [str(rng.choice(DAY_KINDS)), str(rng.choice(NIGHT_KINDS))]
    kinds.append(str(rng.choice(["dusk", "lit", "dark", "day"], p=[0.5, 0.17, 0.18, 0.15])))
    return kinds


def draw_condition(rng: np.random.Generator, kind: str, base_ambient_c: float) -> Condition:
    """Draws weather for a kind of light around a world's mean air temperature."""
    elevation = {
        "noon": rng.uniform(35, 70),
        "day": rng.uniform(10, 40),
        "dusk": rng.uniform(-5, 8),
        "lit": -15.0,
        "dark": -15.0,
    }[kind]
    night = kind in NIGHT_KINDS
    rain = bool(rng.random() < 0.07)
    cloud = float(
        rng.choice([rng.uniform(0, 0.1), rng.uniform(0.1, 0.5), rng.uniform(0.5, 1)], p=[0.4, 0.3, 0.3])
    )
    lamp = float(np.exp(rng.uniform(np.log(3.0), np.log(80.0)))) if kind == "lit" else 0.0
    if kind == "dusk" and elevation < -2 and rng.random() < 0.3:
        lamp = float(rng.uniform(3, 40))
    return Condition(
        kind=kind,
        sun_elevation_deg=float(elevation),
        sun_azimuth_deg=float(rng.uniform(70, 290)),
        cloud=max(cloud, 0.75) if rain else cloud,
        turbidity=float(rng.uniform(2.2, 5.5)),
        wind_m_s=float(rng.uniform(0, 6)),
        wetness=float(rng.uniform(0.7, 1.0))
        if rain
        else float(rng.choice([0.0, rng.uniform(0.2, 1)], p=[0.8, 0.2])),
        fog_per_m=float(rng.uniform(0.008, 0.05))
        if rng.random() < 0.1
        else float(rng.uniform(0.0005, 0.003)),
        rain=rain,
        lamp_lux=lamp,
        night_lux=float(np.exp(rng.uniform(np.log(0.0008), np.log(0.15)))) + 0.003 * lamp,
        ambient_c=base_ambient_c + float(rng.uniform(-7, -2) if night else rng.uniform(-1, 3)),
        ground_offset_k=float(rng.uniform(-1, 4) if night else rng.normal(0, 1.5)),
        load_share=float(rng.uniform(0.5, 1.0)),
        cloud_seed=int(rng.integers(1 << 30)),
    )
