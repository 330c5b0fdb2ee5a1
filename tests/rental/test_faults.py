"""Every fault that lives in the lifecycle: it fired, the run ended as it must, and nothing was lost or left billing."""

from __future__ import annotations

import pytest

from rental import invariants
from rental.cases import CASES
from rental.world import World


def named(case):
    return pytest.param(
        case,
        id=f"{case.number}-{case.what.replace(' ', '-')}",
        marks=pytest.mark.fault(case.number, str(case.end)),
    )


@pytest.mark.parametrize("case", [named(case) for case in CASES])
def test_a_fault_ends_in_the_state_that_the_lifecycle_demands(case, tmp_path):
    world = World(tmp_path, **case.options)
    faults = case.arm(world)

    case.play(world)

    assert world.state is case.end, world.said
    assert world.facts.exit_code == case.exit_code
    assert all(fault.fired for fault in faults[:1])
    assert case.creates is None or world.cloud.trace.count("create") <= case.creates
    invariants.check(world)
