"""Whether saving is outside the clock: `OMP_WAIT_POLICY=PASSIVE python benchmarks/checkpoint.py`.

Blocks of steps with a checkpoint after every one and blocks without take turns in one process. What the clock says of
a step must not differ; what saving takes is shown beside it, as the wall time of the block beyond its steps.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from smoke_model import SMALL, smoke_loop

from lab.runs import records
from lab.training import checkpoint
from lab.worker.clock import WallClock
from lab.worker.execute import Execution, Position
from lab.worker.observers import Observers
from lab.worker.phases import Phases
from lab.worker.process import keep_large_buffers
from lab.worker.schedule import Schedule
from lab.worker.stop import Stop

STEPS = 4


def block(loop, phases, observers, folder, position, every):
    """Seconds a step by the clock, and seconds of the block beyond its steps, a step."""
    metrics = Path(folder) / "metrics.jsonl"
    metrics.unlink(missing_ok=True)
    started = time.perf_counter()
    Execution(
        loop=loop, schedule=Schedule(position.step + STEPS, save_every=every), observers=observers, phases=phases,
        clock=WallClock(), metrics=metrics, stop=Stop(), position=position,
        save=lambda position: checkpoint.save(Path(folder) / "checkpoint.pt", {"loop": loop.state_dict()}),
    ).run()  # fmt: skip
    wall = time.perf_counter() - started
    seconds = [line["seconds"] for line in records.read_lines(metrics)]
    return statistics.median(seconds), (wall - sum(seconds)) / STEPS


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=11)
    rounds = parser.parse_args().rounds
    keep_large_buffers()
    observers = Observers()
    phases = Phases(observers)
    loop, position = smoke_loop(*SMALL, phase=phases), Position()
    found = {"without": [], "with": []}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds + 1):
            for name, every in (("without", None), ("with", 1))[:: 1 if number % 2 else -1]:
                found[name].append(block(loop, phases, observers, folder, position, every))
        size = (Path(folder) / "checkpoint.pt").stat().st_size
    clock = {name: statistics.median(seconds for seconds, _ in blocks[1:]) for name, blocks in found.items()}
    beyond = {name: statistics.median(seconds for _, seconds in blocks[1:]) for name, blocks in found.items()}
    print(f"a step by the clock: {clock['without'] * 1e3:.1f} ms, saved after each {clock['with'] * 1e3:.1f} ms, "
          f"ratio {clock['with'] / clock['without']:.3f}")  # fmt: skip
    print(f"beside the clock: {beyond['without'] * 1e3:.1f} ms a step, saved after each {beyond['with'] * 1e3:.1f} ms "
          f"for {size / 1e6:.0f} MB")  # fmt: skip


if __name__ == "__main__":
    main()
