from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from sample_runs import CPU, H100, edit, write

from lab.compare import facts, rows
from lab.compare.changes import Mark
from lab.compare.comparison import compare
from lab.compare.markdown import markdown

if TYPE_CHECKING:
    from pathlib import Path

    from lab.compare.answer import Comparison
    from lab.compare.changes import Change
    from lab.runs.directory import RunDirectory

OTHER = "sample-20261201-0916-bbbb"
THIRD = "sample-20261201-0917-cccc"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / ".runs"


def compared(*found: RunDirectory) -> Comparison:
    return compare([facts.read(run) for run in found])


def changes(comparison: Comparison, place: int = 0) -> dict[str, Change]:
    return {change.measure.name: change for change in comparison.pairs[place].changes}


def test_runs_of_another_batch_size_are_read_off_at_the_same_tokens(runs: Path) -> None:
    a = write(runs, steps=100, every=10, targets=320)
    halved = ("batch.tokens=2000", "train.steps=50")
    b = write(runs, id=OTHER, steps=50, planned=100, every=10, targets=640, overrides=halved, fed_flips_at=1)

    result = compared(a, b)

    loss = changes(result)["validation loss"]
    assert loss.measure.how == "at 32,000 tokens"
    assert loss.measure.values[0] == pytest.approx(loss.measure.values[1])
    assert loss.mark is Mark.NO_CLAIM
    assert [one.key for one in result.pairs[0].differences[:2]] == ["batch.tokens", "train.steps"]


def test_an_evaluation_between_two_others_is_read_off_the_line_and_called_derived(runs: Path) -> None:
    result = compared(write(runs), write(runs, id=OTHER, steps=18, every=6, planned=20))

    loss = next(measure for measure in result.measures if measure.name == "validation loss")
    assert loss.known == "derived"
    assert loss.how == "at 18,000 tokens, on the line between neighbouring points"


def test_token_losses_of_two_tokenizers_are_not_ranked_and_bits_per_byte_are_shown(runs: Path) -> None:
    a = write(runs)
    b = write(runs, id=OTHER, tokenizer="other", bytes_per_target=3.0, fed_flips_at=1)

    found = changes(compared(a, b))

    assert found["validation loss"].mark is Mark.NOT_COMPARABLE
    assert found["validation loss"].difference is None
    assert found["bits per byte"].difference > 0


@pytest.mark.parametrize("tokenizer", ["gpt2", "other"])
def test_bits_per_byte_of_another_text_are_no_result_whatever_the_tokenizer(tokenizer: str, runs: Path) -> None:
    a, b = write(runs), write(runs, id=OTHER, tokenizer=tokenizer, evaluation_inputs="other", loss_floor=2.0)
    edit(b.data_manifest, source__name="files")

    found = changes(compared(a, b))["bits per byte"]

    assert (found.mark, found.difference) == (Mark.NOT_COMPARABLE, None)
    assert "evaluation inputs" in found.words


@pytest.mark.parametrize("other", ["another text", None])
def test_bits_per_byte_of_other_evaluation_inputs_are_no_result(other: str | None, runs: Path) -> None:
    result = compared(write(runs), write(runs, id=OTHER, evaluation_inputs=other, loss_floor=2.0))

    for name in ("validation loss", "bits per byte"):
        found = changes(result)[name]
        assert (found.mark, found.difference) == (Mark.NOT_COMPARABLE, None)
        assert found.words == "not comparable: evaluation inputs"


def test_the_difference_of_a_loss_on_other_data_is_no_result(runs: Path) -> None:
    result = compared(write(runs), write(runs, id=OTHER, evaluation_inputs="other", loss_floor=2.0))

    loss = changes(result)["validation loss"]
    assert (loss.mark, loss.difference) == (Mark.NOT_COMPARABLE, None)
    assert loss.words == "not comparable: evaluation inputs"
    assert result.pairs[0].claims[0].startswith("Loss is not comparable: evaluation inputs.")


def test_a_lower_loss_of_one_seed_each_is_no_claim(runs: Path) -> None:
    result = compared(write(runs), write(runs, id=OTHER, loss_floor=2.5))

    loss = changes(result)["validation loss"]
    assert (loss.mark, loss.words) == (Mark.NO_CLAIM, "lower, one seed each")
    assert "does not show that the change moves the loss" in result.pairs[0].claims[0]


