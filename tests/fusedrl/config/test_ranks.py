import pytest

from fusedrl.config.check_layout import check_ppo_layouts
from fusedrl.config.derive import derive_ppo, describe
from fusedrl.config.ranks import parse_ranks, told
from tests.fusedrl.config.conftest import ppo

KEY = "critic.megatron.ranks"


@pytest.mark.parametrize("text", ["0-3,8", "0", "2,5-6", "0-15"])
def test_a_set_of_ranks_reads_as_it_is_told(text: str) -> None:
    assert told(parse_ranks(text, world=16, key=KEY)) == text


def test_no_text_is_all_ranks_and_order_does_not_matter() -> None:
    assert parse_ranks(None, world=3, key=KEY) == (0, 1, 2)
    assert parse_ranks("4, 0-1", world=8, key=KEY) == (0, 1, 4)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("0-2,2", "rank 2 is named twice; name each rank once"),
        ("2-4", "rank 4 is beyond the 4 ranks of this job, 0 to 3"),
        ("0-99999999999", "rank 99999999999 is beyond the 4 ranks"),
        ("3-1", "the range 3-1 ends before it begins; write 1-3"),
        ("one", "'one' names no ranks; write numbers and ranges, such as 0-3,8"),
        ("", "'' names no ranks"),
    ],
)
def test_what_is_no_set_of_ranks_is_told_once_by_key(text: str, reason: str) -> None:
    (found,) = check_ppo_layouts(ppo(f"critic.megatron.ranks='{text}'"), world=4, models={})
    assert found.startswith(f"{KEY}={text}: ")
    assert reason in found


def test_ranks_that_a_layout_does_not_divide_are_refused() -> None:
    config = ppo("critic.megatron.ranks='0-2'", "critic.megatron.pipeline_model_parallel_size=2")
    (found,) = check_ppo_layouts(config, world=4, models={})
    assert found.startswith(f"{KEY}=0-2 are 3 ranks, which critic.megatron.tensor_model_parallel_size=1 x ")
    config = ppo("actor_rollout_ref.rollout.ranks='0-2'", "actor_rollout_ref.rollout.tensor_model_parallel_size=2")
    (found,) = check_ppo_layouts(config, world=4, models={})
    assert "does not divide the 3 ranks of actor_rollout_ref.rollout.ranks=0-2" in found


def test_what_needs_all_ranks_is_refused_on_some() -> None:
    config = ppo("critic.megatron.ranks='0-1'", "actor_rollout_ref.rollout.inference=instances")
    (found,) = check_ppo_layouts(config, world=4, models={})
    assert found == f"{KEY}=0-1: with actor_rollout_ref.rollout.inference=instances every model lies on all ranks; " + (
        "set it to null"
    )


def test_sizes_follow_the_ranks_of_each_model_and_idle_ones_are_noted() -> None:
    ranks = {"actor_rollout_ref.actor": "0-1", "critic": "2,4"}
    reads = [f"critic.inference_megatron.{each}" for each in ("enable=true", "ranks='0-1'")]
    texts = reads + [f"{key}.megatron.ranks='{text}'" for key, text in ranks.items()]
    sizes = derive_ppo(ppo(*texts, "actor_rollout_ref.rollout.ranks='0-1'"), world=6)
    assert (sizes.models["actor"].dp, sizes.models["critic"].dp, sizes.rollout_groups) == (1, 1, 2)
    lines = describe(sizes)
    assert "critic: tp=1 pp=2 dp=1 on ranks 2,4, " in "\n".join(lines)
    assert "critic reads: tp=1 pp=1 dp=2 on ranks 0-1, " in "\n".join(lines)
    assert lines[-1] == "note: ranks 3,5 hold no model and do not generate"
