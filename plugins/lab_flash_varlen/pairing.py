"""Which providers of `flash-varlen` fit a machine, and which versions of them fit together."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

from lab.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Callable

Name = Literal["torch", "fa3", "fa4", "flash-attn", "reference"]
AUTOMATIC: tuple[Name, ...] = ("fa3", "fa4", "torch")
OLDEST_TORCH = (2, 11)
FA4_MANY_VALUES = 22
"""From this beta on flash-attn-4 returns more than two values, which torch unpacks only from 2.14 on."""
FA4_FIRST = 10
"""Earlier betas refuse the variable-length backward on Hopper."""


@dataclass(frozen=True)
class Unfit:
    """Why a provider cannot run here, and what would help."""

    what: str
    do: str


@dataclass(frozen=True)
class Machine:
    """What decides which providers fit: the device, torch, and what is installed."""

    device_type: str
    capability: tuple[int, int]
    """CUDA compute capability; (0, 0) without CUDA."""
    torch_version: tuple[int, int]
    has_module: Callable[[str], bool]
    version_of: Callable[[str], str]
    """The version of an installed distribution, or "of unknown version"."""


def choose(requested: Literal["auto"] | Name, machine: Machine) -> Name:
    """The provider that was asked for, or the first that fits. Raises `LabError` saying what to install."""
    candidates = AUTOMATIC if requested == "auto" else (requested,)
    reasons = [unfit(name, machine) for name in candidates]
    for name, reason in zip(candidates, reasons, strict=True):
        if reason is None:
            return name
    last = reasons[-1]
    assert last is not None
    raise LabError(last.what, last.do)


def unfit(name: Name, machine: Machine) -> Unfit | None:
    """Why `name` cannot run on `machine`, or None when it can."""
    if name == "reference":
        return None if machine.device_type == "cpu" else Unfit(
            f"flash-varlen's reference provider computes on a CPU only, not on {machine.device_type}.",
            'Set attention = "flash-varlen" there.',
        )  # fmt: skip
    if machine.device_type != "cuda":
        return Unfit(
            f"FlashAttention has no kernels for the device '{machine.device_type}'.",
            'Set attention = "sdpa" on this machine, or attention.provider = "reference" to try the same call slowly.',
        )
    if machine.torch_version < OLDEST_TORCH:
        return Unfit(
            f"flash-varlen needs torch 2.11 or newer, not {_dotted(machine.torch_version)}.", "Install torch>=2.11."
        )
    if machine.capability < (8, 0):
        return Unfit(
            f"FlashAttention needs compute capability 8.0; this GPU has {_dotted(machine.capability)}.",
            'Set attention = "flex".',
        )
    rules = {"torch": _torch_unfit, "fa3": _fa3_unfit, "fa4": _fa4_unfit, "flash-attn": _package_unfit}
    return rules[name](machine)


def _torch_unfit(machine: Machine) -> Unfit | None:
    return None  # its kernels are in the wheel


def _fa3_unfit(machine: Machine) -> Unfit | None:
    if not machine.has_module("flash_attn_interface"):
        return Unfit(
            "attention.provider = 'fa3': FlashAttention 3 is not installed here.",
            "Build it from the hopper/ folder of github.com/Dao-AILab/flash-attention, or use provider 'fa4'.",
        )
    if machine.capability[0] != 9:
        return Unfit("FlashAttention 3 runs on Hopper GPUs only.", "Set attention.provider = 'auto'.")
    return None


def _fa4_unfit(machine: Machine) -> Unfit | None:
    # The older package is called flash_attn too, so the submodule decides.
    if not machine.has_module("flash_attn.cute"):
        return Unfit(
            "attention.provider = 'fa4': FlashAttention 4 is not installed here.",
            "pip install flash-attn-4==4.0.0b36 triton",
        )
    if machine.capability[0] not in (9, 10):
        return Unfit("FlashAttention 4 trains on Hopper and Blackwell GPUs only.", "Set attention.provider = 'auto'.")
    return _fa4_pairing(machine)


def _fa4_pairing(machine: Machine) -> Unfit | None:
    version = machine.version_of("flash-attn-4")
    beta = re.fullmatch(r"4\.0\.0b(\d+)(\..*)?", version)
    if beta is None:
        return None
    found = f"flash-attn-4 {version} with torch {_dotted(machine.torch_version)}"
    if int(beta.group(1)) < FA4_FIRST:
        return Unfit(f"{found}: no variable-length backward on Hopper.", "Install flash-attn-4>=4.0.0b10.")
    if int(beta.group(1)) >= FA4_MANY_VALUES and machine.torch_version < (2, 14):
        return Unfit(
            f"{found}: torch before 2.14 cannot read what flash-attn-4 returns from 4.0.0b22 on.",
            "Install torch>=2.14, or flash-attn-4==4.0.0b16.",
        )
    return None


def _package_unfit(machine: Machine) -> Unfit | None:
    if not machine.has_module("flash_attn_2_cuda"):
        return Unfit(
            "attention.provider = 'flash-attn': the package flash-attn is not installed here.",
            "pip install 'llm-training-lab[flash-attn]' (it builds with nvcc from source), or use provider 'torch'.",
        )
    return None


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def has_module(name: str) -> bool:
    """Whether a module could be imported."""
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # its parent package is absent
        return False


def version_of(distribution: str) -> str:
    """The version of an installed distribution, in words when there is none to find."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "of unknown version"