def test_the_same_losses_are_said_to_be_the_same_to_the_last_bit(runs: Path) -> None:
    result = compared(write(runs), write(runs, id=OTHER, seconds=0.4))

    assert result.pairs[0].claims[0] == "The training loss is the same to the last bit in all 20 shared steps."
    assert result.pairs[0].divergence is None


def test_a_validation_loss_that_is_the_same_is_called_that_although_the_curves_part(runs: Path) -> None:
    a, b = write(runs), write(runs, id=OTHER)
    lines = [json.loads(line) for line in b.metrics.read_text().splitlines()]
    parted = [{**line, "loss": line["loss"] + (line["kind"] == "step" and line["step"] == 5)} for line in lines]
    b.metrics.write_text("".join(json.dumps(line) + "\n" for line in parted))

    claims = compared(a, b).pairs[0].claims

    assert claims[0].startswith("B's validation loss is the same at 20,000 tokens.")
    assert claims[1].startswith("The curves part at step 5")


def test_the_step_where_curves_part_is_named_with_its_cause(runs: Path) -> None:
    a, b = write(runs), write(runs, id=OTHER, fed_flips_at=7, nan_steps=frozenset({9}))

    parting = compared(a, b).pairs[0].divergence

    assert parting is not None
    assert (parting.step, parting.cause) == (9, "the tokens fed differ from step 7 on")


def test_a_line_torn_in_the_middle_does_not_part_the_curves(runs: Path) -> None:
    whole, torn = write(runs), write(runs, id=OTHER)
    lines = torn.metrics.read_bytes().splitlines(keepends=True)
    place = next(number for number, line in enumerate(lines) if json.loads(line).get("step") == 3)
    lines[place] = lines[place][:20] + b"\n"
    torn.metrics.write_bytes(b"".join(lines))

    for pair in ((whole, torn), (torn, whole)):
        [found] = compared(*pair).pairs
        assert found.divergence is None
        assert found.claims[0] == "The training loss is the same to the last bit in all 19 shared steps."


@pytest.mark.parametrize(
    ("seconds", "mark", "words"),
    [
        (0.25, Mark.BETTER, "faster"),
        (1.0, Mark.WORSE, "slower"),
        (0.495, Mark.NO_CLAIM, "faster, less than 3%: one run each shows no more"),
    ],
)
def test_speed_is_claimed_only_when_it_stands_out(seconds: float, mark: Mark, words: str, runs: Path) -> None:
    found = changes(compared(write(runs, steps=100), write(runs, id=OTHER, steps=100, seconds=seconds)))

    assert (found["tokens per second"].mark, found["tokens per second"].words) == (mark, words)


@pytest.mark.parametrize(
    ("steps", "worth"),
    [
        (10, "Too few steps to say how precise, and one run each: no evidence of a difference."),
        (100, "One run each: the interval is within-run precision, not evidence of a difference."),
    ],
)
def test_a_speed_is_said_with_what_it_is_worth(steps: int, worth: str, runs: Path) -> None:
    result = compared(write(runs, steps=steps), write(runs, id=OTHER, steps=steps, seconds=0.25))

    speed = next(claim for claim in result.pairs[0].claims if "faster" in claim)
    assert speed.startswith("B was 100.0 % faster: all targets over all time of the ")
    assert worth in speed


@pytest.mark.parametrize(("seconds", "mark"), [(0.45, Mark.NO_CLAIM), (0.25, Mark.BETTER)])
def test_another_gpu_of_the_same_model_claims_nothing_below_their_spread(
    seconds: float, mark: Mark, runs: Path
) -> None:
    b = write(runs, id=OTHER, steps=100, seconds=seconds, device=H100 | {"uuid": "GPU-b7"})

    assert changes(compared(write(runs, steps=100), b))["tokens per second"].mark is mark


def test_less_memory_is_better(runs: Path) -> None:
    found = changes(compared(write(runs), write(runs, id=OTHER, peak=36_000_000_000)))["peak allocated"]

    assert (found.mark, found.words) == (Mark.BETTER, "less memory")
    assert found.ratio == pytest.approx(-0.1)


def test_memory_that_nobody_measured_has_no_row(runs: Path) -> None:
    result = compared(write(runs, device=CPU, peak=None), write(runs, id=OTHER, device=CPU, peak=None))

    assert "peak allocated" not in changes(result)


