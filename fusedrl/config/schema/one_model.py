"""The keys that commands which train one model share: `-m fusedrl.sft` and `-m fusedrl.reward_model`."""

from dataclasses import dataclass

from fusedrl.config.schema.data import OneModelDataConfig
from fusedrl.config.schema.fields import group, key
from fusedrl.config.schema.parallel import MegatronConfig, OptimConfig
from fusedrl.config.schema.trainer import OneModelTrainerConfig


@dataclass(frozen=True)
class NewModelConfig:
    """A model made from nothing, with Hugging Face's names, and a tokenizer of single characters."""

    alphabet: str | None = key(None, help="Characters of the tokenizer; null: no new model, model.path is loaded")
    hidden_size: int = key(128, help="Width", at_least=1)
    intermediate_size: int = key(256, help="Width of the feed-forward part", at_least=1)
    num_hidden_layers: int = key(4, help="Layers", at_least=1)
    num_attention_heads: int = key(4, help="Attention heads", at_least=1)
    num_key_value_heads: int = key(2, help="Key-value heads", at_least=1)
    max_position_embeddings: int = key(64, help="Longest sequence", at_least=1)
    rope_theta: float = key(10000.0, help="Base of the rotary embedding", above=0)
    tie_word_embeddings: bool = key(False, help="One matrix for the embedding and the output layer")


@dataclass(frozen=True)
class StartModelConfig:
    path: str | None = key(None, help="Hugging Face folder to start from; null: a new model")
    new: NewModelConfig = group(NewModelConfig, help="A new Llama-type model")


@dataclass(frozen=True)
class OneModelOptimConfig(OptimConfig):
    lr: float = key(1e-5, help="Peak learning rate", above=0)


@dataclass(frozen=True)
class OneModelConfig:
    model: StartModelConfig = group(StartModelConfig, help="The model to train")
    data: OneModelDataConfig = group(OneModelDataConfig, help="Training rows")
    optim: OneModelOptimConfig = group(OneModelOptimConfig, help="The optimizer")
    megatron: MegatronConfig = group(MegatronConfig, help="The layout")
    trainer: OneModelTrainerConfig = group(OneModelTrainerConfig, help="The run")
