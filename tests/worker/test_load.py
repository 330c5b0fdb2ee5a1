"""What the worker says that the run takes of its machine."""

from __future__ import annotations

import os
from types import SimpleNamespace

import psutil
import pytest

from lab.worker import load
from lab.worker.load import Load, Others


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
    clock = Clock()
    load = Load(now=clock)
    sum(number * number for number in range(2_000_000))
    clock.now += 1.0

    assert load.read()["processor_percent"] > 0


def test_a_step_of_milliseconds_says_nothing_of_the_processors():
    clock = Clock()
    load = Load(now=clock)
    clock.now += 0.01
    first = load.read()
    clock.now += 1.0
    second = load.read()

    assert "process_bytes" in first
    assert not {"processor_percent", "others_percent"} & set(first)
    assert "processor_percent" in second


def test_the_gpu_is_in_the_same_sample():
    clock = Clock()

    load = Load(SlowGpu(clock, 0.0), clock)
    clock.now += 1.0
    found = load.read()

    assert [name for name in found if name != "others_percent"] == ["process_bytes", "processor_percent", "gpu_percent"]


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


class Counters:
    """The seconds that the system and the process have counted."""

    def __init__(self, monkeypatch) -> None:
        self.idle = self.busy = self.own = 100.0
        monkeypatch.setattr(load.psutil, "cpu_times", self._system)

    def _system(self):
        times = {"user": self.busy - 30.0, "system": 20.0, "steal": 10.0, "idle": self.idle, "iowait": 0.0}
        return SimpleNamespace(_asdict=lambda: {**times, "guest": self.busy})

    def cpu_times(self):
        return SimpleNamespace(user=self.own, system=0.0)


@pytest.mark.parametrize(
    ("idle", "busy", "own", "share"), [(10.0, 10.0, 5.0, 25.0), (0.0, 20.0, 10.0, 50.0), (5.0, 5.0, 5.5, 0.0)]
)
def test_what_others_take_is_what_is_neither_idle_nor_of_this_process(monkeypatch, idle, busy, own, share):
    counters = Counters(monkeypatch)
    others = Others(counters)

    counters.idle, counters.busy, counters.own = 100.0 + idle, 100.0 + busy, 100.0 + own

    assert others.read() == {"others_percent": share}
    assert others.read() == {}  # no time has passed


def test_this_systems_counters_are_understood():
    found = Others(psutil.Process())
    found._before = (0.0, 0.0, 0.0)

    assert 0.0 <= found.read()["others_percent"] <= 100.0
