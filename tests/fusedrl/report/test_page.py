"""The page tells the run's numbers, shows what a model wrote as text, and is made of whatever is there."""

import json
from pathlib import Path

import pytest

from fusedrl.report.page import main_keys, write_report
from tests.fusedrl.report.folders import HOSTILE, Seen, make, step


def seen(folder: Path) -> Seen:
    return Seen(write_report(folder)[0].read_text())


def test_every_figure_s_numbers_are_its_marks(tmp_path: Path) -> None:
    marks = seen(make(tmp_path, step(1), step(2))).marks
    assert marks["Score and reward"] == ["step 1: critic/score/mean 0.125", "step 2: critic/score/mean 0.25"]
    assert marks["Validation: acc"][0] == "step 1: val-core/sums/acc/mean@1 0.6875"
    assert marks["KL from the policy that sampled"][1] == "step 2: actor/ppo_kl 0.002"
    assert marks["Policy loss"][0] == "step 1: actor/pg_loss -0.25"
    assert {mark.split(": ")[1] for mark in marks["Gradient norms"]} == {"actor/grad_norm 2.5", "critic/grad_norm 0.75"}
    assert marks["Learning rates"][0] == "step 1: actor/lr 1e-05"
    assert marks["Response length"][0] == "step 1: response_length/mean 7.5"
    told = [f"perf/bubble_ratio/{k}" for k in ("planned 0.0625", "replayed 0.1875", "measured 0.3125")]
    assert [mark.split(": ")[1] for mark in marks["Bubble"][::2]] == told
    assert marks["Time of a step, by phase"][::2] == [
        "step 1: gen 1.5",
        "step 1: update_fused 2.25",
        "step 1: other 0.25",
    ]
    assert marks["Response lengths of the last validation"] == ["3: 1", "4: 1"]


def test_nothing_of_the_run_becomes_markup_or_loads(tmp_path: Path) -> None:
    hostile = {f"val-core/{HOSTILE}/acc/mean@1": 0.5, f"timing_s/{HOSTILE}": 0.1}
    folder = make(tmp_path / "run", step(1, **hostile))
    page = write_report(folder)[0].read_text()
    found = Seen(page)
    assert "default-src 'none'; style-src 'unsafe-inline'" in page
    assert not {"img", "script", "link", "iframe"} & set(found.tags)
    assert not any(name == "src" or name.startswith("on") for name, _ in found.attributes)
    assert {value for name, value in found.attributes if name == "href"} == {"config.yaml"}
    assert found.text.count(HOSTILE.replace("\x1b", "\\u001b")) >= 5  # command, key, two samples, metric


def test_values_that_are_not_finite_leave_gaps(tmp_path: Path) -> None:
    rows = [step(1), step(2, **{"actor/pg_loss": None}), step(3, **{"actor/pg_loss": float("nan"), "actor/lr": 1e308})]
    found = seen(make(tmp_path, *rows, step(4, **{"timing_s/gen": None, "actor/ppo_kl": float("inf")})))
    assert [mark[:6] for mark in found.marks["Policy loss"]] == ["step 1", "step 4"]
    assert "2 values are missing or not finite" in found.text
    assert "step 4: other 1.75" in found.marks["Time of a step, by phase"]
    assert not any(value and ("nan" in value or "inf" in value) for name, value in found.attributes if name == "points")


def test_one_step_without_variation_is_drawn(tmp_path: Path) -> None:
    found = seen(make(tmp_path, step(1, **{"actor/entropy": 0.0}), samples=0))
    assert found.marks["Entropy"] == ["step 1: actor/entropy 0"]
    assert "Steps 1 to 1." in found.text


def test_samples_are_those_of_the_last_validation_and_bounded(tmp_path: Path) -> None:
    found = seen(make(tmp_path, step(1), samples=60))
    assert "step_2: the first 50 of 60 samples" in found.text
    assert "r49r" in found.text
    assert "r50r" not in found.text
    assert "of an earlier step" not in found.text
    assert found.marks["Response lengths of the last validation"] == ["3: 30", "4: 30"]


