"""Loads the kernels of a chosen provider behind one call: q, k, v, cu_seqlens, max_seqlen."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any

import torch

from lab_flash_varlen import reference
from lab_flash_varlen.pairing import Machine, has_module, version_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from lab_flash_varlen.pairing import Name

    Attend = Callable[[Tensor, Tensor, Tensor, Tensor, int], Tensor]
    """q, k, v (T, H, D), cu_seqlens, max_seqlen -> (T, H, D)"""


@dataclass(frozen=True)
class Provider:
    """Kernels that are ready to be called."""

    name: Name
    kernel: str
    """What environment.json says: the library and its version."""
    attend: Attend


def this_machine(device: torch.device) -> Machine:
    """What decides which providers fit, looked up here."""
    major, minor = torch.__version__.split(".")[:2]
    capability = torch.cuda.get_device_capability(device) if device.type == "cuda" else (0, 0)
    return Machine(device.type, capability, (int(major), int(minor)), has_module, version_of)


def activate(name: Name) -> Provider:
    """Load the kernels of a provider that fits."""
    if name == "flash-attn":
        return Provider(name, f"flash-attn {version_of('flash-attn')} (FA2)", _flash_attn())
    if name in ("fa3", "fa4"):
        from torch.nn.attention import activate_flash_attention_impl

        activate_flash_attention_impl(name.upper())
        library = "flash_attn_3" if name == "fa3" else "flash-attn-4"
        return Provider(name, f"{library} {version_of(library)} through torch {torch.__version__}", _varlen())
    if name == "reference":
        reference.register_on_cpu()
        return Provider(name, f"reference kernels on CPU through torch {torch.__version__}", _varlen())
    _restore_fa2()
    return Provider(name, f"torch {torch.__version__} varlen_attn (FA2)", _varlen())


def _restore_fa2() -> None:
    """An earlier part of this process may have activated FA3 or FA4."""
    from torch.nn.attention import current_flash_attention_impl, restore_flash_attention_impl

    if current_flash_attention_impl() is not None:
        restore_flash_attention_impl()


def _varlen() -> Attend:
    from torch.nn.attention.varlen import varlen_attn

    # One split keeps a segment's bits independent of what else is in the batch; torch 2.11 has no such argument.
    # The window must be a tuple: torch compares it with (-1, 0) to find out that attention is causal.
    causal: dict[str, Any] = {"window_size": (-1, 0)}
    if "num_splits" in signature(varlen_attn).parameters:
        causal["num_splits"] = 1

    def attend(q: Tensor, k: Tensor, v: Tensor, cu_seqlens: Tensor, max_seqlen: int) -> Tensor:
        out = varlen_attn(q, k, v, cu_seqlens, cu_seqlens, max_seqlen, max_seqlen, **causal)
        assert isinstance(out, torch.Tensor), "no auxiliary output was asked for"
        return out

    return attend


def _flash_attn() -> Attend:
    from flash_attn import flash_attn_varlen_func

    def attend(q: Tensor, k: Tensor, v: Tensor, cu_seqlens: Tensor, max_seqlen: int) -> Tensor:
        out: Tensor = flash_attn_varlen_func(
            q, k, v,
            cu_seqlens_q=cu_seqlens, cu_seqlens_k=cu_seqlens,
            max_seqlen_q=max_seqlen, max_seqlen_k=max_seqlen, causal=True,
        )  # fmt: skip
        return out

    return attend
