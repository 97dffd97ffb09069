"""Load a Hugging Face checkpoint folder into this rank's part of a model. Missing and spare tensors are errors.

A value model takes its trunk from a language model's checkpoint (its head starts at zero, and a log line says so) or
all of it from a checkpoint with a value head (`score.weight`, as in sequence classification with one label).
"""

import logging
from pathlib import Path

import torch
from megatron.core.models.gpt import GPTModel
from torch import nn

from fusedrl.models.architecture import Architecture
from fusedrl.models.fill import fill
from fusedrl.models.hf_folder import HfFolder
from fusedrl.models.parameter_gather import settle
from fusedrl.models.random_weights import Source
from fusedrl.models.stages import stages_of
from fusedrl.models.weights import EMBEDDING, LM_HEAD, VALUE_HEAD, shapes

log = logging.getLogger(__name__)


def load_hf(model: nn.Module, folder: str | Path) -> None:
    """Overwrite the weights of a model's stages by the folder's; every rank reads the files for itself."""
    first, *_ = stages = stages_of(model)
    _check_same_architecture(first.arch, Architecture.from_folder(folder), folder)
    tensors = HfFolder(folder)
    fresh_head = _check_names(first, tensors)
    if fresh_head:
        log.info("%s has no value head (%s): the value head starts at zero", folder, VALUE_HEAD)
    settle(model)  # or parameters under way would arrive over those of the folder
    for stage in stages:
        fill(stage, _source(stage.arch, tensors, fresh_head=fresh_head))


def _source(arch: Architecture, tensors: HfFolder, *, fresh_head: bool) -> Source:
    if not fresh_head:
        return tensors.__getitem__
    return lambda name: torch.zeros(1, arch.hidden_size) if name == VALUE_HEAD else tensors[name]


def _check_names(model: GPTModel, tensors: HfFolder) -> bool:
    """Raise on missing, spare or misshapen names; whether a value head must start afresh."""
    arch, head = model.arch, model.head
    wanted = dict(shapes(arch, head=head))
    found = {name for name in tensors if not name.endswith("rotary_emb.inv_freq")}  # a buffer of old checkpoints
    fresh_head = head == "value" and VALUE_HEAD not in found
    if fresh_head:
        del wanted[VALUE_HEAD]
        found.discard(LM_HEAD)
    if arch.tied and LM_HEAD in found and torch.equal(tensors[LM_HEAD], tensors[EMBEDDING]):
        found.discard(LM_HEAD)  # some writers store the tied table twice
    missing, spare = sorted(wanted.keys() - found), sorted(found - wanted.keys())
    if missing or spare:
        raise ValueError(
            f"{tensors.folder}: tensors do not fit a {head} model of {arch.num_layers} layers; "
            f"missing {_some(missing)}, spare {_some(spare)}"
        )
    return fresh_head


def _check_same_architecture(ours: Architecture, theirs: Architecture, folder: str | Path) -> None:
    for name in ("family", "hidden_size", "num_layers", "num_heads", "num_kv_heads", "head_dim", "ffn_hidden_size"):
        _check_equal(name, getattr(ours, name), getattr(theirs, name), folder)
    for name in ("vocab_size", "tied", "rope", "rms_norm_eps", "experts"):
        _check_equal(name, getattr(ours, name), getattr(theirs, name), folder)


def _check_equal(name: str, ours: object, theirs: object, folder: str | Path) -> None:
    if ours != theirs:
        raise ValueError(f"{folder}/config.json has {name}={theirs}, the model was built with {name}={ours}")


def _some(names: list[str], limit: int = 4) -> str:
    if not names:
        return "none"
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")
