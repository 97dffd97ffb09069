import json
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from fusedrl.config.schema import SFTDataConfig
from fusedrl.data.tokenizer import Tokenizer
from fusedrl.trainers.prompting import example_source
from tests.distributed.pool import RankPool
from tests.fusedrl.trainers.test_preflight import model


def write(path: Path, *, answers: range) -> str:
    lines = [{"prompt": f"{a}+{a}=", "answer": str(2 * a)} for a in answers]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def loss_of_hugging_face(folder: Path, *, files: list[str]) -> float:
    """Mean negative log-likelihood of all labels, in float64, one row at a time."""
    hf = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64)
    found = []
    for example in example_source(SFTDataConfig(train_files=files), Tokenizer(folder)).examples:
        tokens_S = torch.tensor(example.tokens)
        with torch.no_grad():
            logp_SV = hf(tokens_S[None]).logits[0].log_softmax(-1)
        found.append(-logp_SV[:-1].gather(1, tokens_S[1:, None])[example.start - 1 :, 0])
    return float(torch.cat(found).mean())


@pytest.mark.parametrize(
    "layout",
    [
        "megatron.tensor_model_parallel_size=1",
        "megatron.pipeline_model_parallel_size=2 data.use_dynamic_bsz=true data.max_token_len_per_gpu=20",
    ],
)
def test_held_out_loss_is_that_of_the_exported_model(ranks: RankPool, tmp_path: Path, layout: str) -> None:
    """Of 9 rows: the last batch does not divide over the replicas."""
    train, held_out = write(tmp_path / "t.jsonl", answers=range(20)), write(tmp_path / "v.jsonl", answers=range(20, 29))
    overrides = [
        f"model.path={model(tmp_path / 'start')}",
        f"data={{train_files: [{train}], val_files: [{held_out}], train_batch_size: 8, micro_batch_size_per_gpu: 2}}",
        "data.max_length=12",
        "optim.lr=1e-2",
        f"trainer={{total_training_steps: 5, test_freq: 2, default_local_dir: {tmp_path / 'run'}}}",
        *layout.split(),
    ]
    ranks.run("tests.distributed.reward_jobs:run", world=2, command="sft", overrides=overrides)
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    found = {line["step"]: line["val/loss"] for line in lines if "val/loss" in line}
    assert list(found) == [2, 4, 5]
    assert found[5] < found[2]
    expected = loss_of_hugging_face(tmp_path / "run/huggingface", files=[held_out])
    assert found[5] == pytest.approx(expected, abs=1e-5)
    assert {"train/loss", "train/grad_norm", "train/lr", "train/skipped", "timing_s/testing"} <= set(lines[-1])
