from fusedrl.config.check_layout import check_ppo_layouts
from fusedrl.config.inference_layout import inference_layout
from fusedrl.config.schema.parallel import InferenceMegatronConfig, LearningMegatronConfig
from tests.fusedrl.config.conftest import ppo


def test_inference_layouts_are_checked_by_their_own_keys() -> None:
    key = "actor_rollout_ref.actor.inference_megatron"
    switched_on = f"{key}.enable=true"
    (found,) = check_ppo_layouts(ppo(switched_on, f"{key}.tensor_model_parallel_size=3"), world=4, models={})
    assert found.startswith(f"{key}.tensor_model_parallel_size=3 x {key}.pipeline_model_parallel_size=1 = 3 does not")
    (found,) = check_ppo_layouts(ppo(switched_on, f"{key}.ranks='0,0'"), world=4, models={})
    assert found == f"{key}.ranks=0,0: rank 0 is named twice; name each rank once"
    off = f"{key}.ranks='0,0'"
    assert list(check_ppo_layouts(ppo(off), world=4, models={})) == []
    instances = "actor_rollout_ref.rollout.inference=instances"
    (found,) = check_ppo_layouts(ppo(switched_on, instances), world=4, models={})
    assert found.startswith(f"{key}.enable=true: with actor_rollout_ref.rollout.inference=instances")
    waits = "actor_rollout_ref.ref.megatron.resident=false"
    (found,) = check_ppo_layouts(ppo(waits, instances), world=4, models={})
    assert found.startswith(f"{waits}: ")


def test_a_copy_is_built_as_the_model_that_trains_but_for_its_layout() -> None:
    trained = LearningMegatronConfig(
        tensor_model_parallel_size=2, sequence_parallel=True, pipeline_layers=[1, 3], dtype="bfloat16", ranks="0-3"
    )
    assert inference_layout(trained, InferenceMegatronConfig()) is trained
    own = inference_layout(trained, InferenceMegatronConfig(enable=True, pipeline_model_parallel_size=4, ranks="4-7"))
    assert (own.tensor_model_parallel_size, own.pipeline_model_parallel_size, own.ranks) == (1, 4, "4-7")
    assert (own.dtype, own.sequence_parallel, own.pipeline_layers) == ("bfloat16", False, None)
