"""`lab doctor --data`: a source's texts against counts that somebody published."""

from __future__ import annotations

import pytest

SOURCE = """
from lab import Part, hookimpl
from lab.contracts import Document


@hookimpl
def sources():
    return [Part("counted", "lab_counted:Counted", summary="Forty short texts with published counts")]


class Counted:
    def __init__(self, options):
        pass

    def identity(self):
        return {"name": "counted"}

    def documents(self, cursor=None):
        for number in range(40):
            yield Document(f"text {number}", {"number": number})

    def published(self, data):
        if data.train_tokens != 50:
            return None
        return {"train": {"tokens": PUBLISHED}}
"""
EXPERIMENT = """
extends = "smoke"
[data]
source = "counted"
train_tokens = 50
validation_tokens = 5
validation_fraction = 0.3
"""


@pytest.fixture
def counted(project, install_plugin):
    (project / "experiments" / "counted.toml").write_text(EXPERIMENT)
    return lambda tokens: install_plugin("counted", SOURCE.replace("PUBLISHED", str(tokens)))


def test_counts_that_agree_pass(lab, counted):
    counted(51)

    outcome = lab("doctor", "--data", "counted")

    assert (outcome.code, "51, published 51" in outcome.out) == (0, True), outcome.out


def test_a_count_that_differs_fails_with_both(lab, counted):
    counted(52)

    outcome = lab("doctor", "--data", "counted")

    assert outcome.code == 1
    assert "51, published 52" in outcome.out


def test_a_choice_that_nobody_counted_is_refused(lab, counted, project):
    counted(51)

    outcome = lab("doctor", "--data", str(_with_another_budget(project)))

    assert outcome.code == 2
    assert "Nobody published counts" in outcome.err


def test_an_experiment_without_data_is_refused(lab):
    outcome = lab("doctor", "--data", "chapter02")

    assert outcome.code == 2
    assert "no [data]" in outcome.err


def _with_another_budget(project):
    path = project / "experiments" / "other.toml"
    path.write_text(EXPERIMENT.replace("= 50", "= 60"))
    return path
