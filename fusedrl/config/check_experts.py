"""Checks of layouts for models with experts. Each gives one line per problem: key, numbers, what to change."""

from collections.abc import Collection, Iterator, Mapping
from typing import Protocol

from fusedrl.config.schema import MegatronConfig


class WithExperts(Protocol):
    """What the checks read of an architecture."""

    @property
    def experts(self) -> object | None: ...


def check_experts(
    layouts: Mapping[str, MegatronConfig], models: Mapping[str, WithExperts], *, frozen: Collection[str] = ()
) -> Iterator[str]:
    """All by the key of the layout; a model that is not known yet is left out. frozen: models that are not trained."""
    for key, megatron in layouts.items():
        ep, tp = megatron.expert_model_parallel_size, megatron.tensor_model_parallel_size
        if ep > 1:
            yield (
                f"{key}.expert_model_parallel_size={ep}: experts lie whole on each data-parallel rank, or are cut over "
                f"{key}.tensor_model_parallel_size; set it to 1"
            )
        if key not in models or models[key].experts is None:
            continue
        if tp > 1 and not megatron.sequence_parallel and key not in frozen:
            yield (
                f"{key}.sequence_parallel=false with {key}.tensor_model_parallel_size={tp}: layers with experts share "
                "tokens between those ranks; set it to true"
            )
        if megatron.transformer_impl == "transformer_engine":
            yield f"{key}.transformer_impl=transformer_engine: layers with experts are Megatron's local ones; use auto"
