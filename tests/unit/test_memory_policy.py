"""Which kind of memory a tensor gets."""

from __future__ import annotations

import pytest

from edge_sdk.buffers.policy import Use, candidates, default_kind


@pytest.mark.parametrize(
    ("use", "integrated", "can_map_host", "kind"),
    [
        (Use.IMAGE, True, True, "mapped"),
        (Use.RESULT, True, True, "mapped"),
        (Use.FEATURES, True, True, "device"),
        (Use.IMAGE, True, False, "pinned"),
        (Use.IMAGE, False, True, "pinned"),
        (Use.RESULT, False, True, "pinned"),
        (Use.FEATURES, False, True, "device"),
    ],
)
def test_the_default_follows_the_use_and_the_gpu(
    use: Use, integrated: bool, can_map_host: bool, kind: str
) -> None:
    assert default_kind(use, integrated=integrated, can_map_host=can_map_host) == kind
    assert kind in candidates(use, has_gpu=True, can_map_host=can_map_host)


def test_without_a_gpu_there_is_nothing_to_choose() -> None:
    assert all(candidates(use, has_gpu=False) == ("host",) for use in Use)


def test_features_never_visit_the_host() -> None:
    assert candidates(Use.FEATURES, has_gpu=True) == ("device",)
