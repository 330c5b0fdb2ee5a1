"""Tests of a loss that this machine's torch does not have are left out, as those of a part that is not there."""

from __future__ import annotations

from torch_here import parts_here

NEEDS_THE_OPERATOR = "test_torch_linear.py"
collect_ignore_glob = ["*/tests/*"]
"""The packages of strangers that lie here: their own tests run where those packages are installed."""


def pytest_collection_modifyitems(config, items):
    if "torch-linear" in parts_here("loss"):
        return
    left_out = [item for item in items if item.path.name == NEEDS_THE_OPERATOR]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)
