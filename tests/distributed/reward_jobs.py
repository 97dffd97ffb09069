"""What the tests of the trainers of one model run on gloo ranks: gradients of a tiny reward model, whole tiny runs.

Shapes: P pairs.
"""

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from fusedrl import reward_model, sft
from fusedrl.config.load import load
from fusedrl.config.schema import MegatronConfig, OptimConfig, RMConfig, RMDataConfig, ScheduleConfig
from fusedrl.data.pairs import Pair, collate
from fusedrl.data.tokenizer import Tokenizer
from fusedrl.models.fill import rules_of
from fusedrl.models.weights import from_locals
from fusedrl.pipeline.executor import Work
from fusedrl.pipeline.results import gather_report
from fusedrl.pipeline.training import train_pass
from fusedrl.rollout.requests import Completion
from fusedrl.trainers.forward import Inference, infer, last_scores
from fusedrl.trainers.pairing import pair_source
from fusedrl.trainers.planning import Planner
from fusedrl.trainers.reward_model import pair_loss, pair_microbatches
from fusedrl.trainers.roles import RoleSpec, TrainedRole, build_role, build_trained_role, make_executor
from fusedrl.trainers.samples import gather_samples
from tests.distributed.trainer_jobs import TIMEOUT_S, VOCAB

CENTER = 0.01


def random_pairs(count: int) -> list[Pair]:
    """Prompts and responses of unlike lengths, some pairs with a margin."""
    generator = torch.Generator().manual_seed(3)

    def draw(length: int) -> tuple[int, ...]:
        return tuple(torch.randint(3, VOCAB, (length,), generator=generator).tolist())

    return [Pair(draw(1 + i % 3), draw(1 + i % 5), draw(1 + (3 * i) % 7), margin=0.5 * (i % 2)) for i in range(count)]


def gradients(folder: str, *, tp: int, pp: int, micro: int = 1, tokens: int = 0) -> dict[str, Any]:
    """Summed metrics of eight pairs and the gradients that this rank holds, whole, by Hugging Face's names.

    tokens: a budget of them in place of `micro` pairs; 0: none.
    """
    megatron = MegatronConfig(tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp)
    spec = RoleSpec.of("model", megatron, key="megatron", folder=folder, head="value")
    options: dict[str, Any] = {"distributed_optimizer": False, "steps": 10, "seed": 0, "timeout_s": TIMEOUT_S}
    role = build_trained_role(spec, OptimConfig(lr=1e-3), **options)
    executor = make_executor([role], timeout_s=TIMEOUT_S)
    data = RMDataConfig(
        micro_batch_size_per_gpu=micro, use_dynamic_bsz=tokens > 0, max_token_len_per_gpu=max(tokens, 1)
    )
    batch = collate(random_pairs(8), pad_id=0)
    microbatches = pair_microbatches(batch, role=role, config=RMConfig(data=data, megatron=megatron))
    work = {"model": Work(microbatches, loss=pair_loss(role, center=CENTER, pairs=batch.pairs))}
    program = Planner(ScheduleConfig(method="serial")).program({"model": (role, work["model"])})
    result = train_pass(executor, program, work, models={"model": role.trained})
    metrics = gather_report(executor, program, result).metrics["model"]
    shapes = [microbatch.shape for microbatch in microbatches]
    return {"metrics": metrics, "gradients": _whole_gradients(role), "shapes": shapes}


@torch.no_grad()
def _whole_gradients(role: TrainedRole) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for stage in role.trained.stages:
        for rule, parameter in zip(rules_of(stage), stage.parameters(), strict=True):
            shards = [torch.empty_like(parameter.main_grad) for _ in range(role.layout.tp)]
            dist.all_gather(shards, parameter.main_grad.contiguous(), group=role.groups.tp)
            found |= dict(zip(rule.sources, from_locals(rule.kind, shards, arch=stage.arch), strict=True))
    return {name: gradient.clone() for name, gradient in found.items()}


def run(command: str, overrides: list[str]) -> None:
    """A whole run, as its entry point has it in a joined world."""
    arguments = ["trainer.logger=[]", *overrides]
    if command == "sft":
        sft.run(load("sft", arguments), command=["sft"])
    else:
        reward_model.run(load("reward_model", arguments), command=["reward_model"])


def reward_scores(folder: str, *, files: list[str], tp: int, pp: int) -> list[list[float]]:
    """Scores of the responses of pairs (chosen, rejected), as PPO's reward role gives them to samples."""
    megatron = MegatronConfig(tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp)
    spec = RoleSpec.of("reward", megatron, key="reward_model.megatron", folder=folder, head="value")
    role = build_role(spec, seed=0, timeout_s=TIMEOUT_S)
    source = pair_source(RMDataConfig(train_files=files), Tokenizer(Path(folder)))
    completions = [
        Completion(
            sample_id=2 * p + side,
            prompt=pair.prompt,
            tokens=response,
            logprobs=tuple(0.0 for _ in response),
            finish_reason="stop",
        )
        for p, pair in enumerate(source.pairs)
        for side, response in enumerate((pair.chosen, pair.rejected))
    ]
    samples = gather_samples(completions, max_response_length=16, pad_id=source.pad_id)
    inferences = {"reward": Inference(role, 2, ("rm_score",), 1, last_scores(role))}
    executor, planner = make_executor([role], timeout_s=TIMEOUT_S), Planner(ScheduleConfig())
    scores_B = infer(inferences, samples, executor=executor, planner=planner)["rm_score"][:, 0]
    return scores_B.view(-1, 2).tolist()
