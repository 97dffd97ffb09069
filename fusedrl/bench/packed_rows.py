"""Logits of packed rows beside those of padded ones, on this machine's layers: a check of gpu_check.py.

    padded    [a a a a a][b b 0 0 0]     against     packed    [a a a a a|b b]

Shapes: B rows, T tokens, V vocabulary.
"""

import torch
from torch import Tensor

from fusedrl.bench.checks import Failed, Figures
from fusedrl.models.architecture import Architecture
from fusedrl.models.build import build_model
from fusedrl.models.implementation import Implementation
from fusedrl.models.options import StageOptions
from fusedrl.parallel.groups import build_groups
from fusedrl.parallel.layout import Layout
from fusedrl.pipeline.megatron_stage import megatron_model
from fusedrl.pipeline.microbatch import MicroBatch

MOST = {torch.float32: 1e-4, torch.bfloat16: 5e-2}  # mean difference over the logits' own spread


def check_packed_rows(
    arch: Architecture, length: int, *, dtype: torch.dtype, implementation: Implementation
) -> Figures:
    """The same weights and tokens both ways; a row that saw another would differ by as much as logits do."""
    lengths = (length, max(1, length // 3), max(1, length - 1))
    padded, packed = (
        _logits(arch, lengths, dtype=dtype, implementation=implementation, packed=packed) for packed in (False, True)
    )
    apart = float((padded - packed).abs().mean() / padded.std())
    if not apart <= MOST[dtype]:  # NaN, too
        raise Failed(
            f"packed rows: logits lie {apart:.3g} of their spread apart from padded rows', at most {MOST[dtype]}"
        )
    return {"apart": round(apart, 6), "tokens": sum(lengths)}


@torch.no_grad()
def _logits(
    arch: Architecture, lengths: tuple[int, ...], *, dtype: torch.dtype, implementation: Implementation, packed: bool
) -> Tensor:
    """[tokens, V] in float32, of the real tokens."""
    options = StageOptions(packed=packed)
    module = build_model(arch, build_groups(Layout()), dtype=dtype, implementation=implementation, options=options)
    model = megatron_model("packed" if packed else "padded", module.eval(), layout=Layout(), rank=0)
    generator = torch.Generator().manual_seed(0)
    tokens_BT = torch.randint(arch.vocab_size, (len(lengths), max(lengths)), generator=generator)
    batch = MicroBatch(tokens_BT.to(model.device), lengths=lengths)
    output = model.stages[0](batch, None)[..., : arch.vocab_size].float()
    return output[0] if packed else torch.cat([output[row, :length] for row, length in enumerate(lengths)])
