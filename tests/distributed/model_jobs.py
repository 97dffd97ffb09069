"""What the ranks do in the tests of fusedrl.models: tiny models, whole results, plain return values.

A pipeline is walked stage by stage with blocking messages; the executor has its own tests.
"""

import hashlib
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from megatron.core.models.gpt import GPTModel
from torch import Tensor

from fusedrl.checkpoint.snapshot import owned
from fusedrl.models.architecture import Architecture
from fusedrl.models.build import Head, build_model
from fusedrl.models.fill import fill
from fusedrl.models.hf_export import export_hf
from fusedrl.models.hf_import import load_hf
from fusedrl.models.logprob import entropy, token_log_probs
from fusedrl.models.options import PLAIN, StageOptions
from fusedrl.models.parameter_gather import settle
from fusedrl.models.stage_layers import StageLayers
from fusedrl.models.stages import build_stages, stages_of
from fusedrl.models.training import OptimizerSettings, TrainableModel
from fusedrl.models.weights import shapes
from fusedrl.parallel.groups import ProcessGroupCollection, build_groups
from fusedrl.parallel.layout import Layout
from fusedrl.parallel.pipeline_view import stage_ranks
from fusedrl.parallel.placement import place_stages

TINY = Architecture(
    family="llama",
    hidden_size=32,
    num_layers=4,
    num_heads=4,
    num_kv_heads=2,
    head_dim=8,
    ffn_hidden_size=48,
    vocab_size=50,
    max_position=64,
    eos_token_ids=(1,),
)


def tokens(count: int = 4, length: int = 12) -> Tensor:
    return torch.randint(0, TINY.vocab_size, (count, length), generator=torch.Generator().manual_seed(5))


def logits_of_folders(folders: list[str], *, layout: tuple[int, int, int], reverse: bool) -> list[Any]:
    """Whole real logits of `tokens()` for each checkpoint; None on ranks that hold no last stage.

    Untied models with experts share the tokens between tensor-parallel ranks, tied ones are frozen and do not.
    """
    groups = build_groups(Layout(*layout), reverse_pipeline=reverse)
    results = []
    for folder in folders:
        arch = Architecture.from_folder(folder)
        shared = arch.experts is not None and not arch.tied
        model = build_model(arch, groups, seed=9, options=StageOptions(sequence_parallel=shared))
        model.train(arch.experts is None or shared)
        load_hf(model, folder)
        output = walk(model, groups, tokens())
        results.append(None if output is None else _whole_vocabulary(output, model, groups).detach().numpy())
    return results


def values_of_folder(folder: str, *, layout: tuple[int, int, int], reverse: bool) -> tuple[Any, list[str]]:
    """Values of `tokens()` by a critic loaded from a folder, and what was logged on the way."""
    groups = build_groups(Layout(*layout), reverse_pipeline=reverse)
    model = build_model(Architecture.from_folder(folder), groups, head="value", seed=9)
    with _Messages("fusedrl.models.hf_import") as messages:
        load_hf(model, folder)
    output = walk(model, groups, tokens())
    return None if output is None else output.detach().numpy(), messages


def digests_of_seed(
    arch: dict[str, Any], *, layout: tuple[int, int, int], reverse: bool, head: str, seed: int, folder: str
) -> dict[str, str]:
    """Digest of every whole tensor of a freshly built model, by way of its export; on all ranks."""
    groups = build_groups(Layout(*layout), reverse_pipeline=reverse)
    model = build_model(replace(TINY, **arch), groups, head=head, seed=seed)
    export_hf(model, groups, folder)
    return digests(folder)


def import_and_export(start: str, end: str, *, layout: tuple[int, int, int], head: str, dtype: str) -> None:
    groups = build_groups(Layout(*layout))
    model = build_model(Architecture.from_folder(start), groups, head=head, dtype=getattr(torch, dtype), seed=9)
    load_hf(model, start)
    export_hf(model, groups, end, tokenizer_folder=start)


