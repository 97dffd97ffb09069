"""Sizes of the LLaMA models, as published, and their weights.

Sources: Touvron et al. 2023, "LLaMA" (arXiv 2302.13971), table 2, and 2023, "Llama 2" (arXiv 2307.09288); ffn and
vocabulary as in the released weights.
"""

from dataclasses import dataclass

from schedules.problem import ProblemError

_DIVIDED = ("heads", "kv_heads", "ffn", "vocab")  # by tensor parallelism


@dataclass(frozen=True)
class Shape:
    """A decoder with RMSNorm, rotary positions, SwiGLU (three matrices) and untied embeddings; no biases."""

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int

    @property
    def kv_hidden(self) -> int:
        """Width of the keys, and of the values, over all their heads."""
        return self.hidden // self.heads * self.kv_heads

    @property
    def layer_weights(self) -> int:
        """Weights of a layer's matrices: query and output, key and value, and the three of SwiGLU."""
        return 2 * self.hidden * (self.hidden + self.kv_hidden) + 3 * self.hidden * self.ffn

    @property
    def head_weights(self) -> int:
        """Weights of the language-model head; the embedding has as many."""
        return self.hidden * self.vocab

    @property
    def parameters(self) -> int:
        """All parameters: embedding, layers with two norms each, last norm, head."""
        return 2 * self.head_weights + self.layers * (self.layer_weights + 2 * self.hidden) + self.hidden


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("llama_7b", layers=32, hidden=4096, heads=32, kv_heads=32, ffn=11008, vocab=32000),
        Shape("llama_13b", layers=40, hidden=5120, heads=40, kv_heads=40, ffn=13824, vocab=32000),
        Shape("llama_33b", layers=60, hidden=6656, heads=52, kv_heads=52, ffn=17920, vocab=32000),
        Shape("llama_65b", layers=80, hidden=8192, heads=64, kv_heads=64, ffn=22016, vocab=32000),
        Shape("llama2_70b", layers=80, hidden=8192, heads=64, kv_heads=8, ffn=28672, vocab=32000),
    )
}


def check_tp(shape: Shape, *, tp: int, key: str) -> None:
    """Refuse a tensor parallelism that does not divide the model; `key` is what the user would change."""
    for what in _DIVIDED:
        if getattr(shape, what) % tp:
            fitting = [n for n in range(1, shape.heads + 1) if all(getattr(shape, what) % n == 0 for what in _DIVIDED)]
            raise ProblemError(
                f"{key}: {tp} does not divide the {getattr(shape, what)} {what} of {shape.name}; "
                f"take one of {', '.join(map(str, fitting))}"
            )
