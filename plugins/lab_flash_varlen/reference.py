"""Plain causal attention per segment: what every kernel is tested against, and torch's operator on a CPU."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor


def forward(q: Tensor, k: Tensor, v: Tensor, cu_seqlens: Tensor, scale: float | None) -> tuple[Tensor, Tensor]:
    """(T, H, D) each -> the output (T, H, D) in q's dtype and the log-sum-exp of the scores (H, T) in FP32."""
    out = torch.empty_like(q)
    lse = q.new_empty(q.shape[1], q.shape[0], dtype=torch.float32)
    for start, end in _segments(cu_seqlens):
        scores = _scores(q[start:end], k[start:end], scale)
        weights = scores.softmax(-1)
        out[start:end] = torch.einsum("hqk,khd->qhd", weights, _exact(v[start:end])).to(q.dtype)
        lse[:, start:end] = scores.logsumexp(-1).float()
    return out, lse


def backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, cu_seqlens: Tensor, scale: float | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of q, k and v, each (T, H, D), from the output's."""
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    for start, end in _segments(cu_seqlens):
        rows = slice(start, end)
        weights = _scores(q[rows], k[rows], scale).softmax(-1)
        d_out = _exact(grad[rows])
        d_weights = torch.einsum("qhd,khd->hqk", d_out, _exact(v[rows]))
        d_scores = weights * (d_weights - (d_weights * weights).sum(-1, keepdim=True)) * factor
        dq[rows] = torch.einsum("hqk,khd->qhd", d_scores, _exact(k[rows])).to(q.dtype)
        dk[rows] = torch.einsum("hqk,qhd->khd", d_scores, _exact(q[rows])).to(k.dtype)
        dv[rows] = torch.einsum("hqk,qhd->khd", weights, d_out).to(v.dtype)
    return dq, dk, dv


@cache
def register_on_cpu() -> None:
    """Give torch's variable-length operator a CPU kernel, so that the same call runs where there is no GPU."""
    import_module("torch.nn.attention.varlen")  # defines the operator

    torch.library.register_kernel("torch_attn::_varlen_attn", "cpu", _forward_kernel)
    torch.library.register_kernel("torch_attn::_varlen_attn_backward", "cpu", _backward_kernel)


def _forward_kernel(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    is_causal: bool = False,
    scale: float | None = None,
    window_size: list[int] | None = None,
    *newer: object,
) -> tuple[Tensor, Tensor, Tensor]:
    _assert_causal(is_causal, window_size)
    out, lse = forward(query, key, value, cu_seq_q, scale)
    return out, lse, torch.zeros(2, dtype=torch.uint64)


def _backward_kernel(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor,
    max_q: int,
    max_k: int,
    is_causal: bool,
    rng_state: Tensor,
    scale: float | None = None,
    window_size: list[int] | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    _assert_causal(is_causal, window_size)
    return backward(grad_out, query, key, value, cu_seq_q, scale)


def _assert_causal(is_causal: bool, window_size: list[int] | None) -> None:
    # A list instead of a tuple makes torch drop the causal flag silently and keep only the window.
    assert is_causal, "the operator was not asked for causal attention"
    assert window_size is not None
    assert list(window_size) == [-1, 0], f"the window {window_size} is not the causal one"


def _segments(cu_seqlens: Tensor) -> Iterator[tuple[int, int]]:
    starts = cu_seqlens.tolist()
    return ((start, end) for start, end in pairwise(starts) if start < end)


def _scores(q: Tensor, k: Tensor, scale: float | None) -> Tensor:
    """Causal scores (H, S, S) of one segment."""
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    scores = torch.einsum("qhd,khd->hqk", _exact(q), _exact(k)) * factor
    later = torch.ones(q.shape[0], k.shape[0], dtype=torch.bool, device=q.device).triu(1)
    return scores.masked_fill(later, float("-inf"))


def _exact(tensor: Tensor) -> Tensor:
    return tensor if tensor.dtype == torch.float64 else tensor.float()
