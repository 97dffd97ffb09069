"""Memory that is given back while samples are generated changes no number, and is really given back."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fusedrl.trainers import offloading
from fusedrl.trainers.offloading import Offloading
from tests.distributed.pool import RankPool
from tests.fusedrl.config.conftest import ppo
from tests.fusedrl.trainers.test_ppo_runs import REWARD, overrides
from tests.fusedrl.trainers.test_preflight import model

ACTOR, CRITIC = "actor_rollout_ref.actor.megatron.", "critic.megatron."
LAYOUTS = [  # a bf16 actor whose main values the replicas share, an fp32 critic whose parameters are the main values
    f"{ACTOR}dtype=bfloat16",
    f"{ACTOR}use_distributed_optimizer=true",
    f"{ACTOR}overlap_grad_reduce=true",
    f"{ACTOR}overlap_param_gather=true",
    f"{CRITIC}dtype=float32",
    f"{CRITIC}use_distributed_optimizer=false",
    f"{CRITIC}overlap_grad_reduce=false",
    f"{CRITIC}overlap_param_gather=false",
]
KINDS = ("param", "grad", "optimizer")
AWAY = [f"{role}{kind}_offload=true" for role in (ACTOR, CRITIC) for kind in KINDS]
AWAY += ["actor_rollout_ref.ref.megatron.param_offload=true"]


def test_runs_learn_the_same_with_their_memory_away(ranks: RankPool, tmp_path: Path) -> None:
    (tmp_path / "reward.py").write_text(REWARD)
    folder = model(tmp_path / "actor")
    more = ["algorithm=ppo_kl", f"custom_reward_function.path={tmp_path / 'reward.py'}", "trainer.export_hf=false"]
    more += [*LAYOUTS, "trainer.val_before_train=true", "actor_rollout_ref.actor.optim.lr=1e-3"]
    runs = {
        "kept": overrides(folder, tmp_path / "kept", *more),
        "away": overrides(folder, tmp_path / "away", *more, *AWAY),
    }
    for found in ranks.run("tests.fusedrl.trainers.offloading_jobs:compared", world=2, limit=400, runs=runs):
        kept, away = (found[name] for name in runs)
        assert away["metrics"] == kept["metrics"]
        assert away["after"] == kept["after"]
        for role, state in kept["state"].items():
            assert all(tensor.equal(away["state"][role][name]) for name, tensor in state.items())
        held: dict[str, Any] = kept["after"]
        assert all(held.values())
        assert away["during"] == [dict.fromkeys(held, 0)] * len(kept["during"])  # validation, two steps, validation
        assert kept["during"][-1] == held
        last = away["all"][2]
        assert last["perf/offloaded_bytes"] > sum(held.values())  # main values too
        assert last["timing_s/offload"] > 0 < last["timing_s/onload"]
        assert "perf/offloaded_bytes" not in kept["all"][2]


@pytest.mark.parametrize("wished", [(), ("param",), ("grad",), ("optimizer",), ("param", "optimizer")])
def test_what_is_away_is_what_was_asked_for(monkeypatch: pytest.MonkeyPatch, wished: tuple[str, ...]) -> None:
    """Of an actor; a critic that is not asked stays. Parameters come back to be read, the rest for the update."""
    told: list[str] = []

    def resting(kind: str) -> Any:
        def made(of: str) -> Any:
            def leave() -> int:
                told.append(f"{of} {kind} away")
                return 10

            return SimpleNamespace(offload=leave, onload=lambda: told.append(f"{of} {kind} back"))

        return made

    for kind, name in {"param": "parameters_of", "grad": "gradients_of", "optimizer": "optimizer_of"}.items():
        monkeypatch.setattr(offloading, name, resting(kind))
    monkeypatch.setattr(offloading, "TrainedRole", SimpleNamespace)
    config = ppo(*(f"{ACTOR}{kind}_offload=true" for kind in wished))
    roles: Any = {name: SimpleNamespace(module=name, trained=name, held=True) for name in ("actor", "critic")}
    memory = Offloading.of(config, roles)
    assert bool(memory) == bool(wished)
    memory.offload()
    assert sorted(told) == sorted(f"actor {kind} away" for kind in wished)
    assert memory.metrics() == ({"perf/offloaded_bytes": 10.0 * len(wished)} if wished else {})
    told.clear()
    memory.for_reading()
    assert told == [f"actor {kind} back" for kind in wished if kind == "param"]
    told.clear()
    memory.for_training()
    assert set(told) >= {f"actor {kind} back" for kind in wished if kind != "param"}
