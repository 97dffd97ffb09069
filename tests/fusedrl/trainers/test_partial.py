"""Carried samples: none is lost, none is trained twice or before its prompt is finished, and a saved run keeps them."""

import json
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fusedrl.config.schema import AlgorithmConfig
from fusedrl.data.sampler import RowSampler
from fusedrl.rollout.requests import Completion, Request
from fusedrl.rollout.sampling import SamplingParams
from fusedrl.trainers import partial
from fusedrl.trainers.partial import Carried, PartialRollout, corrected
from fusedrl.trainers.prompting import PromptRow
from tests.distributed.pool import RankFailure, RankPool
from tests.fusedrl.trainers.test_ppo_runs import REWARD, overrides
from tests.fusedrl.trainers.test_preflight import model

PARAMS = SamplingParams(max_tokens=50)
ROWS = 5


class Decoding:
    """Stands for generate_until: a sample's tokens are its id and the steps that drew them, its length given by its id.

    Every call gives each sample `pace` tokens at a time until it is enough.
    """

    def __init__(self, *, pace: int, step: int = 1) -> None:
        self.pace, self.step = pace, step
        self.asked: list[Request] = []

    @staticmethod
    def length(sample_id: int) -> int:
        return 1 + (7 * sample_id) % 11

    def __call__(
        self, engine: Any, requests: Sequence[Request], *, enough: Any, dp_group: Any
    ) -> tuple[list[Completion], list[Request]]:
        self.asked = list(requests)
        tokens = {r.sample_id: list(r.response) for r in requests}
        while not enough(self._finished(tokens)) and len(self._finished(tokens)) < len(tokens):
            for sample_id, so_far in tokens.items():
                more = min(self.pace, self.length(sample_id) - len(so_far))
                so_far += [1000 * self.step + sample_id] * more
        done, rest = [], []
        for request in requests:
            drawn = tuple(tokens[request.sample_id])
            given: Any = {"sample_id": request.sample_id, "prompt": request.prompt}
            logprobs = tuple(-float(token) for token in drawn)
            if request.sample_id in self._finished(tokens):
                done.append(Completion(**given, tokens=drawn, logprobs=logprobs, finish_reason="stop"))
            else:
                rest.append(Request(**given, params=request.params, response=drawn, logprobs=logprobs))
        return done, rest

    def _finished(self, tokens: dict[int, list[int]]) -> Collection[int]:
        return {each for each, so_far in tokens.items() if len(so_far) >= self.length(each)}


def rollout(*, n: int, batch: int, in_flight: int, longest: int = 64) -> PartialRollout:
    rows = [PromptRow((10 + i,), "", None, {}) for i in range(ROWS)]
    prompts: Any = SimpleNamespace(train=rows, sampler=RowSampler(size=ROWS, seed=3, shuffle=True))
    generator: Any = SimpleNamespace(
        engine=SimpleNamespace(release_cache=lambda: None), groups=SimpleNamespace(dp=None)
    )
    return PartialRollout(prompts, generator, n, batch, in_flight, longest)


def steps(
    made: PartialRollout, numbers: range, *, pace: int, monkeypatch: pytest.MonkeyPatch
) -> list[tuple[list[PromptRow], list[Completion], dict[str, float]]]:
    decoding = Decoding(pace=pace)
    monkeypatch.setattr(partial, "generate_until", decoding)
    found = []
    for step in numbers:
        decoding.step = step
        found.append(made.run(step, params=PARAMS.at_step(step)))
        ids = [request.sample_id for request in decoding.asked]
        assert len(ids) == len(set(ids))
    return found


