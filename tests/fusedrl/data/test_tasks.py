import re
from typing import Any

import pytest
import reasoning_gym

from fusedrl.data.rows import Row
from fusedrl.data.tasks import generate

SUMS = {"min_terms": 3, "max_terms": 3, "min_digits": 1, "max_digits": 1}


def sums(*, train_size: int = 300, held_out_size: int = 50, seed: int = 0, **rest: Any) -> tuple[list[Row], list[Row]]:
    return generate("chain_sum", SUMS, train_size=train_size, held_out_size=held_out_size, seed=seed, **rest)


def prompts(rows: list[Row]) -> list[str]:
    return [str(row.prompt) for row in rows]


def test_sizes_are_as_asked_and_held_out_prompts_are_distinct() -> None:
    train, held_out = sums()
    assert (len(train), len(held_out)) == (300, 50)
    assert len(set(prompts(held_out))) == 50


def test_no_held_out_prompt_is_a_training_prompt() -> None:
    """Nearly all 4000 expressions are drawn, so a split by index would share most of them."""
    train, held_out = sums(train_size=12000)
    assert len(set(prompts(train))) > 3500
    assert not set(prompts(train)) & set(prompts(held_out))


def test_rows_depend_on_the_seed_alone() -> None:
    assert sums() == sums()
    for rows, others in zip(sums(), sums(seed=7), strict=True):
        assert not {row.place for row in rows} & {row.place for row in others}
        assert prompts(rows)[:20] != prompts(others)[:20]


def test_more_training_rows_change_no_earlier_row() -> None:
    few, held_out = sums()
    many, same = sums(train_size=500)
    assert many[:300] == few
    assert same == held_out


def test_a_chat_is_the_same_prompt_as_a_user_s_message() -> None:
    """The split is that of the plain prompts, too: a chat is held out by what it says."""
    asked: dict[str, Any] = {"train_size": 6000, "prompt": "What is {expression}?"}
    plain, chats = sums(**asked), sums(**asked, chat=True, system="Be brief.")
    for rows, others in zip(plain, chats, strict=True):
        said = [[{"role": "system", "content": "Be brief."}, {"role": "user", "content": row.prompt}] for row in rows]
        assert [row.prompt for row in others] == said
        assert [row.ground_truth for row in others] == [row.ground_truth for row in rows]
    (row, *_), _ = sums(train_size=1, chat=True)
    assert row.prompt == [{"role": "user", "content": row.extra_info["question"]}]


@pytest.mark.parametrize(("task", "config"), [("chain_sum", SUMS), ("countdown", {}), ("gsm_symbolic", {})])
def test_the_task_s_verifier_accepts_the_ground_truth(task: str, config: dict[str, Any]) -> None:
    train, held_out = generate(task, config, train_size=3, held_out_size=2, seed=1)
    score = reasoning_gym.get_score_answer_fn(task)
    for row in train + held_out:
        entry = {"question": row.extra_info["question"], "answer": row.ground_truth, **row.extra_info}
        assert score(row.ground_truth, entry) == 1.0
        assert score("no answer", entry) < 1.0
        assert row.data_source == f"reasoning_gym/{task}"
        assert task in row.place


def test_metadata_is_plain_data() -> None:
    train, _ = sums(train_size=1, held_out_size=1)
    assert train[0].extra_info["metadata"]["difficulty"] == {"num_terms": [3, 3], "num_digits": [1, 1]}


def test_a_template_writes_the_prompt_and_the_question_stays() -> None:
    (row, *_), _ = sums(prompt="{expression} =", keep_spaces=False)
    assert re.fullmatch(r"\d[+-]\d[+-]\d=", str(row.prompt))
    assert eval(str(row.prompt).removesuffix("=")) == int(row.ground_truth)
    assert row.extra_info["question"].startswith("State the final answer")
    assert str(sums()[0][0].prompt) == sums()[0][0].extra_info["question"]


def test_too_few_different_prompts_is_an_error_with_the_numbers() -> None:
    digits = {"min_terms": 1, "max_terms": 1, "min_digits": 1, "max_digits": 1}
    with pytest.raises(ValueError, match=r"data\.task\.val_size=20: chain_sum gave 10 such prompts"):
        generate("chain_sum", digits, train_size=5, held_out_size=20, seed=0)
    with pytest.raises(ValueError, match=r"data\.task\.train_size=5: chain_sum gave 0 such prompts"):
        generate("chain_sum", digits, train_size=5, held_out_size=10, seed=0)


def test_unknown_tasks_settings_and_template_fields_are_named() -> None:
    sizes = {"train_size": 1, "held_out_size": 1, "seed": 0}
    with pytest.raises(ValueError, match=r"data\.task\.name=sums: reasoning-gym has no such task"):
        generate("sums", {}, **sizes)
    with pytest.raises(ValueError, match=r"data\.task\.config=\{'terms': 3\}: chain_sum refuses it"):
        generate("chain_sum", {"terms": 3}, **sizes)
    with pytest.raises(ValueError, match=r"data\.task\.config=.*min_terms must be positive"):
        generate("chain_sum", {"min_terms": 0}, **sizes)
    with pytest.raises(ValueError, match=r"data\.task\.config=.*max_terms must be >= min_terms"):
        generate("chain_sum", {**SUMS, "min_terms": 5}, **sizes)
    with pytest.raises(ValueError, match=r"data\.task\.prompt='\{sum\}'.*an entry has .*expression.*question"):
        generate("chain_sum", SUMS, prompt="{sum}", **sizes)
