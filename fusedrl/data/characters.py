"""A tokenizer of single characters, written as a Hugging Face folder: for small models made from nothing.

write_character_tokenizer(folder, "0123456789+-= ")      ids: <pad> 0, <bos> 1, <eos> 2, then the characters
"""

import json
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

PAD, BOS, EOS = "<pad>", "<bos>", "<eos>"
PAD_ID, BOS_ID, EOS_ID = 0, 1, 2


def write_character_tokenizer(folder: Path, alphabet: str) -> int:
    """Write tokenizer.json and tokenizer_config.json; returns the vocabulary's size.

    A character outside the alphabet is an error when text is encoded (fusedrl.data.tokenizer), never dropped.
    """
    if len(set(alphabet)) != len(alphabet) or not alphabet:
        raise ValueError(f"alphabet {alphabet!r}: give each character once, and at least one")
    vocabulary = {token: index for index, token in enumerate([PAD, BOS, EOS, *alphabet])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=PAD))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens([PAD, BOS, EOS])
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": PAD,
        "bos_token": BOS,
        "eos_token": EOS,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 1_000_000,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
    return len(vocabulary)
