"""Only what is missing is run, with keys that the trainer takes; what is done becomes table, CSV and picture."""

import json
import sys
from pathlib import Path

import pytest

from fusedrl.bench import learning_curves
from fusedrl.bench.learning_curves import Options, command, missing, report, steps_done
from fusedrl.config.load import load


def done(folder: Path, *, steps: int, acc: float = 0.5) -> None:
    folder.mkdir(parents=True)
    lines = [{"step": step, "critic/score/mean": 0.1 * step, "val-core/sums/acc": acc} for step in range(1, steps + 1)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_finished_runs_are_not_repeated_and_half_done_ones_go_on(tmp_path: Path) -> None:
    options = Options(out=tmp_path, variants=("ppo", "grpo"), seeds=(0, 1), steps=3)
    done(options.folder("ppo", 0), steps=3)
    done(options.folder("grpo", 0), steps=2)
    assert [steps_done(options.folder("ppo", seed)) for seed in (0, 1)] == [3, 0]
    folders = [folder.relative_to(tmp_path).as_posix() for folder, _ in missing(options)]
    assert folders == ["arithmetic/grpo/seed0", "arithmetic/ppo/seed1", "arithmetic/grpo/seed1"]


def test_each_run_has_its_own_seed_algorithm_and_folder(tmp_path: Path) -> None:
    options = Options(out=tmp_path, steps=7, overrides=("data.train_batch_size=64",))
    words = command(options, variant="rloo", seed=2)
    config = load("ppo", words[words.index("fusedrl.ppo") + 1 :])
    assert (config.trainer.seed, config.data.seed, config.data.train_batch_size) == (2, 2, 64)
    assert config.algorithm.adv_estimator == "rloo"
    assert config.trainer.total_training_steps == 7
    assert config.trainer.default_local_dir == str(options.folder("rloo", 2))
    assert config.trainer.resume_mode == "auto"


def test_report_leaves_out_what_is_not_done(tmp_path: Path) -> None:
    options = Options(out=tmp_path, variants=("ppo", "grpo"), seeds=(0, 1), steps=2)
    with pytest.raises(ValueError, match="no run has 2 steps"):
        report(options)
    done(options.folder("ppo", 0), steps=2, acc=0.25)
    done(options.folder("ppo", 1), steps=2, acc=0.75)
    done(options.folder("grpo", 0), steps=1)
    rows = report(options).splitlines()[2:]
    assert [row.split(" | ")[1:3] for row in rows] == [["critic/score/mean", "2"], ["val-core/sums/acc", "2"]]
    assert "0.500 (0.250 to 0.750)" in rows[1]
    assert (tmp_path / "arithmetic.md").read_text().splitlines()[2:] == rows
    assert "ppo,val-core/sums/acc,2,0.5,0.25,0.75,2" in (tmp_path / "arithmetic.csv").read_text()
    assert (tmp_path / "arithmetic.png").stat().st_size > 0


def test_a_wrong_argument_ends_with_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr(sys, "argv", ["learning_curves", "sedes=[0]"])
    with pytest.raises(SystemExit) as ended:
        learning_curves.main()
    assert ended.value.code == 2
    assert "did you mean seeds?" in capsys.readouterr().err
