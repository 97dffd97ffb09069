"""Between a program, which speaks of copies and of a group's columns, and a rank, which has one model of each name.

    program    critic1:F0@0 on column 3, sent to column 1          (fusedrl.parallel.fusion)
    rank       critic:F0@0, sent to column 0 of its own pipeline   (the critic's stages lie there, whoever shares them)

With equal layouts both are the same.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from fusedrl.parallel.fusion import Fusion, Spread, fuse
from fusedrl.pipeline.stage import PipelineModel
from fusedrl.pipeline.timeline import TimedOp
from schedules.graph import Split
from schedules.lower import Compute, Instruction
from schedules.problem import Problem


def fusion_of(models: Iterable[PipelineModel]) -> Fusion:
    """How these models lie together on the world."""
    return fuse({model.name: Spread(_replicas(model), model.placement) for model in models})


def _replicas(model: PipelineModel) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """The world ranks of each data-parallel replica by pipeline column, those of one stage side by side."""
    seats = model.tp * model.cp
    starts = range(0, len(model.columns), seats)
    return tuple(tuple(zip(*model.columns[first : first + seats], strict=True)) for first in starts)


def check_placements(problem: Problem, fusion: Fusion) -> None:
    """The program was made for models that lie as these do."""
    lie = {copy.name: copy.placement for copy in fusion.copies}
    for model in problem.models:
        if tuple(model.placement) != lie[model.name]:
            there = lie[model.name]
            raise ValueError(f"{model.name}: placement {model.placement} in the program, {there} in the model")


def own_instructions(
    instructions: Sequence[Instruction], models: Mapping[str, PipelineModel], *, copies: Mapping[str, str]
) -> Sequence[Instruction]:
    """A rank's list in terms of its own models. copies: the copy of each model that the rank works for."""
    model_of = {copy: models[name] for name, copy in copies.items()}
    return [_own(each, model_of) for each in instructions]


def _own(instruction: Instruction, model_of: Mapping[str, PipelineModel]) -> Instruction:
    if isinstance(instruction, Compute):
        model = model_of[instruction.op.model]
        same = model.name == instruction.op.model
        return instruction if same else Compute(replace(instruction.op, model=model.name))
    message = instruction.message
    model = model_of[message.model]
    ends = model.placement[message.src_stage], model.placement[message.dst_stage]
    if (message.model, message.src_rank, message.dst_rank) == (model.name, *ends):
        return instruction
    return type(instruction)(replace(message, model=model.name, src_rank=ends[0], dst_rank=ends[1]))


def own_split(split: Split, *, copies: Mapping[str, str]) -> Split:
    """The split backwards of a rank's copies."""
    model_of = {copy: name for name, copy in copies.items()}
    return frozenset((model_of[copy], stage, m) for copy, stage, m in split if copy in model_of)


def in_program(ops: Iterable[TimedOp], *, copies: Mapping[str, str]) -> list[TimedOp]:
    """A rank's ops under the names that the program has for them."""
    return [
        each if (name := copies[each.op.model]) == each.op.model else each._replace(op=replace(each.op, model=name))
        for each in ops
    ]
