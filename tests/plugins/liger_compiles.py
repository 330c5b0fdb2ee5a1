"""Compiles the kernel for a GPU that need not be there, as `liger_compiles.py 90`; prints the size of its code."""

from __future__ import annotations

import sys

import triton
from liger_kernel.ops.cross_entropy import liger_cross_entropy_kernel as kernel
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

# What lab's loss passes for a vocabulary of 50,257 in BF16.
CONSTANTS = {
    "weight_ptr": None, "z_loss_ptr": None, "token_accuracy_ptr": None, "predicted_tokens_ptr": None, "softcap": None,
    "lse_square_scale": 0.0, "label_smoothing": 0.0, "reduction": "sum", "RETURN_Z_LOSS": False,
    "RETURN_TOKEN_ACCURACY": False, "RETURN_PREDICTED_TOKENS": False, "BLOCK_SIZE": 32768, "HAS_WEIGHT": False,
    "HAS_SOFTCAPPING": False, "HAS_GRADIENTS": True,
}  # fmt: skip
TYPES = {"X_ptr": "*bf16", "Y_ptr": "*i64", "loss_ptr": "*fp32", "weight_sum": "fp32"}

if __name__ == "__main__":
    names = list(kernel.arg_names)
    signature = {name: "constexpr" if name in CONSTANTS else TYPES.get(name, "i32") for name in names}
    constants = {(names.index(name),): value for name, value in CONSTANTS.items() if name in names}
    source = ASTSource(kernel, signature, constexprs=constants)
    compiled = triton.compile(source, target=GPUTarget("cuda", int(sys.argv[1]), 32), options={"num_warps": 32})
    sys.stdout.write(str(len(compiled.asm["cubin"])))
