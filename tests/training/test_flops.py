"""FLOPs by the stated formula, and peaks only for the exact device and precision they belong to."""

from __future__ import annotations

import pytest
import torch

from lab.training.flops import FORMULA, peak, step_flops
from lab.training.model import Decoder


def test_the_formula_counts_linears_head_and_full_squares_of_attention():
    flops = step_flops(layers=12, width=768, vocabulary=50257, tokens=100, squares=60**2 + 40**2)

    linears = 12 * 12 * 768**2
    head = 50257 * 768
    assert flops == 6 * (linears + head) * 100 + 12 * 12 * 768 * (3600 + 1600)
    assert FORMULA == "6 * (12 * L * d^2 + V * d) * T + 12 * L * d * sum(s_i^2)"


def test_segments_are_independent_squares():
    whole = step_flops(4, 256, 100, 4096, 4096**2)
    halves = step_flops(4, 256, 100, 4096, 2 * 2048**2)

    assert whole - halves == 12 * 4 * 256 * (4096**2 - 2 * 2048**2)


def test_a_tied_head_counts_once_as_parameters_and_the_same_as_flops():
    with torch.device("meta"):
        tied = Decoder(layers=1, width=8, heads=2, vocabulary=100, context=4)
        untied = torch.nn.Linear(8, 100, bias=False)

    own = sum(parameter.numel() for name, parameter in tied.named_parameters() if "token" in name)
    assert (own, own + untied.weight.numel()) == (800, 1600)
    assert step_flops(1, 8, 100, 10, 100) == 6 * (12 * 64 + 800) * 10 + 12 * 8 * 100  # whoever holds the head


def test_half_of_an_h200s_dense_bf16_peak_is_50_percent():
    found = peak("NVIDIA H200", "bf16-autocast")

    assert found.flops == 989.4e12
    assert 494.7e12 / found.flops == 0.5
    assert "datasheet" in found.source


def test_the_baselines_device_has_the_baselines_peak():
    assert peak("NVIDIA H100 80GB HBM3", "bf16-autocast").flops == 989e12
    assert peak("NVIDIA A100-SXM4-80GB", "bf16-autocast").flops == 312e12


@pytest.mark.parametrize(
    "device", ["NVIDIA H100 PCIe", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA H100 NVL", "Intel(R) Xeon(R)"]
)
def test_another_device_has_no_peak_and_the_reason_names_it(device):
    found = peak(device, "bf16-autocast")

    assert found.flops is None
    assert device in found.reason


def test_another_precision_has_no_peak():
    found = peak("NVIDIA H200", "fp32")

    assert (found.flops, found.source) == (None, None)
    assert "fp32" in found.reason
