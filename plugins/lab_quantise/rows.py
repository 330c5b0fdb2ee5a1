"""Symmetric 8-bit rows: each row of a matrix is whole numbers from -127 to 127 times a scale of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lab.errors import LabError

if TYPE_CHECKING:
    import numpy.typing as npt

LARGEST = 127


@dataclass(frozen=True)
class Quantised:
    """A matrix in 8 bits."""

    values: npt.NDArray[np.int8]  # (rows, columns)
    scales: npt.NDArray[np.float32]  # (rows, 1)

    @property
    def nbytes(self) -> int:
        """What it takes, its scales included."""
        return self.values.nbytes + self.scales.nbytes

    def restored(self) -> npt.NDArray[np.float32]:
        """The matrix that it stands for."""
        return self.values.astype(np.float32) * self.scales


def quantised(matrix: npt.NDArray[np.float32]) -> Quantised:
    """The nearest 8-bit matrix. Raises `LabError` for one that is no finite matrix of FP32."""
    if matrix.ndim != 2 or matrix.dtype != np.float32 or not matrix.size:
        raise LabError(f"a tensor of {matrix.dtype} and shape {matrix.shape} is no matrix of float32")
    if not np.isfinite(matrix).all():
        raise LabError("the tensor holds numbers that are not finite: no scale can hold them")
    scales = np.abs(matrix).max(axis=1, keepdims=True) / np.float32(LARGEST)
    scales[scales == 0] = 1  # a row of zeros keeps them under any scale
    values = np.rint(matrix / scales).clip(-LARGEST, LARGEST).astype(np.int8)
    return Quantised(values, scales)


def errors(matrix: npt.NDArray[np.float32], restored: npt.NDArray[np.float32]) -> dict[str, float]:
    """How far the restored matrix is off: the worst element, and the whole relative to the matrix's norm."""
    exact = matrix.astype(np.float64)
    off = exact - restored
    norm = float(np.linalg.norm(exact))
    relative = float(np.linalg.norm(off)) / norm if norm else 0.0
    return {"largest_error": float(np.abs(off).max()), "relative_error": relative}
