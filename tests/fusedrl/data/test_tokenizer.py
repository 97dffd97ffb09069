import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer as FastTokenizer
from tokenizers import models, pre_tokenizers, processors

from fusedrl.data.characters import EOS_ID, write_character_tokenizer
from fusedrl.data.rows import Row
from fusedrl.data.tokenizer import Tokenizer

VOCABULARY = {"<s>": 0, "</s>": 1, "<|user|>": 2, "<|assistant|>": 3, "what": 4, "is": 5, "it": 6, "seven": 7}
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %} <|{{ message.role }}|> {{ message.content }}{% endfor %}"
    "{% if add_generation_prompt %} <|assistant|>{% endif %}"
)


def write_words(
    folder: Path, *, template: str | None = TEMPLATE, stop_ids: object = None, pad: str | None = None
) -> Path:
    """A tokenizer of words that puts <s> before every text it encodes, as Llama's does."""
    tokenizer = FastTokenizer(models.WordLevel(VOCABULARY, unk_token="it"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(["<s>", "</s>", "<|user|>", "<|assistant|>"])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"}
    config |= {"chat_template": template} if template else {}
    config |= {"pad_token": pad} if pad else {}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    if stop_ids is not None:
        (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": stop_ids}))
    return folder


def chat(content: str) -> Row:
    return Row(prompt=[{"role": "user", "content": content}], place="f:3")


def test_text_has_one_first_token(tmp_path: Path) -> None:
    assert Tokenizer(write_words(tmp_path)).encode_prompt(Row("what is it")) == (0, 4, 5, 6)


def test_a_text_that_spells_its_first_token_has_it_once(tmp_path: Path) -> None:
    """As a text that went through a template elsewhere does."""
    tokenizer = Tokenizer(write_words(tmp_path))
    assert tokenizer.encode_prompt(Row("<s> <|user|> what is it <|assistant|>")) == (0, 2, 4, 5, 6, 3)
    assert tokenizer.encode_prompt(Row("what <s> is")) == (0, 4, 0, 5)


def test_a_prompt_of_several_turns_goes_through_the_template_once(tmp_path: Path) -> None:
    turns = [("user", "what"), ("assistant", "seven"), ("user", "is it")]
    row = Row(prompt=[{"role": role, "content": content} for role, content in turns])
    assert Tokenizer(write_words(tmp_path)).encode_prompt(row) == (0, 2, 4, 3, 7, 2, 5, 6, 3)


def test_a_chat_goes_through_the_template_once_and_its_first_token_is_not_doubled(tmp_path: Path) -> None:
    assert Tokenizer(write_words(tmp_path)).encode_prompt(chat("what is it")) == (0, 2, 4, 5, 6, 3)


def test_an_answer_ends_and_does_not_begin_anew(tmp_path: Path) -> None:
    assert Tokenizer(write_words(tmp_path)).encode_answer("seven") == (7, 1)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("seven", (7, 1)),
        ("", (1,)),
        ("seven </s>", (7, 1)),  # spelled: not doubled
        ("seven <|assistant|>", (7, 3)),  # the other end
        ("seven <|assistant|> </s> ", (7, 3)),  # the first one ends it
    ],
)
def test_a_response_ends_with_its_first_end_token_as_a_generated_one(
    tmp_path: Path, text: str, tokens: tuple[int, ...]
) -> None:
    assert Tokenizer(write_words(tmp_path, stop_ids=[1, 3])).encode_response(text) == tokens


def test_a_response_that_goes_on_after_its_end_is_an_error_at_its_row(tmp_path: Path) -> None:
    tokenizer = Tokenizer(write_words(tmp_path, stop_ids=[1, 3]))
    with pytest.raises(ValueError, match="f:4: the response goes on after an end token, with 'it is'; end it there"):
        tokenizer.encode_response("seven <|assistant|> it is", place="f:4")


def test_a_chat_without_a_template_is_an_error_at_its_row(tmp_path: Path) -> None:
    tokenizer = Tokenizer(write_words(tmp_path, template=None))
    with pytest.raises(ValueError, match="f:3: the prompt is a chat, but"):
        tokenizer.encode_prompt(chat("what"))


@pytest.mark.parametrize(("named", "stops"), [(None, {1}), (3, {1, 3}), ([1, 3, 6], {1, 3, 6})])
def test_the_end_is_any_of_the_tokenizer_s_and_the_generation_config_s(
    tmp_path: Path, named: object, stops: set[int]
) -> None:
    assert Tokenizer(write_words(tmp_path, stop_ids=named)).stop_token_ids == stops


def test_padding_may_be_an_end_token_where_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "without").mkdir()
    (tmp_path / "with").mkdir()
    (tmp_path / "end").mkdir()
    assert Tokenizer(write_words(tmp_path / "without", stop_ids=[3])).pad_token_id == 1
    assert Tokenizer(write_words(tmp_path / "with", pad="<s>")).pad_token_id == 0
    same = Tokenizer(write_words(tmp_path / "end", pad="</s>"))
    assert same.pad_token_id == 1
    assert same.encode_prompt(Row("what")) == (0, 4)
    assert same.encode_answer("seven") == (7, 1)


def test_decoding_leaves_special_tokens_out(tmp_path: Path) -> None:
    tokenizer = Tokenizer(write_words(tmp_path))
    assert tokenizer.decode([0, 7, 1]) == "seven"
    assert tokenizer.vocab_size == len(VOCABULARY)


def test_a_character_outside_the_alphabet_is_an_error_at_its_row(tmp_path: Path) -> None:
    write_character_tokenizer(tmp_path, "0123456789+-=")
    tokenizer = Tokenizer(tmp_path)
    assert tokenizer.encode_answer("7") == (10, EOS_ID)
    with pytest.raises(ValueError, match=r"f:9: '3 \+ 4=' holds a character that the tokenizer of"):
        tokenizer.encode_prompt(Row("3 + 4=", place="f:9"))
    with pytest.raises(ValueError, match="text: 'x' holds a character"):
        tokenizer.encode_answer("x")


@pytest.mark.parametrize(
    ("text", "good"), [("<pad>1", True), ("<pad>x", False), ("<pad><pad>+ ", False), ("<pa", False)]
)
def test_a_text_that_spells_special_tokens_hides_no_unknown_character(tmp_path: Path, text: str, good: bool) -> None:
    write_character_tokenizer(tmp_path, "0123456789+-=")
    tokenizer = Tokenizer(tmp_path)
    if good:
        assert tokenizer.encode_prompt(Row(text)) == (0, 4)
    else:
        with pytest.raises(ValueError, match="holds a character"):
            tokenizer.encode_prompt(Row(text))


def test_a_pad_that_the_tokenizer_writes_itself_is_no_unknown_character(tmp_path: Path) -> None:
    assert Tokenizer(write_words(tmp_path, pad="<s>")).encode_prompt(Row("what")) == (0, 4)


@pytest.mark.parametrize("stop_ids", ["2", {"a": 1}, [1, None]])
def test_end_tokens_that_are_no_ids_are_named_by_file_and_key(tmp_path: Path, stop_ids: object) -> None:
    with pytest.raises(ValueError, match=r"generation_config\.json: eos_token_id=.* must be a token id"):
        Tokenizer(write_words(tmp_path, stop_ids=stop_ids))


def test_a_folder_without_a_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no tokenizer can be loaded from there"):
        Tokenizer(tmp_path)