def test_what_a_run_had_of_its_machine_is_shown_beside_its_speed_and_never_judged(runs: Path) -> None:
    a, b = write(runs, sampled=True), write(runs, id=OTHER, sampled=True)
    b.metrics.write_text(b.metrics.read_text().replace('"processor_percent":104.5', '"processor_percent":52.25'))

    found = changes(compared(a, b))

    assert found["processor used"].measure.values == pytest.approx((1.045, 0.5225))
    assert (found["processor used"].mark, found["processor used"].words) == (Mark.NO_CLAIM, "lower")
    assert found["GPU busy"].measure.values == pytest.approx((0.97, 0.97))
    assert found["GPU power"].measure.values == pytest.approx((650.5, 650.5))


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [(3, 48, "48 % of all in B"), (30, 48, "30 % of all in A and 48 % of all in B"), (3, 24, None)],
)
def test_a_machine_that_others_used_heavily_is_told_beside_the_speed(runs: Path, one, other, told) -> None:
    a, b = write(runs, sampled=True), write(runs, id=OTHER, sampled=True)
    for run, percent in ((a, one), (b, other)):
        text = run.metrics.read_text()
        run.metrics.write_text(text.replace('"processor_percent"', f'"others_percent":{percent},"processor_percent"'))

    result = compared(a, b)

    said = [claim for claim in result.pairs[0].claims if claim.startswith("Other processes took")]
    assert [claim.partition("measured, ")[2].partition(":")[0] for claim in said] == ([told] if told else [])
    assert changes(result)["others' processors"].measure.values == pytest.approx((one / 100, other / 100))
    assert str(result.pairs[0].judgement("speed").verdict) == "comparable"


def test_what_others_took_outside_the_measured_steps_is_not_told(runs: Path) -> None:
    a, b = write(runs, sampled=True), write(runs, id=OTHER, sampled=True)
    text = b.metrics.read_text().splitlines()
    text = [
        line.replace('"seconds"', '"others_percent":90,"seconds"') if '"warmup":true' in line else line for line in text
    ]
    b.metrics.write_text("\n".join(text) + "\n")

    result = compared(a, b)

    assert "others' processors" not in changes(result)
    assert not [claim for claim in result.pairs[0].claims if claim.startswith("Other processes took")]


def test_two_shares_differ_by_points_and_other_figures_in_percent(runs: Path) -> None:
    a, b = write(runs, sampled=True), write(runs, id=OTHER, sampled=True, seconds=0.25)
    b.metrics.write_text(b.metrics.read_text().replace('"processor_percent":104.5', '"processor_percent":52.25'))

    found = {row.name: row for row in rows.figure_rows(compared(a, b).pairs[0], 1)}

    assert (found["processor used"].difference, found["processor used"].percent) == ("-52.25 points", "")
    assert (found["median step"].difference, found["median step"].percent) == ("-0.2498 s", "-50.0 %")
    assert found["MFU"].difference.endswith(" points")
    assert found["MFU"].percent == ""


def test_a_b_and_b_a_agree(runs: Path) -> None:
    a, b = write(runs, steps=100), write(runs, id=OTHER, steps=100, seconds=0.3, peak=36_000_000_000, loss_floor=2.5)

    there, back = changes(compared(a, b)), changes(compared(b, a))

    opposite = {Mark.BETTER: Mark.WORSE, Mark.WORSE: Mark.BETTER}
    for name, change in there.items():
        assert back[name].mark is opposite.get(change.mark, change.mark)
        assert back[name].difference == pytest.approx(-change.difference)


def test_nan_is_marked_and_nothing_is_claimed_from_it(runs: Path) -> None:
    result = compared(write(runs), write(runs, id=OTHER, nan_steps=frozenset(range(3, 21))))

    found = changes(result)
    assert found["validation loss"].mark is Mark.BROKEN
    assert found["training loss"].words == "not a number"
    assert any(row.b == "NaN" for row in rows.figure_rows(result.pairs[0], 1))


def test_the_record_is_strict_json_even_with_nan(runs: Path) -> None:
    from pydantic_core import to_json

    result = compared(write(runs), write(runs, id=OTHER, nan_steps=frozenset(range(3, 21))))

    text = to_json(result.record(), inf_nan_mode="strings").decode()

    record = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert record["pairs"][0]["verdicts"] == {"loss": "comparable", "speed": "comparable", "memory": "comparable"}


