"""What a config.json says about a mixture of experts (qwen3_moe). No torch here.

    router      a score for each expert, from the token's hidden state; softmax over all of them
    token       goes to the `per_token` experts of the largest scores, whose outputs are weighted by them
    normalized  the weights of a token's experts add up to 1

A loss that balances the experts' load is not computed. Hugging Face adds one where `output_router_logits` is set, which
is refused by name: Megatron-Core scales such losses by one number a process, read in the backward, which the models of
a fused pass would share; and its sum over micro-batches would depend on how a batch is cut.
"""

from dataclasses import dataclass

from fusedrl.data.json_object import JsonObject

FAMILY = "qwen3_moe"
COUNTS = ("num_experts", "num_local_experts", "n_routed_experts")  # what families call their number of experts


@dataclass(frozen=True)
class Experts:
    """dense_layers: counted from 0, with one feed-forward network of the model's own width in place of experts."""

    count: int
    per_token: int
    ffn_hidden_size: int
    normalized: bool = True
    dense_layers: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.per_token > self.count:
            raise ValueError(f"num_experts_per_tok={self.per_token} exceeds num_experts={self.count}")

    def among(self, layers: range) -> tuple[int, ...]:
        """Which of `layers` have experts."""
        return tuple(layer for layer in layers if layer not in self.dense_layers)

    def to_config(self) -> dict[str, object]:
        """Hugging Face's keys; experts are counted under both names that its versions read."""
        return {
            "num_experts": self.count,
            "num_local_experts": self.count,
            "num_experts_per_tok": self.per_token,
            "moe_intermediate_size": self.ffn_hidden_size,
            "norm_topk_prob": self.normalized,
            "decoder_sparse_step": 1,
            "mlp_only_layers": list(self.dense_layers),
            "output_router_logits": False,
            "router_aux_loss_coef": 0.0,
        }


def read_experts(config: JsonObject) -> Experts | None:
    """None for a dense model. Raises ValueError by key for the mixtures that are not built."""
    counts = {name: config.values[name] for name in COUNTS if config.values.get(name)}
    if config.text("model_type") != FAMILY:
        for name, count in counts.items():
            raise ValueError(
                f"{config.where}: {name}={count}: of the mixtures of experts, {FAMILY} alone is supported; "
                "take one of those or a dense model"
            )
        return None
    _refuse_balancing(config)
    name = next(iter(counts), COUNTS[0])
    count, per_token = config.size(name), config.size("num_experts_per_tok")
    if per_token > count:
        raise ValueError(f"{config.where}: num_experts_per_tok={per_token} exceeds {name}={count}")
    return Experts(
        count=count,
        per_token=per_token,
        ffn_hidden_size=config.size("moe_intermediate_size"),
        normalized=config.flag("norm_topk_prob", default=False),
        dense_layers=_dense_layers(config),
    )


def _dense_layers(config: JsonObject) -> tuple[int, ...]:
    layers, step = config.size("num_hidden_layers"), config.size("decoder_sparse_step", default=1)
    listed = config.token_ids("mlp_only_layers")
    dense = tuple(layer for layer in range(layers) if layer in listed or (layer + 1) % step)
    if len(dense) == layers:
        told = f"decoder_sparse_step={step} and mlp_only_layers={list(listed)}"
        raise ValueError(f"{config.where}: {told} leave no layer with experts; take a model of model_type=qwen3")
    return dense


def _refuse_balancing(config: JsonObject) -> None:
    if config.flag("output_router_logits", default=False):
        coefficient = config.values.get("router_aux_loss_coef")
        raise ValueError(
            f"{config.where}: output_router_logits=true adds router_aux_loss_coef={coefficient} times a balancing "
            "loss, which is not supported; set output_router_logits to false"
        )
