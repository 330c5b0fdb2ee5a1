"""What the two stages do in the run directory: make a tensor file, then quantise it and say how far that is off."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

from lab.errors import LabError
from lab.runs import records
from lab_quantise import rows

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from lab.runs.directory import RunDirectory

TENSOR, QUANTISED, FIGURES = "tensor.npy", "quantised.npz", "quantise.json"
SHAPE = (256, 512)


def make(run: RunDirectory) -> str:
    """Write a tensor as weights are: normal numbers, each row of a size of its own, drawn with the run's seed."""
    seed = _seed(run)
    generator = np.random.default_rng(seed)
    sizes = generator.lognormal(-3.0, 1.0, (SHAPE[0], 1))
    tensor = (generator.standard_normal(SHAPE) * sizes).astype(np.float32)
    content = io.BytesIO()
    np.save(content, tensor)
    records.write_bytes(run.path / TENSOR, content.getvalue())
    return f"{TENSOR}: {SHAPE[0]} rows of {SHAPE[1]} numbers, seed {seed}"


def quantise(run: RunDirectory) -> str:
    """Write the tensor in 8 bits, and the figures that say what this cost and saved."""
    tensor = _read(run.path / TENSOR)
    small = rows.quantised(tensor)
    content = io.BytesIO()
    np.savez(content, values=small.values, scales=small.scales)
    records.write_bytes(run.path / QUANTISED, content.getvalue())
    figures = {
        **rows.errors(tensor, small.restored()),
        "largest_scale": float(small.scales.max()),
        "before_bytes": tensor.nbytes,
        "after_bytes": small.nbytes,
    }
    records.write_json(run.path / FIGURES, {"schema": 1, **figures})
    records.append_line(run.artifacts, {"path": FIGURES, "kind": "json", "title": "The tensor in 8 bits"})
    told = "\n".join(f"{name}: {value:.6g}" for name, value in figures.items())
    share = small.nbytes / tensor.nbytes
    return f"{told}\n{share:.1%} of the bytes, relative error {figures['relative_error']:.2%}"


def _seed(run: RunDirectory) -> int:
    experiment: Any = (records.read_json(run.config) or {}).get("experiment")
    seed = experiment.get("seed") if isinstance(experiment, dict) else None
    if not isinstance(seed, int):
        raise LabError(f"{run.config}: holds no seed")
    return seed


def _read(path: Path) -> npt.NDArray[np.float32]:
    try:
        tensor: npt.NDArray[np.float32] = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise LabError(f"{path}: is no tensor file: {error}", "The stage `make` writes it.") from error
    return tensor
