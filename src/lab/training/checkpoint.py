"""Checkpoints: replaced as a whole, loadable with `weights_only=True`, and never quietly of another type or shape."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, cast

import torch

from lab.errors import LabError
from lab.runs.saved import ANEW, require_whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

State = dict[str, Any]
PLAIN = (bool, int, float, str, bytes, type(None))
"""Types that every loader takes; numpy's numbers are of other types although they pass for these."""
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


def check_state(state: Mapping[str, object], step: int) -> None:
    """Raise `LabError` where `state` holds what must not replace the last good checkpoint, naming its place.

    That is a tensor with a NaN, and an object that a load with `weights_only=True` refuses. Infinity passes: an
    attention mask may hold it.
    """
    for place, value in _leaves(state):
        if isinstance(value, torch.Tensor):
            if value.is_floating_point() and bool(value.isnan().any()):
                raise LabError(
                    f"step {step}: {place} holds a number that is none (nan): this step is not saved.", AS_IT_WAS
                )
        elif type(value) not in PLAIN and not _can_be_loaded(value):
            raise LabError(
                f"step {step}: {place} is a {type(value).__name__}, and no checkpoint that holds one can be loaded.",
                "Let the loop's state_dict() hold tensors, numbers, text, lists and dictionaries.",
            )


def _leaves(value: object, place: str = "") -> Iterator[tuple[str, object]]:
    """Everything in a state with its place, such as model.head or optimizer.state.0.exp_avg."""
    if type(value) in (dict, OrderedDict):
        for key, inner in cast("dict[object, object]", value).items():
            yield from _leaves(inner, f"{place}.{key}" if place else str(key))
    elif type(value) in (list, tuple):
        for number, inner in enumerate(cast("list[object]", value)):
            yield from _leaves(inner, f"{place}.{number}" if place else str(number))
    else:
        yield place, value


def _can_be_loaded(value: object) -> bool:
    """Ask torch itself, which knows what it takes."""
    file = io.BytesIO()
    try:
        torch.save(value, file)
        file.seek(0)
        torch.load(file, weights_only=True)
    except Exception:  # a stranger's object may raise anything
        return False
    return True


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
