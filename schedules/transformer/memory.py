"""Bytes that one device keeps for the backward of a micro-batch, and bytes of a message between stages. bf16.

Korthikanti et al. 2022 (arXiv 2205.05198), section 4, count what a GPT layer keeps of T tokens, hidden size h, a heads:

    T h (34 + 5 a s / h)                 one device
    T h (10 + 24 / t + 5 a s / (h t))    tensor parallel over t
    T h (34 + 5 a s / h) / t             sequence parallel too;  34 T h / t with the attention core recomputed

The same count for LLaMA, which has no dropout (their 10 holds two masks of 1) and SwiGLU of size f in place of 4 h:

    not split by tensor parallelism       8 h        inputs of two norms, of q k v and of the MLP: 2 bytes each
    split over t         4 h + 4 k + 6 f             q and the core's output; k, v; gate, up and their product

With k = h and f = 8 h / 3 this is their 34 less the masks. The head keeps its norm's input, its own input and the
logits in fp32 (their section 4.3: 4 T h / t (1 + v / h)). Not counted: flash attention's 4 bytes a head, the
embedding's token ids, the value head.
"""

from collections.abc import Sequence

from schedules.transformer.attention import CORES, squares
from schedules.transformer.shapes import Shape

_BF16 = 2


def layer_bytes(
    shape: Shape, *, lengths: Sequence[int], tp: int = 1, sequence_parallel: bool = True, attention: str = "flash"
) -> float:
    """What one layer keeps on each of `tp` devices for sequences of these lengths."""
    tokens = sum(lengths)
    whole = 8 * shape.hidden * tokens
    split = (4 * shape.hidden + 4 * shape.kv_hidden + 6 * shape.ffn) * tokens
    core = CORES[attention].kept * shape.heads * squares(lengths)
    return (split + core) / tp + (whole / tp if sequence_parallel else whole)


def head_bytes(shape: Shape, *, tokens: int, tp: int = 1, sequence_parallel: bool = True) -> float:
    """What the language-model head and the norm before it keep on each of `tp` devices."""
    inputs, logits = 4 * shape.hidden * tokens, 4 * shape.vocab * tokens
    return logits / tp + (inputs / tp if sequence_parallel else inputs)


def message_bytes(shape: Shape, *, tokens: int, tp: int = 1, sequence_parallel: bool = True) -> float:
    """What one device sends to its peer of the next stage: the hidden states, or its share if sequence parallel."""
    return _BF16 * shape.hidden * tokens / (tp if sequence_parallel else 1)
