"""What the worker says its process takes of the machine."""

from __future__ import annotations

import os

from lab.worker.load import Load


def test_the_memory_is_that_of_this_process():
    held = bytearray(os.urandom(1)) * 50_000_000

    found = Load().read()

    assert found["process_bytes"] > len(held)


def test_busy_work_shows_as_processor_time():
    load = Load()
    sum(number * number for number in range(2_000_000))

    assert load.read()["processor_percent"] > 0
