"""What a tensor looks like at the edge of a graph."""

from __future__ import annotations

import numpy as np
import pytest

from edge_sdk.tensors import DTYPES, TensorSpec


@pytest.mark.parametrize("dtype", DTYPES)
def test_size_in_bytes_is_that_of_the_array(dtype: str) -> None:
    spec = TensorSpec("image", dtype, (1, 48, 64, 3), "nhwc", "rgb")
    assert spec.nbytes == np.zeros(spec.shape, dtype).nbytes


def test_text_names_dtype_and_shape() -> None:
    assert (
        str(TensorSpec("scores", "float32", (1, 4, 6, 8), "nchw", "scores")) == "scores float32[1, 4, 6, 8]"
    )


def test_equal_specs_are_equal() -> None:
    assert TensorSpec("a", "int8", (1,), "n", "x") == TensorSpec("a", "int8", (1,), "n", "x")
    assert TensorSpec("a", "int8", (1,), "n", "x") != TensorSpec("a", "int8", (2,), "n", "x")
