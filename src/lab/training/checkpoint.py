"""Checkpoints: replaced as a whole, loadable with `weights_only=True`, and never quietly of another type or shape."""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import TYPE_CHECKING, Any

import torch

from lab.errors import LabError
from lab.runs.saved import ANEW, require_whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

State = dict[str, Any]
AS_IT_WAS = (
    "`lab resume` goes on from the last checkpoint as it was; with a lower learning rate or other data it is a new run."
)
"""What to do about numbers that are none: a resume with changed settings would be refused."""


def save(path: Path, state: Mapping[str, object]) -> None:
    """Write a neighbour, sync it, rename it: until then the previous checkpoint stays as it is."""
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                torch.save(dict(state), file)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except (OSError, RuntimeError) as error:  # torch reports a full disk as a RuntimeError
        full = "probably the disk is full: " if isinstance(error, RuntimeError) else ""
        raise LabError(f"{path}: the checkpoint cannot be written: {full}{error}", "Free space there.") from error


def load(path: Path) -> State | None:
    """The checkpoint on the CPU, or None where there is none. Raises `LabError` when it is not a whole one."""
    try:
        require_whole(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        return None
    except LabError:
        raise
    except Exception as error:  # a damaged file makes the unpickler raise anything
        raise LabError(f"{path}: is not a checkpoint that can be loaded: {error}", ANEW) from error
    if not isinstance(state, dict):
        raise LabError(f"{path}: holds a {type(state).__name__}, not a checkpoint", ANEW)
    return state


def remove_parts(path: Path) -> int:
    """Remove what a kill left of unfinished checkpoints beside `path`; return how many there were."""
    parts = list(path.parent.glob(f".{path.name}.*.part"))
    for part in parts:
        part.unlink(missing_ok=True)
    return len(parts)


def check_numbers(state: Mapping[str, object], step: int) -> None:
    """Raise `LabError` where a tensor anywhere in `state` holds a NaN: it would replace the last good checkpoint.

    Infinity passes: an attention mask may hold it.
    """
    for name, tensor in _tensors(state):
        if tensor.is_floating_point() and bool(tensor.isnan().any()):
            raise LabError(
                f"step {step}: {name} holds a number that is none (nan): this step is not saved.",
                AS_IT_WAS,
            )


def _tensors(value: object, name: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor with its place, such as model.head or optimizer.state.0.exp_avg."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _tensors(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from _tensors(inner, f"{name}.{place}" if name else str(place))


def check_same(own: Mapping[str, torch.Tensor], saved: Mapping[str, torch.Tensor]) -> None:
    """Raise `LabError` unless `saved` has exactly the tensors of `own`: torch would convert another type silently."""
    for name in sorted({*own, *saved}):
        if name not in own or name not in saved:
            raise LabError(f"The checkpoint and the model do not both have {name}.")
        mine, theirs = own[name], saved[name]
        if (mine.dtype, mine.shape) != (theirs.dtype, theirs.shape):
            raise LabError(
                f"The checkpoint's {name} is {theirs.dtype} {tuple(theirs.shape)}, "
                f"the model's is {mine.dtype} {tuple(mine.shape)}.",
                "Resume with the experiment that saved it.",
            )