@given(n=st.integers(1, 3), batch=st.integers(1, 4), more=st.integers(1, 6), pace=st.integers(1, 12))
def test_every_sample_is_trained_once_whole_and_with_its_prompt(n: int, batch: int, more: int, pace: int) -> None:
    made = rollout(n=n, batch=batch, in_flight=batch + more)
    with pytest.MonkeyPatch.context() as monkeypatch:
        found = steps(made, range(1, 9), pace=pace, monkeypatch=monkeypatch)
    sampler = RowSampler(size=ROWS, seed=3, shuffle=True)
    rows = sampler.next(made.prompts.sampler.position)
    trained: Counter[int] = Counter()
    for prompts, completions, _ in found:
        assert len(prompts) == batch
        assert len(completions) == batch * n
        for prompt, first in zip(prompts, completions[::n], strict=True):
            number = first.sample_id // n
            group = completions[completions.index(first) :][:n]
            assert [each.sample_id for each in group] == list(range(number * n, number * n + n))
            assert {each.prompt for each in group} == {prompt.tokens} == {(10 + rows[number],)}
        assert all(len(each.tokens) == Decoding.length(each.sample_id) for each in completions)
        trained.update(each.sample_id for each in completions)
    waiting = Counter(each for group in made.groups for each in group.ids())
    assert trained + waiting == Counter(range(n * made.prompts.sampler.position))
    assert len(made.groups) == more
    assert [group.number for group in made.groups] == sorted(group.number for group in made.groups)


def test_older_prompts_are_trained_first_and_go_on_with_their_own_random_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = rollout(n=1, batch=2, in_flight=5)  # lengths 1, 8, 4, 11, 7, then 3, 10, 6, 2
    decoding = Decoding(pace=4)
    monkeypatch.setattr(partial, "generate_until", decoding)
    _, first, told = made.run(1, params=PARAMS.at_step(1))
    assert [each.sample_id for each in first] == [0, 2]
    assert [group.number for group in made.groups] == [1, 3, 4]
    assert told == {
        "rollout/carried_groups": 3.0,
        "rollout/carried_samples": 3.0,
        "rollout/carried_tokens": 12.0,
        "rollout/stale_samples": 0.0,
        "rollout/stale_tokens": 0.0,
        "rollout/stale_tokens_ratio": 0.0,
        "rollout/staleness_max": 0.0,
    }
    decoding.step = 2
    _, second, told = made.run(2, params=PARAMS.at_step(2))
    assert [(each.sample_id, each.params.step, len(each.response)) for each in decoding.asked] == [
        (1, 1, 4),
        (3, 1, 4),
        (4, 1, 4),
        (5, 2, 0),
        (6, 2, 0),
    ]
    assert [each.sample_id for each in second] == [1, 4]  # 5 is finished too, and younger
    assert second[0].tokens == (1001,) * 4 + (2001,) * 4
    assert second[0].logprobs == (-1001.0,) * 4 + (-2001.0,) * 4
    assert (told["rollout/stale_samples"], told["rollout/stale_tokens"]) == (2.0, 8.0)
    assert told["rollout/stale_tokens_ratio"] == 8 / 15
    assert told["rollout/staleness_max"] == 1.0
    assert (told["rollout/carried_groups"], told["rollout/carried_samples"]) == (3.0, 2.0)
    decoding.step = 4
    _, third, told = made.run(4, params=PARAMS.at_step(4))
    assert [each.sample_id for each in third] == [3, 5]
    assert [each.sample_id for each in decoding.asked] == [3, 6, 7, 8]  # 5 waits, finished
    assert told["rollout/stale_tokens"] == 8 + 3
    assert told["rollout/staleness_max"] == 3.0


