"""The `flash-varlen` attention: a plan of fixed size, then one kernel call."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

from lab.errors import LabError
from lab_flash_varlen.kernels import activate, this_machine
from lab_flash_varlen.options import FlashVarlenOptions
from lab_flash_varlen.pairing import choose
from lab_flash_varlen.self_test import figures, verdict

if TYPE_CHECKING:
    from torch import Tensor

    from lab_flash_varlen.kernels import Provider

GRANULE = 64
HEADROOM = 1.15
"""Batches of one size differ by a few percent in their segments; every empty one costs the kernel a little."""


class FlashPlan(NamedTuple):
    """What the kernel needs: int32 starts of which the tail repeats T, and the longest segment as a Python int."""

    cu_seqlens: Tensor
    max_seqlen: int


class FlashVarlen:
    """FlashAttention that sees each segment alone."""

    def __init__(self, options: FlashVarlenOptions | None = None) -> None:
        self.options = options or FlashVarlenOptions()
        self._provider: Provider | None = None
        self._room = 0

    @property
    def kernel(self) -> str:
        """The library that computes, for environment.json; asking starts and tests it."""
        try:
            return self.start(torch.device("cuda" if torch.cuda.is_available() else "cpu")).kernel
        except LabError as error:
            return f"none: {error.what}"

    def preflight(self, device: torch.device) -> str | None:
        """Why this part cannot train on `device`: no provider, or one that fails its test; None when it can."""
        try:
            self.start(device)
        except LabError as error:
            return str(error)
        return None

    def start(self, device: torch.device) -> Provider:
        """Choose the kernels and test them once, on the device itself."""
        if self._provider is None:
            provider = activate(choose(self.options.provider, this_machine(device)))
            failure = verdict(figures(provider.attend, device))
            if failure:
                raise LabError(
                    f"flash-varlen: {provider.kernel} fails its own test: {failure}",
                    "Choose another attention.provider.",
                )
            self._provider = provider
        return self._provider

    def plan(self, cu_seqlens: Tensor, max_seqlen: int) -> FlashPlan:
        """Pad the starts with T to one length, so that a compiled step has one graph for every document mix."""
        self.start(cu_seqlens.device)
        length = self._length(cu_seqlens)
        padding = cu_seqlens[-1:].expand(length - len(cu_seqlens))
        return FlashPlan(torch.cat([cu_seqlens, padding]), int(max_seqlen))

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, plan: FlashPlan) -> Tensor:
        """(T, H, D) each, BF16 -> (T, H, D)."""
        provider = self._provider
        assert provider is not None, "plan() was not called"
        # The meta device and the operator's fake kernel accept any dtype; the kernels do not.
        if provider.name != "reference" and q.dtype not in (torch.bfloat16, torch.float16):
            raise LabError(
                f"flash-varlen computes in BF16, but the queries are {q.dtype}.",
                'Set train.precision = "bf16-autocast", or attention = "sdpa".',
            )
        return provider.attend(q, k, v, plan.cu_seqlens, plan.max_seqlen)

    def _length(self, cu_seqlens: Tensor) -> int:
        """One entry more than there is room for segments; the room only grows, so graphs stay few."""
        segments = len(cu_seqlens) - 1
        if segments > self._room:
            generous = -(-int(segments * HEADROOM) // GRANULE) * GRANULE
            self._room = max(segments, generous, self.options.segments or 0)
        return self._room + 1
