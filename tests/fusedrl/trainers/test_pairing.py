import json
from pathlib import Path

import pytest

from fusedrl.config.schema import RMDataConfig, TaskConfig
from fusedrl.data.characters import write_character_tokenizer
from fusedrl.data.pairs import Dropped
from fusedrl.data.tokenizer import Tokenizer
from fusedrl.trainers.pairing import PairSource, pair_source

LINES = [
    {"prompt": "1+1=", "chosen": "2", "rejected": "3"},
    {"prompt": "2+2=", "chosen": "4", "rejected": "4"},
    {"prompt": "3+3=", "chosen": "6", "rejected": "66", "margin": 2.0},
    {"prompt": "4+4+4=", "chosen": "12", "rejected": "3"},
]


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    write_character_tokenizer(tmp_path, "0123456789+-=")
    return Tokenizer(tmp_path)


def write(path: Path, *lines: object) -> str:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def texts(source: PairSource, tokenizer: Tokenizer, *, count: int) -> list[str]:
    batch = source.next(count)
    return [
        tokenizer.decode(row[:length].tolist()) for row, length in zip(batch.tokens_BS, batch.lengths_B, strict=True)
    ]


def test_pairs_come_in_the_sampler_s_order_and_the_left_out_are_counted(tmp_path: Path, tokenizer: Tokenizer) -> None:
    train, held_out = write(tmp_path / "t.jsonl", *LINES), write(tmp_path / "v.jsonl", LINES[0], LINES[3])
    files = {"train_files": [train], "val_files": [held_out]}
    source = pair_source(RMDataConfig(**files, max_length=7, truncation="filter", shuffle=False), tokenizer)
    assert texts(source, tokenizer, count=3) == ["1+1=2", "1+1=3", "3+3=6", "3+3=66", "1+1=2", "1+1=3"]
    assert source.dropped == Dropped(too_long=2, equal=1)
    assert [tokenizer.decode(pair.prompt) for pair in source.validation] == ["1+1="]


def test_order_is_seeded_and_goes_on_where_it_stood(tmp_path: Path, tokenizer: Tokenizer) -> None:
    lines = [{"prompt": f"{i}=", "chosen": "1", "rejected": "2"} for i in range(20)]
    data = RMDataConfig(train_files=[write(tmp_path / "t.jsonl", *lines)], seed=5)
    first, second = pair_source(data, tokenizer), pair_source(data, tokenizer)
    begin, goes_on = texts(first, tokenizer, count=8), texts(first, tokenizer, count=20)
    assert texts(second, tokenizer, count=8) == begin
    resumed = pair_source(data, tokenizer)
    resumed.sampler.load_state_dict(second.sampler.state_dict())
    assert texts(resumed, tokenizer, count=20) == goes_on
    assert begin[::2] != [f"{i}=1" for i in range(8)]


def test_a_task_s_pairs_hold_its_answer_and_another(tokenizer: Tokenizer) -> None:
    digits = {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1}
    task = TaskConfig(
        name="chain_sum", config=digits, prompt="{expression}=", keep_spaces=False, train_size=30, val_size=5
    )
    source = pair_source(RMDataConfig(task=task), tokenizer)
    assert (len(source.pairs), len(source.validation)) == (30, 5)
    for pair in [*source.pairs, *source.validation]:
        right = eval(tokenizer.decode(pair.prompt).rstrip("="))
        assert int(tokenizer.decode(pair.chosen)) == right != int(tokenizer.decode(pair.rejected))
