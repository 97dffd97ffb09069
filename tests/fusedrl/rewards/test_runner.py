"""The worker pool against functions that misbehave: what a call yields, and what stays behind."""

import gc
import logging
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fusedrl.rewards.function import RewardFunctionError
from fusedrl.rewards.runner import RewardRunner
from fusedrl.rewards.sample import RewardSample, count

FUNCTIONS = Path(__file__).with_name("functions.py")
LIMIT = 1.0


@pytest.fixture(scope="module")
def runner() -> Iterator[RewardRunner]:
    with RewardRunner(FUNCTIONS, workers=2, timeout=LIMIT, default_score=-1.0) as shared:
        yield shared


def sample(action: str, text: Any = "", *, extra_info: dict | None = None, name: str | None = None) -> RewardSample:
    return RewardSample(name or f"{action}:{text}"[:40], action, str(text), None, extra_info)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def becomes_true(condition: Callable[[], bool], *, within: float) -> bool:
    deadline = time.monotonic() + within
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_results_keep_the_order_and_ids_of_the_samples(runner: RewardRunner) -> None:
    samples = [sample("number", i, name=f"id{i}") for i in range(500)]
    results = runner.score(samples)
    assert [result.score for result in results] == list(range(500))
    assert [result.sample_id for result in results] == [f"id{i}" for i in range(500)]
    assert all(result.ok for result in results)


def test_order_holds_when_later_samples_finish_first(runner: RewardRunner) -> None:
    samples = [sample("sleep", 0.2, name="slow"), *(sample("number", i) for i in range(9))]
    assert [result.score for result in runner.score(samples)] == [1.0, *range(9)]


def test_work_is_spread_over_the_workers(runner: RewardRunner) -> None:
    assert len({result.score for result in runner.score([sample("slow_pid")] * 4)}) == 2


def test_no_samples_give_no_results(runner: RewardRunner) -> None:
    assert runner.score([]) == []


@pytest.mark.parametrize(
    ("action", "text", "status", "detail"),
    [
        ("raise", "key", "error", r"KeyError: 'key' \(functions.py:\d+\)"),
        ("exit", "3", "error", "SystemExit: 3"),
        ("recurse", "", "error", "RecursionError"),
        ("return", "float('nan')", "invalid", "returned nan"),
        ("return", "None", "invalid", "returned NoneType None, not a number"),
        ("return", "{'reward': 1}", "invalid", "returned a dict without 'score'"),
        ("spin", "", "timeout", "no answer in 1.0 s"),
        ("stubborn", "", "timeout", "no answer in 1.0 s"),
        ("locked", "", "timeout", "no answer in 1.0 s"),
        ("die", "0", "died", "the worker ended: exit code 0"),
        ("die", "7", "died", "the worker ended: exit code 7"),
        ("crash", "", "died", "the worker ended: signal SIGSEGV"),
        ("corrupt", r"b'\xc1' * 50", "died", "the worker ended"),
        ("corrupt", r"b'\x94\xa2ok\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00\xa0\x80'", "died", "the worker ended"),
    ],
)
def test_a_call_that_fails_gets_the_default_score_and_harms_no_other(
    runner: RewardRunner, action: str, text: str, status: str, detail: str
) -> None:
    before = runner.totals[status]
    samples = [sample("number", i) for i in range(6)]
    results = runner.score([*samples[:3], sample(action, text), *samples[3:]])
    assert [result.score for result in results] == [0, 1, 2, -1, 3, 4, 5]
    bad = results[3]
    assert bad.status == status
    assert re.search(detail, bad.detail), bad.detail
    assert count(results) == {**count([]), "ok": 6, status: 1}
    assert runner.totals[status] == before + 1


@pytest.mark.parametrize("wait", [0.0, 0.2])  # the child comes out last, or first
@pytest.mark.parametrize("what", ["return", "raise", "exit"])
def test_a_forked_child_that_comes_out_of_the_function_answers_nothing(
    runner: RewardRunner, what: str, wait: float
) -> None:
    info = {"child": what, "wait": wait}
    samples = [sample("fork", i, extra_info=info) if i % 60 == 5 else sample("number", i) for i in range(240)]
    results = runner.score(samples)
    assert [result.score for result in results] == list(range(240))
    assert count(results)["ok"] == 240


