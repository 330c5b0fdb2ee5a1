"""What surrounds a run: its data, cost, stages, environment, provenance, and every file with its hash."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any

from lab.compare import formats
from lab.compare.facts import flattened
from lab.report import numbers
from lab.report.blocks import Listing, Numbers, Section, Table, Text, bars
from lab.runs import regular

if TYPE_CHECKING:
    from pathlib import Path

    from lab.compare.facts import RunFacts
    from lab.report.blocks import Block

HASHED_BYTES = 256 * 2**20
"""A larger file is listed with its size only: hashing it would take longer than everything else."""
SPLITS = ("train", "validation")
LONG_VALUE = 300
"""Characters from which on a recorded value is folded: a list of all parameters would bury its neighbours."""


def data(run: RunFacts) -> Section:
    """Tokens, packing fill and document lengths."""
    if not run.manifest and not run.data_stats:
        return Section("data", "Data")
    blocks: list[Block] = [Numbers([*numbers.tokens(run), *_fill(run)])]
    splits = run.manifest.get("splits") or {}
    columns = ("split", "documents", "tokens", "pairs")
    rows = [(name, *(_count(splits[name].get(key)) for key in columns[1:])) for name in SPLITS if name in splits]
    blocks.append(Table("Splits", columns, rows, columns[1:]))
    blocks += _lengths(run.data_stats.get("splits") or {})
    shown = {
        key: value
        for key, value in flattened(run.manifest).items()
        if key.startswith(("identity", "source", "tokenizer"))
    }
    blocks.append(_pairs("Identity", shown))
    return Section("data", "Data", blocks)


def cost(run: RunFacts) -> Section:
    """What each phase cost."""
    dollars = run.cost.get("dollars")
    if not isinstance(dollars, (int, float)):
        return Section("cost", "Cost")
    phases = run.cost.get("phases") or {}
    parts = [(name, float(part), f"${part:.4f}") for name, part in phases.items() if isinstance(part, (int, float))]
    note = f"${dollars:.4f} in all, derived from the time of each phase and the price of an hour."
    shown = ("phases", "schema", "dollars_per_million_tokens")
    rest = {key: value for key, value in flattened(run.cost).items() if not key.startswith(shown)}
    return Section(
        "cost", "Cost", [Numbers(numbers.cost(run)), bars("Cost by phase", parts, note), _pairs("More", rest)]
    )


def stages(run: RunFacts) -> Section:
    """How long each stage took and how it ended."""
    ended = [line for line in run.stages if line.get("event") == "ended"]
    parts = [
        (
            str(line.get("stage")),
            float(line.get("seconds") or 0.0),
            f"{formats.duration(float(line.get('seconds') or 0.0))}, {_exit(line)}",
        )
        for line in ended
    ]
    return Section("stages", "Stages", [bars("", parts)] if parts else [])


def environment(run: RunFacts) -> Section:
    """The machine and versions really used, and how they differ from what was declared."""
    blocks: list[Block] = []
    found = run.environment.get("differences") or []
    if found:
        rows = [
            tuple(formats.value(one.get(key)) for key in ("what", "declared", "actual"))
            for one in found
            if isinstance(one, dict)
        ]
        blocks.append(Table("Otherwise than declared", ("what", "declared", "actual"), rows))
    plain = {key: value for key, value in run.environment.items() if key not in ("schema", "packages", "differences")}
    if plain:
        blocks += _short_and_long(flattened(plain))
    packages = run.environment.get("packages") or {}
    if packages:
        blocks.append(_pairs("Packages really imported", packages, folded=len(packages) > 12))
    return Section("environment", "Environment", blocks)


def provenance(run: RunFacts) -> Section:
    """Commit, dirty mark, code and plugins."""
    if not run.provenance:
        return Section("provenance", "Provenance")
    kept = {key: value for key, value in run.provenance.items() if key not in ("schema", "files", "plugins")}
    plugins = [one for one in run.provenance.get("plugins") or () if isinstance(one, dict)]
    columns = ("name", "distribution", "version", "files_sha256")
    rows = [tuple(formats.value(one.get(key)) for key in columns) for one in plugins]
    files = run.provenance.get("files") or {}
    hashes = [(path, str(digest)) for path, digest in sorted(files.items())]
    prints = flattened({"fingerprint": run.config.get("fingerprint"), **(run.summary.get("fingerprints") or {})})
    blocks: list[Block] = [_pairs("", flattened(kept)), _pairs("Fingerprints", prints)]
    if rows:
        blocks.append(Table("Plugins", ("name", "distribution", "version", "files"), rows))
    blocks.append(Table(f"{formats.counted(len(hashes), 'file')} that ran", ("file", "SHA-256"), hashes, folded=True))
    return Section("provenance", "Provenance", blocks)


def experiment(run: RunFacts) -> Section:
    """Every key of the resolved experiment."""
    return Section("experiment", "Experiment", [_pairs("All keys", run.flat, folded=True)])


def files(run: RunFacts) -> Section:
    """All that is in the run directory, files with size and hash; links are listed and never followed."""
    rows = [
        _file(path, run.run.path) for path in sorted(run.run.path.rglob("*")) if path.is_symlink() or not path.is_dir()
    ]
    shown = [row for row in rows if row[0] != run.run.report.name]
    return Section("files", "Files", [Table("", ("file", "size", "SHA-256"), shown, ("size",))])


def _file(path: Path, root: Path) -> tuple[str, str, str]:
    name = path.relative_to(root).as_posix()
    if path.is_symlink():
        return name, "-", "a link, not followed"
    try:
        with regular.opened(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size > HASHED_BYTES:
                return name, formats.size(size), "too large to hash here"
            return name, formats.size(size), hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        return name, "-", f"unreadable: {error.strerror}"


def _fill(run: RunFacts) -> list[numbers.Number]:
    packing = run.data_stats.get("packing") or {}
    fill = packing.get("fill")
    if not isinstance(fill, (int, float)):
        return []
    packs = packing.get("packs")
    number = formats.counted(packs, "pack") if isinstance(packs, int) else "packs"
    how = f"{number} of {_count(packing.get('capacity'))}; unused slots are not computed"
    per_pack = float(packing.get("segments_per_pack") or 0.0)
    return [
        numbers.Number("packing fill", formats.quantity(float(fill), "share"), "measured", how),
        numbers.Number("segments a pack", f"{per_pack:.1f}", "measured", how),
    ]


def _lengths(splits: dict[str, Any]) -> list[Block]:
    blocks: list[Block] = []
    for name in SPLITS:
        histogram = (splits.get(name) or {}).get("histogram") or []
        parts = [
            (f"{row['from']:,} to {row['to']:,}", float(row["documents"]), f"{row['documents']:,}")
            for row in histogram
            if isinstance(row, dict) and {"from", "to", "documents"} <= row.keys()
        ]
        if parts:
            blocks.append(bars(f"Document lengths, {name}", parts, "Documents by their number of tokens."))
    return blocks


def _pairs(title: str, pairs: dict[str, object], *, folded: bool = False) -> Block:
    if not pairs:
        return Text(f"{title}: nothing was recorded." if title else "Nothing was recorded.")
    rows = [(key, _whole(value)) for key, value in pairs.items()]
    return Table(title, ("key", "value"), rows, folded=folded)


def _short_and_long(pairs: dict[str, object]) -> list[Block]:
    """The pairs as a table, and below it, folded and an item a line, the values that would not fit into one."""
    long = {key: text for key, value in pairs.items() if len(text := _whole(value)) >= LONG_VALUE}
    short = {key: value for key, value in pairs.items() if key not in long}
    return [_pairs("", short), *(Listing(key, text.replace(", ", "\n")) for key, text in long.items())]


def _whole(value: object) -> str:
    """Hashes in full: this is where a reader looks them up."""
    return str(value) if isinstance(value, str) else formats.value(value)


def _count(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else "-"


def _exit(line: dict[str, Any]) -> str:
    code, reason = line.get("exit_code"), line.get("reason")
    said = "done" if code == 0 else f"exit code {code}"
    return f"{said}: {reason}" if reason and reason != said else said
