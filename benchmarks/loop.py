"""What the worker and its loop cost over a bare loop: `OMP_WAIT_POLICY=PASSIVE python benchmarks/loop.py`.

The bare loop has the same model, kernels and batches; it draws a block's batches beforehand, off the clock, and does
nothing but forward, backward, scaling, clipping and the update. The other is the real one: sampling, packing,
fingerprints, phases, clock, observers, one line of metrics a step. Both take turns, block by block, in one process; the
ratio is that of the medians of their blocks, with the spread of the blocks.

On a noisy machine two computations differ by more than what is sought. So the same worker is also run around a loop
that feeds, opens its phases and computes nothing: what a step of that takes, against the bare step.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import torch
from smoke_model import SMALL, smoke_loop
from torch.nn.utils import clip_grad_norm_

from lab.contracts import Step
from lab.worker.clock import WallClock
from lab.worker.execute import Execution, Position
from lab.worker.observers import Observers
from lab.worker.phases import Phases
from lab.worker.process import keep_large_buffers
from lab.worker.schedule import Schedule
from lab.worker.stop import Stop

SIZES = {"a 50 ms step": (SMALL, 5, 4), "the smoke experiment": ((), 1, 1)}
"""Overrides, steps in a block, and how many times the rounds: short blocks in quick turns see the same machine."""


class Bare:
    """The same computation with nothing around it."""

    def __init__(self, loop):
        self.loop = loop

    def prepare(self, steps):
        """The same seed and sampler as the real loop's, so the same batches in each block."""
        self.fed = [self.loop.feed.next().batches for _ in range(steps)]

    def block(self, steps):
        loop = self.loop
        for batches in self.fed:
            loop.optimizer.zero_grad(set_to_none=True)
            total = torch.zeros(())
            for batch in batches:
                loss = loop._forward(batch)
                loss.backward()
                total += loss.detach()
            targets = sum(batch.counted for batch in batches)
            for parameter in loop.parameters:
                parameter.grad.mul_(1 / targets)
            clip_grad_norm_(loop.parameters, loop.sections.optimizer.clip)
            loop.optimizer.step()


class Hollow:
    """A loop with everything of the real one but the computation."""

    def __init__(self, loop):
        self.loop = loop

    def steps(self):
        phase, number = self.loop.context.phase, torch.zeros(())
        while True:
            with phase("batch"):
                fed = self.loop.feed.next()
                targets = sum(batch.counted for batch in fed.batches)
            with phase("zero_grad"):
                pass
            for _ in fed.batches:
                with phase("forward"):
                    pass
                with phase("backward"):
                    pass
            with phase("optimizer"):
                pass
            yield Step(
                loss=number, targets=targets, gradient_norm=number, tokens=sum(batch.inputs for batch in fed.batches),
                segments=1, packs=1, micro_batches=len(fed.batches), learning_rate=1e-3,
                flops=self.loop._flops(fed.batches), fed=fed.digest,
            )  # fmt: skip


class Real:
    """The worker, as `lab run` has it, writing into a folder that is thrown away."""

    def __init__(self, overrides, folder, wrap=lambda loop: loop):
        self.observers = Observers()
        self.phases = Phases(self.observers)
        self.loop = wrap(smoke_loop(*overrides, phase=self.phases))
        self.metrics = Path(folder) / "metrics.jsonl"
        self.position = Position()

    def block(self, steps):
        Execution(
            loop=self.loop, schedule=Schedule(self.position.step + steps), observers=self.observers,
            phases=self.phases, clock=WallClock(), metrics=self.metrics, save=lambda position: None, stop=Stop(),
            position=self.position,
        ).run()  # fmt: skip


def timed(block, steps):
    started, cpu = time.perf_counter(), time.process_time()
    block(steps)
    return (time.perf_counter() - started) / steps, (time.process_time() - cpu) / steps


def compare(overrides, steps, rounds):
    """Seconds a step of both, each a list of (wall, CPU) by block, the first block of each thrown away."""
    with tempfile.TemporaryDirectory() as folder:
        bare, real = Bare(smoke_loop(*overrides)), Real(overrides, folder)
        seconds = {"bare": [], "lab": []}
        for number in range(rounds + 1):
            bare.prepare(steps)
            for name, block in (("bare", bare.block), ("lab", real.block))[:: 1 if number % 2 else -1]:
                seconds[name].append(timed(block, steps))
        return {name: found[1:] for name, found in seconds.items()}


def surroundings(overrides, steps=200, rounds=5):
    """Seconds that the worker takes around a step that computes nothing: the median of blocks of many steps."""
    with tempfile.TemporaryDirectory() as folder:
        hollow = Real(overrides, folder, Hollow)
        return statistics.median(timed(hollow.block, steps)[0] for _ in range(rounds))


def report(name, seconds, around):
    for which, unit in enumerate(("wall", "CPU")):
        bare, lab = ([block[which] for block in seconds[loop]] for loop in ("bare", "lab"))
        ratio = statistics.median(lab) / statistics.median(bare)
        pairs = statistics.quantiles([two / one for one, two in zip(bare, lab, strict=True)], n=4)
        print(
            f"{name}: {unit} {statistics.median(bare) * 1e3:.1f} ms bare, {statistics.median(lab) * 1e3:.1f} ms lab, "
            f"ratio {ratio:.4f} (pairs: quartiles {pairs[0]:.3f} {pairs[1]:.3f} {pairs[2]:.3f})"
        )
    bare = statistics.median(block[0] for block in seconds["bare"])
    print(f"{name}: around a step {around * 1e3:.2f} ms, {around / bare:.2%} of the bare one")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    keep_large_buffers()
    for name, (overrides, steps, times) in SIZES.items():
        report(name, compare(overrides, steps, rounds * times), surroundings(overrides))


if __name__ == "__main__":
    main()
