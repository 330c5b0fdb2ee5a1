"""The machine itself: what it is, what alignment does to the head's products, how fast memory is copied."""

from __future__ import annotations

import platform

import section
import sizes
import torch

from lab.training import flops
from lab.training.precision import BF16_AUTOCAST, allow_tf32

ALIGNED = 64


def products(shape: sizes.Sizes, where: torch.device) -> list[dict[str, object]]:
    """The three products of the head, with the vocabulary as it is and padded to whole 128-byte rows."""
    rows = min(shape.tokens, 16_384)
    found = []
    for columns in (shape.vocabulary, -(-shape.vocabulary // ALIGNED) * ALIGNED):
        hidden = torch.randn(rows, shape.width, device=where, dtype=torch.bfloat16)
        head = torch.randn(columns, shape.width, device=where, dtype=torch.bfloat16)
        logits = torch.randn(rows, columns, device=where, dtype=torch.bfloat16)
        work = 2 * rows * shape.width * columns
        cases = {
            "logits": lambda h=hidden, w=head: h @ w.t(),
            "gradient of hidden": lambda g=logits, w=head: g @ w,
            "gradient of head": lambda g=logits, h=hidden: g.t() @ h,
        }
        for name, call in cases.items():
            seconds = section.median_seconds(call, where, shape.repeats)
            found.append(
                {"product": name, "columns": columns, "rows": rows, "seconds": seconds, "tflops": work / seconds / 1e12}
            )
    return found


def copy_bandwidth(shape: sizes.Sizes, where: torch.device) -> float:
    """Bytes a second read and written by a copy within the device."""
    source = torch.ones(shape.copy_bytes, dtype=torch.uint8, device=where)
    target = torch.empty_like(source)
    return 2 * shape.copy_bytes / section.median_seconds(lambda: target.copy_(source), where, shape.repeats)


def identity(where: torch.device) -> dict[str, object]:
    name = torch.cuda.get_device_name(where) if where.type == "cuda" else platform.processor() or platform.machine()
    peak = flops.peak(name, BF16_AUTOCAST)
    return {
        "device": name,
        "type": where.type,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "capability": list(torch.cuda.get_device_capability(where)) if where.type == "cuda" else None,
        "memory_bytes": torch.cuda.get_device_properties(where).total_memory if where.type == "cuda" else None,
        "peak_flops": peak.flops,
        "peak_source": peak.source,
        "python": platform.python_version(),
    }


if __name__ == "__main__":
    given = section.arguments()
    here, shape = section.device(given.cpu), sizes.of(given.cpu)
    allow_tf32()
    section.save(
        given.out,
        {**identity(here), "products": products(shape, here), "copy_bytes_per_second": copy_bandwidth(shape, here)},
    )
