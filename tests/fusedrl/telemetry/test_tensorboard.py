"""What is logged can be read back as curves."""

from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from fusedrl.telemetry.tensorboard import TensorBoardWriter


def test_curves_read_back_with_gaps_for_values_that_are_not_finite(tmp_path: Path) -> None:
    writer = TensorBoardWriter(tmp_path)
    for step, value in enumerate((0.5, float("nan"), 1.5)):
        writer.log(step, {"critic/score/mean": value, "actor/lr": 1e-6})
    writer.close()
    events = EventAccumulator(str(tmp_path)).Reload()
    assert [(event.step, event.value) for event in events.Scalars("critic/score/mean")] == [(0, 0.5), (2, 1.5)]
    assert len(events.Scalars("actor/lr")) == 3


def test_points_after_the_step_that_a_run_goes_on_from_are_hidden(tmp_path: Path) -> None:
    for first, value in ((1, 1.0), (3, 2.0)):
        writer = TensorBoardWriter(tmp_path, keep_through=first - 1 if first > 1 else None)
        for step in range(first, first + 3):
            writer.log(step, {"x": value})
        writer.close()
    events = EventAccumulator(str(tmp_path)).Reload()
    assert [(event.step, event.value) for event in events.Scalars("x")] == [
        (1, 1.0),
        (2, 1.0),
        (3, 2.0),
        (4, 2.0),
        (5, 2.0),
    ]
