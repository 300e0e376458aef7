"""The emulated CUDA driver: its C sources in `driver/`, how it is built, and what tests ask of it."""

from emulated_driver import Unavailable, build_driver

from emulator.control import Emulator, load_emulator

__all__ = ["Emulator", "Unavailable", "build_driver", "load_emulator"]
