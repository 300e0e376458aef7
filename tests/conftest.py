"""Fixtures for all tests: toy bundles, made once a session. A test that changes one copies it first."""

from __future__ import annotations

from pathlib import Path

import pytest
from bundles import write_toy_fusion_bundle, write_toy_single_bundle
from hypothesis import settings

# A busy machine is no fault of the code under test.
settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")


@pytest.fixture(scope="session")
def toy_fusion(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a fusion bundle with all four graphs and fp32 twins. Do not change it."""
    return write_toy_fusion_bundle(tmp_path_factory.mktemp("engines") / "toy-fusion", screen=True)


@pytest.fixture(scope="session")
def toy_single(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a single-graph RGB bundle with a uint8 NHWC input. Do not change it."""
    return write_toy_single_bundle(tmp_path_factory.mktemp("engines") / "toy-single")
