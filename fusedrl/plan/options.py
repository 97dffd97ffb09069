"""The arguments of `python -m fusedrl.plan`: key=value, and --json.

cluster=h100_16x8 actor=llama_70b critic=llama_7b data.lengths=FILE
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from fusedrl.bench.arguments import ArgumentError, one_of, read
from fusedrl.plan.analytic import AnalyticCosts
from fusedrl.plan.calls import Limits
from fusedrl.plan.cluster import read_cluster
from fusedrl.plan.costs import Costs
from fusedrl.plan.fused import SLACK
from fusedrl.plan.heuristics import HEURISTICS
from fusedrl.plan.measured import MeasuredCosts
from fusedrl.plan.price import Pricer
from fusedrl.plan.profile_file import read_profile
from fusedrl.plan.search.find import Settings
from fusedrl.plan.sizes import read_model
from fusedrl.plan.workload import SIGMA, Workload, from_file, log_normal

INFERENCE = ("own", "trained")
_DOT = "__"  # in the names of fields


@dataclass(frozen=True, kw_only=True)
class Options:
    """cluster, models: sheets of configs/plan or files; models may be checkpoint folders. ref, reward: actor and critic
    where not given. data.lengths: a file of response lengths; else log-normal ones of a mean. profile: measured costs.

    search.inference: own, or trained: actor and critic infer in the layouts in which they are trained. search.smallest:
    ranks of the smallest mesh. search.contexts: most cp. out: arguments of -m fusedrl.ppo, a line each.
    """

    cluster: str
    actor: str
    critic: str
    ref: str | None = None
    reward: str | None = None
    dtype: str = "bfloat16"
    profile: Path | None = None
    data__lengths: Path | None = None
    data__train_batch_size: int = 512
    data__n: int = 1
    data__max_prompt_length: int = 1024
    data__max_response_length: int | None = None
    data__mean_response_length: float | None = None
    data__sigma: float = SIGMA
    data__mini_batches: int = 8
    data__epochs: int = 1
    search__method: str = "auto"
    search__seed: int = 0
    search__restarts: int = Settings.restarts
    search__nodes: int = Settings.nodes
    search__steps: int = Settings.steps
    search__beta: float = Settings.beta
    search__smallest: int | None = None
    search__contexts: int = 1
    search__recompute: bool = True
    search__offload: bool = True
    search__inference: str = "own"
    heuristics: tuple[str, ...] = tuple(HEURISTICS)
    out: Path | None = None
    svg: Path | None = None


KEYS = tuple(field.name.replace(_DOT, ".") for field in fields(Options))


def parse(arguments: Sequence[str]) -> Options:
    """Raises ValueError whose line names the key."""
    try:
        options = read(Options, [_renamed(argument) for argument in arguments])
    except ArgumentError as error:
        raise ValueError(str(error).replace(_DOT, ".")) from None
    for name in options.heuristics:
        if name not in HEURISTICS:
            raise ValueError(f"heuristics: {name!r} is none of {', '.join(HEURISTICS)}")
    for key in ("data__train_batch_size", "data__n", "data__max_prompt_length", "data__mini_batches", "data__epochs"):
        if getattr(options, key) < 1:
            raise ValueError(f"{key.replace(_DOT, '.')}={getattr(options, key)}: must be 1 or more")
    return options


def _renamed(argument: str) -> str:
    key, equals, value = argument.partition("=")
    return key.replace(".", _DOT) + equals + value


def settings_of(options: Options) -> Settings:
    return Settings(
        method=options.search__method,
        seed=options.search__seed,
        restarts=options.search__restarts,
        nodes=options.search__nodes,
        steps=options.search__steps,
        beta=options.search__beta,
    )


def limits_of(options: Options) -> Limits:
    return Limits(
        contexts=options.search__contexts,
        smallest=options.search__smallest,
        recompute=options.search__recompute,
        offload=options.search__offload,
    )


def workload_of(options: Options) -> Workload:
    """The step's samples."""
    samples = options.data__train_batch_size * options.data__n
    rest = {
        "prompt": options.data__max_prompt_length,
        "n": options.data__n,
        "mini_batches": options.data__mini_batches,
        "epochs": options.data__epochs,
    }
    longest = options.data__max_response_length
    if options.data__lengths is not None:
        return from_file(
            options.data__lengths, samples=samples, seed=options.search__seed, longest=longest or 0, **rest
        )
    longest = longest or 1024
    mean = options.data__mean_response_length or longest / 2
    sigma = options.data__sigma
    return log_normal(mean=mean, longest=longest, samples=samples, seed=options.search__seed, sigma=sigma, **rest)


def pricer_of(options: Options) -> Pricer:
    """Costs, models and samples. Raises ValueError for sheets that are not there or do not fit each other."""
    cluster = read_cluster(options.cluster)
    costs: Costs = AnalyticCosts(cluster, options.dtype)
    if options.profile is not None:
        costs = MeasuredCosts(read_profile(options.profile), cluster)
    models = {
        "actor": read_model(options.actor, key="actor"),
        "ref": read_model(options.ref or options.actor, key="ref"),
        "critic": read_model(options.critic, head="value", key="critic"),
        "reward": read_model(options.reward or options.critic, head="value", key="reward"),
    }
    own = one_of(options.search__inference, INFERENCE, key="search.inference") == "own"
    return Pricer(costs, models, workload_of(options), own_inference=own)


def assumptions(options: Options, pricer: Pricer) -> list[str]:
    """What the prediction rests on, a line each."""
    cluster, work = pricer.costs.cluster, pricer.work
    device = cluster.device
    source = f"measured: {options.profile}" if options.profile else f"the sheet of {device.name}, nothing measured"
    reached = ", ".join(f"{key} {value:g}" for key, value in vars(device.reached).items())
    models = ", ".join(f"{role} {model.name}" for role, model in pricer.models.items())
    return [
        f"{cluster.nodes} nodes of {cluster.devices} {device.name}; costs: {source}; shares of it reached: {reached}",
        f"{models}; {options.dtype}, distributed optimizer, sequence parallelism, flash attention",
        f"{work.samples} samples, {work.prompt} prompt tokens, {work.mini_batches} mini-batches, {work.epochs} epochs; "
        + work.told,
        "phases follow each other; communication and computing do not overlap; calls give back what they needed",
        "moved weights hold up the call that needs them, not the ranks that send",
        f"fused training takes {SLACK - 1:.0%} more than its lower bound",
    ]
