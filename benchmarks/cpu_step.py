"""A step of the smoke model on a CPU against a plain loop: `OMP_WAIT_POLICY=PASSIVE python benchmarks/cpu_step.py`.

Plain: attention that slices out one segment after the other, a head in FP32 with all logits at once, AdamW as PyTorch
has it by default. Then each of lab's forms alone, and all of them. All take turns in one process, under the same
precision elsewhere (BF16 autocast), the same allocator settings and the same batches. `equal` says how far the loss
and the gradient's norm of the first step are from the plain ones.
"""

from __future__ import annotations

import argparse
import statistics
import time
from itertools import pairwise

import torch
from smoke_model import smoke_loop
from torch.nn import functional
from torch.nn.utils import clip_grad_norm_

from lab.training import optimizer
from lab.training.precision import computing
from lab.worker.process import keep_large_buffers

CPU = torch.device("cpu")


class SlicedAttention:
    """One call for each slice of one segment."""

    def plan(self, cu_seqlens, max_seqlen):
        return cu_seqlens.tolist()

    def __call__(self, q, k, v, plan):
        parts = []
        for start, end in pairwise(plan):
            a, b, c = (x[start:end].transpose(0, 1)[None] for x in (q, k, v))
            parts.append(functional.scaled_dot_product_attention(a, b, c, is_causal=True)[0].transpose(0, 1))
        return torch.cat(parts)


def fp32_head(hidden, head, targets):
    """All logits at once, in FP32."""
    with torch.autocast("cpu", enabled=False):
        return functional.cross_entropy(hidden.float() @ head.T, targets, reduction="sum")


class Variant:
    """The smoke loop with some of its parts in their plain form."""

    def __init__(self, attention, head, fused):
        self.loop = loop = smoke_loop(f"optimizer.fused={str(fused).lower()}")
        self.attention = loop.attention if attention else SlicedAttention()
        self.loss = loop.loss if head else fp32_head
        self.batches = loop.feed.next().batches

    def step(self):
        loop, started = self.loop, time.perf_counter()
        loop.optimizer.zero_grad(set_to_none=True)
        total = torch.zeros(())
        for batch in self.batches:
            with computing("bf16-autocast", CPU):
                plan = self.attention.plan(batch.cu_seqlens, batch.max_seqlen)
                hidden = loop.model.hidden(batch.tokens, batch.positions, self.attention, plan)
                loss = self.loss(hidden, loop.model.head, batch.targets)
            loss.backward()
            total += loss.detach()
        targets = sum(batch.counted for batch in self.batches)
        optimizer.scale_gradients(loop.parameters, 1 / targets)
        norm = clip_grad_norm_(loop.parameters, 1.0)
        loop.optimizer.step()
        return time.perf_counter() - started, float(total / targets), float(norm)


VARIANTS = {
    "plain": (False, False, False),
    "lab's attention": (True, False, False),
    "lab's head (chunked, BF16)": (False, True, False),
    "fused AdamW": (False, False, True),
    "all of lab's, AdamW by default": (True, True, False),
    "all of lab's, AdamW fused": (True, True, True),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    keep_large_buffers()
    variants = {name: Variant(*parts) for name, parts in VARIANTS.items()}
    first = {name: variant.step() for name, variant in variants.items()}
    seconds = {name: [] for name in variants}
    for _ in range(rounds):
        for name, variant in variants.items():
            seconds[name].append(variant.step()[0])
    plain = statistics.median(seconds["plain"])
    for name, found in seconds.items():
        own = statistics.median(found)
        off = [abs(one - other) / abs(other) for one, other in zip(first[name][1:], first["plain"][1:], strict=True)]
        print(
            f"{name:32} {own:6.3f} s a step, {plain / own:4.2f} times as fast, "
            f"equal within {off[0]:.1e} (loss) and {off[1]:.1e} (gradient's norm)"
        )


if __name__ == "__main__":
    main()