def test_a_trace_becomes_a_timeline_with_its_link(tmp_path: Path) -> None:
    op = {"ph": "X", "tid": 0, "pid": 1, "ts": 2000.0, "dur": 500.0, "name": "actor F0", "cat": "actor,F"}
    waiting = op | {"tid": 1, "name": "for actor F0"}
    make(tmp_path, step(3))
    (tmp_path / "trace_step3.json").write_text(json.dumps({"traceEvents": [op, waiting, 5, {"ph": "X", "tid": 0}]}))
    found = seen(tmp_path)
    assert found.marks["Training passes of step3"] == ["rank 1: actor F0 from 0 ms for 0.5 ms"]
    assert ("href", "trace_step3.json") in found.attributes


def test_phases_and_instances_stand_by_rank_on_one_clock(tmp_path: Path) -> None:
    def slice_of(rank: int, thread: int, name: str, start: float, length: float) -> dict[str, object]:
        category = {2: "phase", 3: "instance"}[thread]
        times = {"ts": start * 1e3, "dur": length * 1e3}
        return {"ph": "X", "tid": thread, "pid": rank, "name": name, "cat": category} | times

    events = [slice_of(rank, 2, "step", 10, 90) for rank in (0, 1)]
    events += [slice_of(rank, 2, "update_fused", 60 + rank, 20) for rank in (0, 1)]
    events += [slice_of(1, 3, "generate", 15, 41), slice_of(1, 3, "actor", 56.5, 2)]
    make(tmp_path, step(2))
    (tmp_path / "trace_step2.json").write_text(json.dumps({"traceEvents": events}))
    found = seen(tmp_path)
    assert found.marks["Phases of step2, by rank"] == [
        "rank 0: update_fused from 45 ms for 20 ms",
        "rank 1: update_fused from 46 ms for 20 ms",
        "rank 1 instance: generate from 0 ms for 41 ms",
        "rank 1 instance: actor from 41.5 ms for 2 ms",
    ]
    assert "Training passes of step2" not in found.marks  # there were none
    told = found.text.partition("Phases of step2, by rank")[2]
    legend = [told.index(name) for name in ("generate ", "update_fused ", "actor ")]
    assert legend == sorted(legend)  # by the time that they took


def test_what_is_missing_or_odd_is_a_line_and_the_rest_is_shown(tmp_path: Path) -> None:
    make(tmp_path, step(1))
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('[1]\n{"step": "two"}\n{"step": 2, "critic/sco')  # the last one was cut: no problem
    (tmp_path / "config.yaml").write_text("a: [")
    (tmp_path / "trace_step1.json").write_text("{")
    path, problems = write_report(tmp_path)
    wanted = [
        "metrics.jsonl: 1 lines hold no",
        "metrics.jsonl: 1 lines name no",
        "config.yaml is not",
        "trace_step1.json",
    ]
    assert len(problems) == len(wanted)
    assert all(line.startswith(start) for line, start in zip(problems, wanted, strict=True))
    text = Seen(path.read_text()).text
    assert all(line in text for line in problems)
    assert "step 1: critic/score/mean 0.125" in text
    (tmp_path / "metrics.jsonl").unlink()
    assert write_report(tmp_path)[1][0] == "metrics.jsonl is missing: no curves"


def test_a_folder_that_is_no_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"neither metrics\.jsonl nor config\.yaml"):
        write_report(tmp_path)
    with pytest.raises(ValueError, match="no such folder"):
        write_report(tmp_path / "gone")


def test_main_keys_are_told_with_where_they_stand() -> None:
    config = {"critic": {"optim": {"lr": 0.003, "eps": 1e-8}}, "model": {"path": None}, "data": {"train_batch_size": 8}}
    assert dict(main_keys(config)) == {"critic.optim.lr": 0.003, "data.train_batch_size": 8}
