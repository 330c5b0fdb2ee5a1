"""Each thing that a loop hands over is what its contract says, or the plugin's fault is told by its name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from lab.contracts import Evaluation, Step
from lab.errors import LabError
from lab.worker.handed import Handed

STEP = Step(
    torch.tensor(1.0), 4, torch.tensor(0.5), tokens=5, segments=1, packs=1, micro_batches=2, learning_rate=0.1,
    flops=10, fed="ab", values={"a": 1, "b": np.float32(2), "c": torch.ones(1), "d": float("nan")},
)  # fmt: skip
EVALUATION = Evaluation(1.5, 4, 5, 1, inputs="ab", bytes=9)
ACME = Handed("the loop 'acme' of plugin acme (lab-acme 1.0)", "Reinstall or report lab-acme, or choose another.")


class Mute:
    def __repr__(self):
        raise RuntimeError("nothing is said")


@pytest.mark.parametrize(
    "good",
    [STEP, Step(torch.tensor(3), 0), replace(STEP, loss=torch.tensor(1.0, requires_grad=True), learning_rate=1)],
)
def test_a_step_of_the_contract_passes_as_it_is(good):
    assert ACME.step(1, good) is good


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("loss", 1.0, "1.0 (float), and a tensor of one real number"),
        ("loss", torch.ones(3), "a Tensor of shape (3,), torch.float32, on cpu, and a tensor of one real number"),
        ("loss", torch.tensor(1j), "a Tensor of shape (), torch.complex64, on cpu, and a tensor of one real number"),
        ("loss", torch.empty((), device="meta"), "a Tensor of shape (), torch.float32, on meta, and a tensor"),
        ("gradient_norm", "big", "'big' (str), and a tensor of one real number"),
        ("targets", -1, "-1 (int), and an int from 0"),
        ("targets", 2.5, "2.5 (float), and an int from 0"),
        ("targets", True, "True (bool), and an int from 0"),
        ("targets", torch.tensor(4), "a Tensor of shape (), torch.int64, on cpu, and an int from 0"),
        ("targets", 2**63, "9223372036854775808 (int), and an int from 0"),
        ("tokens", None, "None, and an int from 0"),
        ("segments", np.int64(1), f"{np.int64(1)!r} (int64), and an int from 0"),  # numpy 2 names the type
        ("packs", "1", "'1' (str), and an int from 0"),
        ("micro_batches", Mute(), "a Mute, and an int from 0"),
        ("flops", float("inf"), "inf (float), and an int from 0"),
        ("fed", b"ab", "b'ab' (bytes), and text or None"),
        ("learning_rate", "0.1", "'0.1' (str), and a number"),
        ("values", [1], "[1] (list), and a mapping"),
    ],
)
def test_a_step_that_is_not_the_contracts_is_told_with_the_plugin_and_what_belongs_there(name, value, shown):
    with pytest.raises(LabError) as caught:
        ACME.step(7, replace(STEP, **{name: value}))

    what = f"step 7: {name}: {ACME.loop} gives {shown}"
    assert caught.value.what.startswith(what)
    assert caught.value.what.endswith("belongs there")
    assert caught.value.do == ACME.remedy


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({5: 1.0}, "a name in values: <loop> gives 5 (int), and text"),
        ({"a": "text"}, "values['a']: <loop> gives 'text' (str), and a number"),
        ({"a": None}, "values['a']: <loop> gives None, and a number"),
        ({"a": torch.ones(2)}, "values['a']: <loop> gives a Tensor of shape (2,), torch.float32, on cpu, and a tensor"),
    ],
)
def test_a_value_is_a_number_with_a_name(values, told):
    with pytest.raises(LabError) as caught:
        ACME.step(7, replace(STEP, values=values))

    assert caught.value.what.startswith("step 7: " + told.replace("<loop>", ACME.loop))


@pytest.mark.parametrize("good", [None, EVALUATION, Evaluation(np.float64(1.5), 0, 0, 0)])
def test_an_evaluation_of_the_contract_passes_as_it_is(good):
    assert ACME.evaluation(2, good) is good


@pytest.mark.parametrize(
    ("name", "value"),
    [("loss", torch.tensor(1.0)), ("targets", 1.0), ("tokens", -1), ("batches", None), ("inputs", 5), ("bytes", 1.5)],
)
def test_an_evaluation_that_is_not_the_contracts_is_refused(name, value):
    with pytest.raises(LabError, match=rf"^the evaluation after step 2: {name}: the loop 'acme' of plugin acme"):
        ACME.evaluation(2, replace(EVALUATION, **{name: value}))


@pytest.mark.parametrize(("check", "bad"), [("state", None), ("state", [1]), ("weights", 5), ("weights", b"ab")])
def test_a_state_is_a_dict_and_a_fingerprint_text(check, bad):
    assert ACME.state({}) == {}
    assert ACME.weights(None) is None
    assert ACME.weights("ab") == "ab"

    with pytest.raises(LabError, match=r"^(state_dict|weights)\(\): the loop 'acme' of plugin acme"):
        getattr(ACME, check)(bad)
