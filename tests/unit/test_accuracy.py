"""Average precision against cases worked out by hand, and against pycocotools."""

from __future__ import annotations

import numpy as np
import pytest
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from edge_sdk.accuracy import Truth, average_precision, match, mean_average_precision
from edge_sdk.detections import Detections

NAMES = ("insulator", "hotspot")
HERE, THERE, AWAY = (0, 0, 10, 10), (20, 0, 30, 10), (50, 50, 60, 60)


def found(*boxes: tuple[tuple[float, ...], float, int]) -> Detections:
    return Detections(
        np.array([box for box, _, _ in boxes], np.float32).reshape(-1, 4),
        np.array([score for _, score, _ in boxes], np.float32),
        np.array([kind for _, _, kind in boxes], np.int64),
        NAMES,
    )


def truth(*boxes: tuple[tuple[float, ...], int], ignored: tuple[int, ...] = ()) -> Truth:
    return Truth(
        np.array([box for box, _ in boxes], np.float32).reshape(-1, 4),
        np.array([kind for _, kind in boxes], np.int64),
        np.array([index in ignored for index in range(len(boxes))], bool),
    )


def ap(detections: Detections, there: Truth) -> float | None:
    return average_precision(match([detections], [there], 0))


def test_everything_found_and_nothing_else_is_one() -> None:
    assert ap(found((HERE, 0.9, 0), (THERE, 0.8, 0)), truth((HERE, 0), (THERE, 0))) == 1.0


def test_a_surer_mistake_halves_the_precision() -> None:
    assert ap(found((AWAY, 0.9, 0), (HERE, 0.8, 0)), truth((HERE, 0))) == 0.5


def test_a_less_sure_mistake_costs_nothing() -> None:
    assert ap(found((HERE, 0.9, 0), (AWAY, 0.1, 0)), truth((HERE, 0))) == 1.0


def test_half_of_the_objects_is_half() -> None:
    assert ap(found((HERE, 0.9, 0)), truth((HERE, 0), (THERE, 0))) == 0.5


def test_a_second_box_on_one_object_is_a_mistake() -> None:
    scored = match([found((HERE, 0.9, 0), (HERE, 0.8, 0))], [truth((HERE, 0))], 0)

    assert scored.right.tolist() == [True, False]


def test_an_ignored_object_neither_counts_nor_blames() -> None:
    there = truth((HERE, 0), (THERE, 0), ignored=(1,))

    assert ap(found((THERE, 0.9, 0), (HERE, 0.8, 0)), there) == 1.0
    assert ap(found((HERE, 0.8, 0)), there) == 1.0


def test_an_ignored_object_absorbs_one_detection() -> None:
    scored = match([found((THERE, 0.9, 0), (THERE, 0.8, 0))], [truth((HERE, 0), (THERE, 0), ignored=(1,))], 0)

    assert scored.scores.tolist() == pytest.approx([0.8])
    assert scored.right.tolist() == [False]


def test_another_class_does_not_count() -> None:
    assert ap(found((HERE, 0.9, 1)), truth((HERE, 0))) == 0.0


def test_frames_are_ranked_together() -> None:
    scored = match([found((AWAY, 0.9, 0)), found((HERE, 0.5, 0))], [truth(), truth((HERE, 0))], 0)

    assert average_precision(scored) == 0.5


def test_overlap_below_the_limit_is_no_match() -> None:
    shifted = (6, 0, 16, 10)  # IoU 0.25

    assert ap(found((shifted, 0.9, 0)), truth((HERE, 0))) == 0.0
    assert average_precision(match([found((shifted, 0.9, 0))], [truth((HERE, 0))], 0, iou_min=0.2)) == 1.0


def test_the_mean_leaves_out_classes_that_do_not_occur() -> None:
    mean, by_class = mean_average_precision([found((HERE, 0.9, 0))], [truth((HERE, 0))], NAMES)

    assert mean == 1.0
    assert by_class == {"insulator": 1.0, "hotspot": None}


