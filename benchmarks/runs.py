"""How long `lab runs` takes with many runs, with and without its cache: `python benchmarks/runs.py`."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 5


def make(folder: Path, count: int) -> None:
    """`count` runs that ended a while ago, with the records that a listing reads."""
    (folder / ".lab").mkdir()
    experiment = {"name": "smoke", "group": "first-steps", "train": {"steps": 6}}
    loss = {"first": 10.8, "last": 9.9, "evaluations": [{"step": 6, "loss": 9.8, "targets_total": 49152}]}
    measured = {"tokens_per_second": 1000.0, "mfu": None, "targets": 32768, "steps": 4}
    contents = {
        "config.json": {"backend": "local", "created": "2026-12-01T09:15:00+00:00", "experiment": experiment},
        "outcome.json": {"status": "completed", "attempt": 1, "exit_code": 0},
        "summary.json": {"steps": 6, "measured": measured, "loss": loss, "elapsed_seconds": 40.0},
    }
    for number in range(count):
        day, minute = divmod(number, 1440)
        run = folder / ".runs" / f"smoke-202612{day % 28 + 1:02}-{minute // 60:02}{minute % 60:02}-{number % 65536:04x}"
        run.mkdir(parents=True)
        for name, record in contents.items():
            (run / name).write_text(json.dumps(record))
        os.utime(run, (1, 1))


def measured(folder: Path, *arguments: str) -> tuple[float, float]:
    """Wall and CPU seconds of one command."""
    began, before = time.perf_counter(), os.times()
    subprocess.run([sys.executable, "-m", "lab", *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - began, cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    count = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder, count)
        print(f"{count:,} runs                                wall s   CPU s")
        wall, cpu = measured(folder, "runs", "--all", "--json")
        print(f"{'lab runs --all --json, no cache yet':40} {wall:7.2f} {cpu:7.2f}")
        for arguments in (("runs",), ("runs", "--all", "--json"), ("runs", "show", "latest")):
            rounds = [measured(folder, *arguments) for _ in range(ROUNDS)]
            wall, cpu = (statistics.median(column) for column in zip(*rounds, strict=True))
            print(f"{'lab ' + ' '.join(arguments):40} {wall:7.2f} {cpu:7.2f}")


if __name__ == "__main__":
    main()
