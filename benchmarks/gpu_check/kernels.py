"""Every attention and loss on this device: the checks of the preflight, then forward and backward at full size."""

from __future__ import annotations

import numpy as np
import section
import sizes
import torch
from documents import MEDIAN, SIGMA

from lab.experiment import PartChoice
from lab.training.precision import BF16_AUTOCAST, allow_tf32, computing
from lab.training.preflight import Subject, run

ATTENTIONS = {
    "flash-varlen torch": {"name": "flash-varlen", "provider": "torch"},
    "flash-varlen fa3": {"name": "flash-varlen", "provider": "fa3"},
    "flash-varlen fa4": {"name": "flash-varlen", "provider": "fa4"},
    "flash-varlen flash-attn": {"name": "flash-varlen", "provider": "flash-attn"},
    "flash-varlen reference": {"name": "flash-varlen", "provider": "reference"},
    "flex": {"name": "flex"},
    "sdpa": {"name": "sdpa"},
}
LOSSES = {
    "liger": {"name": "liger"},
    "chunked": {"name": "chunked"},
    "padded, 16 chunks": {"name": "padded"},
    "padded, 4 chunks, compiled": {"name": "padded", "chunks": 4, "compile": True},
    "torch-linear": {"name": "torch-linear"},
}
SLOW = ("sdpa", "flash-varlen reference")
"""References: checked, and timed only where nothing is fast anyway."""


def checked(kind: str, choice: dict[str, object], where: torch.device) -> tuple[object | None, dict[str, object]]:
    """The built part, if it can be, and what its preflight found."""
    part, reason = section.built(kind, PartChoice(**choice), where)
    if part is None:
        return None, {"available": False, "reason": reason}
    subject = Subject(part if kind == "attention" else None, part if kind == "loss" else None, where, BF16_AUTOCAST)
    findings = [{"name": each.name, "passed": each.passed, "text": str(each)} for each in run(subject)]
    return part, {
        "available": True,
        "kernel": getattr(part, "kernel", choice["name"]),
        "passed": all(finding["passed"] for finding in findings),
        "findings": findings,
    }


def segments(shape: sizes.Sizes) -> list[int]:
    """Lengths as the corpus has them, cut at the context, that fill one micro-batch exactly."""
    generator, lengths, left = np.random.default_rng(1), [], shape.tokens
    while left:
        drawn = int(generator.lognormal(np.log(MEDIAN * shape.context / 4096), SIGMA))
        lengths.append(max(1, min(drawn, shape.context, left)))
        left -= lengths[-1]
    return lengths


def attention_seconds(part, shape: sizes.Sizes, heads: int, where: torch.device) -> float:
    lengths = segments(shape)
    cu_seqlens = torch.tensor([0, *np.cumsum(lengths)], dtype=torch.int32, device=where)
    size = (shape.tokens, heads, shape.width // heads)
    q, k, v, upstream = (torch.randn(size, device=where, dtype=torch.bfloat16) for _ in range(4))
    for tensor in (q, k, v):
        tensor.requires_grad_()
    plan = part.plan(cu_seqlens, shape.context)

    def once():
        torch.autograd.grad(part(q, k, v, plan), (q, k, v), upstream)

    return section.median_seconds(once, where, shape.repeats)


def loss_seconds(part, shape: sizes.Sizes, where: torch.device) -> dict[str, object]:
    hidden = torch.randn(shape.tokens, shape.width, device=where).requires_grad_()
    head = (0.02 * torch.randn(shape.vocabulary, shape.width, device=where)).requires_grad_()
    targets = torch.randint(0, shape.vocabulary, (shape.tokens,), device=where)

    def once():
        with computing(BF16_AUTOCAST, where):
            total = part(hidden, head, targets)
        torch.autograd.grad(total, (hidden, head))

    if where.type == "cuda":
        torch.cuda.reset_peak_memory_stats(where)
    seconds = section.median_seconds(once, where, shape.repeats)
    peak = torch.cuda.max_memory_allocated(where) if where.type == "cuda" else None
    return {"seconds": seconds, "peak_allocated_bytes": peak}


def timed(call, record: dict[str, object]) -> None:
    """A kernel that fails at full size is a finding, not the end of the check."""
    try:
        record["full_size"] = call()
    except Exception as error:
        record["full_size"] = {"reason": f"{type(error).__name__}: {error}"[:500]}


if __name__ == "__main__":
    given = section.arguments()
    here, shape = section.device(given.cpu), sizes.of(given.cpu)
    allow_tf32()
    found: dict[str, dict[str, object]] = {"attention": {}, "loss": {}}
    for name, choice in ATTENTIONS.items():
        part, record = checked("attention", choice, here)
        if part is not None and (given.cpu or name not in SLOW):
            halves = (shape.heads, shape.heads // 2)
            timed(
                lambda part=part, halves=halves: {
                    f"{h} heads": attention_seconds(part, shape, h, here) for h in halves
                },
                record,
            )
        found["attention"][name] = record
        section.save(given.out, found)
    for name, choice in LOSSES.items():
        part, record = checked("loss", choice, here)
        if part is not None:
            timed(lambda part=part: loss_seconds(part, shape, here), record)
            if here.type == "cuda":
                torch.cuda.empty_cache()
        found["loss"][name] = record
        section.save(given.out, found)