def test_nothing_there_is_no_figure() -> None:
    assert mean_average_precision([found()], [truth()], NAMES)[0] is None


def test_unequal_numbers_of_frames_are_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        match([found()], [], 0)


def random_frames(seed: int, frames: int = 40) -> tuple[list[Detections], list[Truth]]:
    """Objects, a fifth of them ignored, and detections near some of them, doubled, shifted or made up."""
    random = np.random.default_rng(seed)
    all_found, all_truth = [], []
    for _ in range(frames):
        count = int(random.integers(0, 6))
        corners = random.uniform(0, 200, (count, 2))
        boxes = np.concatenate([corners, corners + random.uniform(20, 60, (count, 2))], axis=1)
        ignored = random.random(count) < 0.2
        near = (
            boxes[random.integers(0, count, 2 * count)] + random.normal(0, 4, (2 * count, 4))
            if count
            else boxes
        )
        stray = random.uniform(0, 200, (2, 2))
        seen = np.concatenate([near, np.concatenate([stray, stray + 30], axis=1)])
        scores = random.permutation(np.linspace(0.05, 0.95, len(seen)))
        kinds = np.zeros(len(seen), np.int64)
        all_found.append(Detections(seen.astype(np.float32), scores.astype(np.float32), kinds, NAMES))
        all_truth.append(Truth(boxes.astype(np.float32), np.zeros(count, np.int64), ignored))
    return all_found, all_truth


def as_coco_judges(
    all_found: list[Detections], all_truth: list[Truth]
) -> tuple[list[tuple[float, bool]], int]:
    """Scores and hits of what pycocotools counts at IoU 0.5; ignored objects have an area of 1."""
    coco = COCO()
    annotations, seen = [], []
    for image, (detections, there) in enumerate(zip(all_found, all_truth, strict=True)):
        for box, ignored in zip(there.xyxy.tolist(), there.ignored.tolist(), strict=True):
            x0, y0, x1, y1 = box
            annotations.append(
                {"id": len(annotations) + 1, "image_id": image, "category_id": 1, "iscrowd": 0,
                 "bbox": [x0, y0, x1 - x0, y1 - y0], "area": 1.0 if ignored else 1e4}
            )  # fmt: skip
        for (x0, y0, x1, y1), score in zip(detections.xyxy.tolist(), detections.scores.tolist(), strict=True):
            seen.append(
                {"image_id": image, "category_id": 1, "bbox": [x0, y0, x1 - x0, y1 - y0], "score": score}
            )
    coco.dataset = {
        "info": {},
        "images": [{"id": image} for image in range(len(all_found))],
        "categories": [{"id": 1}],
        "annotations": annotations,
    }
    coco.createIndex()
    judge = COCOeval(coco, coco.loadRes(seen), "bbox")
    judge.params.iouThrs = np.array([0.5])
    judge.params.areaRng, judge.params.areaRngLbl = [[10.0, 1e10]], ["all"]
    judge.params.maxDets = [1000]
    judge.evaluate()
    counted, objects = [], 0
    for image in filter(None, judge.evalImgs):
        objects += int((np.asarray(image["gtIgnore"]) == 0).sum())
        for score, taken, ignored in zip(
            image["dtScores"], image["dtMatches"][0], image["dtIgnore"][0], strict=True
        ):
            if not ignored:
                counted.append((score, taken > 0))
    return counted, objects


@pytest.mark.parametrize("seed", range(5))
def test_matches_are_those_of_pycocotools(seed: int) -> None:
    all_found, all_truth = random_frames(seed)
    scored = match(all_found, all_truth, 0)
    counted, objects = as_coco_judges(all_found, all_truth)
    ours = sorted(
        (round(float(score), 5), bool(hit)) for score, hit in zip(scored.scores, scored.right, strict=True)
    )
    assert ours == sorted((round(float(score), 5), bool(hit)) for score, hit in counted)
    assert scored.objects == objects
    assert any(not hit for _, hit in counted)
