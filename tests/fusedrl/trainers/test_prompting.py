import json
from pathlib import Path

import pytest

from fusedrl.config.schema import PPODataConfig, SFTDataConfig, TaskConfig
from fusedrl.data.characters import EOS_ID, write_character_tokenizer
from fusedrl.data.tokenizer import Tokenizer
from fusedrl.trainers.prompting import example_source, prompt_source


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    write_character_tokenizer(tmp_path, "0123456789+-=")
    return Tokenizer(tmp_path)


def rows(path: Path, *prompts: str, answer: object = "1") -> str:
    lines = [{"prompt": p, "data_source": "s", "reward_model": {"ground_truth": answer}} for p in prompts]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def test_prompts_come_in_the_sampler_s_order_and_too_long_ones_are_counted(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    path = rows(tmp_path / "t.jsonl", "1+1=", "2+2=", "1+1+1+1=")
    data = PPODataConfig(train_files=[path], max_prompt_length=5, truncation="filter", shuffle=False)
    source = prompt_source(data, tokenizer)
    assert [source.decode(row.tokens) for row in source.next(3)] == ["1+1=", "2+2=", "1+1="]
    assert source.too_long == 1
    assert source.validation == []


def test_task_s_held_out_prompts_are_the_validation(tokenizer: Tokenizer) -> None:
    task = TaskConfig(
        name="chain_sum",
        config={"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1},
        prompt="{expression}=",
        keep_spaces=False,
        train_size=20,
        val_size=5,
    )
    source = prompt_source(PPODataConfig(task=task), tokenizer)
    assert (len(source.train), len(source.validation)) == (20, 5)
    assert {row.data_source for row in source.validation} == {"reasoning_gym/chain_sum"}


def test_an_example_is_prompt_answer_and_end(tmp_path: Path, tokenizer: Tokenizer) -> None:
    data = SFTDataConfig(train_files=[rows(tmp_path / "t.jsonl", "1+1=", answer="2")])
    example = example_source(data, tokenizer).examples[0]
    assert tokenizer.decode(example.tokens) == "1+1=2"
    assert example.tokens[-1] == EOS_ID
    assert example.start == 4


def test_held_out_examples_of_sft_come_from_their_own_files(tmp_path: Path, tokenizer: Tokenizer) -> None:
    train, held_out = rows(tmp_path / "t.jsonl", "1+1="), rows(tmp_path / "v.jsonl", "2+2=", "1+1+1+1=", answer="4")
    data = SFTDataConfig(train_files=[train], val_files=[held_out], max_length=6, truncation="filter")
    source = example_source(data, tokenizer)
    assert [tokenizer.decode(example.tokens) for example in source.examples] == ["1+1=1"]
    assert [tokenizer.decode(example.tokens) for example in source.validation] == ["2+2=4"]
    assert source.too_long == 1


def test_an_answer_that_is_no_text_names_its_line(tmp_path: Path, tokenizer: Tokenizer) -> None:
    data = SFTDataConfig(train_files=[rows(tmp_path / "t.jsonl", "1+1=", answer=2)])
    with pytest.raises(ValueError, match=r"t\.jsonl:1: no answer to learn"):
        example_source(data, tokenizer)
