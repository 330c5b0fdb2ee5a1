"""`make gpu-check` walks to its end on a CPU, keeps an honest report, and its rules fail what they should."""

from __future__ import annotations

import copy
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks" / "gpu_check"


def rules():
    spec = importlib.util.spec_from_file_location("gpu_check_rules", FOLDER / "rules.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def dry_run(tmp_path_factory):
    reports = tmp_path_factory.mktemp("reports")
    done = subprocess.run(
        [sys.executable, FOLDER / "run.py", "--cpu", "--reports", str(reports), "--seconds", "900"],
        capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = reports.glob("*.json")
    return json.loads(path.read_text()), reports, done.stdout


def test_the_dry_run_trains_every_link_and_passes_every_rule_that_applies(dry_run):
    report, _, _ = dry_run

    assert report["problems"] == []
    assert all(record["available"] for record in report["links"].values())
    assert not [verdict for verdict in report["verdicts"] if verdict["state"] == "FAILED"]
    assert report["kernels"]["attention"]["flash-varlen reference"]["passed"]
    assert {product["columns"] for product in report["machine"]["products"]} == {517, 576}


def test_the_dry_run_claims_no_speed(dry_run):
    report, _, _ = dry_run

    (speed,) = [verdict for verdict in report["verdicts"] if verdict["rule"] == "speed"]
    assert speed["state"] == "not applicable"
    assert all(record["mfu"] is None for record in report["links"].values())


def test_a_trace_and_a_memory_record_are_kept_beside_the_report(dry_run):
    report, reports, _ = dry_run

    kept = report["links"]["corrected"]["artifacts"]
    assert {Path(path).name for path in kept} == {
        "corrected-timeline.json.gz", "corrected-profile.json", "corrected-memory-events.json",
    }  # fmt: skip
    assert all((reports / path).is_file() for path in kept)


def test_the_table_names_every_link(dry_run):
    report, _, printed = dry_run

    assert all(name in printed for name in report["links"])


def link(**changes):
    good = {
        "available": True, "parameters": 126_716_160, "graphs_while_timed": 0, "waits": [], "losses": [10.0, 9.0],
        "mfu": 0.6, "tokens_per_second": 300_000.0,
    }  # fmt: skip
    return {**good, **changes}


GOOD = {
    "dry_run": False,
    "machine": {"device": "NVIDIA H100 80GB HBM3"},
    "kernels": {
        "attention": {},
        "loss": {"padded": {"available": True, "passed": True, "findings": [], "kernel": "k"}},
    },
    "links": {name: link() for name in ("corrected", "fast-padded", "fast-compiled", "fast-unsynced", "fast")},
}


def failed(**changes):
    report = copy.deepcopy(GOOD)
    for path, value in changes.items():
        at = report
        *keys, last = path.split("__")
        for key in keys:
            at = at[key]
        at[last] = value
    return [verdict["rule"] for verdict in rules().judge(report) if verdict["state"] == "FAILED"]


def test_a_good_report_passes_every_rule():
    assert failed() == []


@pytest.mark.parametrize(
    ("name", "record", "rule"),
    [
        ("fast-padded", link(losses=[10.0, 9.03]), "fast-padded: the losses of corrected"),
        ("fast-compiled", link(graphs_while_timed=1), "fast-compiled: no graph is compiled while timed"),
        ("fast-unsynced", link(waits=["loop.py:80"]), "fast-unsynced: nothing waits"),
        ("fast", link(parameters=126_716_161), "fast: 126,716,160 parameters"),
        ("fast", link(mfu=0.54), "fast: 55% MFU"),
        ("corrected", link(tokens_per_second=222_427.0), "corrected: above 222,427 tokens/s"),
        ("fast-padded", {"available": False, "failed": True, "reason": "LabError: torn"}, "fast-padded: trains"),
    ],
)
def test_a_figure_out_of_bounds_fails_its_rule_alone(name, record, rule):
    (broken,) = failed(**{f"links__{name}": record})

    assert broken.startswith(rule)


def test_a_link_whose_kernel_this_machine_lacks_fails_nothing():
    assert failed(**{"links__fast-padded": {"available": False, "reason": "no Triton here"}}) == []


def test_a_failed_kernel_check_is_named():
    finding = {"passed": False, "text": "FAILED loss: 0.5 (limit 0.03)"}

    found = failed(kernels__loss={"padded": {"available": True, "passed": False, "findings": [finding], "kernel": "k"}})

    assert found == ["loss padded: kernel checks"]
