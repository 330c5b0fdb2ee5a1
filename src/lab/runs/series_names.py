"""What the numbers in a line of metrics.jsonl are called where several runs are shown together: `group/name`.

Trackers make a panel of each group. What a loop adds to its lines by itself is in neither table.
"""

from __future__ import annotations

STEP = {
    "loss": "train/loss",
    "gradient_norm": "train/gradient_norm",
    "learning_rate": "train/learning_rate",
    "targets_total": "train/tokens",
    "seconds": "perf/step_seconds",
    "allocated_bytes": "memory/allocated_bytes",
    "reserved_bytes": "memory/reserved_bytes",
    "process_bytes": "system/process_memory_bytes",
    "processor_percent": "system/cpu_utilization_percentage",
    "others_percent": "system/other_processes_cpu_percentage",
    "gpu_percent": "system/gpu_0_utilization_percentage",
    "gpu_memory_bytes": "system/gpu_0_memory_bytes",
    "gpu_watts": "system/gpu_0_power_usage_watts",
}
"""The series of a step; those of the system are called as MLflow's own sampler calls them, wherever it has a name."""
EVALUATION = {"loss": "eval/loss", "seconds": "eval/seconds"}
"""The series of an evaluation."""
RATE = "perf/tokens_per_second"
"""Targets over seconds of one step that was not observed."""
SILENT = frozenset(
    {
        *("kind", "step", "time", "warmup", "observed", "fed", "flops", "segments", "packs", "targets", "tokens"),
        *("micro_batches",),
    }
)
"""What stands in a step's line and is no series of its own."""
SAMPLED = frozenset(name for name in STEP.values() if name.startswith("system/"))
"""Series that only some lines have: the worker samples them by time."""
