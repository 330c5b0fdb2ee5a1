"""`lab doctor` on this machine: what is right is ok, what is wrong fails, and what is only told is neither."""

from __future__ import annotations

import json
import shutil

import pytest

KEYS = ["RUNPOD_API_KEY", "WANDB_API_KEY", "HF_TOKEN"]


def told(outcome):
    """By name: the mark and the words behind it."""
    rows = [line.split(None, 2) for line in outcome.out.splitlines()[1:]]
    return {name: (mark, words) for name, mark, words in rows if mark in ("ok", "FAIL", "-")}


@pytest.mark.parametrize("key", KEYS)
def test_a_key_that_is_not_set_is_not_called_ok(lab, key):
    outcome = lab("doctor")

    mark, words = told(outcome)[key]
    assert (outcome.code, mark) == (0, "-")
    assert words.startswith("not set; ")


def test_what_only_tells_is_neither_passed_nor_failed_for_a_program(lab, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_something_0123456789")

    record = json.loads(lab("doctor", "--json").out)

    passed = {check["name"]: check["passed"] for check in record["checks"]}
    assert (passed["HF_TOKEN"], passed["WANDB_API_KEY"], record["passed"]) == (True, None, True)


def test_a_disk_that_is_too_small_says_how_much_is_too_little(lab, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(2**40, 2**40 - 2**30, 2**30))

    outcome = lab("doctor")

    assert outcome.code == 1
    assert outcome.out.count("FAIL") == 2
    assert "1.00 GiB free, less than 5.00 GiB" in outcome.out


def test_a_broken_plugin_fails_by_name_and_leaves_the_sum_of_them_no_ok(lab, install_plugin):
    install_plugin("acme", "import nothing_of_this_name\n")

    outcome = lab("doctor")

    failed = [line for line in outcome.out.splitlines() if " FAIL " in line]
    assert outcome.code == 1
    assert ["plugin acme" in failed[0], "plugins" in failed[1]] == [True, True]


def test_a_blocked_plugin_is_counted_and_fails_nothing(lab, install_plugin, monkeypatch):
    install_plugin("acme", "raise SystemExit\n")
    monkeypatch.setenv("LAB_BLOCKED_PLUGINS", "acme")

    outcome = lab("doctor")

    assert (outcome.code, told(outcome)["plugins"][0]) == (0, "ok")
    assert ", 1 blocked" in outcome.out