@pytest.mark.parametrize("stage", ["preflight", "prepare", "train"])
def test_a_run_that_failed_early_is_compared_without_a_crash(stage: str, runs: Path) -> None:
    result = compared(write(runs), write(runs, id=OTHER, status="failed", failed_stage=stage))

    assert {str(one.verdict) for one in result.pairs[0].judgements} == {"not comparable"}
    assert result.next_command == f"lab runs show {OTHER}"


def test_a_run_of_one_step_is_compared(runs: Path) -> None:
    result = compared(write(runs, steps=1, warmup=0), write(runs, id=OTHER, steps=1, warmup=0))

    assert changes(result)["tokens per second"].difference == 0


def test_every_run_is_compared_with_the_first(runs: Path) -> None:
    result = compared(write(runs), write(runs, id=OTHER, peak=1), write(runs, id=THIRD, peak=2))

    assert [pair.a.id for pair in result.pairs] == [result.runs[0].id] * 2
    assert changes(result, 1)["peak allocated"].difference == 2 - 40_000_000_000


def test_tokens_per_second_are_all_tokens_over_all_time(runs: Path) -> None:
    run = write(runs, steps=4, warmup=0)
    lines = [{"kind": "step", "step": n, "seconds": s, "targets": 1000} for n, s in enumerate((1.0, 2.0, 3.0, 4.0), 1)]
    run.metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))

    found = {measure.name: measure.values[0] for measure in compared(run, run).measures}

    assert found["tokens per second"] == 400.0
    assert found["median step"] == 2.5


def test_warm_up_and_observed_steps_count_only_in_the_overall_figure(runs: Path) -> None:
    run = write(runs, steps=10, warmup=2)
    seconds = (10.0, 5.0, *[1.0] * 8)
    lines = [
        {"kind": "step", "step": n, "seconds": s, "targets": 1000, "warmup": n <= 2, "observed": False}
        for n, s in enumerate(seconds, 1)
    ]
    run.metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))

    found = {measure.name: measure.values[0] for measure in compared(run, run).measures}

    assert found["tokens per second"] == 1000.0
    assert found["overall tokens per second"] == pytest.approx(10_000 / 23)


def test_tokens_have_a_price_with_and_without_what_is_around_the_training(runs: Path) -> None:
    result = compared(write(runs, dollars=0.3), write(runs, id=OTHER, dollars=0.6))

    found = {measure.name: measure.values for measure in result.measures}
    assert found["cost"] == (0.3, 0.6)
    assert found["training cost"] == pytest.approx((0.2, 0.4))
    assert found["tokens per dollar"] == pytest.approx((20_000 / 0.3, 20_000 / 0.6))
    assert found["training tokens per dollar"] == pytest.approx((100_000, 50_000))
    assert found["cost per million tokens"] == pytest.approx((15.0, 30.0))
    assert found["training cost per million tokens"] == pytest.approx((10.0, 20.0))
    assert "| training cost per million tokens | $10.0000 | $20.0000 |" in markdown(result)
    assert result.pairs[0].claims[-1] == (
        "A million tokens cost $10.0000 in A and $20.0000 in B for the training alone, "
        "$15.0000 and $30.0000 with all that is around it."
    )


def test_tokens_of_a_run_without_a_summary_have_the_price_of_what_was_learnt_from(runs: Path) -> None:
    run = write(runs, dollars=0.3)
    edit(run.cost, dollars_per_million_tokens={})

    found = {measure.name: measure.values[0] for measure in compared(run, run).measures}

    assert found["training cost per million tokens"] == pytest.approx(10.0)
    assert found["tokens per dollar"] == pytest.approx(20_000 / 0.3)


def test_losses_are_read_off_where_the_steps_had_cost_the_same(runs: Path) -> None:
    same_loss = {"loss_floor": 3.0, "steps": 20, "every": 5, "warmup": 0}
    a = write(runs, dollars=0.3, dollars_per_hour=3.6, seconds=0.5, **same_loss)
    b = write(runs, id=OTHER, dollars=0.3, dollars_per_hour=7.2, seconds=0.5, **same_loss)

    loss = changes(compared(a, b))["validation loss at equal dollars"]

    half = next(line for line in facts.read(b).evaluations.lines if line["step"] == 10)["loss"]
    assert loss.measure.how.startswith("when the steps alone had cost $0.0100")
    assert loss.measure.values[0] == facts.read(a).evaluations.loss[-1]
    assert loss.measure.values[1] == pytest.approx(half, rel=0.01)
    assert (loss.mark, loss.words) == (Mark.NO_CLAIM, "higher, one seed each")


