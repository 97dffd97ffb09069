"""The page is written as the records close; what goes wrong there is a warning."""

from pathlib import Path

from fusedrl.config.schema import BaseTrainerConfig
from fusedrl.telemetry.logger import open_logger
from fusedrl.telemetry.run_folder import RunFolder, open_run_folder


def close_after_a_step(folder: RunFolder) -> list[str]:
    warnings: list[str] = []
    trainer = BaseTrainerConfig(logger=[])
    with open_logger(trainer, folder, total_steps=1, warn=warnings.append) as log:
        log.log({"train/loss": 0.375}, step=1)
        assert not folder.report.exists()
    return warnings


def test_the_page_has_the_last_step_and_a_new_run_moves_it(tmp_path: Path) -> None:
    folder = open_run_folder(tmp_path, config_yaml="{}", sizes={}, command=["x"])
    assert close_after_a_step(folder) == []
    assert "step 1: train/loss 0.375" in folder.report.read_text()
    open_run_folder(tmp_path, config_yaml="{}", sizes={}, command=["x"])
    assert not folder.report.exists()
    assert (tmp_path / "previous/1/report.html").exists()


def test_a_page_that_cannot_be_written_is_a_warning(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    (folder.report / "in the way").mkdir(parents=True)
    trainer, warnings = BaseTrainerConfig(logger=[]), list[str]()
    with open_logger(trainer, folder, total_steps=1, warn=warnings.append) as log:
        log.log({"train/loss": 0.375}, step=1)
    assert len(warnings) == 1
    assert warnings[0].startswith("logger report.html could not be closed: ")
    assert "train/loss" in folder.metrics.read_text()
