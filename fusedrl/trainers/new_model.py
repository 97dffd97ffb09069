"""The numbers of a model made from nothing (model.new), known before any process group starts."""

from fusedrl.config.schema import NewModelConfig
from fusedrl.data.characters import BOS_ID, EOS_ID, PAD_ID
from fusedrl.models.architecture import Architecture
from fusedrl.models.rope_settings import Rope


def new_architecture(new: NewModelConfig, *, vocab_size: int) -> Architecture:
    """The new model's numbers, with the ids that the character tokenizer gives its special tokens."""
    return Architecture(
        family="llama",
        hidden_size=new.hidden_size,
        num_layers=new.num_hidden_layers,
        num_heads=new.num_attention_heads,
        num_kv_heads=new.num_key_value_heads,
        head_dim=new.hidden_size // new.num_attention_heads,
        ffn_hidden_size=new.intermediate_size,
        vocab_size=vocab_size,
        max_position=new.max_position_embeddings,
        rope=Rope(theta=new.rope_theta),
        tied=new.tie_word_embeddings,
        bos_token_id=BOS_ID,
        eos_token_ids=(EOS_ID,),
        pad_token_id=PAD_ID,
    )
