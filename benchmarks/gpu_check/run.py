"""`make gpu-check`: kernel checks and timings on one H100 or H200, in eight minutes and without a network.

Each section is a process of its own, so one that fails or hangs costs only itself. What there was no time for is named.
`--cpu` walks through everything with tiny shapes on a CPU.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import rules

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
BUDGET_SECONDS = 470
LINKS = (
    "corrected", "fast-padded", "fast-compiled", "fast-unsynced", "fast-few-chunks", "fast-attention",
    "fast-bf16-residual", "fast",
)  # fmt: skip
LIMITS = {"machine": 60, "kernels": 150, "links": 120}
"""Seconds for each process; a link compiles for up to one of its two minutes."""
DRY = {"TORCH_COMPILE_DISABLE": "1", "OMP_NUM_THREADS": "1"}
"""A dry run needs no C++ compiler, and no more than one core."""
LEAST_SECONDS = 20
"""With less time left no section is begun."""


class Check:
    """Runs sections one after the other and keeps what they found."""

    def __init__(self, cpu: bool, folder: Path, budget: float) -> None:
        self.cpu, self.folder, self.ends = cpu, folder, time.monotonic() + budget
        self.problems: list[str] = []

    def run(self, script: str, *names: str) -> dict:
        """What a section leaves, also when it is ended in the middle."""
        said = " ".join((script, *names))
        left = self.ends - time.monotonic()
        if left < LEAST_SECONDS:
            self.problems.append(f"{said}: not run: no time left")
            return {}
        out = self.folder / f"{script}-{'-'.join(names[:1])}.json"
        command = [sys.executable, str(HERE / f"{script}.py"), "--out", str(out), "--folder", str(self.folder), *names]
        print(f"-- {said}", flush=True)
        log = self.folder / f"{out.stem}.log"
        try:
            with log.open("wb") as stream:
                done = subprocess.run(
                    command + (["--cpu"] if self.cpu else []), cwd=self.folder, stdout=stream, stderr=stream,
                    timeout=min(left, LIMITS[script] * (5 if self.cpu else 1)), check=False,
                    env={**os.environ, "LAB_PROJECT": str(self.folder), **(DRY if self.cpu else {})},
                )  # fmt: skip
            if done.returncode:
                end = log.read_text(errors="replace").strip().splitlines()[-1:]
                self.problems.append(f"{said}: exit code {done.returncode}: {''.join(end)[:300]}")
        except subprocess.TimeoutExpired as error:
            self.problems.append(f"{said}: ended after {error.timeout:.0f} s")
        return json.loads(out.read_text()) if out.exists() else {}


def gathered(check: Check) -> dict:
    report = {"schema": 1, "date": datetime.datetime.now(datetime.UTC).date().isoformat(), "dry_run": check.cpu}
    begun = time.monotonic()
    report["machine"] = check.run("machine") or {"device": "unknown"}
    report["kernels"] = check.run("kernels")
    report["links"] = {}
    for names in [LINKS] if check.cpu else [(name,) for name in LINKS]:
        report["links"] |= check.run("links", *names)
    for name in LINKS:
        reason = "it left no record; see the problems"
        report["links"].setdefault(name, {"available": False, "reason": reason})
    report |= {"seconds": time.monotonic() - begun, "problems": check.problems}
    report["verdicts"] = rules.judge(report)
    return report


def keep(report: dict, reports: Path) -> Path:
    """Write the record, with the trace and the memory history beside it."""
    name = re.sub(r"[^a-z0-9]+", "-", report["machine"]["device"].lower()).strip("-")
    folder = reports / f"{name}-{report['date']}"
    for link, record in report["links"].items():
        kept = []
        for path in map(Path, record.get("artifacts", [])):
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, folder / f"{link}-{path.name}")
            kept.append(f"{folder.name}/{link}-{path.name}")
        record["artifacts"] = kept
    reports.mkdir(parents=True, exist_ok=True)
    target = reports / f"{folder.name}.json"
    target.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return target


def show(report: dict) -> None:
    machine = report["machine"]
    print(f"\n{machine['device']}, torch {machine.get('torch')}, {report['seconds']:.0f} s\n")
    for product in machine.get("products", []):
        print(f"  {product['product']:<20} {product['columns']:>7} columns  {product['tflops']:8.2f} TFLOP/s")
    if "copy_bytes_per_second" in machine:
        print(f"  copies {machine['copy_bytes_per_second'] / 1e12:.2f} TB/s\n")
    print(f"  {'link':<20} {'tokens/s':>10} {'MFU':>7} {'peak GiB':>9} {'graphs':>7} {'waits':>6} {'last loss':>10}")
    for name, record in report["links"].items():
        if not record["available"]:
            state = "FAILED" if record.get("failed") else "not available"
            print(f"  {name:<20} {state}: {record['reason'].splitlines()[0][:90]}")
            continue
        mfu = "-" if record["mfu"] is None else f"{record['mfu']:.1%}"
        peak = "-" if record["peak_allocated_bytes"] is None else f"{record['peak_allocated_bytes'] / 2**30:.1f}"
        waits = "-" if record["waits"] is None else len(record["waits"])
        print(
            f"  {name:<20} {record['tokens_per_second']:>10,.0f} {mfu:>7} {peak:>9} {record['graphs']:>7} {waits:>6} "
            f"{record['losses'][-1]:>10.4f}"
        )
    print()
    for verdict in report["verdicts"]:
        print(f"  {verdict['state']:<14} {verdict['rule']}: {verdict['found'][:150]}")
    for problem in report["problems"]:
        print(f"  PROBLEM        {problem}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cpu", action="store_true", help="a dry run with tiny shapes")
    parser.add_argument("--reports", type=Path, default=REPOSITORY / "reports" / "gpu")
    parser.add_argument("--seconds", type=float, default=BUDGET_SECONDS, help="how long it may take in all")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lab-gpu-check-") as folder:
        (Path(folder) / ".lab").mkdir()
        report = gathered(Check(given.cpu, Path(folder), given.seconds))
        target = keep(report, given.reports)
    show(report)
    print(f"\n{target}")
    failed = [verdict for verdict in report["verdicts"] if verdict["state"] == "FAILED"]
    return 1 if failed or report["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
