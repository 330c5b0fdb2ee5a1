"""How long `lab report` takes for a run of 10,000 steps, the first time and later, and how large the page is.

python benchmarks/report.py [STEPS]
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

LIMIT_SECONDS = 3.0
REPEATS = 5


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        (project / ".lab").mkdir()
        run = write(project / ".runs", steps=steps, every=steps // 10, observed=frozenset({21, 22}), dollars=0.5)
        first, *later = (timed(project, run.id) for _ in range(1 + REPEATS))
        size = run.report.stat().st_size
    best, spent = min(wall for wall, _ in later), min(processor for _, processor in later)
    print(f"lab report, {steps:,} steps, page of {size / 2**20:.2f} MiB")
    print(f"first page of a project: {first[0]:.2f} s wall, {first[1]:.2f} s processor")
    word = "under" if best < LIMIT_SECONDS else "OVER"
    print(f"later pages, best of {REPEATS}: {best:.2f} s wall ({word} {LIMIT_SECONDS:g} s), {spent:.2f} s processor")


def timed(project: Path, run: str) -> tuple[float, float]:
    before, begun = os.times(), time.perf_counter()
    subprocess.run([sys.executable, "-m", "lab", "report", run], cwd=project, stdout=subprocess.DEVNULL, check=True)
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - begun, spent


if __name__ == "__main__":
    main()
