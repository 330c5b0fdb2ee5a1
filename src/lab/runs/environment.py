"""The environment a run really had, as far as can be told without torch, and how it differs from the declared one."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from lab.runs.secrets import Secrets, variable_promises_secret

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from lab.experiment.sections import Environment

VARIABLES = (
    "CUBLAS_", "CUDA_", "CUDNN_", "GLOO_", "KMP_", "MKL_", "NCCL_", "NVIDIA_TF32", "NUMEXPR_", "OMP_", "OPENBLAS_",
    "PYTHONHASHSEED", "PYTORCH_", "TOKENIZERS_PARALLELISM", "TORCH_", "TORCHINDUCTOR_", "TRITON_", "XLA_",
)  # fmt: skip
"""Variables that can change what is computed or how fast: these are recorded, and no others."""
IMAGE_VARIABLE = "LAB_IMAGE"
"""Where a rented machine says which image it was started from, digest included."""


@dataclass(frozen=True)
class Difference:
    """Something that the experiment declares and that is otherwise here; `actual` is None when there is none."""

    what: str
    declared: str
    actual: str | None


def machine(variables: Mapping[str, str] | None = None) -> dict[str, object]:
    """Python, platform, processor, and the variables that matter, as environment.json has them."""
    given = os.environ if variables is None else variables
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": cpu_name(),
        "cores": usable_cores(),
        "image": given.get(IMAGE_VARIABLE),
        "variables": dict(sorted(_recorded(given))),
    }


def imported_packages(modules: Collection[str] | None = None) -> dict[str, str]:
    """The distributions that are imported in this process, each at the version that was really imported.

    With `modules` those of these top-level modules alone.
    """
    owners = _owners()
    found: dict[str, str] = {}
    imported = {name.partition(".")[0] for name in list(sys.modules)}
    for module in imported if modules is None else imported.intersection(modules):
        for distribution in owners.get(module, ()):
            # Not by getattr: some modules compute the attribute only to warn that it goes away.
            own = getattr(sys.modules.get(module), "__dict__", {}).get("__version__")
            single = len(owners[module]) == 1 and canonicalize_name(distribution) == canonicalize_name(module)
            found[distribution] = str(own) if single and isinstance(own, str) else _installed(distribution) or "unknown"
    return dict(sorted(found.items()))


def differences(
    declared: Environment, packages: Mapping[str, str] | None, gpu: str | None, image: str | None
) -> list[Difference]:
    """What the experiment declares and this machine has otherwise; `packages` None means those that are installed."""
    found = [_package(line, packages) for line in declared.packages]
    for what, wanted, actual in (("gpu", declared.gpu, gpu), ("image", declared.image, image)):
        if wanted is not None and wanted != actual:
            found.append(Difference(what, wanted, actual))
    return [difference for difference in found if difference is not None]


def gpu_name() -> str | None:
    """The first GPU's name by its driver's own tool, without torch; None where there is none."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    query = [tool, "--query-gpu=name", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, errors="replace", timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    names = answer.stdout.strip().splitlines()
    return names[0].strip() if answer.returncode == 0 and names else None


def cpu_name() -> str:
    """The processor's name as people know it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()


def usable_cores() -> int:
    """How many logical cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@functools.cache
def _owners() -> Mapping[str, list[str]]:
    """The distributions that own each import name; reading the metadata of everything installed takes half a second."""
    return importlib.metadata.packages_distributions()


def _recorded(variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    nothing_known = Secrets({})
    for name, value in variables.items():
        if name.startswith(VARIABLES) and not variable_promises_secret(name) and not nothing_known.what_is_in(value):
            yield name, value


def _package(line: str, packages: Mapping[str, str] | None) -> Difference | None:
    try:
        wanted = Requirement(line)
    except InvalidRequirement:
        return Difference("package", line, None)
    if packages is None:
        actual = _installed(wanted.name)
    else:
        names = {canonicalize_name(name): version for name, version in packages.items()}
        actual = names.get(canonicalize_name(wanted.name))
    with contextlib.suppress(InvalidVersion):
        if actual is not None and wanted.specifier.contains(actual, prereleases=True):
            return None
    return Difference("package", line, None if actual is None else f"{wanted.name}=={actual}")


def _installed(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
