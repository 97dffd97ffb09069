from pathlib import Path

from fusedrl.config.schema import BaseTrainerConfig
from fusedrl.trainers.summary import finished_line, summary_lines


def test_last_lines_tell_validation_before_and_after_and_the_bubble() -> None:
    history = [
        {"val-core/sums/acc/mean@1": 0.25},
        {"perf/bubble_ratio/planned": 0.1, "perf/bubble_ratio/measured": 0.3},
        {
            "perf/bubble_ratio/planned": 0.1,
            "perf/bubble_ratio/measured": 0.5,
            "val-core/sums/acc/mean@1": 0.75,
        },
    ]
    text = "\n".join(summary_lines(history, folder=Path("runs/x"), minutes=1.5))
    assert "done in 1.5 minutes, 2 steps" in text
    assert "sums/acc/mean@1: 0.250 before, 0.750 after" in text
    without_start = summary_lines([{}, *history[1:]], folder=Path("runs/x"), minutes=1.0)
    assert "sums/acc/mean@1: 0.750 after" in without_start
    assert "planned 0.100" in text
    assert "measured 0.400" in text


def test_a_finished_run_is_told_what_to_do() -> None:
    line = finished_line(BaseTrainerConfig(default_local_dir="runs/x"), steps=7)
    assert line.startswith("all 7 steps of runs/x are done already")
    assert "trainer.resume_mode=disable" in line
