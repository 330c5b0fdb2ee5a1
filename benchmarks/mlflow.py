"""How fast the tracker mirrors 100,000 points into MLflow, against a bare `log_batch` loop of the same, in turns.

python benchmarks/mlflow.py [PAIRS]
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

HERE = Path(__file__).parent
sys.path = [entry for entry in sys.path if Path(entry or ".").resolve() != HERE]  # this file is called mlflow too
sys.path.insert(0, str(HERE.parent / "tests"))

from sample_runs import write  # noqa: E402 - the path is set above

from lab_mlflow import settings, store  # noqa: E402
from lab_mlflow.points import Reader  # noqa: E402
from lab_mlflow.tracker import MlflowTracker  # noqa: E402

STEPS, POINTS = 12_500, 100_000
SHARE = 0.9


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        (project / ".lab").mkdir()
        os.chdir(project)
        shares = []
        for pair in range(pairs):
            run = write(project / ".runs", id=f"sample-20261201-09{pair:02}-aaaa", steps=STEPS, every=STEPS)
            points = [point for some, _ in Reader(run.metrics).new() for point in some]
            order = ("bare", "lab") if pair % 2 else ("lab", "bare")
            seconds = {name: (bare if name == "bare" else lab)(run, points) for name in order}
            shares.append(seconds["bare"] / seconds["lab"])
            rates = ", ".join(f"{name} {len(points) / spent:,.0f} points/s" for name, spent in seconds.items())
            print(f"{len(points):,} points: {rates}: {shares[-1]:.2f} of the bare loop")
        word = "at least" if median(shares) >= SHARE else "BELOW"
        print(f"median share: {median(shares):.2f} ({word} {SHARE})")


def lab(run, points) -> float:
    opened(run)  # importing MLflow and making the store is not what is measured
    tracker = MlflowTracker()
    begun = time.perf_counter()
    tracker.sync(run)
    seconds = time.perf_counter() - begun
    client, link = opened(run)
    kept = sum(len(client.get_metric_history(link, key)) for key in {point.key for point in points})
    assert kept == len(points), f"{kept:,} points are there, {len(points):,} were sent"
    return seconds


def bare(run, points) -> float:
    from mlflow.entities import Metric

    client, _ = opened(run)
    experiment = client.get_experiment_by_name("bare")
    number = experiment.experiment_id if experiment else client.create_experiment("bare")
    target = client.create_run(number).info.run_id
    begun = time.perf_counter()
    for start in range(0, len(points), 1000):
        client.log_batch(target, metrics=[Metric(*point) for point in points[start : start + 1000]])
    return time.perf_counter() - begun


def opened(run):
    from lab.runs import records

    link = records.read_json(run.tracker_link("mlflow")) or {}
    return store.opened(settings.place()), link.get("run_id")


if __name__ == "__main__":
    main()