def test_what_is_carried_comes_back_to_the_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    made, other = (rollout(n=2, batch=2, in_flight=6) for _ in range(2))
    steps(made, range(1, 4), pace=3, monkeypatch=monkeypatch)
    plain, tensors = made.state()
    assert all(each.dim() == 1 and each.dtype in (torch.uint8, torch.float32) for each in tensors.values())
    other.restore(json.loads(json.dumps(plain)), tensors.__getitem__)
    other.prompts.sampler.load_state_dict(made.prompts.sampler.state_dict())
    assert other.groups == made.groups
    assert any(sample.drawn and sample.reason is None for group in made.groups for sample in group.samples)
    assert steps(other, range(4, 7), pace=3, monkeypatch=monkeypatch) == steps(
        made, range(4, 7), pace=3, monkeypatch=monkeypatch
    )
    with pytest.raises(ValueError, match=r"rollout.n=3: the saved state carries prompts of 2 samples"):
        rollout(n=3, batch=2, in_flight=6).restore(plain, tensors.__getitem__)
    with pytest.raises(ValueError, match=r"data.max_response_length=1: .* responses of up to \d+ tokens; make it at"):
        rollout(n=2, batch=2, in_flight=6, longest=1).restore(plain, tensors.__getitem__)


def test_a_step_that_draws_nothing_leaves_no_mark() -> None:
    sample = Carried((1,), (0.5,), None, ((1, 1),))
    same = Request(sample_id=0, prompt=(9,), params=PARAMS, response=(1,), logprobs=(0.5,))
    assert sample.after(2, same) == sample
    assert (sample.stale_tokens(1), sample.stale_tokens(2)) == (0, 1)


def test_the_policy_loss_is_weighed_by_token_unless_told_otherwise() -> None:
    plain = AlgorithmConfig()
    assert corrected(plain, partial=False) is plain
    by_token = corrected(plain, partial=True)
    assert by_token.rollout_correction.rollout_is == "token"
    by_response = corrected(by_token, partial=True)
    assert by_response is by_token


PARTIAL = ["algorithm=grpo", "data.max_response_length=40", "actor_rollout_ref.rollout.partial_rollout=true"]
PARTIAL += ["actor_rollout_ref.rollout.over_sampling_batch_size=10", "actor_rollout_ref.actor.optim.lr=1e-3"]


def test_a_resumed_run_is_the_uninterrupted_one(ranks: RankPool, tmp_path: Path) -> None:
    (tmp_path / "reward.py").write_text(REWARD)
    folder = model(tmp_path / "actor")
    more = [*PARTIAL, f"custom_reward_function.path={tmp_path / 'reward.py'}", "trainer.export_hf=false"]

    def run(name: str, *keys: str) -> list[str]:
        return overrides(folder, tmp_path / name, *more, "trainer.save_freq=1", "trainer.total_training_steps=3", *keys)

    resumed = [
        "trainer.resume_mode=resume_path",
        f"trainer.resume_from_path={tmp_path}/whole/checkpoints/global_step_2",
    ]
    runs = {"whole": run("whole"), "resumed": run("resumed", *resumed)}
    found = ranks.run("tests.fusedrl.trainers.checkpoint_jobs:several", world=2, limit=400, runs=runs)
    for mine in found:
        whole = mine["whole"]["metrics"]
        assert mine["resumed"]["metrics"] == whole[2:]
        assert mine["resumed"]["metrics"] == found[0]["whole"]["metrics"][2:]
        assert all(
            torch.equal(tensor, mine["resumed"]["state"]["actor"][name])
            for name, tensor in mine["whole"]["state"]["actor"].items()
        )
        assert all(step["rollout/carried_samples"] > 0 for step in whole)
        assert whole[0]["rollout/stale_tokens"] == 0 < whole[2]["rollout/stale_tokens"]
        assert whole[0]["training/rollout_logprobs_diff_max"] < 1e-4 < whole[2]["training/rollout_logprobs_diff_max"]
        assert whole[2]["rollout_corr/rollout_is_min"] < 1 - 1e-4
    off = "actor_rollout_ref.rollout.partial_rollout=false"
    without = run("off", *resumed, off, "actor_rollout_ref.rollout.over_sampling_batch_size=null")
    with pytest.raises(RankFailure, match="the saved state carries unfinished samples of 6 prompts: set"):
        ranks.run("tests.fusedrl.trainers.checkpoint_jobs:ppo", world=2, overrides=without)
