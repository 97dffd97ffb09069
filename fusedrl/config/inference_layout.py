"""The layout in which an actor or critic reads samples: as it trains, or `inference_megatron`'s.

What it is built of (dtype, attention, libraries) is the trained layout's; layers are shared evenly by its stages.
"""

from collections.abc import Iterator
from dataclasses import replace

from fusedrl.config.schema import PPOConfig
from fusedrl.config.schema.parallel import InferenceMegatronConfig, LearningMegatronConfig

KEYS = {"actor": "actor_rollout_ref.actor.inference_megatron", "critic": "critic.inference_megatron"}


def inference_layout(trained: LearningMegatronConfig, own: InferenceMegatronConfig) -> LearningMegatronConfig:
    """Where a model reads samples."""
    if not own.enable:
        return trained
    return replace(
        trained,
        ranks=own.ranks,
        tensor_model_parallel_size=own.tensor_model_parallel_size,
        pipeline_model_parallel_size=own.pipeline_model_parallel_size,
        context_parallel_size=own.context_parallel_size,
        sequence_parallel=trained.sequence_parallel and own.tensor_model_parallel_size > 1,
        use_remove_padding=trained.use_remove_padding and own.context_parallel_size == 1,
        num_layers_in_first_pipeline_stage=None,
        num_layers_in_last_pipeline_stage=None,
        pipeline_layers=None,
        recompute_granularity=None,
    )


def own_layouts(config: PPOConfig) -> Iterator[tuple[str, str, LearningMegatronConfig]]:
    """(role, key, layout) of actor and critic where they read in a layout of their own."""
    for role, holder in (("actor", config.actor_rollout_ref.actor), ("critic", config.critic)):
        if holder.inference_megatron.enable and (role == "actor" or config.algorithm.adv_estimator == "gae"):
            yield role, KEYS[role], inference_layout(holder.megatron, holder.inference_megatron)
