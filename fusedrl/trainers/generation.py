"""Generation for the trainer: the actor's copy in the generation layout, and whole batches of completions.

The copy lies on its own ranks and groups (tensor and pipeline parallel, what is left are replicas); its weights come
from the actor by the hand-over before each use. Commands that only generate have one model, read from its folder.
rollout.name chooses the engine. Every rank gets all completions, in sample-id order.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import chain
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from fusedrl.config.ranks import text_of
from fusedrl.config.schema import EngineConfig, GeneratingModelConfig
from fusedrl.models.architecture import Architecture
from fusedrl.models.build import build_model
from fusedrl.models.hf_import import load_hf
from fusedrl.models.implementation import Implementation
from fusedrl.parallel.comm import broadcast_object
from fusedrl.parallel.groups import ProcessGroupCollection, build_groups
from fusedrl.parallel.layout import Layout
from fusedrl.parallel.team import current
from fusedrl.rollout.cache_budget import gpu_tokens
from fusedrl.rollout.handover import HandOverReport, hand_over
from fusedrl.rollout.links import pass_by
from fusedrl.rollout.megatron import MegatronEngine
from fusedrl.rollout.requests import Completion, Request, samples_of
from fusedrl.rollout.sampling import SamplingParams
from fusedrl.rollout.spread import generate_spread
from fusedrl.rollout.vllm import VllmEngine
from fusedrl.rollout.vllm_settings import EngineSettings
from fusedrl.trainers.flowing import flow
from fusedrl.trainers.roles import Role, RoleSpec, build_role, placed_ranks


@dataclass(frozen=True, eq=False)
class Generator:
    """An engine on this rank and the replicas it shares a batch with. max_rows: samples that it generates at once.

    ranks: of the job, that generate. On the others there is no engine, `groups` are None, `_nothing` is handed over.
    """

    found: MegatronEngine | VllmEngine | None
    groups: ProcessGroupCollection
    max_rows: int
    ranks: tuple[int, ...]
    _nothing: nn.Module = field(default_factory=nn.ModuleList)

    @property
    def engine(self) -> MegatronEngine | VllmEngine:
        assert self.found is not None, "this rank does not generate"
        return self.found

    def load(self, actor: Role) -> HandOverReport:
        """Take over the actor's current weights. A collective of the current team, which holds the actor's ranks and
        those that generate."""
        return hand_over(actor.module, self._nothing) if self.found is None else self.engine.load(actor.module)

    def generate(
        self, prompts: Sequence[Sequence[int]], *, n: int, params: SamplingParams, first_id: int = 0
    ) -> list[Completion]:
        """`n` completions of each prompt, neighbours in the result, on all ranks of the current team, whose collective
        this is.

        first_id: number of the first sample; with the step it names the random numbers that the samples draw.
        """
        numbered = {first_id // n + index: tuple(prompt) for index, prompt in enumerate(prompts)}
        requests = samples_of(numbered, n=n, params=params)
        completions = [] if self.found is None else generate_spread(self.engine, requests, dp_group=self.groups.dp)
        if self.found is not None:
            self.engine.release_cache()  # the model trains now
        return completions if self.ranks == current().ranks else self._told(completions, requests)

    def _told(self, completions: Sequence[Completion], requests: Sequence[Request]) -> list[Completion]:
        """The completions on ranks of the team that do not generate, too."""
        wire = broadcast_object([each.to_wire() for each in completions], src=self.ranks[0])
        prompts = {request.sample_id: request.prompt for request in requests}
        return [Completion.from_wire(each, prompt=prompts[each["id"]]) for each in wire]

    def flow(
        self, prompts: Mapping[int, Sequence[int]], *, n: int, params: SamplingParams
    ) -> Iterator[list[Completion]]:
        """`n` completions of each prompt by its number, as they finish, the same on every rank (flowing.py); no replica
        waits for another for long, however many there are. Where some ranks of the team do not generate they come
        all at once. A collective of the current team; samples are numbered as above."""
        if self.ranks == current().ranks:
            yield from self._flow(prompts, n=n, params=params)
            return
        found = [] if self.found is None else list(chain.from_iterable(self._flow(prompts, n=n, params=params)))
        numbered = {index: tuple(prompt) for index, prompt in prompts.items()}
        yield self._told(found, samples_of(numbered, n=n, params=params))

    def _flow(
        self, prompts: Mapping[int, Sequence[int]], *, n: int, params: SamplingParams
    ) -> Iterator[list[Completion]]:
        requests = (samples_of({index: tuple(prompt)}, n=n, params=params) for index, prompt in prompts.items())
        in_flight = 2 * self.max_rows  # a row that ends is followed at once by one that waits
        yield from flow(self.engine, requests, in_flight=in_flight, dp_group=self.groups.dp)
        self.engine.release_cache()


def build_generator(actor: Role, config: EngineConfig, *, max_length: int, timeout_s: float) -> Generator:
    """The actor's generating copy. A collective of the whole job. max_length: longest prompt and response together."""
    key = "actor_rollout_ref.rollout"
    ranks = placed_ranks(text_of(config), key=f"{key}.ranks")
    _, groups = _place(config, ranks=ranks, key=key, timeout_s=timeout_s)
    sizes: dict[str, Any] = {"max_length": max_length, "max_rows": config.max_running_requests}
    if config.name == "vllm":
        return Generator(_vllm_engine(actor, config, **sizes), groups, config.max_running_requests, ranks)
    if dist.get_rank() not in ranks:
        if config.pipeline_model_parallel_size > 1:
            pass_by(timeout_s=timeout_s)
        return Generator(None, groups, config.max_running_requests, ranks)
    made = {"dtype": actor.spec.dtype, "implementation": actor.spec.implementation}
    module = build_model(actor.architecture, groups, **made, key=key)
    engine = _megatron_engine(module, config, **sizes, timeout_s=timeout_s)
    return Generator(engine, groups, config.max_running_requests, ranks)


