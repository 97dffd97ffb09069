"""Memory that is given back while samples are generated changes no number, and is really given back."""

from pathlib import Path
from typing import Any

from tests.distributed.pool import RankPool
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
        "partly": overrides(folder, tmp_path / "partly", *more, f"{ACTOR}optimizer_offload=true"),
    }
    for found in ranks.run("tests.fusedrl.trainers.offloading_jobs:compared", world=2, limit=400, runs=runs):
        kept, away, partly = (found[name] for name in runs)
        for other in (away, partly):
            assert other["metrics"] == kept["metrics"]
            assert other["after"] == kept["after"]
            for role, state in kept["state"].items():
                assert all(tensor.equal(other["state"][role][name]) for name, tensor in state.items())
        held: dict[str, Any] = kept["after"]
        assert all(held.values())
        assert away["during"] == [dict.fromkeys(held, 0)] * 4  # validation, two steps, validation
        assert partly["during"][2] == held | {"actor optimizer": 0}
        assert kept["during"][2] == held
        last = away["all"][2]
        assert last["perf/offloaded_bytes"] > sum(held.values())  # main values too
        assert last["timing_s/offload"] > 0 < last["timing_s/onload"]
        assert "perf/offloaded_bytes" not in kept["all"][2]
