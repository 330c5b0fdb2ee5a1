"""A rented-GPU cloud on loopback: RunPod's REST v2, its proxy and its Pods, with faults to order.

It imports nothing of the code that it tests. Every time in it is in simulated seconds, `factor` of which pass in a
real one; Pods are real child processes. `specification.json` is the part of the published OpenAPI document that is
served here, without its prose.
"""

from __future__ import annotations

from .faults import Fault
from .scenario import Scenario
from .server import Simulator

__all__ = ["Fault", "Scenario", "Simulator"]
