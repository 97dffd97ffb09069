"""A run's folder says what ran; an earlier run of the same name is kept apart, never mixed in or lost."""

import json
from pathlib import Path

from fusedrl.telemetry.run_folder import RunFolder, open_run_folder


def opened(path: Path, *, text: str = "a: 1\n", resumed_from: int | None = None) -> RunFolder:
    command = ["fusedrl.ppo", "data.task.config={a: 1}"]
    return open_run_folder(path, config_yaml=text, sizes={"ranks": 4}, command=command, resumed_from=resumed_from)


def test_configuration_sizes_and_command_are_saved(tmp_path: Path) -> None:
    folder = opened(tmp_path / "runs" / "name")
    assert folder.config.read_text() == "a: 1\n"
    assert json.loads(folder.sizes.read_text()) == {"ranks": 4}
    assert folder.command.read_text() == "fusedrl.ppo 'data.task.config={a: 1}'\n"


def test_each_earlier_run_is_set_aside_under_its_own_number(tmp_path: Path) -> None:
    for run in range(3):
        folder = opened(tmp_path, text=f"run: {run}\n")
        assert not folder.metrics.exists()
        assert not list(tmp_path.glob("trace_step*.json"))
        folder.metrics.write_text(f"{run}")
        (tmp_path / f"trace_step{run}.json").write_text("[]")
        folder.tensorboard.mkdir()
    assert [(tmp_path / "previous" / f"{n}" / "config.yaml").read_text() for n in (1, 2)] == ["run: 0\n", "run: 1\n"]
    assert [(tmp_path / "previous" / f"{n}" / "metrics.jsonl").read_text() for n in (1, 2)] == ["0", "1"]
    assert (tmp_path / "previous/2/trace_step1.json").exists()
    assert folder.config.read_text() == "run: 2\n"


def test_orders_and_models_stay_for_the_new_run_to_read(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    folder.order.write_text("actor:F0")
    folder.huggingface.mkdir()
    opened(tmp_path)
    assert folder.order.read_text() == "actor:F0"
    assert folder.huggingface.is_dir()


def test_a_resumed_run_keeps_its_records(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    folder.metrics.write_text("lines")
    opened(tmp_path, resumed_from=4)
    assert folder.metrics.read_text() == "lines"
    assert not (tmp_path / "previous").exists()
