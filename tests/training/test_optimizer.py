"""AdamW: what decays, in which type it remembers, and that nothing but finite numbers reaches a weight."""

from __future__ import annotations

import io
import math

import pytest
import torch

from lab.errors import LabError
from lab.experiment.sections import Optimizer
from lab.training import optimizer
from lab.training.model import Decoder, initialise


def decoder():
    model = Decoder(layers=1, width=8, heads=2, vocabulary=11, context=4)
    initialise(model, 1)
    return model


def fill_gradients(model, number=0.1):
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, number)


def weights(model):
    return [parameter.detach().clone() for parameter in model.parameters()]


def unchanged(model, before):
    return all(torch.equal(new, old) for new, old in zip(model.parameters(), before, strict=True))


def test_each_parameter_is_in_exactly_one_group_and_vectors_do_not_decay():
    model = decoder()

    decayed, free = optimizer.groups(model, 0.1)

    assert sorted([*decayed.parameters, *free.parameters]) == sorted(name for name, _ in model.named_parameters())
    assert (decayed.weight_decay, free.weight_decay) == (0.1, 0.0)
    assert all("norm" in name for name in free.parameters)
    assert not any("norm" in name for name in decayed.parameters)
    built = optimizer.adamw(model, Optimizer())
    assert [group["weight_decay"] for group in built.param_groups] == [0.1, 0.0]
    assert all(parameter.ndim == 1 for parameter in built.param_groups[1]["params"])


def test_parameters_gradients_and_moments_are_fp32_under_autocast():
    model = decoder()
    adamw = optimizer.adamw(model, Optimizer())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model.blocks[0].mlp_in(torch.ones(2, 8)).float().sum().backward()
    adamw.step()

    weight = model.blocks[0].mlp_in.weight
    assert {weight.dtype, weight.grad.dtype, adamw.state[weight]["exp_avg"].dtype} == {torch.float32}


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize(("loss", "norm", "named"), [(math.nan, 1.0, "loss"), (1.0, math.inf, "gradients' norm")])
def test_a_number_that_is_not_finite_stops_the_run_before_the_update(fused, loss, norm, named):
    model = decoder()
    adamw = optimizer.adamw(model, Optimizer(fused=fused))
    fill_gradients(model)
    before = weights(model)

    with pytest.raises(LabError, match=f"step 5: the {named} is"):
        optimizer.step_if_finite(adamw, 5, torch.tensor(loss), torch.tensor(norm))

    assert unchanged(model, before)
    assert not adamw.state


def test_the_fused_kernel_withholds_the_update_without_being_asked_from_the_host():
    model = decoder()
    adamw = optimizer.adamw(model, Optimizer(fused=True))
    fill_gradients(model)
    optimizer.step_unless_told(adamw, torch.tensor(1.0), torch.tensor(1.0))
    before = weights(model)
    moments = adamw.state[model.head]["exp_avg"].clone()
    fill_gradients(model, math.nan)

    optimizer.step_unless_told(adamw, torch.tensor(math.nan), torch.tensor(math.nan))

    assert unchanged(model, before)
    assert torch.equal(adamw.state[model.head]["exp_avg"], moments)
    fill_gradients(model)
    optimizer.step_unless_told(adamw, torch.tensor(1.0), torch.tensor(1.0))
    assert not unchanged(model, before)


@pytest.mark.parametrize("fused", [False, True])
def test_finite_gradients_update_every_parameter(fused):
    model = decoder()
    adamw = optimizer.adamw(model, Optimizer(fused=fused))
    fill_gradients(model)
    before = weights(model)

    optimizer.step_if_finite(adamw, 1, torch.tensor(2.0), torch.tensor(1.0))

    assert not any(torch.equal(new, old) for new, old in zip(model.parameters(), before, strict=True))


def test_gradients_are_scaled_once():
    model = decoder()
    fill_gradients(model, 6.0)

    optimizer.scale_gradients(list(model.parameters()), 1 / 3)

    assert all(torch.allclose(parameter.grad, torch.tensor(2.0)) for parameter in model.parameters())


def test_a_changed_learning_rate_is_refused_instead_of_silently_ignored():
    model = decoder()
    saved = optimizer.adamw(model, Optimizer(learning_rate=1e-3))
    fill_gradients(model)
    saved.step()
    changed = optimizer.adamw(model, Optimizer(learning_rate=5e-4))

    with pytest.raises(LabError, match=r"lr 0\.001, the experiment 0\.0005"):
        optimizer.load(changed, saved.state_dict())


def test_moments_come_back_as_they_were_saved():
    model = decoder()
    saved = optimizer.adamw(model, Optimizer())
    fill_gradients(model)
    saved.step()
    file = io.BytesIO()
    torch.save(saved.state_dict(), file)
    file.seek(0)
    again = optimizer.adamw(model, Optimizer())

    optimizer.load(again, torch.load(file, weights_only=True))

    assert torch.equal(again.state[model.head]["exp_avg_sq"], saved.state[model.head]["exp_avg_sq"])
