"""One line a step, with what is there; a bar only where a person looks on."""

import io

import pytest
from rich.console import Console

from fusedrl.telemetry.console import ConsoleWriter, is_live, step_line
from fusedrl.telemetry.pace import Pace

METRICS = {
    "critic/score/mean": 0.53125,
    "val-core/chain_sum/acc/mean@1": 0.64,
    "perf/bubble_ratio/measured": 0.2131,
    "perf/bubble_ratio/planned": 0.18,
    "perf/total_num_tokens": 600.0,
}


def pace(*, total: int) -> Pace:
    now = iter([0.0, 3.0])
    found = Pace(total_steps=total, first_step=11, clock=lambda: next(now))
    found.step_done(12)
    return found


def test_the_whole_line() -> None:
    assert step_line(12, METRICS, total_steps=160, pace=pace(total=160)) == (
        "step  12/160  reward 0.531  accuracy 0.640  bubble 0.21 (planned 0.18)  200 tokens/s  3.00 s/step  7m24s left"
    )


def test_what_is_absent_is_left_out() -> None:
    first = Pace(total_steps=9)
    assert step_line(0, {"val-core/a": 0.5}, total_steps=9, pace=first) == "step 0/9  accuracy 0.500  ? left"
    assert step_line(0, {"train/loss": 1.25}, total_steps=9, pace=first) == "step 0/9  loss 1.2500  ? left"


def test_a_reward_model_s_accuracy_on_its_batch_stands_apart_from_the_held_out_one() -> None:
    metrics = {"rm/loss": 0.5, "rm/accuracy": 0.75, "val/loss": 0.6, "val-core/accuracy": 0.7}
    assert step_line(0, metrics, total_steps=9, pace=Pace(total_steps=9)) == (
        "step 0/9  loss 0.5000  accuracy 0.700  train accuracy 0.750  validation loss 0.6000  ? left"
    )


def test_accuracy_is_the_mean_over_data_sources() -> None:
    line = step_line(0, {"val-core/a": 0.2, "val-core/b": 0.4}, total_steps=9, pace=Pace(total_steps=9))
    assert "accuracy 0.300" in line


def test_only_means_count_and_a_reward_is_not_called_accuracy() -> None:
    several = {f"val-core/a/acc/{name}": 9.0 for name in ("best@4/mean", "maj@4/mean", "pass@4")}
    metrics = {
        "val-core/a/acc/mean@4": 0.5,
        **several,
        "val-core/b/reward/mean@4": 2.0,
        "val-core/c/reward/mean@4": 4.0,
    }
    line = step_line(0, metrics, total_steps=9, pace=Pace(total_steps=9))
    assert line == "step 0/9  accuracy 0.500  validation reward 3.000  ? left"


def written(*, terminal: bool) -> str:
    text = io.StringIO()
    console = Console(file=text, force_terminal=terminal, width=100, soft_wrap=True)
    writer = ConsoleWriter(total_steps=2, console=console)
    for step in (0, 1, 2):
        writer.log(step, METRICS)
    writer.say("[bold]as it is[/bold]")
    writer.close()
    return text.getvalue()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TERM", "xterm")


def test_without_a_terminal_there_are_plain_lines_only() -> None:
    lines = written(terminal=False).splitlines()
    assert [line.startswith(f"step {n}/2  reward 0.531") for n, line in enumerate(lines[:3])] == [True] * 3
    assert lines[3:] == ["[bold]as it is[/bold]"]


@pytest.mark.usefixtures("terminal")
def test_on_a_terminal_there_is_a_bar_below_the_lines() -> None:
    text = written(terminal=True)
    assert "\x1b[" in text
    assert "━" in text
    assert "step 2/2  reward 0.531" in text


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(
    ("is_terminal", "environment", "live"),
    [(True, {}, True), (False, {}, False), (True, {"CI": "true"}, False), (True, {"TERM": "dumb"}, False)],
)
def test_a_bar_is_drawn_only_where_a_person_looks_on(
    is_terminal: bool, environment: dict[str, str], live: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert is_live(Console(file=io.StringIO(), force_terminal=is_terminal)) is live
