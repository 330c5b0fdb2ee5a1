"""Tests of a loss that this machine's torch does not have are not collected."""

from __future__ import annotations

from torch_here import parts_here

collect_ignore = [] if "torch-linear" in parts_here("loss") else ["test_torch_linear.py"]
