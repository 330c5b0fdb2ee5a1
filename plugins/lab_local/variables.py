"""Which environment variables a stage on this machine gets: an allowlist, so that no secret slips in unnoticed.

A stage gets what finds programs, libraries, caches and certificates, what tunes numerics and devices, and lab's own
switches. A variable whose name promises a secret is dropped even when its family is allowed, unless the job names it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lab.runs.secrets import variable_promises_secret

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

EXACT = {
    "CC", "CXX", "COLUMNS", "CPATH", "CURL_CA_BUNDLE", "HOME", "HTTPS_PROXY", "HTTP_PROXY", "LANG", "LANGUAGE",
    "LD_LIBRARY_PATH", "LD_PRELOAD", "LIBRARY_PATH", "LOGNAME", "NO_PROXY", "PATH", "PYTHONHASHSEED",
    "REQUESTS_CA_BUNDLE", "SHELL", "SSL_CERT_DIR", "SSL_CERT_FILE", "TEMP", "TMP", "TMPDIR", "TZ", "USER",
    "VIRTUAL_ENV", "http_proxy", "https_proxy", "no_proxy",
}  # fmt: skip
FAMILIES = (
    "CONDA_", "CUBLAS_", "CUDA_", "CUDNN_", "DYLD_", "GLOO_", "HF_", "HIP_", "KMP_", "LAB_", "LC_", "MALLOC_",
    "MKL_", "NCCL_", "NUMEXPR_", "NVIDIA_", "OMP_", "OPENBLAS_", "PYTORCH_", "TIKTOKEN_", "TOKENIZERS_", "TORCH",
    "TRANSFORMERS_", "TRITON_", "XDG_",
)  # fmt: skip
NOT_INHERITED = ("LAB_PROJECT", "LAB_RUNS", "LAB_STORE")
"""Of the person's folder; a stage works in the unpacked code and is told where to write."""


def stage_variables(
    given: Mapping[str, str], forwarded: Sequence[str], code: Path, python: str = sys.executable
) -> dict[str, str]:
    """The stage runner's environment: what is allowed of `given`, what the job forwards, and the way to the code."""
    kept = {name: value for name, value in given.items() if name in forwarded or _is_allowed(name)}
    path = [str(Path(python).parent), *kept.get("PATH", os.defpath).split(os.pathsep)]
    return {
        **kept,
        "PATH": os.pathsep.join(dict.fromkeys(path)),
        "PYTHONPATH": os.pathsep.join([str(code / "src"), str(code / "plugins")]),
        # The unpacked code stays as it was verified. A cache elsewhere would hide the one that pip made for torch, and
        # each project's first run would compile all of it again.
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
    }


def _is_allowed(name: str) -> bool:
    if name in NOT_INHERITED or variable_promises_secret(name):
        return False
    return name in EXACT or name.startswith(FAMILIES)
