from __future__ import annotations

import json
import os
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest
from sample_runs import CPU, edit, write

from lab.compare import facts
from lab.compare.comparison import compare
from lab.report import figures, page
from lab.report.charts import Chart, Series, thinned
from lab.report.specification import specification
from lab.runs import records

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lab.runs.directory import RunDirectory

NO_FILES: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "folder": os.mkdir,
    "device": lambda path: os.symlink("/dev/zero", path),
}
HOSTILE = '</script><script>document.title="X"</script>'
LOADING = re.compile(r"""(?:src|href|action|poster|data)\s*=\s*["']?(?!data:|#)|url\(|@import|fetch\(|XMLHttpRequest""")


class Outline(HTMLParser):
    """What stands outside scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._silent = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._silent += tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def written(run: RunDirectory) -> Outline:
    return Outline(page.write(run).read_text(encoding="utf-8"))


def headings(outline: Outline) -> list[str]:
    return [attributes["id"] for tag, attributes in outline.tags if tag == "section"]


def texts(outline: Outline) -> list[str]:
    """What the charts say to whoever cannot see them, in their order."""
    return [str(attributes["aria-label"]) for _, attributes in outline.tags if "data-chart" in attributes]


def summaries(run: RunDirectory) -> list[str]:
    """What the page folds, by name."""
    return re.findall(r"<summary>([^<]*)</summary>", run.report.read_text(encoding="utf-8"))


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / ".runs"


def test_the_declared_change_stands_first(runs: Path) -> None:
    outline = written(write(runs, overrides=("attention=flex",)))

    assert headings(outline)[0] == "declared"
    assert "attention.name sdpa flex" in outline.text


def test_a_part_without_options_is_declared_as_it_is_typed(runs: Path) -> None:
    outline = written(write(runs, overrides=("observers.memory-snapshot={}",)))

    assert "observers.memory-snapshot - true" in outline.text


def test_a_whole_run_has_every_section_that_its_records_allow(runs: Path) -> None:
    outline = written(write(runs, dollars=0.4))

    expected = "declared figures loss speed memory values data cost stages environment provenance experiment files"
    assert headings(outline) == expected.split()


def test_a_rented_run_says_what_its_tokens_cost_and_one_of_this_machine_says_nothing_of_money(runs: Path) -> None:
    rented = written(write(runs, dollars=0.3)).text
    local = written(write(runs, id="sample-20261201-0916-bbbb")).text

    assert "cost per million tokens $15.0000 derived of the whole run" in rented
    assert "training cost per million tokens $10.0000 derived of the training phase alone" in rented
    assert "training tokens per dollar 100,000/$" in rented
    assert "$" not in local


@pytest.mark.parametrize("stage", ["install", "preflight", "prepare", "train"])
def test_a_run_that_failed_says_first_why_with_the_end_of_its_log(stage: str, runs: Path) -> None:
    outline = written(write(runs, status="failed", failed_stage=stage))

    assert headings(outline)[1] == "trouble"
    assert f"This run failed in stage {stage} with exit code 1" in outline.text
    assert f"{stage} said this" in outline.text


def test_of_a_log_larger_than_the_memory_the_end_is_shown(runs: Path) -> None:
    run = write(runs, status="failed", failed_stage="train")
    os.truncate(run.logs / "train.log", 30 << 30)
    with (run.logs / "train.log").open("ab") as log:
        log.write(b"\nlast words\n")

    outline = written(run)

    assert "The end of logs/train.log, without its first 30.00 GiB" in outline.text
    assert "last words" in outline.text


@pytest.mark.parametrize("make", NO_FILES.values(), ids=NO_FILES)
@pytest.mark.parametrize(
    "name", ["logs/train.log", "metrics.jsonl", "stages.jsonl", "summary.json", "artifacts.jsonl", "bundle.tar.gz"]
)
def test_what_is_no_file_in_a_run_is_named_and_the_page_is_still_made(
    name: str, make: Callable[[Path], None], runs: Path
) -> None:
    run = write(runs, status="failed", failed_stage="train")
    (run.path / name).unlink(missing_ok=True)
    make(run.path / name)

    outline = written(run)

    assert "This run failed in stage train" in outline.text
    if name == "logs/train.log":
        assert "logs/train.log cannot be read: is not a regular file." in outline.text
    elif name != "bundle.tar.gz":
        assert f"Unreadable, shown as absent: {name}." in outline.text
    if make is os.mkfifo:
        assert f"{name} - unreadable: is not a regular file" in outline.text


def test_a_run_that_has_only_its_config_still_has_a_page(runs: Path) -> None:
    run = write(runs, status="failed", failed_stage="preflight")
    for path in run.path.iterdir():
        if path.is_file() and path != run.config:
            path.unlink()

    outline = written(run)

    assert "unknown" in outline.text
    assert "figures" in headings(outline)


def test_torn_and_resumed_runs_say_so_before_any_figure(runs: Path) -> None:
    run = write(runs, attempt=2, torn=1, rebuilt=True)
    run.environment.write_text("{torn", encoding="utf-8")

    text = written(run).text

    assert "1 torn line of metrics.jsonl is left out." in text
    assert "Resumed: this is attempt 2" in text
    assert "Unreadable, shown as absent: environment.json." in text
    assert "it was rebuilt from the metrics" in text


def test_nan_is_said_marked_and_never_written_into_json(runs: Path) -> None:
    run = write(runs, nan_steps=frozenset({3}))

    outline = written(run)

    html = run.report.read_text(encoding="utf-8")
    assert "The loss is not a number in 1 step, first in step 3." in outline.text
    assert "A dotted line with a cross marks a value that is not a number." in outline.text
    specs = re.search(r'<script type="application/json" id="charts">(.*?)</script>', html, re.DOTALL)
    assert specs is not None
    json.loads(specs[1], parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_every_json_record_of_a_run_with_nan_is_strict(runs: Path) -> None:
    run = write(runs, nan_steps=frozenset(range(1, 21)))
    page.write(run)

    for path in run.path.rglob("*.json"):
        json.loads(path.read_text(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


@pytest.mark.parametrize("steps", [1, 2])
def test_a_run_of_too_few_steps_for_a_curve_shows_numbers_and_no_chart(steps: int, runs: Path) -> None:
    outline = written(write(runs, steps=steps, warmup=0, every=9))

    assert texts(outline) == []
    assert "Step time step 1 0.504" in outline.text
    assert "Memory, allocated step 1 37.25" in outline.text
    assert "Throughput step 1 1,983/s" in outline.text


def test_what_the_loop_noted_stands_in_the_head_and_what_an_observer_noted_does_not(runs: Path) -> None:
    run = write(runs)
    edit(run.environment, notes={"model": "another <model>", "profiler": "cut", "large_buffers_kept": True})
    edit(run.config, experiment__observers={"profiler": {}})

    head = page.run_page(facts.read(run)).html().partition("<header")[2].partition("</header>")[0]

    assert '<span class="what">model</span> another &lt;model&gt;</li>' in head
    assert not any(word in head for word in ("profiler", "large_buffers"))


def test_a_table_that_would_be_empty_is_not_there(runs: Path) -> None:
    run = write(runs)
    edit(run.data_manifest, splits={})
    edit(run.data_stats, splits={})

    outline = written(run)

    tags = [tag for tag, _ in outline.tags]
    assert "data" in headings(outline)
    assert all(tags[place + 1 : place + 2] == ["tr"] for place, tag in enumerate(tags) if tag == "tbody")


def test_three_steps_are_a_curve(runs: Path) -> None:
    assert "Throughput. one step: 1,983/s at step 1 to" in " ".join(texts(written(write(runs, steps=3, warmup=0))))


def test_what_a_loop_drew_stands_before_every_curve(runs: Path) -> None:
    run = write(runs, steps=1, warmup=0)
    (run.path / "weight.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"/>')
    records.append_line(run.artifacts, {"path": "weight.svg", "kind": "figure", "title": "One weight"})

    outline = written(run)

    assert headings(outline)[:4] == ["declared", "figures", "pictures", "loss"]
    assert "One weight" in [attributes.get("alt") for tag, attributes in outline.tags if tag == "img"]


def test_a_run_of_one_step_shows_its_one_value_and_claims_no_interval(runs: Path) -> None:
    outline = written(write(runs, steps=1, warmup=0, every=9))

    assert "training loss 9.1943 measured step 1" in outline.text
    assert "all targets over all time of 1 normal step" in outline.text
    assert "95 % interval of it unknown unknown fewer than 40 normal steps" in outline.text
    assert (
        "Loss over tokens, training 1,000 tokens 9.1943 Loss over tokens, evaluation 0 tokens 10.0000" in outline.text
    )


def test_a_run_of_nothing_but_nan_says_so_in_figures_and_charts_and_keeps_its_speed(runs: Path) -> None:
    outline = written(write(runs, nan_steps=frozenset(range(1, 21))))

    assert "The loss is not a number in 20 steps, first in step 1." in outline.text
    assert "training loss NaN measured step 20; no number in 20 steps" in outline.text
    assert "validation loss NaN measured after step 20" in outline.text
    assert texts(outline)[0] == (
        "Loss over tokens. training: no number. evaluation: 10.0000 at 0 tokens. "
        "20 places are not a number and left open."
    )
    assert "tokens per second 2,001/s derived" in outline.text


def test_a_hostile_name_is_shown_literally(runs: Path) -> None:
    run = write(runs, description=HOSTILE)
    edit(run.config, experiment__name=HOSTILE)
    edit(run.environment, device__name=HOSTILE)

    outline = written(run)

    html = run.report.read_text(encoding="utf-8")
    assert HOSTILE not in html
    assert HOSTILE in outline.text
    assert len([tag for tag, _ in outline.tags if tag == "script"]) == 3


def test_a_hostile_metric_name_stays_inside_its_data(runs: Path) -> None:
    run = write(runs)
    run.metrics.write_text(run.metrics.read_text().replace('"flops"', json.dumps(HOSTILE)))

    outline = written(run)

    assert HOSTILE not in run.report.read_text(encoding="utf-8")
    assert HOSTILE in outline.text


def test_a_page_loads_nothing(runs: Path) -> None:
    outline = written(write(runs))

    assert not [tag for tag, _ in outline.tags if tag in ("link", "iframe", "object", "embed", "base", "form", "video")]
    for tag, attributes in outline.tags:
        for name in ("src", "href", "action", "xlink:href"):
            assert (attributes.get(name) or "#").startswith(("#", "data:")), (tag, attributes)
    policy = next(a["content"] for tag, a in outline.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'")


def test_every_chart_has_a_text_that_says_the_same(runs: Path) -> None:
    outline = written(write(runs))

    labels = [attributes["aria-label"] for _, attributes in outline.tags if "data-chart" in attributes]
    assert len(labels) >= 5
    assert any("training: 9." in label and "lowest" in label for label in labels)


def test_every_figure_says_how_it_is_known(runs: Path) -> None:
    outline = written(write(runs, device=CPU, peak=None))

    known = [a["class"] for tag, a in outline.tags if tag == "span" and str(a.get("class")).startswith("known")]
    figures = [a for tag, a in outline.tags if tag == "span" and str(a.get("class")).startswith("value")]
    assert len(known) == len(figures)
    assert {"known measured", "known derived", "known unknown", "known declared"} == set(known)
    assert "no peak is known for Test CPU" in outline.text


def test_a_hundred_thousand_steps_stay_a_small_page_that_loses_no_extreme(runs: Path) -> None:
    run = write(runs, steps=100_000, warmup=10, every=10_000)

    outline = written(run)

    assert run.report.stat().st_size < 5 * 2**20
    assert "Drawn as the lowest and highest of every 167 values." in outline.text
    assert "training loss 3.0007 measured step 100,000" in outline.text
    assert "training: 9.1943 at 1,000 tokens to 3.0007 at 100,000,000 tokens; lowest 2.9800" in texts(outline)[0]


def test_thinning_keeps_every_extreme_and_a_mark_of_what_is_no_number() -> None:
    y = [0.0] * 10_000
    y[1234], y[8765], y[5000] = 9.0, -9.0, float("nan")

    kept_x, kept_y, size = thinned([float(x) for x in range(10_000)], y, 200)

    assert size == 100
    assert len(kept_x) <= 201
    assert (kept_y[kept_x.index(1234.0)], kept_y[kept_x.index(8765.0)]) == (9.0, -9.0)
    assert 5000.0 in kept_x


def test_a_chart_tells_its_gaps_and_its_range() -> None:
    chart = Chart("c", "Loss", "step", "loss", (Series("a", [1.0, 2.0, 3.0], [4.0, float("nan"), 2.0]),))

    assert (
        chart.text
        == "Loss. a: 4 at step 1 to 2 at step 3; lowest 2, highest 4, 2 values. 1 place is not a number and left open."
    )


def test_files_are_listed_with_hashes_and_links_are_not_followed(runs: Path, tmp_path: Path) -> None:
    run = write(runs)
    (tmp_path / "elsewhere.txt").write_text("private", encoding="utf-8")
    (run.logs / "link.log").symlink_to(tmp_path / "elsewhere.txt")

    text = written(run).text

    assert "logs/link.log - a link, not followed" in text
    assert records.read_json(run.config) is not None


def test_a_table_that_an_observer_left_is_shown(runs: Path, tmp_path: Path) -> None:
    run = write(runs)
    (run.path / "heard.csv").write_text("step,loss\n1,2.5\n")
    records.append_line(run.artifacts, {"path": "heard.csv", "kind": "table", "title": "Losses that it heard"})

    text = written(run).text

    assert "Losses that it heard" in text
    assert "heard.csv, 1 row" in text


def test_an_artifact_that_is_gone_or_points_outside_is_said_and_not_read(runs: Path, tmp_path: Path) -> None:
    run = write(runs)
    (tmp_path / "secret.json").write_text('{"secret": 1}', encoding="utf-8")
    for path in ("gone.png", "../../secret.json", str(tmp_path / "secret.json")):
        records.append_line(run.artifacts, {"path": path, "kind": "figure", "title": "A picture"})

    outline = written(run)

    assert outline.text.count("is not there.") == 3
    assert "pictures" in headings(outline)


def test_a_page_has_every_figure_that_a_reader_looks_for(runs: Path) -> None:
    run = write(runs, steps=60, dollars=0.36)
    rows = [{"from": 1, "to": 64, "documents": 7}, {"from": 65, "to": 128, "documents": 3}]
    stats = {
        "packing": {"fill": 0.984, "packs": 12, "capacity": 1000, "segments_per_pack": 17.5},
        "splits": {"train": {"histogram": rows}},
    }
    records.write_json(run.data_stats, stats)
    gaps = [{"step": 5, "seconds": 0.002, "phase": "backward", "before": "gemm"}]
    operators = [{"name": "aten::mm", "seconds": 0.3}]
    records.write_json(run.path / "profile.json", {"busy_share": 0.8, "operators": operators, "gaps": gaps})
    (run.path / "trace.json.gz").write_bytes(b"x" * 2048)
    for name, kind in (("profile.json", "json"), ("trace.json.gz", "trace")):
        records.append_line(run.artifacts, {"path": name, "kind": kind, "title": f"The {kind}"})

    text = written(run).text

    for said in (
        "MFU 0.00",
        "6 * (12 * L * d^2 + V * d) * T + 12 * L * d * sum(s_i^2)",
        "NVIDIA H100 SXM data sheet, dense BF16",
        "packing fill 98.40 % measured 12 packs of 1,000",
        "Document lengths, train Documents by their number of tokens. 1 to 64 7 65 to 128 3",
        "Cost by phase $0.3600 in all",
        "boot $0.0600",
        "busy share of the GPU 80.00 %",
        "Longest gaps step idle phase then came 5 0.002 s backward gemm",
        "aten::mm 0.3 s",
        "Open a trace at ui.perfetto.dev",
        "The trace trace.json.gz 2.00 KiB",
        "95 % interval of it",
    ):
        assert said in text, said


def test_a_loop_that_counts_no_flops_is_shown_no_formula(runs: Path) -> None:
    run = write(runs)
    environment = records.read_json(run.environment)
    records.write_json(run.environment, {**environment, "notes": {}})

    assert "model FLOPs of a step unknown unknown the loop notes no formula" in written(run).text


def test_a_profile_and_a_snapshot_become_sections(runs: Path) -> None:
    run = write(runs)
    profile = {"busy_share": 0.8, "busy_reason": "of the steps", "operators": [], "gaps": []}
    kernels = [{"name": "gemm_kernel", "calls": 3, "seconds": 0.4, "share": 0.6}]
    records.write_json(run.path / "profile.json", {**profile, "kernels": kernels})
    peak = {"bytes": 2**30, "phase": "backward", "by_category": {"weights": 2**29}, "by_phase": {"forward": 2**28}}
    records.write_json(run.path / "memory-events.json", {"step": 4, "events": [], "peak": peak})
    for name in ("profile.json", "memory-events.json"):
        records.append_line(run.artifacts, {"path": name, "kind": "json", "title": name})

    outline = written(run)

    assert "gemm_kernel" in outline.text
    assert "80.00 %" in outline.text
    assert "Snapshot of step 4: peak 1.00 GiB." in outline.text
    assert "512.00 MiB" in outline.text


def test_a_loss_that_nothing_was_evaluated_beside_says_nothing_of_evaluations(runs: Path) -> None:
    run, sentence = write(runs), "The fixed validation batches are evaluated"
    assert sentence in written(run).text

    steps = [line for line in run.metrics.read_text().splitlines() if json.loads(line)["kind"] == "step"]
    run.metrics.write_text("\n".join(steps) + "\n")

    assert sentence not in written(run).text


@pytest.mark.parametrize(("objective", "own"), [("cross-entropy", False), (None, False), ("z-loss (z = 0.1)", True)])
def test_a_loss_that_is_no_cross_entropy_is_not_shown_as_one(runs: Path, objective: str | None, own: bool) -> None:
    run = write(runs, objective=objective)

    outline = written(run)

    assert ("The loss measures z-loss (z = 0.1)" in outline.text) is own
    assert ("bits per byte" in outline.text.replace("nor bits per byte", "")) is not own
    assert ("nats a token" in outline.text.replace("in nats a token", "")) is not own
    assert {one.y_title for one in figures.of_run(facts.read(run)) if one.name.startswith("loss")} == {
        "loss by its own objective" if own else "loss, nats a token"
    }


@pytest.mark.parametrize(
    "text",
    [
        '{"a":' * 900 + "1" + "}" * 900,
        '{"a":' * 120 + "1" + "}" * 120,
        '{"a": ' + "[" * 900 + "]" * 900 + "}",
        '{"a": ' + "[" * 400 + "]" * 400 + "}",
        '{"a": ["' + "x" * 5 + '"], "events": 1, "peak": {"bytes": 1' + "0" * 400 + "}}",
        '{"events": 1, "peak": {"bytes": NaN, "by_phase": {"a": -1, "b": 1e999, "c": NaN}}}',
        '{"events": 1, "peak": {"bytes": -5, "by_line": [{"bytes": NaN}, {"name": 3, "bytes": "x"}, 7]}}',
        '{"operators": [{"name": "a", "seconds": 1e999}], "kernels": {"a": NaN}, "gaps": [{"seconds": NaN}, 1]}',
    ],
    ids=lambda text: text[:30],
)
def test_a_record_that_is_odd_costs_itself_and_no_page(runs: Path, text: str) -> None:
    run = write(runs)
    (run.path / "odd.json").write_text(text)
    records.append_line(run.artifacts, {"path": "odd.json", "kind": "json", "title": "The odd one"})
    records.write_json(run.path / "good.json", {"kept": 5})
    records.append_line(run.artifacts, {"path": "good.json", "kind": "json", "title": "The good one"})

    outline = written(run)

    assert "kept 5" in outline.text
    assert ("odd.json is not a readable JSON record" in outline.text) is text.startswith(('{"a":{', '{"a": ['))


def test_what_the_machine_did_is_a_section_whose_charts_have_no_gap_where_nothing_was_sampled(runs: Path) -> None:
    found = {chart.name: chart for chart in figures.of_run(facts.read(write(runs, sampled=True)))}

    assert found["machine-busy"].text == (
        "Busy. processor: 104.5 % at step 1 to 104.5 % at step 19; lowest 104.5 %, highest 104.5 %, "
        "7 values. GPU: 97.0 % at step 1 to 97.0 % at step 19; lowest 97.0 %, highest 97.0 %, 7 values."
    )
    assert [one.label for one in found["machine-memory"].series] == [
        "the worker's process",
        "on the GPU",
    ]
    assert list(found["machine-power"].series[0].y) == [650.5] * 7


@pytest.mark.parametrize(("percent", "told"), [(68, True), (10, False)])
def test_a_machine_that_others_used_heavily_is_told_among_the_figures_of_speed(
    runs: Path, percent: int, told: bool
) -> None:
    run = write(runs, sampled=True)
    text = run.metrics.read_text()
    run.metrics.write_text(text.replace('"processor_percent"', f'"others_percent":{percent},"processor_percent"'))

    assert (f"taken by other processes {percent}.00 % measured" in written(run).text) is told


def test_a_run_on_a_cpu_shows_its_processor_and_no_gpu(runs: Path) -> None:
    outline = written(write(runs, sampled=True, device=CPU, peak=None))

    assert "machine" in headings(outline)
    charts = [attributes["data-chart"] for _, attributes in outline.tags if "data-chart" in attributes]
    assert [name for name in charts if str(name).startswith("machine")] == ["machine-busy", "machine-memory"]
    assert "machine" not in headings(written(write(runs, id="sample-20261201-0916-bbbb")))


def test_a_comparison_page_says_its_verdicts_before_its_figures(runs: Path) -> None:
    a, b = write(runs), write(runs, id="sample-20261201-0916-bbbb", scope="other")

    outline = Outline(page.comparison_page(compare([facts.read(a), facts.read(b)])))

    assert headings(outline)[:5] == ["runs", "verdict", "differences", "checks", "figures"]
    assert "speed not comparable measurement scope" in outline.text


def test_a_comparison_page_sends_its_reader_on_and_never_to_itself(runs: Path) -> None:
    a, same = write(runs), write(runs, id="sample-20261201-0916-bbbb")
    other = write(runs, id="sample-20261201-0917-cccc", evaluation_inputs="other")

    done = Outline(page.comparison_page(compare([facts.read(a), facts.read(same)])))
    open_ = Outline(page.comparison_page(compare([facts.read(a), facts.read(other)])))

    assert "next" not in headings(done)
    assert "To go on lab run sample" in open_.text


def test_a_value_as_long_as_a_list_of_all_parameters_is_folded_below_the_others(runs: Path) -> None:
    run = write(runs)
    edit(run.environment, notes__optimizer_groups=[f"blocks.{place}.weight" for place in range(100)])

    outline = written(run)

    environment = outline.text.split("Environment")[-1].split("Provenance")[0]
    assert environment.index("precision") < environment.index("notes.optimizer_groups blocks.0.weight")
    assert "blocks.99.weight" in environment
    assert "notes.optimizer_groups" in summaries(run)


def test_a_comparison_page_shows_what_tokens_cost_in_each_run(runs: Path) -> None:
    a, b = write(runs, dollars=0.3), write(runs, id="sample-20261201-0916-bbbb", dollars=0.6)

    text = Outline(page.comparison_page(compare([facts.read(a), facts.read(b)]))).text

    assert "training cost per million tokens $10.0000 $20.0000 +$10.0000 +100.0 %" in text
    assert "validation loss at equal dollars" in text
    assert "A million tokens cost $10.0000 in A and $20.0000 in B for the training alone" in text


def test_the_ends_of_an_axis_hold_the_first_and_the_last_point() -> None:
    x = [49.39816249000023, 65.00223910799, 131.65740720400026]

    spec, _ = specification(Chart("c", "Loss", "s", "loss", (Series("a", x, [3.0, 2.0, 1.0]),)))

    low, high = (parameter["value"] for parameter in spec["params"])
    assert [low <= point["x"] <= high for point in spec["data"]["values"]] == [True] * 3


def test_a_series_of_one_value_is_a_point_and_one_without_values_is_not_there() -> None:
    one, none = Series("training", [3.0], [9.5]), Series("evaluation", [], [], "points")

    spec, _ = specification(Chart("c", "Loss", "s", "loss", (one, none)))

    assert [layer["mark"]["type"] for layer in spec["layer"]] == ["point"]
    assert spec["layer"][0]["encoding"]["color"]["scale"]["domain"] == ["training"]


def test_the_normal_region_leaves_out_warm_up_and_observed_steps(runs: Path) -> None:
    run = facts.read(write(runs, steps=10, warmup=2, observed=frozenset({5, 6})))

    regions = figures.step_time(run).regions

    assert [(region.start, region.end) for region in regions] == [(2.5, 4.5), (6.5, 10.5)]
