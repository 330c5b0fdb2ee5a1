"""Turns the CUDA allocator's history on for one step; torch keeps these calls private."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import torch

if TYPE_CHECKING:
    from lab_memory_snapshot.options import MemorySnapshotOptions

    Snapshot = dict[str, Any]
    """What torch.cuda.memory._snapshot() gives: segments, and a history of events for each device."""


class Recorder(Protocol):
    """What the observer asks of an allocator."""

    def begin(self) -> None:
        """Forget earlier events and record from now on."""
        ...

    def end(self) -> Snapshot:
        """Stop recording and return what was recorded."""
        ...

    def allocated(self) -> tuple[int, int]:
        """Bytes allocated and reserved now."""
        ...


class CudaRecorder:
    """The caching allocator of one CUDA device."""

    def __init__(self, options: MemorySnapshotOptions, device: torch.device) -> None:
        self._options = options
        self._device = device

    def begin(self) -> None:
        """Record with a bounded number of events; C++ frames would take minutes to write."""
        torch.cuda.memory._record_memory_history(
            "all",
            context="all" if self._options.stacks else None,
            stacks="python",
            max_entries=self._options.max_entries,
            clear_history=True,
        )

    def end(self) -> Snapshot:
        """Take the snapshot first: stopping clears the history."""
        snapshot: Snapshot = torch.cuda.memory._snapshot(self._device)
        torch.cuda.memory._record_memory_history(None)
        return snapshot

    def allocated(self) -> tuple[int, int]:
        """Bytes allocated and reserved now, without waiting for the device."""
        return torch.cuda.memory_allocated(self._device), torch.cuda.memory_reserved(self._device)
