"""What each step is fed: micro-batches on the device, prepared when asked for or one step ahead on a thread."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.training import fingerprint
from lab.training.batch import Shape, move

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Future

    import torch

    from lab.data.packing import Sampler, State
    from lab.experiment.sections import Batch, Train
    from lab.training.batch import MicroBatch


@dataclass(frozen=True)
class Fed:
    """One step's micro-batches, and where the sampler and the rolling fingerprint stand after them."""

    batches: tuple[MicroBatch, ...]
    sampler: State
    digest: str


class Feed:
    """Endless steps' worth of micro-batches. Its state is that of the last step handed out, not of one made ahead."""

    def __init__(self, sampler: Sampler, context: int, batch: Batch, train: Train, device: torch.device) -> None:
        self._sampler = sampler
        self._micro_batches = batch.micro_batches
        self.static = Shape(sampler.capacity * sampler.packs, context) if batch.static else None
        """The shape of every batch but an epoch's last."""
        self._device = device
        self._pinned = train.prefetch and device.type == "cuda"
        self._thread = ThreadPoolExecutor(1, "lab-prefetch") if train.prefetch else None
        self._ahead: Future[Fed] | None = None
        self._last = Fed((), sampler.state_dict(), fingerprint.EMPTY)

    def next(self) -> Fed:
        """The next step's micro-batches."""
        if self._thread is None:
            self._last = self._make(self._last.digest)
        else:
            ahead = self._ahead or self._thread.submit(self._make, self._last.digest)
            self._last = ahead.result()
            self._ahead = self._thread.submit(self._make, self._last.digest)
        return self._last

    def state_dict(self) -> dict[str, object]:
        """Where the last step handed out left the sampler and the rolling fingerprint."""
        return {"sampler": self._last.sampler, "fed": self._last.digest}

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Go on after the step whose state this is; what was made ahead is dropped."""
        if self._ahead is not None:
            self._ahead.result()
            self._ahead = None
        sampler, digest = state["sampler"], state["fed"]
        assert isinstance(sampler, dict)
        assert isinstance(digest, str)
        self._sampler.load_state_dict(sampler)
        self._last = Fed((), self._sampler.state_dict(), digest)

    def _make(self, digest: str) -> Fed:
        packed = [self._sampler.next_batch() for _ in range(self._micro_batches)]
        batches = tuple(move(batch, self._device, self.static, self._pinned) for batch in packed)
        return Fed(batches, self._sampler.state_dict(), fingerprint.fed(digest, packed))
