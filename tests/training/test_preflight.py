"""Kernel checks: right kernels pass, and each kind of wrong one is found and named."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from lab.training.preflight import CHECKS, Finding, Subject, run
from lab_torch.chunked import ChunkedCrossEntropy
from lab_torch.cross_entropy import CrossEntropy
from lab_torch.sdpa import SegmentAttention

CPU = torch.device("cpu")


class AcrossSegments(SegmentAttention):
    """Attends to the whole batch."""

    def plan(self, cu_seqlens, max_seqlen):
        return super().plan(cu_seqlens[[0, -1]], int(cu_seqlens[-1]))


class MeanLoss:
    def __call__(self, hidden, head, targets):
        return functional.cross_entropy((hidden @ head.T).float(), targets)


class Bf16Sum(CrossEntropy):
    def __call__(self, hidden, head, targets):
        return super().__call__(hidden, head, targets).bfloat16()


class NoBackward(SegmentAttention):
    def __call__(self, q, k, v, plan):
        if q.requires_grad:
            raise NotImplementedError("no backward on a CPU")
        return super().__call__(q, k, v, plan)


class Absent(CrossEntropy):
    def preflight(self, device):
        return "needs CUDA"


def failed(attention=None, loss=None, precision="fp32"):
    return [finding for finding in run(Subject(attention, loss, CPU, precision)) if not finding.passed]


@pytest.mark.parametrize("precision", ["fp32", "bf16-autocast"])
@pytest.mark.parametrize("loss", [CrossEntropy(), ChunkedCrossEntropy()], ids=["cross-entropy", "chunked"])
def test_right_kernels_pass(precision, loss):
    assert failed(SegmentAttention(), loss, precision) == []


def test_attention_across_segments_is_found():
    names = {finding.name for finding in failed(AcrossSegments())}

    assert {"attention output", "attention across segments"} <= names


def test_a_mean_is_found_where_a_sum_belongs():
    assert any("loss" in finding.name for finding in failed(loss=MeanLoss()))


def test_a_sum_in_bf16_is_found():
    assert any("not FP32" in finding.reason for finding in failed(loss=Bf16Sum()))


def test_a_kernel_that_raises_is_a_finding_and_the_others_are_still_checked():
    findings = list(run(Subject(NoBackward(), CrossEntropy(), CPU, "fp32")))

    raised = [finding for finding in findings if not finding.passed]
    assert [finding.reason for finding in raised] == ["NotImplementedError: no backward on a CPU"]
    assert any("loss" in finding.name for finding in findings)


def test_a_part_that_cannot_train_here_says_why():
    assert [str(finding) for finding in failed(loss=Absent())] == ["FAILED  loss: needs CUDA"]


def test_a_figure_that_is_not_a_number_never_passes():
    assert not Finding("output", math.nan, 0.03).passed


def test_more_checks_plug_in():
    def my_check(subject):
        yield Finding("mine", 2.0, 1.0)

    findings = list(run(Subject(None, None, CPU, "fp32"), [*CHECKS, my_check]))

    assert [str(finding) for finding in findings] == ["FAILED  mine: 2 (limit 1)"]


def test_a_part_that_refuses_the_device_is_told_once_and_not_tried_further():
    class Refusing:
        def preflight(self, device):
            return f"no kernels for {device}"

        def plan(self, cu_seqlens, max_seqlen):
            raise AssertionError("it was tried although it had refused")

    findings = list(run(Subject(Refusing(), None, torch.device("cpu"), "fp32")))

    assert [str(finding) for finding in findings] == ["FAILED  attention: no kernels for cpu"]
