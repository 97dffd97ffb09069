import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForSequenceClassification

from fusedrl.config.load import load
from fusedrl.config.schema import RMConfig, RMDataConfig
from fusedrl.data.pairs import collate
from fusedrl.data.tokenizer import Tokenizer
from fusedrl.models.architecture import Architecture
from fusedrl.models.hf_export import write_random_hf
from fusedrl.trainers.pairing import pair_source
from fusedrl.trainers.preflight import ppo_problems
from fusedrl.trainers.reward_model import pair_microbatches
from tests.distributed import reward_jobs as jobs
from tests.distributed.pool import RankPool
from tests.fusedrl.trainers.test_cutting import role
from tests.fusedrl.trainers.test_preflight import model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A checkpoint with a value head that is not zero."""
    return tiny(tmp_path_factory.mktemp("rm"))


def tiny(parent: Path) -> str:
    arch = Architecture(
        family="llama",
        hidden_size=32,
        num_layers=2,
        num_heads=4,
        num_kv_heads=2,
        head_dim=8,
        ffn_hidden_size=48,
        vocab_size=jobs.VOCAB,
        max_position=64,
        initializer_range=0.2,
        eos_token_ids=(2,),
        pad_token_id=0,
    )
    return str(write_random_hf(arch, parent / "model", seed=1, head="value"))


@cache
def reference(folder: str) -> tuple[float, dict[str, Tensor]]:
    """Loss and gradients by Hugging Face in float64, one row at a time, no padding."""
    hf = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float64)

    def reward(row: tuple[int, ...]) -> Tensor:
        return hf.score(hf.model(torch.tensor([row])).last_hidden_state[0, -1]).squeeze()

    pairs = jobs.random_pairs(8)
    losses = []
    for pair in pairs:
        chosen, rejected = reward(pair.prompt + pair.chosen), reward(pair.prompt + pair.rejected)
        beyond = chosen - rejected - pair.margin
        losses.append(torch.log1p(torch.exp(-beyond)) + jobs.CENTER * (chosen + rejected) ** 2)
    loss = torch.stack(losses).mean()
    loss.backward()
    found = {name: p.grad for name, p in hf.named_parameters() if p.grad is not None}
    return float(loss), found


def gradients(
    ranks: RankPool, folder: str, *, world: int, **options: Any
) -> tuple[dict[str, float], dict[str, Tensor]]:
    """Metrics, and the gradients of all stages."""
    results = ranks.run("tests.distributed.reward_jobs:gradients", world=world, folder=folder, **options)
    assert all(result["metrics"] == results[0]["metrics"] for result in results)
    whole: dict[str, Tensor] = {}
    for result in results:
        for name, gradient in result["gradients"].items():
            assert torch.equal(whole.setdefault(name, gradient), gradient)  # replicas and tensor ranks agree
    return results[0]["metrics"], whole


@pytest.mark.parametrize(
    ("world", "options"),
    [
        (1, {"tp": 1, "pp": 1, "micro": 8}),
        (1, {"tp": 1, "pp": 1, "micro": 3}),  # 3, 3 and 2 pairs
        (2, {"tp": 1, "pp": 1, "micro": 2}),
        (2, {"tp": 2, "pp": 1, "micro": 4}),
        (4, {"tp": 1, "pp": 2, "micro": 1}),
        (4, {"tp": 2, "pp": 2, "tokens": 40}),
        (2, {"tp": 1, "pp": 1, "tokens": 24}),
    ],
)
def test_loss_and_gradients_of_every_layout_and_micro_batch_equal_hugging_face(
    ranks: RankPool, folder: str, world: int, options: dict[str, int]
) -> None:
    loss, expected = reference(folder)
    metrics, found = gradients(ranks, folder, world=world, **options)
    assert metrics["rm/loss"] == pytest.approx(loss, abs=1e-6)
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name].double(), gradient, atol=1e-5, rtol=0, msg=name)


def test_pipeline_stages_change_no_bit(ranks: RankPool, folder: str) -> None:
    one_metrics, one = gradients(ranks, folder, world=1, tp=1, pp=1, micro=2)
    two_metrics, two = gradients(ranks, folder, world=2, tp=1, pp=2, micro=2)
    assert one_metrics == two_metrics
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize("tokens", [0, 24])
def test_both_rows_of_a_pair_are_neighbours_in_one_micro_batch(tokens: int) -> None:
    pairs = jobs.random_pairs(8)
    batch, rows = collate(pairs, pad_id=0), []
    for rank in range(2):
        budget = {"use_dynamic_bsz": tokens > 0, "max_token_len_per_gpu": max(tokens, 1)}
        config = RMConfig(data=RMDataConfig(micro_batch_size_per_gpu=2, **budget))
        for microbatch in pair_microbatches(batch, role=role(dp=2, rank=rank), config=config):
            assert tokens == 0 or microbatch.rows * microbatch.length <= tokens
            margins, lengths = microbatch["margins"].tolist(), microbatch["lengths"].tolist()
            each = [tuple(row[:length].tolist()) for row, length in zip(microbatch.tokens_BT, lengths, strict=True)]
            rows += list(zip(each[::2], each[1::2], margins[::2], margins[1::2], strict=True))
    expected = [(p.prompt + p.chosen, p.prompt + p.rejected, p.margin, p.margin) for p in pairs]
    assert sorted(rows) == sorted(expected)


def write_pairs(path: Path, *, numbers: range) -> str:
    """Responses of any length that end with 7 against those that end with 3, whatever the prompt."""
    lines = [
        {"prompt": f"{a}+{b}=", "chosen": "1" * (a % 3) + "7", "rejected": "1" * (b % 3) + "3"}
        for a in numbers
        for b in range(10)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


@pytest.fixture(scope="module")
def trained(ranks: RankPool, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a language model, pairs, and the run that trained a reward model on them, on two stages."""
    parent = tmp_path_factory.mktemp("trained")
    start = model(parent / "start")
    train, held_out = (write_pairs(parent / f"{n}.jsonl", numbers=r) for n, r in (("a", range(8)), ("b", range(8, 10))))
    overrides = [
        f"model.path={start}",
        f"data={{train_files: [{train}], val_files: [{held_out}], train_batch_size: 16, micro_batch_size_per_gpu: 4}}",
        "data.max_length=16",
        "optim.lr=1e-2",
        "megatron.pipeline_model_parallel_size=2",
        f"trainer={{total_training_steps: 12, test_freq: 5, default_local_dir: {parent / 'run'}}}",
    ]
    ranks.run("tests.distributed.reward_jobs:run", world=2, command="reward_model", overrides=overrides)
    return parent


