from __future__ import annotations

import math
from pathlib import Path

import pytest

from lab.errors import UsageError
from lab.runs.filter import DEEPEST, parse
from lab.runs.filter_fields import FIELDS, condition, named, ordered
from lab.runs.row import Row

GOOD = Row(
    "flex-20261201-0915-aaaa",
    Path("a"),
    experiment="flex",
    status="completed",
    created="2026-12-01T09:15:00+00:00",
    steps=200,
    loss=2.9,
    evaluation_loss=3.0,
    tokens_per_second=95_000.0,
    mfu=0.41,
    elapsed_seconds=5400.0,
    gpu="NVIDIA H100 80GB HBM3",
    tags=("baseline", "long"),
)
BARE = Row("smoke-20261130-0915-bbbb", Path("b"), status="failed", created="2026-11-30T23:59:59+00:00")
ODD = Row("smoke-20261202-0915-cccc", Path("c"), loss=math.nan, evaluation_loss=math.inf)


@pytest.mark.parametrize(
    "text",
    [
        "loss<3.2 and gpu~H100", "loss<=2.9", "loss = 2.9", "loss==2.9", "loss!=3", "steps>=200", "not steps>200",
        "gpu~h100", "gpu='NVIDIA H100 80GB HBM3'", 'gpu="NVIDIA H100 80GB HBM3"', "experiment=flex", "run~0915-aa",
        "tag=baseline", "tag!=short", "tag~BASE", "took>1.4h", "took=90m", "took<2d", "took=5400", "took=5400s",
        "tokens_per_second>90k", "tokens_per_second<.1M", "mfu>40%", "mfu<=0.41", "steps<1e3", "steps>-1",
        "created>=2026-12-01", "created=2026-12", "created<=2026-12-01", "created<'2026-12-01 10:00'",
        "note=none", "tag!=none", "evaluation_loss=3", "status=failed or status=completed",
        "status=failed and status=failed or loss<3", "loss<3 or status=failed and status=failed",
        "not (status=failed or loss>3)", "not not loss<3", "((loss<3))", "NOT loss>3 AND loss<3",
    ],
)  # fmt: skip
def test_it_holds_for_a_run_that_is_so(text):
    assert parse(text)(GOOD)


@pytest.mark.parametrize(
    "text",
    [
        "loss<2.9", "loss>2.9", "loss!=2.9", "gpu~H200", "gpu=H100", "tag=base", "tag!=long", "took>2h", "mfu>42%",
        "created>2026-12-01", "created!=2026-12-01", "note!=none", "loss=none", "loss=nan", "not loss<3",
        "status=failed and (loss<3 or loss<3)", "(status=failed or loss>3)", "experiment='none'",
    ],
)  # fmt: skip
def test_it_does_not_hold_for_one_that_is_not(text):
    assert not parse(text)(GOOD)


@pytest.mark.parametrize("sign", ["<", "<=", ">", ">=", "="])
@pytest.mark.parametrize("row", [BARE, ODD])
def test_what_is_missing_or_no_number_stands_in_no_order_to_anything(sign, row):
    assert not parse(f"loss{sign}3")(row)


def test_what_is_missing_is_unlike_every_value_and_found_as_none():
    assert parse("loss!=3 and gpu!=H100 and tag!=x")(BARE)
    assert parse("loss=none and gpu=none and tag=none")(BARE)
    assert not parse("loss!=none")(BARE)
    assert not parse("gpu~o")(BARE)


def test_nan_and_infinity_are_values_of_their_own():
    assert parse("loss=nan and loss!=none and evaluation=inf and evaluation>3")(ODD)
    assert not parse("loss!=nan")(ODD)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("los<3", "Did you mean 'loss'?"), ("tokens_per_secnd>1", "Did you mean 'tokens_per_second'?"),
        ("status=complete", "Did you mean 'completed'?"), ("", "the end stands where the name of a field belongs"),
        ("loss<3 and", "the end stands where the name"), ("loss", "the end stands where one of < <="),
        ("loss<", "the end stands where a value"), ("(loss<3", "the end stands where ')' belongs"),
        ("loss<3)", "')' stands where 'and', 'or' or the end"), ("loss<3 steps>2", "'steps' stands where 'and'"),
        ("<3", "'<' stands where the name"), ("loss<<3", "'<' stands where a value"), ("loss<'3", "cannot be read"),
        ("loss<3!", "cannot be read"), ("loss~3", "'~' says nothing about it"), ("gpu<H100", "says nothing about it"),
        ("tag>a", "tag is a set of words"), ("loss<three", "'three' is no number"), ("loss<3h", "is no number"),
        ("took<3k", "with s, m, min, h, d behind it"),
        ("created<yesterday", "'yesterday' is no time"), ("created>2026-13", "'2026-13' is no time"),
        ("created>'2026-02-30 10'", "'2026-02-30 10' is no time"), ("created<2026-1", "'2026-1' is no time"),
        ("loss<none", "is no number"),
        ("__class__=x", "no field '__class__'"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_a_usage_error_that_says_where(text, words):
    with pytest.raises(UsageError) as refused:
        parse(text)

    assert words in str(refused.value)


def test_any_depth_is_read_or_refused_in_words():
    assert parse("(" * DEEPEST + "loss<3" + ")" * DEEPEST)(GOOD)
    assert parse("not " * 10_000 + "loss<3")(GOOD)
    with pytest.raises(UsageError, match="parentheses"):
        parse("(" * 100_000)


def test_every_field_is_one_of_a_row_and_can_be_compared():
    for field in FIELDS.values():
        assert condition(field, "=", "none")(BARE) is (field.of(BARE) is None)
        assert named(field.attribute) is field


@pytest.mark.parametrize("descending", [False, True])
def test_what_has_no_value_comes_last_either_way(descending):
    other = Row("x", Path("x"), loss=1.0)

    names = [row.id for row in ordered([BARE, ODD, GOOD, other], named("loss"), descending=descending)]

    assert names == ([GOOD.id, "x"] if descending else ["x", GOOD.id]) + [BARE.id, ODD.id]
