"""The clock of a GPU reads the GPU's own events, and makes nothing wait while it does."""

from __future__ import annotations

import pytest
import torch

from lab.worker.clock import CudaClock, WallClock, clock_for

STEPS = 20


def test_a_cpu_is_timed_by_the_wall_clock_around_each_step():
    times = iter([10.0, 12.5])
    clock = WallClock(lambda: next(times))

    clock.start()
    lap = clock.stop()

    assert isinstance(clock_for(torch.device("cpu")), WallClock)
    assert (lap.seconds(), lap.allocated_bytes) == (2.5, None)


@pytest.mark.gpu
def test_the_steps_of_a_gpu_add_up_to_what_its_own_events_say():
    device = torch.device("cuda")
    clock = clock_for(device)
    matrix = torch.randn(2048, 2048, device=device)
    begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    matrix @ matrix
    torch.cuda.synchronize()

    torch.cuda.set_sync_debug_mode("error")  # a step that waits for the device raises
    begun.record()
    laps = []
    for _ in range(STEPS):
        clock.start()
        for _ in range(10):
            matrix @ matrix
        laps.append(clock.stop())
    ended.record()
    torch.cuda.set_sync_debug_mode("default")
    ended.synchronize()

    assert isinstance(clock, CudaClock)
    assert sum(lap.seconds() for lap in laps) == pytest.approx(begun.elapsed_time(ended) / 1000, rel=0.05)