def test_accuracy_rises_and_every_metric_is_there(trained: Path) -> None:
    lines = [json.loads(line) for line in (trained / "run/metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, 13))
    assert lines[0]["rm/accuracy"] == 0.5  # a new head gives all the same reward
    assert lines[0]["rm/loss"] == pytest.approx(0.693147, abs=1e-6)
    assert lines[-1]["val-core/accuracy"] == 1.0
    assert lines[-1]["val/loss"] < 0.3
    assert lines[-1]["val/margin"] > 1.0
    assert [line["step"] for line in lines if "val-core/accuracy" in line] == [5, 10, 12]
    wanted = {f"rm/{name}" for name in ("loss", "accuracy", "margin", "grad_norm", "lr", "skipped")}
    wanted |= {f"rm/{side}/{kind}" for side in ("chosen", "rejected") for kind in ("mean", "std")}
    wanted |= {"timing_s/step", "perf/throughput", "perf/total_num_tokens", "perf/bubble_ratio/measured"}
    assert wanted <= set(lines[0])
    assert not any("square" in name for name in lines[0])
    assert lines[-1]["rm/margin"] == pytest.approx(lines[-1]["rm/chosen/mean"] - lines[-1]["rm/rejected/mean"])


@pytest.mark.parametrize(("tp", "pp"), [(1, 1), (2, 1)])
def test_the_exported_folder_scores_the_same_as_ppo_s_reward_model(
    ranks: RankPool, trained: Path, tp: int, pp: int
) -> None:
    """By the held-out metrics of the last step, which the trainer computed from the model in memory."""
    last = json.loads((trained / "run/metrics.jsonl").read_text().splitlines()[-1])
    exported, files = str(trained / "run/huggingface"), [str(trained / "b.jsonl")]
    results = ranks.run(
        "tests.distributed.reward_jobs:reward_scores", world=2, folder=exported, files=files, tp=tp, pp=pp
    )
    assert results[0] == results[1]
    chosen_P, rejected_P = torch.tensor(results[0]).unbind(dim=1)
    assert float((chosen_P - rejected_P).mean()) == pytest.approx(last["val/margin"], abs=1e-5)
    hf = AutoModelForSequenceClassification.from_pretrained(exported, dtype=torch.float64)
    pairs = pair_source(RMDataConfig(train_files=files), Tokenizer(exported)).pairs
    for pair, found in zip(pairs, results[0], strict=True):
        for response, score in zip((pair.chosen, pair.rejected), found, strict=True):
            hidden = hf.model(torch.tensor([pair.prompt + response])).last_hidden_state[0, -1]
            assert score == pytest.approx(float(hf.score(hidden)), abs=1e-5)


def test_ppo_takes_the_exported_folder_as_reward_model_and_as_critic(trained: Path, tmp_path: Path) -> None:
    exported = trained / "run/huggingface"
    config = load(
        "ppo",
        [
            "experiment=arithmetic",
            "data.task.train_size=200",
            f"actor_rollout_ref.model.path={trained / 'start'}",
            f"critic.model.path={exported}",
            f"reward_model={{enable: true, model: {{path: {exported}}}}}",
            f"trainer.default_local_dir={tmp_path / 'run'}",
        ],
    )
    assert ppo_problems(config, world=4, warm_start=None, speaks=True) == []