@pytest.mark.parametrize("changed", [{"dollars_per_hour": None}, {"other_machines_dollars": 0.1}])
def test_without_one_price_for_all_steps_nothing_is_read_off_at_equal_dollars(changed: dict, runs: Path) -> None:
    a, b = write(runs, dollars=0.3), write(runs, id=OTHER, dollars=0.3)
    edit(b.cost, **changed)

    assert "validation loss at equal dollars" not in changes(compared(a, b))


def test_a_price_that_only_one_run_has_is_shown_and_not_compared(runs: Path) -> None:
    found = changes(compared(write(runs, dollars=0.3), write(runs, id=OTHER)))["training tokens per dollar"]

    assert found.measure.values == (pytest.approx(100_000), None)
    assert (found.mark, found.difference, found.words) == (Mark.NO_CLAIM, None, "no price is known for B")


def test_the_time_of_a_million_tokens_covers_the_whole_run(runs: Path) -> None:
    run = write(runs, steps=20, targets=1000, seconds=0.5)

    found = {measure.name: measure.values[0] for measure in compared(run, run).measures}

    assert found["elapsed per million tokens"] == pytest.approx((4 + 20 * 0.5) * 50)


def test_a_run_that_cost_nothing_has_no_price(runs: Path) -> None:
    names = {measure.name for measure in compared(write(runs), write(runs, id=OTHER)).measures}

    assert not any("dollar" in name or "cost" in name for name in names)


def test_markdown_keeps_hostile_names_as_text(runs: Path) -> None:
    a, b = write(runs), write(runs, id="x|y`-20261201-0916-bbbb")

    text = markdown(compared(a, b))

    assert "x\\|y\\`-20261201-0916-bbbb" in text


def test_only_what_changed_is_shown_when_asked(runs: Path) -> None:
    pair = compared(write(runs), write(runs, id=OTHER, peak=1, torn=1)).pairs[0]

    assert [row.name for row in rows.check_rows(pair, only_changed=True)] == ["whole records"]
    assert [row.name for row in rows.figure_rows(pair, 1, only_changed=True)] == ["peak allocated", "peak reserved"]


def test_token_losses_of_two_tokenizers_on_the_same_inputs_are_not_ranked(runs: Path) -> None:
    found = changes(compared(write(runs), write(runs, id=OTHER, tokenizer="other")))

    assert found["validation loss"].mark is Mark.NOT_COMPARABLE
    assert found["validation loss"].words == "a token is not the same text in both"


def test_a_run_without_data_is_compared_with_one_that_has_some(runs: Path) -> None:
    chapter = write(runs, id=OTHER)
    config = json.loads(chapter.config.read_text())
    config["experiment"].update(data=None, model=None, batch=None)
    chapter.config.write_text(json.dumps(config))

    result = compared(write(runs), chapter)

    assert "data.context" in [one.key for one in result.pairs[0].differences]
    assert "bits per byte" in changes(result)


SPEEDS = "tokens per second, median step, MFU, overall tokens per second, total elapsed, elapsed per million tokens"
FIGURES_OF = {
    "loss": "validation loss, bits per byte, training loss, validation loss at equal dollars",
    "speed": SPEEDS,
    "memory": "peak allocated, peak reserved",
}


@pytest.mark.parametrize(
    ("question", "changed"),
    [
        ("loss", {"weights": "other"}),
        ("speed", {"device": H100 | {"name": "NVIDIA H200"}}),
        ("speed", {"scope": "other"}),
        ("memory", {"scope": "other"}),
    ],
)
def test_where_a_question_is_not_comparable_none_of_its_figures_is_compared(
    question: str, changed: dict, runs: Path
) -> None:
    b = write(runs, id=OTHER, seconds=0.4, dollars=0.2, peak=36_000_000_000, loss_floor=2.5, **changed)

    found = changes(compared(write(runs, dollars=0.3), b))

    for name in FIGURES_OF[question].split(", "):
        assert (found[name].mark, found[name].difference) == (Mark.NOT_COMPARABLE, None), name
        assert found[name].words.startswith("not comparable: "), name
    of_question = {name for name, one in found.items() if one.measure.question == question}
    assert of_question == set(FIGURES_OF[question].split(", "))
