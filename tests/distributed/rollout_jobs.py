"""Jobs of the rollout tests: generation on tensor-parallel ranks, hand-over between layouts, requests over replicas."""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from fusedrl.models.architecture import Architecture
from fusedrl.models.hf_import import load_hf
from fusedrl.models.logprob import token_log_probs
from fusedrl.models.options import StageOptions
from fusedrl.models.stage_layers import StageLayers
from fusedrl.models.stages import build_stages
from fusedrl.parallel.groups import build_groups
from fusedrl.parallel.layout import Layout
from fusedrl.parallel.placement import place_stages
from fusedrl.rollout.cached_tokens import CachedTokens
from fusedrl.rollout.handover import HandOver, hand_over
from fusedrl.rollout.links import Drawn, StageLinks
from fusedrl.rollout.megatron import MegatronEngine
from fusedrl.rollout.requests import Completion, Request
from fusedrl.rollout.sampling import SamplingParams
from fusedrl.rollout.spread import generate_spread

MAX_LENGTH = 96


def model_of(
    folder: str,
    *,
    layout: Layout,
    loaded: bool = True,
    seed: int = 0,
    reverse: bool = False,
    head: Any = "lm",
    placement: str = "line",
    layers: tuple[int, ...] | None = None,
) -> Any:
    """A model of a checkpoint folder in some layout, with its weights or random ones."""
    columns = place_stages(layout.pp, shape=placement, reverse=reverse)
    groups = build_groups(layout, reverse_pipeline=reverse, placement=columns)
    arch = Architecture.from_folder(folder)
    options = StageOptions(layers=StageLayers(each=layers))
    model = build_stages(arch, groups, placement=placement, reverse=reverse, head=head, seed=seed, options=options)
    if loaded:
        load_hf(model, folder)
    return model


