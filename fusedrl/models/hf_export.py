"""Write a model as a Hugging Face folder: config.json, safetensors (one file a pipeline stage), tokenizer files.

Whole tensors come together over each tensor-parallel group; one rank a stage writes its file, so no rank holds more
than its stage. The vocabulary's padding is dropped; a value head is written as `score.weight`.
"""

import json
import shutil
from pathlib import Path

import torch
import torch.distributed as dist
from megatron.core.models.gpt import GPTModel
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor, nn

from fusedrl.models.architecture import Architecture
from fusedrl.models.fill import rules_of
from fusedrl.models.hf_folder import INDEX, SINGLE
from fusedrl.models.parameter_gather import settle
from fusedrl.models.random_weights import random_source
from fusedrl.models.stages import stages_of
from fusedrl.models.weights import from_locals, shapes
from fusedrl.parallel.agreed import agree, tried
from fusedrl.parallel.groups import ProcessGroupCollection

WRITING = (OSError, SafetensorError)  # what a full disk raises
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
    "generation_config.json",
)


def export_hf(
    model: nn.Module,
    groups: ProcessGroupCollection,
    folder: str | Path,
    *,
    tokenizer_folder: str | Path | None = None,
) -> None:
    """Write the model; collective over all ranks of its groups. All ranks see the finished folder on return.

    Raises AgreedError on all of them where a file could not be written.
    """
    settle(model)
    folder, held = Path(folder), stages_of(model)
    writes = groups.tp.rank() == 0 and groups.dp_cp.rank() == 0
    count = held[0].pg_collection.pp.size()
    what, error = f"{folder} could not be written", None
    for module in held:
        tensors = _whole_tensors(module, groups)
        if writes and error is None:
            file = folder / _file_name(module.pg_collection.pp.rank(), count)
            error = tried(lambda: _write_tensors(file, tensors), catching=WRITING)  # noqa: B023 - called at once
    agree(error, what=what, group=groups.intra_dist_opt)
    if writes and held[0].pg_collection.pp.rank() == 0:
        files = [_file_name(i, count) for i in range(count)]
        error = tried(lambda: _write_rest(folder, model, files=files, tokenizer_folder=tokenizer_folder))
    agree(error, what=what, group=groups.intra_dist_opt)


def _write_tensors(file: Path, tensors: dict[str, Tensor]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, str(file), metadata={"format": "pt"})


def _write_rest(folder: Path, model: nn.Module, *, files: list[str], tokenizer_folder: str | Path | None) -> None:
    first = stages_of(model)[0]
    dtype = str(next(model.parameters()).dtype).removeprefix("torch.")
    _write_config(folder, first.arch, head=first.head, dtype=dtype)
    _write_index(folder, files)
    _copy_tokenizer(tokenizer_folder, folder)


def write_random_hf(
    arch: Architecture,
    folder: str | Path,
    *,
    seed: int,
    head: str = "lm",
    dtype: torch.dtype = torch.float32,
    tokenizer_folder: str | Path | None = None,
) -> Path:
    """A fresh checkpoint with random weights, written by one process without any distributed set-up."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    source = random_source(arch, head=head, seed=seed)
    tensors = {name: source(name).to(dtype) for name, _ in shapes(arch, head=head)}
    save_file(tensors, str(folder / SINGLE), metadata={"format": "pt"})
    _write_config(folder, arch, head=head, dtype=str(dtype).removeprefix("torch."))
    _copy_tokenizer(tokenizer_folder, folder)
    return folder


@torch.no_grad()
def _whole_tensors(model: GPTModel, groups: ProcessGroupCollection) -> dict[str, Tensor]:
    """Hugging Face name -> whole tensor of this stage, on the CPU; a last stage's copy of a tied table is left out."""
    tied_copy = model.arch.tied and model.head == "lm" and not model.pre_process
    tensors: dict[str, Tensor] = {}
    for rule, parameter in zip(rules_of(model), model.parameters(), strict=True):
        shards = [parameter.data]
        if rule.kind != "whole" and groups.tp.size() > 1:
            shards = [torch.empty_like(parameter.data) for _ in range(groups.tp.size())]
            dist.all_gather(shards, parameter.data.contiguous(), group=groups.tp)
        if not (tied_copy and rule.kind == "vocabulary"):
            whole = from_locals(rule.kind, [shard.cpu() for shard in shards], arch=model.arch)
            tensors |= {name: tensor.clone() for name, tensor in zip(rule.sources, whole, strict=True)}
    return tensors


def _file_name(stage: int, stages: int) -> str:
    return SINGLE if stages == 1 else f"model-{stage + 1:05d}-of-{stages:05d}.safetensors"


def _write_config(folder: Path, arch: Architecture, *, head: str, dtype: str) -> None:
    (folder / "config.json").write_text(json.dumps(arch.to_config(head=head, dtype=dtype), indent=2) + "\n")


def _write_index(folder: Path, files: list[str]) -> None:
    """Say which file holds what; files of an earlier export with another number of stages are removed."""
    for old in folder.glob("model*.safetensors*"):
        if old.name not in files:
            old.unlink()
    if len(files) == 1:
        return
    headers = {name: _header(folder / name) for name in files}
    weight_map = {tensor: name for name, header in headers.items() for tensor in header}
    size = sum(end - start for header in headers.values() for start, end in header.values())
    index = {"metadata": {"total_size": size}, "weight_map": weight_map}
    (folder / INDEX).write_text(json.dumps(index, indent=2) + "\n")


def _header(path: Path) -> dict[str, tuple[int, int]]:
    """Tensor name -> byte range, from a safetensors file's header: its length (8 bytes, little endian), then JSON."""
    with path.open("rb") as file:
        content = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return {name: tuple(entry["data_offsets"]) for name, entry in content.items() if name != "__metadata__"}


def _copy_tokenizer(source: str | Path | None, folder: Path) -> None:
    if source is None or Path(source).resolve() == folder.resolve():
        return
    for name in TOKENIZER_FILES:
        if (Path(source) / name).is_file():
            shutil.copyfile(Path(source) / name, folder / name)