def import_and_export_stages(
    start: str,
    end: str,
    *,
    layout: tuple[int, int, int],
    placement: str,
    reverse: bool,
    head: Head,
    layers: tuple[int, ...] | None = None,
) -> dict[str, Any]:
    """Through several stages a rank; what this rank's stages hold."""
    plan = Layout(*layout)
    columns = place_stages(plan.pp, shape=placement, reverse=reverse)
    groups = build_groups(plan, reverse_pipeline=reverse, placement=columns)
    arch = Architecture.from_folder(start)
    options = StageOptions(layers=StageLayers(each=layers))
    model = build_stages(arch, groups, placement=placement, reverse=reverse, head=head, seed=9, options=options)
    load_hf(model, start)
    export_hf(model, groups, end, tokenizer_folder=start)
    trained = TrainableModel(model, groups=groups, settings=OptimizerSettings())
    optimized = {id(p) for group in trained.optimizer.param_groups for p in group["params"]}
    stages = stages_of(model)
    return {
        "layers": [[layer.layer_number for layer in stage.decoder.layers] for stage in stages],
        "embeds": [stage.pre_process for stage in stages],
        "heads": [stage.post_process for stage in stages],
        "all trained": len(optimized) == sum(1 for _ in model.parameters()),
        "configs": len({id(stage.config) for stage in stages}),
    }


def stages_of_seed(*, placement: str, folder: str) -> dict[str, str]:
    groups = build_groups(Layout(pp=dist.get_world_size()))
    export_hf(build_stages(TINY, groups, placement=placement, seed=11), groups, folder)
    return digests(folder)


def stages_error(layers: int, *, placement: str, options: StageOptions = PLAIN) -> str:
    arch, groups = replace(TINY, num_layers=layers), build_groups(Layout())
    try:
        build_stages(arch, groups, placement=placement, options=options, key="actor.megatron")
    except ValueError as error:
        return str(error)
    return ""


def load_error(folder: str, *, head: str) -> str:
    """The message of the ValueError that loading raises; the model is TINY."""
    model = build_model(TINY, build_groups(Layout()), head=head)
    try:
        load_hf(model, folder)
    except ValueError as error:
        return str(error)
    return ""


def build_error(
    arch: dict[str, Any], *, layout: tuple[int, ...], padded_vocab: int | None = None, packed: bool = False
) -> str:
    groups, options = build_groups(Layout(*layout)), StageOptions(packed=packed)
    try:
        build_model(replace(TINY, **arch), groups, padded_vocab=padded_vocab, options=options, key="critic.megatron")
    except ValueError as error:
        return str(error)
    return ""


def values_after_filling_with_ones(layout: tuple[int, int, int]) -> dict[str, Any]:
    """Distinct numbers in the vocabulary tables and in all other weights; the embedding's rows that are no padding."""
    model = build_model(TINY, build_groups(Layout(*layout)), seed=1)
    known = dict(shapes(TINY, head="lm"))
    fill(model, lambda name: torch.ones(known[name]))
    tables, others = set[float](), set[float]()
    for parameter in model.parameters():
        (tables if parameter.shape[0] * layout[0] == model.padded_vocab else others).update(parameter.unique().tolist())
    rows = int(model.embedding.word_embeddings.weight[:, 0].sum()) if model.pre_process else 0
    return {"tables": tables, "others": others, "embedding_rows": rows}


def facts_of_two_models() -> dict[str, Any]:
    """An actor and a reversed critic on the same ranks."""
    world = dist.get_world_size()
    actor_groups = build_groups(Layout(pp=world))
    critic_groups = build_groups(Layout(pp=world), reverse_pipeline=True)
    random_state = torch.get_rng_state()
    actor = build_model(TINY, actor_groups, seed=1)
    critic = build_model(TINY, critic_groups, head="value", seed=2)
    return {
        "same_config": actor.config is critic.config,
        "random_state_untouched": torch.equal(random_state, torch.get_rng_state()),
        "actor_layers": [layer.layer_number for layer in actor.decoder.layers],
        "critic_layers": [layer.layer_number for layer in critic.decoder.layers],
        "actor_embeds": hasattr(actor, "embedding"),
        "critic_embeds": hasattr(critic, "embedding"),
        "critic_head": list(critic.output_layer.weight.shape) if critic.post_process else None,
        "padded_vocab": actor.padded_vocab,
    }


