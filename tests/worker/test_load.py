"""What the worker says that the run takes of its machine."""

from __future__ import annotations

import os

from lab.worker.load import Load


class Clock:
    """Shows what it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class SlowGpu:
    """A GPU whose driver takes its time to answer."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock, self._seconds = clock, seconds

    def read(self) -> dict[str, object]:
        self._clock.now += self._seconds
        return {"gpu_percent": 97}


def test_the_memory_is_that_of_this_process():
    held = bytearray(os.urandom(1)) * 50_000_000

    found = Load().read()

    assert found["process_bytes"] > len(held)


def test_busy_work_shows_as_processor_time():
    load = Load()
    sum(number * number for number in range(2_000_000))

    assert load.read()["processor_percent"] > 0


def test_the_gpu_is_in_the_same_sample():
    clock = Clock()

    found = Load(SlowGpu(clock, 0.0), clock).read()

    assert list(found) == ["process_bytes", "processor_percent", "gpu_percent"]


def test_steps_shorter_than_a_second_share_a_sample():
    clock = Clock()
    load = Load(now=clock)

    sampled = []
    for _ in range(24):
        clock.now += 0.125
        sampled.append(bool(load.read()))

    assert [place for place, one in enumerate(sampled) if one] == [0, 8, 16]


def test_a_driver_that_answers_slowly_is_asked_less_often():
    clock = Clock()
    load = Load(SlowGpu(clock, 0.5), clock)
    load.read()

    clock.now = 149.9
    early = load.read()
    clock.now = 150.0
    late = load.read()

    assert (early, late["gpu_percent"]) == ({}, 97)