def test_a_child_forked_while_the_file_is_imported_answers_nothing(tmp_path: Path) -> None:
    file = tmp_path / "reward.py"
    file.write_text("import os\nos.fork()\ndef compute_score(**sample):\n    return float(sample['solution_str'])\n")
    with RewardRunner(file, workers=1, timeout=LIMIT) as forking:
        results = forking.score([sample("", i) for i in range(100)])
    assert [(result.status, result.score) for result in results] == [("ok", i) for i in range(100)]


def test_answers_to_other_samples_than_the_one_in_progress_shift_no_score(runner: RewardRunner) -> None:
    forged = [[10**6, "ok", 5.0, "", {}], [10**6 + 1, "ok", 6.0, "", {}]]
    samples = [sample("number", i) for i in range(200)]
    samples[20] = sample("forge", 20, extra_info={"answers": forged})
    results = runner.score(samples)
    assert [i for i, result in enumerate(results) if result.score != i] == [20]
    assert results[20].status == "died"


def test_every_hanging_sample_costs_its_own_limit_only(runner: RewardRunner) -> None:
    started = time.monotonic()
    samples = [sample("spin") if i % 50 == 7 else sample("number", i) for i in range(200)]
    results = runner.score(samples)
    assert count(results)["timeout"] == 4
    assert [result.score for result in results if result.ok] == [i for i in range(200) if i % 50 != 7]
    assert 2 * LIMIT <= time.monotonic() - started < 4 * LIMIT + 2.0


def test_the_limit_is_per_sample_not_per_message(runner: RewardRunner) -> None:
    results = runner.score([sample("sleep", 0.1) for _ in range(40)])  # 2 s a worker
    assert count(results)["ok"] == 40


def test_a_score_of_zero_is_a_score_not_a_missing_one(runner: RewardRunner) -> None:
    zeros = runner.score([sample("return", text) for text in ("0.0", "0", "False", "{'score': 0.0}")])
    assert [(result.status, result.score) for result in zeros] == [("ok", 0.0)] * 4


def test_other_entries_of_a_returned_dict_come_along(runner: RewardRunner) -> None:
    (result,) = runner.score([sample("return", "{'score': 1, 'acc': 0.5, 'why': 'x', 'n': 2**70}")])
    assert result.extra == {"acc": 0.5, "why": "x", "n": 2**70}


