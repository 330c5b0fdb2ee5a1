"""How long `lab compare` takes for two runs of 10,000 steps, from typing to the last line; to be under a second.

python benchmarks/compare.py [STEPS]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from sample_runs import write

LIMIT_SECONDS = 1.0
REPEATS = 5


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        (project / ".lab").mkdir()
        a = write(project / ".runs", steps=steps, every=steps // 10)
        b = write(project / ".runs", id="sample-20261201-0916-bbbb", steps=steps, every=steps // 10, seconds=0.45)
        wall, processor = zip(*(timed(project, a.id, b.id) for _ in range(REPEATS)), strict=True)
    word = "under" if min(wall) < LIMIT_SECONDS else "OVER"
    print(
        f"lab compare, two runs of {steps:,} steps, best of {REPEATS}: {min(wall):.2f} s ({word} {LIMIT_SECONDS:g} s)"
    )
    print(f"processor time, best: {min(processor):.2f} s; wall, worst: {max(wall):.2f} s")


def timed(project: Path, *runs: str) -> tuple[float, float]:
    before, begun = os.times(), time.perf_counter()
    subprocess.run([sys.executable, "-m", "lab", "compare", *runs], cwd=project, stdout=subprocess.DEVNULL, check=True)
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - begun, spent


if __name__ == "__main__":
    main()
