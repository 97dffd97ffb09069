import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from fusedrl.data.characters import BOS_ID, EOS_ID, PAD_ID, write_character_tokenizer

ALPHABET = " 0123456789+-=\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("characters") / "new" / "tokenizer"
    assert write_character_tokenizer(folder, ALPHABET) == 3 + len(ALPHABET)
    return folder


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Any:
    return AutoTokenizer.from_pretrained(str(folder))


def test_a_character_is_a_token_in_the_alphabet_s_order(tokenizer: Any) -> None:
    assert tokenizer(ALPHABET)["input_ids"] == list(range(3, 3 + len(ALPHABET)))
    assert len(tokenizer) == 3 + len(ALPHABET)


def test_special_tokens_have_their_ids(tokenizer: Any) -> None:
    assert (tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id) == (PAD_ID, BOS_ID, EOS_ID)


@settings(deadline=None)
@given(text=st.text(alphabet=ALPHABET, max_size=30))
def test_decoding_gives_the_text_back(tokenizer: Any, text: str) -> None:
    tokens = tokenizer(text)["input_ids"]
    assert tokenizer.decode(tokens, skip_special_tokens=True) == text
    assert tokenizer.decode([*tokens, EOS_ID, PAD_ID], skip_special_tokens=True) == text


@pytest.mark.parametrize("alphabet", ["", "121"])
def test_an_alphabet_has_each_character_once(tmp_path: Path, alphabet: str) -> None:
    with pytest.raises(ValueError, match="give each character once, and at least one"):
        write_character_tokenizer(tmp_path, alphabet)
    assert not (tmp_path / "tokenizer.json").exists()


def test_the_folder_is_plain_json(folder: Path) -> None:
    assert json.loads((folder / "tokenizer_config.json").read_text())["eos_token"] == "<eos>"