def standing_generator(
    model: GeneratingModelConfig, config: EngineConfig, *, max_length: int, timeout_s: float
) -> Generator:
    """A model that only generates, its weights read from its folder. A collective of all ranks."""
    ranks = current().ranks
    layout, groups = _place(config, ranks=ranks, key="rollout", timeout_s=timeout_s)
    dtype, implementation = getattr(torch, model.dtype), implementation_of_model(model)
    sizes: dict[str, Any] = {"max_length": max_length, "max_rows": config.max_running_requests}
    if config.name == "vllm":  # it takes weights by the hand-over alone
        spec = RoleSpec("model", "rollout", model.path, layout, dtype, implementation=implementation)
        role = build_role(spec, seed=0, timeout_s=timeout_s)
        vllm = _vllm_engine(role, config, **sizes)
        vllm.load(role.module)
        return Generator(vllm, groups, config.max_running_requests, ranks)
    architecture = Architecture.from_folder(model.path)
    module = build_model(architecture, groups, dtype=dtype, implementation=implementation, key="model")
    load_hf(module, model.path)
    engine = _megatron_engine(module, config, **sizes, timeout_s=timeout_s)
    return Generator(engine, groups, config.max_running_requests, ranks)


def implementation_of_model(model: GeneratingModelConfig) -> Implementation:
    """The configuration's keys that choose libraries."""
    return Implementation(transformer_impl=model.transformer_impl, attention_backend=model.attention_backend)


def _place(
    config: EngineConfig, *, ranks: tuple[int, ...], key: str, timeout_s: float
) -> tuple[Layout, ProcessGroupCollection]:
    tp, pp = config.tensor_model_parallel_size, config.pipeline_model_parallel_size
    layout = Layout.for_world(len(ranks), tp=tp, pp=pp, key=key)
    return layout, build_groups(layout, ranks=ranks, timeout=timedelta(seconds=timeout_s), key=key)


def _megatron_engine(
    module: Any, config: EngineConfig, *, max_length: int, max_rows: int, timeout_s: float
) -> MegatronEngine:
    module.eval()
    sizes: dict[str, Any] = {"max_length": max_length, "max_rows": max_rows}
    sizes["max_tokens"] = config.max_total_tokens or gpu_tokens(
        module, share=config.gpu_memory_utilization, group=module.pg_collection.intra_dist_opt, **sizes
    )
    return MegatronEngine(module, **sizes, batches=config.batches_in_flight, timeout_s=timeout_s)


def _vllm_engine(actor: Role, config: EngineConfig, *, max_length: int, max_rows: int) -> VllmEngine:
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