def engine_of(
    folder: str,
    *,
    tp: int = 1,
    pp: int = 1,
    max_rows: int = 16,
    max_length: int = MAX_LENGTH,
    max_tokens: int | None = None,
    batches: int | None = None,
    timeout_s: float = 60.0,
    **model: Any,
) -> MegatronEngine:
    layout = Layout(tp=tp, pp=pp, dp=dist.get_world_size() // (tp * pp))
    built = model_of(folder, layout=layout, **model)
    sizes = {"max_rows": max_rows, "max_length": max_length, "max_tokens": max_tokens, "batches": batches}
    return MegatronEngine(built, prefill_tokens=40, timeout_s=timeout_s, **sizes)


def generate(folder: str, requests: Sequence[Request], **engine: Any) -> tuple[list[Completion], dict[str, float]]:
    """Completions and the engine's stats."""
    made = engine_of(folder, **engine)
    return made.generate(requests), asdict(made.stats)


def generate_each(asked: Sequence[tuple[str, Sequence[Request]]], **engine: Any) -> list[list[Completion]]:
    """Completions of several checkpoints, each with its own requests, in one job."""
    return [engine_of(folder, **engine).generate(requests) for folder, requests in asked]


def generate_with_budgets(
    folder: str, requests: Sequence[Request], *, budgets: Sequence[int | None], **engine: Any
) -> list[tuple[list[Completion], dict[str, float]]]:
    """Completions and stats of one model's engines with different caches."""
    return [generate(folder, requests, max_tokens=budget, **engine) for budget in budgets]


def generate_interrupted(
    folder: str,
    requests: Sequence[Request],
    *,
    seed: int,
    with_cache: bool = False,
    tp: int = 1,
    pp: int = 1,
    max_tokens: int | None = None,
) -> tuple[list[Completion], list[dict[str, float]]]:
    """Two engines; at random steps random samples move from one to the other, half generated or still waiting.

    Their keys and values go along or not; where they do, as a message would carry them.
    """
    model = {"tp": tp, "pp": pp, "max_tokens": max_tokens}
    engines = [engine_of(folder, max_rows=rows, **model) for rows in (3, 5)]
    chance = random.Random(seed)
    homes = {request.sample_id: chance.randrange(2) for request in requests}
    for request in requests:
        engines[homes[request.sample_id]].add([request])
    completions: list[Completion] = []
    while any(engine.unfinished for engine in engines):
        for engine in engines:
            done = engine.step()
            completions += done
            for completion in done:
                del homes[completion.sample_id]
        for home in (0, 1):
            leaving = [sample_id for sample_id, at in homes.items() if at == home and chance.random() < 0.2]
            for sample_id in move(leaving, engines[home], engines[1 - home], with_cache=with_cache):
                homes[sample_id] = 1 - home
    return sorted(completions, key=lambda c: c.sample_id), [asdict(engine.stats) for engine in engines]


def move(sample_ids: Sequence[int], source: MegatronEngine, target: MegatronEngine, *, with_cache: bool) -> list[int]:
    """Samples from one engine to the other; those that moved."""
    if not with_cache:
        requests = source.extract(sample_ids)
        target.add(requests)
        return [request.sample_id for request in requests]
    requests, cache = source.extract(sample_ids, with_cache=True)
    arrived = CachedTokens.empty(cache.lengths, shape=target.cache_shape)
    arrived.kv_LNG2D.copy_(cache.kv_LNG2D)
    target.add(requests, cache=arrived)
    return [request.sample_id for request in requests]


def trainer_logprobs(
    folder: str, completions: Sequence[Completion], *, tp: int, temperature: float
) -> list[list[float]]:
    """Log-probs of the completions' tokens from Megatron's own forward and the trainer's function."""
    model = model_of(folder, layout=Layout(tp=tp, dp=dist.get_world_size() // tp)).eval()
    vocab_size = Architecture.from_folder(folder).vocab_size
    found = []
    for completion in completions:
        tokens = torch.tensor([[*completion.prompt, *completion.tokens]])
        with torch.no_grad():
            logits_BTV = model(tokens[:, :-1], torch.arange(tokens.shape[1] - 1)[None], None)
        logp_BT = token_log_probs(
            logits_BTV, tokens[:, 1:], tp_group=model.pg_collection.tp, vocab_size=vocab_size, temperature=temperature
        )
        found.append(logp_BT[0, len(completion.prompt) - 1 :].tolist())
    return found


def hand_over_and_generate(
    folder: str, requests: Sequence[Request], *, source: dict[str, Any], tp: int, pp: int = 1
) -> tuple[list[Completion], dict[str, Any]]:
    """Loaded weights in a training layout, random ones in the generation layout; hand over, compare, generate."""
    trained = model_of(folder, **{**source, "layout": Layout(**source["layout"])})
    engine = engine_of(folder, tp=tp, pp=pp, loaded=False, seed=5)
    wanted = model_of(folder, layout=Layout(tp=tp, pp=pp, dp=dist.get_world_size() // (tp * pp)))
    vocab_size = Architecture.from_folder(folder).vocab_size
    report = engine.load(trained)
    facts = {"report": asdict(report), "unequal": unequal_parameters(engine.model, wanted, vocab_size=vocab_size)}
    completions = engine.generate(requests)
    # a second one, with other weights, through the kept plan
    for model in (trained, wanted):
        _change(model)
    engine.load(trained)
    facts["unequal_again"] = unequal_parameters(engine.model, wanted, vocab_size=vocab_size)
    return completions, facts


def hand_over_value_model(folder: str, *, tp: int) -> list[str]:
    """A reversed two-stage critic to a one-stage layout; names of parameters that differ from the same critic there."""
    there = Layout(tp=tp, dp=dist.get_world_size() // tp)
    critic = model_of(folder, layout=Layout(pp=2, dp=2), loaded=False, reverse=True, head="value", seed=3)
    wanted = model_of(folder, layout=there, loaded=False, head="value", seed=3)
    target = model_of(folder, layout=there, loaded=False, head="value", seed=4)
    for model in (critic, wanted):
        _change(model)  # value heads start at 0 in all of them
    hand_over(critic, target)
    return unequal_parameters(target, wanted, vocab_size=Architecture.from_folder(folder).vocab_size)


def hand_over_in_rounds(folder: str, *, source: dict[str, int], tp: int, bucket_bytes: int) -> tuple[list[str], int]:
    """(names of unequal parameters, messages of this rank) with rounds of `bucket_bytes`."""
    there = Layout(tp=tp, dp=dist.get_world_size() // tp)
    target = model_of(folder, layout=there, loaded=False, seed=5)
    report = HandOver(model_of(folder, layout=Layout(**source)), target, bucket_bytes=bucket_bytes).run()
    vocab_size = Architecture.from_folder(folder).vocab_size
    return unequal_parameters(target, model_of(folder, layout=there), vocab_size=vocab_size), report.messages


def spread(folder: str, requests: Sequence[Request], *, tp: int) -> list[Completion]:
    engine = engine_of(folder, tp=tp)
    return generate_spread(engine, requests, dp_group=engine.model.pg_collection.dp)


def unequal_parameters(left: nn.Module, right: nn.Module, *, vocab_size: int) -> list[str]:
    """Names of parameters that differ, rows of the padded vocabulary aside."""
    others = dict(right.named_parameters())
    tp = left.pg_collection.tp
    names = []
    for name, parameter in left.named_parameters():
        real = slice(None)
        if name in ("embedding.word_embeddings.weight", "output_layer.weight") and parameter.shape[0] > 1:
            real = slice(0, max(0, vocab_size - tp.rank() * parameter.shape[0]))
        if not torch.equal(parameter[real], others[name][real]):
            names.append(name)
    return names


def misuse(folder: str) -> list[str]:
    """What the engine says to calls that it must refuse."""
    engine = engine_of(folder)
    requests = [Request(sample_id=i, prompt=(1, 2), params=SamplingParams()) for i in range(2)]
    engine.add(requests)
    engine.step()
    long = Request(sample_id=5, prompt=(1, 2, 3), params=SamplingParams())
    cached = {n: CachedTokens.empty({5: n}, shape=engine.cache_shape) for n in (1, 2)}
    wrong = replace(cached[2], kv_LNG2D=cached[2].kv_LNG2D.double())
    calls: list[Callable[[], Any]] = [
        lambda: engine.add(requests),
        lambda: engine.generate([]),
        lambda: engine.extract([7]),
        lambda: engine.load(engine.model),
        engine.release_cache,
        lambda: engine_of(folder, max_tokens=2 * MAX_LENGTH - 2, batches=2),
        lambda: engine.add([long], cache=cached[1]),
        lambda: engine.add([replace(long, sample_id=6)], cache=wrong),
    ]
    return [_message(call) for call in calls]


@torch.no_grad()
def _change(model: nn.Module) -> None:
    for parameter in model.parameters():
        parameter.mul_(1.5).add_(0.125)


def _message(call: Callable[[], Any]) -> str:
    try:
        call()
    except (ValueError, RuntimeError) as error:
        return str(error)
    return "nothing"


def last_stage_stays_away(folder: str, *, timeout_s: float) -> tuple[str, float]:
    """What the first stage says, and after how many seconds, when the last one does not join a step."""
    engine = engine_of(folder, pp=2, batches=1, timeout_s=timeout_s)
    engine.add([Request(sample_id=0, prompt=(1, 2), params=SamplingParams())])
    start = time.perf_counter()
    message = ""
    if engine.model.pg_collection.pp.rank() == 0:
        engine.step()  # sends, and expects the tokens at the lane's next turn
        message = _message(engine.step)
    return message, time.perf_counter() - start


def tokens_through_links() -> list[tuple[list[int], list[float]]]:
    """Four turns of two lanes over all ranks as stages; what each stage takes."""
    groups = build_groups(Layout(pp=dist.get_world_size()))
    links = StageLinks(groups.pp, device=torch.device("cpu"), dtype=torch.float32, hidden=4, timeout_s=30.0)
    pending: list[Drawn] = []
    taken = []
    for turn in range(6):
        if turn >= 2:
            token_R, logp_R = links.take(pending.pop(0))
            taken.append((token_R.tolist(), [float(f"{x:.3g}") for x in logp_R.tolist()]))
        if turn < 4:
            hidden_NH = links.receive_hidden(3)
            assert hidden_NH is None or (hidden_NH == turn).all()
            if links.last:
                drawn = links.give(torch.tensor([2**40 + turn, 3]), torch.tensor([-0.1 * (turn + 1), -1e-30]))
            else:
                links.send_hidden(torch.full((3, 4), float(turn)))
                drawn = links.expect(2)
            pending.append(drawn)
    links.finish()
    return taken