def losses_and_norms(
    arch: dict[str, Any],
    *,
    layout: tuple[int, int, int],
    reverse: bool = False,
    head: str = "lm",
    settings: dict[str, Any],
    steps: int = 3,
    microbatches: int = 2,
    dtype: str = "float32",
    folder: str,
) -> dict[str, Any]:
    """Train on `tokens()` and export; losses (over all data parallel ranks), norms and learning rates of each step."""
    groups = build_groups(Layout(*layout), reverse_pipeline=reverse)
    module = build_model(replace(TINY, **arch), groups, head=head, dtype=getattr(torch, dtype), seed=3)
    model = TrainableModel(module, groups=groups, settings=OptimizerSettings(**settings), name="test")
    mine = tokens().chunk(groups.dp.size())[groups.dp.rank()]
    history: dict[str, Any] = {"loss": [], "grad_norm": [], "lr": [], "success": []}
    for _ in range(steps):
        model.zero_grad()
        with model.no_sync():
            losses = [walk_back(model, rows) for rows in mine.chunk(microbatches // groups.dp.size() or 1)]
        model.finalize_grads()
        info = model.step()
        history["loss"].append(_sum_over_world(sum(losses), groups))
        for key in ("grad_norm", "lr", "success"):
            history[key].append(getattr(info, key))
    export_hf(module, groups, folder)
    return history


def step_with_bad_gradient(value: float, *, settings: dict[str, Any], dtype: str) -> dict[str, Any]:
    """One rank's gradient is not finite in the second and third of four steps: are these skipped on all, and are
    weights and everything that the optimizer keeps as before?"""
    groups = build_groups(Layout(dp=dist.get_world_size()))
    made = build_model(TINY, groups, seed=3, dtype=getattr(torch, dtype))
    model = TrainableModel(made, groups=groups, settings=OptimizerSettings(lr=0.1, **settings))
    seen: list[dict[str, Any]] = []
    for step in range(4):
        before = [tensor.clone() for tensor in _kept(model)]
        model.zero_grad()
        with model.no_sync():
            walk_back(model, tokens())
        if dist.get_rank() == 0 and step in (1, 2):
            next(model.module.parameters()).main_grad.view(-1)[0] = value
        model.finalize_grads()
        info = model.step()
        after = _kept(model)
        same = len(before) == len(after) and all(map(torch.equal, before, after))
        seen.append({"success": info.success, "same": same, "in_a_row": model.skipped_in_a_row})
    return {"seen": seen, "skipped": model.skipped_steps, "lr_steps": model.scheduler.num_steps}


def _kept(model: TrainableModel) -> list[torch.Tensor]:
    """Weights, and all tensors of what the optimizer saves."""
    settle(model.module)
    found = [parameter.detach() for parameter in model.module.parameters()]
    for _, share in owned(model):
        found += share.tensors().values()
    return found


def tied_copies_after_training(layout: tuple[int, int, int], *, reverse: bool, distributed: bool) -> list[bool]:
    """Whether first and last stage hold bit-equal tied tables after each of three steps; [] on stages between."""
    groups = build_groups(Layout(*layout), reverse_pipeline=reverse)
    settings = OptimizerSettings(lr=0.01, use_distributed_optimizer=distributed)
    model = TrainableModel(build_model(replace(TINY, tied=True), groups, seed=3), groups=groups, settings=settings)
    equal = []
    for _ in range(3):
        model.zero_grad()
        with model.no_sync():
            walk_back(model, tokens().chunk(groups.dp.size())[groups.dp.rank()])
        model.finalize_grads()
        model.step()
        weight = model.module.shared_embedding_or_output_weight()
        if weight is not None:
            both = [torch.empty_like(weight.data) for _ in range(groups.embd.size())]
            dist.all_gather(both, weight.data, group=groups.embd)
            equal.append(all(torch.equal(both[0], other) for other in both))
    return equal


def sharded_log_probs(logits: list[Any], targets: list[Any], *, vocab_size: int, temperature: float) -> dict[str, Any]:
    """Log-probabilities, entropy and both gradients, each rank with its slice of the logits; float64."""
    group = dist.group.WORLD
    whole = torch.tensor(logits, dtype=torch.float64)
    results: dict[str, Any] = {}
    weights = torch.linspace(0.5, 1.5, whole[..., 0].numel(), dtype=torch.float64).view(whole.shape[:-1])
    options = {"tp_group": group, "vocab_size": vocab_size, "temperature": temperature}
    for name in ("logp", "entropy"):
        mine = whole.chunk(group.size(), dim=-1)[group.rank()].clone().requires_grad_()
        result = token_log_probs(mine, torch.tensor(targets), **options) if name == "logp" else entropy(mine, **options)
        (result * weights).sum().backward()
        results[name] = result.detach().numpy()
        results[f"{name}_grad"] = mine.grad.numpy()
    return results


def walk(model: GPTModel, groups: ProcessGroupCollection, rows: Tensor) -> Tensor | None:
    """Forward through all stages; the output on the last stage's ranks, None elsewhere."""
    shares = groups.tp.size() if model.config.sequence_parallel else 1
    received = receive_from_stage(groups, groups.pp.rank() - 1, rows, shares=shares)
    output = stage_forward(model, rows, received)
    if model.post_process:
        return output
    dist.send(output.detach(), dst=stage_ranks(groups.pp)[groups.pp.rank() + 1])
    return None


def walk_back(model: TrainableModel, rows: Tensor) -> float:
    """Forward and backward of one micro-batch through all stages; its share of the loss on the last stage, else 0."""
    groups, module = model.groups, model.module
    stage, at = groups.pp.rank(), stage_ranks(groups.pp)
    received = receive_from_stage(groups, stage - 1, rows, module.config.params_dtype)
    if received is not None:
        received.requires_grad_()
    output = stage_forward(module, rows, received)
    share = 0.0
    if module.post_process:
        loss = _loss(module, output, rows, groups)
        loss.backward()
        share = float(loss)
    else:
        dist.send(output.detach(), dst=at[stage + 1])
        gradient = torch.empty_like(output)
        dist.recv(gradient, src=at[stage + 1])
        output.backward(gradient)
    if received is not None:
        dist.send(received.grad, dst=at[stage - 1])
    return share


def receive_from_stage(
    groups: ProcessGroupCollection, stage: int, rows: Tensor, dtype: torch.dtype = torch.float32, *, shares: int = 1
) -> Tensor | None:
    """shares: ranks that share the tokens."""
    if stage < 0:
        return None
    received = torch.empty(rows.shape[1] // shares, rows.shape[0], TINY.hidden_size, dtype=dtype)
    dist.recv(received, src=stage_ranks(groups.pp)[stage])
    return received


def stage_forward(model: GPTModel, rows: Tensor, received: Tensor | None) -> Tensor:
    model.set_input_tensor(received)
    return model(rows, torch.arange(rows.shape[1]).expand_as(rows), None)


def digests(folder: str | Path) -> dict[str, str]:
    """Digest of every tensor of a checkpoint folder."""
    from fusedrl.models.hf_folder import HfFolder

    return {
        name: hashlib.sha256(tensor.float().numpy().tobytes()).hexdigest() for name, tensor in HfFolder(folder).items()
    }


def _loss(model: GPTModel, output: Tensor, rows: Tensor, groups: ProcessGroupCollection) -> Tensor:
    """This micro-batch's share of a mean over all of `tokens()`."""
    count = tokens()[:, 1:].numel()
    if model.head == "value":
        return 0.5 * (output[:, :-1, 0] - rows[:, 1:] / 50).square().sum() / count
    logp = token_log_probs(output[:, :-1], rows[:, 1:], tp_group=groups.tp, vocab_size=model.arch.vocab_size)
    return -logp.sum() / count


def _sum_over_world(loss: float, groups: ProcessGroupCollection) -> float:
    total = torch.tensor(loss, dtype=torch.float64)
    dist.all_reduce(total)
    return float(total) / groups.tp.size()


def _whole_vocabulary(output: Tensor, model: GPTModel, groups: ProcessGroupCollection) -> Tensor:
    parts = [torch.empty_like(output) for _ in range(groups.tp.size())]
    dist.all_gather(parts, output.detach().contiguous(), group=groups.tp)
    return torch.cat(parts, dim=-1)[..., : model.arch.vocab_size]


class _Messages(logging.Handler):
    """Messages that a logger emits inside a with block."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._logger = logging.getLogger(name)
        self._messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._messages.append(record.getMessage())

    def __enter__(self) -> list[str]:
        self._level = self._logger.level
        self._logger.setLevel(logging.INFO)  # an assignment would leave what the logger remembers of its level
        self._logger.addHandler(self)
        return self._messages

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)
        self._logger.setLevel(self._level)


def build_beside_another_norm() -> dict[str, Any]:
    """A model built as if Megatron had found another final norm, and without a memory buffer made before."""
    from megatron.core import parallel_state
    from megatron.core.transformer import transformer_block

    before = transformer_block.LayerNormImpl, parallel_state._GLOBAL_MEMORY_BUFFER
    transformer_block.LayerNormImpl, parallel_state._GLOBAL_MEMORY_BUFFER = torch.nn.LayerNorm, None
    try:
        norm = build_model(TINY, build_groups(Layout())).decoder.final_layernorm
        return {"norm": type(norm).__name__, "buffer": parallel_state._GLOBAL_MEMORY_BUFFER is not None}
    finally:
        transformer_block.LayerNormImpl, parallel_state._GLOBAL_MEMORY_BUFFER = before
