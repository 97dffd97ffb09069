import json
from pathlib import Path

import pytest

from fusedrl.data.characters import BOS_ID, EOS_ID, PAD_ID, write_character_tokenizer
from fusedrl.data.rows import Row
from fusedrl.data.tokenizer import Tokenizer

CHAT_TEMPLATE = (
    "<bos>{% for m in messages %}{{ m['role'][0] }}:{{ m['content'] }};{% endfor %}"
    "{% if add_generation_prompt %}a:{% endif %}"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    assert write_character_tokenizer(tmp_path, "0123456789+=:;ua") == 19
    return tmp_path


def configure(folder: Path, **changes: object) -> None:
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_characters_round_trip(folder: Path) -> None:
    tokenizer = Tokenizer(folder)
    tokens = tokenizer.encode_prompt(Row("12+3="))
    assert len(tokens) == 5
    assert tokenizer.decode(tokens) == "12+3="
    assert tokenizer.encode_answer("15") == (tokens[0], 3 + 5, EOS_ID)
    assert tokenizer.decode((*tokens, EOS_ID, PAD_ID)) == "12+3="


def test_unknown_character_is_an_error_naming_the_place(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"f\.jsonl:3: '1\*2' holds a character"):
        Tokenizer(folder).encode_prompt(Row("1*2", place="f.jsonl:3"))
    with pytest.raises(ValueError, match="holds a character"):
        Tokenizer(folder).encode_answer("x")


def test_a_chat_s_first_token_is_not_doubled(folder: Path) -> None:
    configure(folder, chat_template=CHAT_TEMPLATE)
    tokens = Tokenizer(folder).encode_prompt(Row([{"role": "user", "content": "1+1"}]))
    assert tokens.count(BOS_ID) == 1
    assert tokens[0] == BOS_ID
    assert Tokenizer(folder).decode(tokens) == "u:1+1;a:"


def test_a_chat_without_a_template_is_an_error(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"f\.jsonl:1: the prompt is a chat"):
        Tokenizer(folder).encode_prompt(Row([{"role": "user", "content": "1"}], place="f.jsonl:1"))


def test_end_tokens_are_a_set(folder: Path) -> None:
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [EOS_ID, 7]}))
    assert Tokenizer(folder).stop_token_ids == {EOS_ID, 7}


def test_pad_may_equal_the_end_token(folder: Path) -> None:
    configure(folder, pad_token="<eos>")
    tokenizer = Tokenizer(folder)
    assert tokenizer.pad_token_id == EOS_ID
    assert tokenizer.encode_prompt(Row("1+1=")) != ()


def test_a_folder_without_a_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no tokenizer can be loaded"):
        Tokenizer(tmp_path / "nothing")


def test_alphabet_names_each_character_once(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="each character once"):
        write_character_tokenizer(tmp_path, "aab")
