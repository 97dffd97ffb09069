"""Fill this rank's part of a model from a source of whole Hugging Face tensors."""

import torch
from megatron.core.models.gpt import GPTModel
from torch import Tensor

from fusedrl.models.random_weights import Source
from fusedrl.models.weights import Rule, rule_for, to_local


def rules_of(model: GPTModel) -> list[Rule]:
    """The rule of each parameter of a stage, in the module's order."""
    layers = model.decoder.layers
    offset = layers[0].layer_number - 1 if len(layers) else 0
    return [
        rule_for(name, arch=model.arch, layer_offset=offset, head=model.head) for name, _ in model.named_parameters()
    ]


@torch.no_grad()
def fill(model: GPTModel, source: Source) -> None:
    """Overwrite every parameter of a stage. The source's dtype is cast to the model's."""
    group = model.pg_collection.tp
    for rule, parameter in zip(rules_of(model), model.parameters(), strict=True):
        local = to_local(
            rule.kind,
            tuple(source(name) for name in rule.sources),
            arch=model.arch,
            tp_rank=group.rank(),
            tp_size=group.size(),
            padded_vocab=model.padded_vocab,
        )
        _copy(parameter, local, rule)


def _copy(parameter: Tensor, local: Tensor, rule: Rule) -> None:
    if parameter.shape != local.shape:
        raise ValueError(
            f"{' + '.join(rule.sources)} give {tuple(local.shape)}, the model wants {tuple(parameter.shape)}"
        )
    parameter.copy_(local)
