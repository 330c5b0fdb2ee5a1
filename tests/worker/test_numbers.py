"""A step's numbers come home as floats; on a GPU they do not wait for what the device was given after the step."""

from __future__ import annotations

import time

import pytest
import torch

from lab.contracts import Step
from lab.worker.numbers import Numbers


def test_tensors_and_plain_numbers_become_floats():
    step = Step(torch.tensor(2.5), targets=3, gradient_norm=torch.tensor(0.5), values={"a": 1.0, "b": torch.tensor(4)})

    numbers = Numbers(step)

    assert numbers.loss() == 2.5
    assert numbers.gradient_norm() == 0.5
    assert numbers.values() == {"a": 1.0, "b": 4.0}


def test_a_step_without_a_norm_has_none():
    assert Numbers(Step(torch.tensor(1.0, requires_grad=True), targets=1)).gradient_norm() is None


@pytest.mark.gpu
def test_reading_a_step_does_not_wait_for_the_next_one():
    step = Step(torch.ones((), device="cuda") * 2, targets=1)
    numbers = Numbers(step)
    torch.cuda.synchronize()

    torch.cuda._sleep(2_000_000_000)  # about a second of the device's time
    begun = time.perf_counter()
    value = numbers.loss()

    assert value == 2.0
    assert time.perf_counter() - begun < 0.2
