"""A random model of SmolLM2's architecture with a tokenizer of its own, as the files of a repository on the hub."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import torch

END_OF_TEXT = "<|endoftext|>"
VOCABULARY = 400
PROSE = (
    "I like AI. I like to read, and I like to measure what one change does to a model. "
    "A token is a piece of text; the model learns which token comes next, and when a text ends."
)


def files(seed: int = 0, width: int = 576, mlp_width: int = 1536, heads: tuple[int, int] = (9, 3)) -> dict[str, bytes]:
    """Weights in BF16 as SmolLM2's are, tied embeddings, two blocks; by default as wide as SmolLM2-135M."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=width,
        intermediate_size=mlp_width,
        num_hidden_layers=2,
        num_attention_heads=heads[0],
        num_key_value_heads=heads[1],
        max_position_embeddings=512,
        rope_theta=100_000.0,
        tie_word_embeddings=True,
        bos_token_id=0,
        eos_token_id=0,
    )
    with torch.random.fork_rng(), tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(seed)
        LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
        found = {path.name: path.read_bytes() for path in Path(folder).iterdir()}
    return found | tokenizer_files()


def tokenizer_files() -> dict[str, bytes]:
    """A byte-level BPE like SmolLM2's, learnt from a few sentences; the end of text has id 0, as there."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator([PROSE] * 4, trainer)
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": END_OF_TEXT, "model_max_length": 512}
    return {
        "tokenizer.json": tokenizer.to_str().encode(),
        "tokenizer_config.json": json.dumps(settings).encode(),
    }
