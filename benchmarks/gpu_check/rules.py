"""What must hold of the figures, each rule with what it found: passed, FAILED, or why it does not apply."""

from __future__ import annotations

from dataclasses import asdict, dataclass

PUBLISHED_TOKENS_PER_SECOND = 222_427
PARAMETERS = 126_716_160
SAME_NUMBERS = ("fast-padded", "fast-compiled", "fast-unsynced", "fast-few-chunks")
COMPILED = ("fast-compiled", "fast-unsynced", "fast-few-chunks", "fast-attention", "fast-bf16-residual", "fast")
UNSYNCED = COMPILED[1:]
SAME_LOSS = 2e-3
AIMS = {"NVIDIA H100 80GB HBM3": (0.45, 0.55), "NVIDIA H200": (0.50, 0.60)}
"""MFU of the chain that keeps the numbers, and of `fast`."""


@dataclass(frozen=True)
class Verdict:
    rule: str
    state: str
    found: str


def judge(report: dict) -> list[dict[str, str]]:
    """Every rule over a report as `run.py` gathers it."""
    verdicts = [*_kernels(report), *_links(report), *_speed(report)]
    return [asdict(verdict) for verdict in verdicts]


def _verdict(rule: str, holds: bool, found: object) -> Verdict:
    return Verdict(rule, "passed" if holds else "FAILED", str(found))


def _kernels(report: dict) -> list[Verdict]:
    verdicts = []
    for kind in ("attention", "loss"):
        for name, record in report["kernels"].get(kind, {}).items():
            rule = f"{kind} {name}: kernel checks"
            if not record["available"]:
                verdicts.append(Verdict(rule, "not available", record["reason"].splitlines()[0]))
            else:
                failed = [finding["text"] for finding in record["findings"] if not finding["passed"]]
                verdicts.append(_verdict(rule, record["passed"], "; ".join(failed) or record["kernel"]))
    return verdicts


def _links(report: dict) -> list[Verdict]:
    links = report["links"]
    verdicts = []
    for name, record in links.items():
        if not record["available"]:
            state = "FAILED" if record.get("failed") else "not available"
            verdicts.append(Verdict(f"{name}: trains", state, record["reason"].splitlines()[0]))
            continue
        count = record["parameters"]
        if not report["dry_run"]:
            verdicts.append(_verdict(f"{name}: {PARAMETERS:,} parameters", count == PARAMETERS, f"{count:,}"))
        if name in COMPILED:
            more = record["graphs_while_timed"]
            verdicts.append(_verdict(f"{name}: no graph is compiled while timed", more == 0, more))
        if name in UNSYNCED and record["waits"] is not None:
            verdicts.append(_verdict(f"{name}: nothing waits for the device", not record["waits"], record["waits"]))
        if name in SAME_NUMBERS and links.get("corrected", {}).get("available"):
            off = _difference(record["losses"], links["corrected"]["losses"])
            rule = f"{name}: the losses of corrected, within {SAME_LOSS} relative"
            verdicts.append(_verdict(rule, off <= SAME_LOSS, f"{off:.1e}"))
    return verdicts


def _difference(losses: list[float], others: list[float]) -> float:
    # A link that is also observed trains a little longer.
    return max(abs(one - other) / other for one, other in zip(losses, others, strict=False))


def _speed(report: dict) -> list[Verdict]:
    device, links = report["machine"]["device"], report["links"]
    if device not in AIMS:
        return [Verdict("speed", "not applicable", f"there are no aims for {device}")]
    same, changed = AIMS[device]
    fastest = max((links[name].get("mfu") or 0 for name in SAME_NUMBERS if name in links), default=0)
    speed = links.get("corrected", {}).get("tokens_per_second") or 0
    mfu = links.get("fast", {}).get("mfu") or 0
    return [
        _verdict(f"corrected: above {PUBLISHED_TOKENS_PER_SECOND:,} tokens/s", speed > PUBLISHED_TOKENS_PER_SECOND,
                 f"{speed:,.0f}"),
        _verdict(f"the chain that keeps the numbers: {same:.0%} MFU", fastest >= same, f"{fastest:.1%}"),
        _verdict(f"fast: {changed:.0%} MFU", mfu >= changed, f"{mfu:.1%}"),
    ]  # fmt: skip