def test_failures_are_logged_with_the_sample_s_id_and_floods_are_summed_up(
    runner: RewardRunner, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        runner.score([sample("raise", "x", name=f"prompt{i}") for i in range(25)])
        runner.score([sample("raise", f"x{i}", name=f"prompt{i}") for i in range(25)])
    alike, *lines = [record.getMessage() for record in caplog.records]
    assert alike.startswith("reward of sample prompt0 and 24 more: error: KeyError: 'x'")
    assert lines[3].startswith("reward of sample prompt3: error: KeyError: 'x3'")
    assert len(lines) == 21
    assert lines[-1] == "rewards of further samples failed in 5 other ways"


def test_messages_larger_than_a_pipe_pass_both_ways(runner: RewardRunner) -> None:
    text = "x" * 300_000
    results = runner.score([sample("length", text) for _ in range(20)])
    assert [result.score for result in results] == [300_000] * 20
    (echo,) = runner.score([sample("return", f"{{'score': 1, 'text': '{text}'}}")])
    assert echo.extra == {"text": text}


def test_output_of_the_function_does_not_disturb_the_answers(runner: RewardRunner) -> None:
    assert [result.score for result in runner.score([sample("loud")] * 3)] == [1.0] * 3


def test_extra_info_arrives_and_what_cannot_be_sent_names_the_sample(runner: RewardRunner) -> None:
    (result,) = runner.score([sample("info", extra_info={"value": 2**70, 1: (2, 3)})])
    assert result.score == float(2**70)
    with pytest.raises(ValueError, match=r"sample odd: ground_truth or extra_info: object cannot be sent"):
        runner.score([sample("number", 1), sample("info", extra_info={"value": object()}, name="odd")])


def test_workers_import_neither_torch_nor_megatron_and_see_no_rendezvous(
    runner: RewardRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    (result,) = runner.score([sample("modules", "torch megatron numpy transformers")])
    assert result.score == 0.0
    monkeypatch.setenv("MASTER_ADDR", "somewhere")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "1")
    with RewardRunner(FUNCTIONS, workers=1) as fresh:
        results = fresh.score([sample("environment", name) for name in ("MASTER_ADDR", "TORCHELASTIC_RUN_ID", "PATH")])
    assert [result.score for result in results] == [0.0, 0.0, 1.0]


def test_thousands_of_trivial_scores_a_second(runner: RewardRunner) -> None:
    samples = [sample("number", 1) for _ in range(10_000)]
    started = time.monotonic()
    runner.score(samples)
    assert time.monotonic() - started < 5.0


def test_a_worker_lost_between_calls_is_replaced(runner: RewardRunner) -> None:
    pids = {int(result.score) for result in runner.score([sample("pid")] * 8)}
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    assert becomes_true(lambda: not any(map(alive, pids)), within=2)
    results = runner.score([sample("pid")] * 8)
    assert not pids & {int(result.score) for result in results if result.ok}
    assert count(results)["ok"] >= 6  # a sample may have been handed to a worker just before it was missed


def test_timeout_kills_what_the_function_started(runner: RewardRunner, tmp_path: Path) -> None:
    told = tmp_path / "pids"
    (result,) = runner.score([sample("child", told)])
    assert result.status == "timeout"
    assert becomes_true(lambda: not any(alive(int(pid)) for pid in told.read_text().split()), within=2)


@pytest.mark.parametrize("how", ["close", "context", "forgotten"])
def test_no_worker_outlives_its_runner(how: str) -> None:
    runner = RewardRunner(FUNCTIONS, workers=2)
    pids = {int(result.score) for result in runner.score([*[sample("thread_at_exit")] * 2, *[sample("pid")] * 50])[2:]}
    assert all(map(alive, pids))
    if how == "context":
        with runner:
            pass
    elif how == "close":
        runner.close()
        runner.close()
    else:
        del runner
        gc.collect()
    assert not any(map(alive, pids))


def test_a_closed_runner_refuses_work() -> None:
    runner = RewardRunner(FUNCTIONS, workers=1)
    runner.close()
    with pytest.raises(RuntimeError, match="the reward runner is closed"):
        runner.score([sample("number", 1)])


PARENT = """
import sys
from fusedrl.rewards.runner import RewardRunner
from fusedrl.rewards.sample import RewardSample
runner = RewardRunner(sys.argv[1], workers=2, timeout=float(sys.argv[4]))
runner.score([RewardSample("x", sys.argv[2], sys.argv[3])] * 2)
"""


@pytest.mark.parametrize(("action", "limit", "within"), [("child", 600, 2.0), ("locked", 0.7, 4.0)])
def test_workers_and_their_children_die_with_a_killed_parent(
    tmp_path: Path, action: str, limit: float, within: float
) -> None:
    told = tmp_path / "pids"
    arguments = [sys.executable, "-c", PARENT, str(FUNCTIONS), action, str(told), str(limit)]
    parent = subprocess.Popen(arguments, stderr=subprocess.DEVNULL)
    try:
        assert becomes_true(lambda: told.exists() and told.read_text() != "", within=20)
        time.sleep(0.1)
    finally:
        parent.kill()
        parent.wait()
    pids = [int(pid) for pid in told.read_text().split()]
    assert becomes_true(lambda: not any(map(alive, pids)), within=within)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import no_such_module\n", r"custom_reward_function.path=.*mine.py: importing it raised ModuleNotFoundError"),
        (
            "def other():\n    pass\n",
            r"custom_reward_function.name=compute_score: .*mine.py has no such name; it defines other",
        ),
        ("import os\nos._exit(9)\n", r"mine.py, name=compute_score: the worker ended \(exit code 9\)"),
        ("import time\ntime.sleep(60)\n", r"the worker was not ready"),
    ],
)
def test_a_function_that_cannot_be_loaded_stops_the_run_at_its_start(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(text)
    with pytest.raises(RewardFunctionError, match=message):
        RewardRunner(file, workers=2, start_timeout=1.0 if "sleep" in text else 60.0)


def test_the_file_is_imported_in_workers_only(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "import os\nPID = os.getpid()\n"
        "def compute_score(data_source, solution_str, ground_truth, extra_info):\n    return PID\n"
    )
    with RewardRunner(file, workers=1) as runner:
        (result,) = runner.score([sample("x")])
    assert result.score != os.getpid()
    assert not any(getattr(module, "__file__", None) == str(file) for module in list(sys.modules.values()))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 0}, r"custom_reward_function.num_workers is 0"),
        ({"timeout": 0.0}, r"custom_reward_function.timeout_s is 0.0"),
        ({"default_score": float("nan")}, r"custom_reward_function.default_score is nan"),
        ({"default_score": 1e39}, r"custom_reward_function.default_score is 1e\+39: make it finite, within float32"),
    ],
)
def test_options_that_make_no_sense_are_refused_by_key(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RewardRunner(FUNCTIONS, **options)
