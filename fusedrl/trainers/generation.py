"""Generation for the trainer: the actor's copy in the generation layout, and whole batches of completions.

The copy lies on its own groups (tensor and pipeline parallel, every other rank a replica); its weights come from the
actor by the hand-over before each use. rollout.name chooses the engine. Every rank gets all completions, in sample-id
order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from fusedrl.config.schema import RolloutConfig
from fusedrl.models.build import build_model
from fusedrl.parallel.groups import ProcessGroupCollection, build_groups
from fusedrl.parallel.layout import Layout
from fusedrl.rollout.cache_budget import gpu_tokens
from fusedrl.rollout.handover import HandOverReport
from fusedrl.rollout.megatron import MegatronEngine
from fusedrl.rollout.requests import Completion, samples_of
from fusedrl.rollout.sampling import SamplingParams
from fusedrl.rollout.spread import generate_spread
from fusedrl.rollout.vllm import VllmEngine
from fusedrl.rollout.vllm_settings import EngineSettings
from fusedrl.trainers.roles import Role


@dataclass(frozen=True, eq=False)
class Generator:
    """An engine on this rank and the replicas it shares a batch with."""

    engine: MegatronEngine | VllmEngine
    groups: ProcessGroupCollection

    def load(self, actor: Role) -> HandOverReport:
        """Take over the actor's current weights. A collective of all ranks."""
        return self.engine.load(actor.module)

    def generate(
        self, prompts: Sequence[Sequence[int]], *, n: int, params: SamplingParams, first_id: int = 0
    ) -> list[Completion]:
        """`n` completions of each prompt, neighbours in the result. A collective of all ranks.

        first_id: number of the first sample; with the step it names the random numbers that the samples draw.
        """
        numbered = {first_id // n + index: tuple(prompt) for index, prompt in enumerate(prompts)}
        requests = samples_of(numbered, n=n, params=params)
        completions = generate_spread(self.engine, requests, dp_group=self.groups.dp)
        self.engine.release_cache()  # the model trains now
        return completions


def build_generator(actor: Role, config: RolloutConfig, *, max_length: int, timeout_s: float) -> Generator:
    """The actor's generating copy. A collective of all ranks. max_length: longest prompt and response together."""
    key = "actor_rollout_ref.rollout"
    tp, pp = config.tensor_model_parallel_size, config.pipeline_model_parallel_size
    layout = Layout.for_world(dist.get_world_size(), tp=tp, pp=pp, key=key)
    groups = build_groups(layout, timeout=timedelta(seconds=timeout_s), key=key)
    sizes: dict[str, Any] = {"max_length": max_length, "max_rows": config.max_running_requests}
    if config.name == "vllm":
        return Generator(_vllm_engine(actor, config, **sizes), groups)
    made = {"dtype": actor.spec.dtype, "implementation": actor.spec.implementation}
    module = build_model(actor.architecture, groups, **made, key=key)
    module.eval()
    sizes["max_tokens"] = config.max_total_tokens or gpu_tokens(module, share=config.gpu_memory_utilization, **sizes)
    engine = MegatronEngine(module, **sizes, batches=config.batches_in_flight, timeout_s=timeout_s)
    return Generator(engine, groups)


def _vllm_engine(actor: Role, config: RolloutConfig, *, max_length: int, max_rows: int) -> VllmEngine:
    settings = EngineSettings(
        folder=actor.spec.folder,
        arch=actor.architecture,
        dtype=actor.spec.dtype,
        tp=config.tensor_model_parallel_size,
        max_length=max_length,
        max_rows=max_rows,
        device=actor.device.type,
        gpu_memory_utilization=config.gpu_memory_utilization,
        enforce_eager=config.enforce_eager,
    )
    return VllmEngine(settings)
