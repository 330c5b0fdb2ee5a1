"""Model FLOPs by the stated formula, and the dense peaks that MFU divides them by."""

from __future__ import annotations

from dataclasses import dataclass

from lab.training.precision import BF16_AUTOCAST

FORMULA = "6 * (12 * L * d^2 + V * d) * T + 12 * L * d * sum(s_i^2)"
MEANING = (
    "L layers, d width, V vocabulary, T tokens, s_i segment lengths; attention in full squares, no norms, no look-ups"
)

_H100 = "NVIDIA H100 datasheet: 1,979 TFLOPS BF16 with sparsity, dense is half"
_A100 = "NVIDIA A100 datasheet: 312 TFLOPS BF16, dense"
_PEAKS = {
    "NVIDIA H100 80GB HBM3": (989e12, _H100),
    "NVIDIA H200": (989.4e12, "NVIDIA H200 datasheet: 1,979 TFLOPS BF16 with sparsity, dense is half"),
    "NVIDIA A100-SXM4-40GB": (312e12, _A100),
    "NVIDIA A100-SXM4-80GB": (312e12, _A100),
    "NVIDIA A100-PCIE-40GB": (312e12, _A100),
    "NVIDIA A100 80GB PCIe": (312e12, _A100),
}


@dataclass(frozen=True)
class Peak:
    """What the device could do at most, or why nobody here knows."""

    flops: float | None
    source: str | None
    reason: str = ""


def step_flops(layers: int, width: int, vocabulary: int, tokens: int, squares: int) -> int:
    """FLOPs of forward and backward over `tokens` in segments whose squared lengths sum to `squares`.

    They follow from shapes alone: a tied head multiplies as much as one of its own, and a look-up multiplies nothing.
    """
    return 6 * (12 * layers * width**2 + vocabulary * width) * tokens + 12 * layers * width * squares


def peak(device_name: str, precision: str) -> Peak:
    """The dense peak of exactly this device at this precision: a slice or a slower sibling of a GPU has another one."""
    if device_name not in _PEAKS:
        return Peak(None, None, f"no peak is known for '{device_name}'")
    if precision != BF16_AUTOCAST:
        return Peak(None, None, f"the known peak of '{device_name}' is for BF16, not for {precision}")
    flops, source = _PEAKS[device_name]
    return Peak(flops, source)
