from typing import Any

import pytest
import reasoning_gym

from fusedrl.data.tasks import generate

SUMS: dict[str, Any] = {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1}


def test_no_held_out_prompt_is_a_training_prompt() -> None:
    train, held_out = generate("chain_sum", SUMS, train_size=400, held_out_size=50, seed=3)
    assert len(train) == 400
    assert len({row.prompt for row in held_out}) == 50
    assert not {row.prompt for row in train} & {row.prompt for row in held_out}


def test_same_arguments_give_the_same_rows_and_another_seed_others() -> None:
    one, same = (generate("chain_sum", SUMS, train_size=20, held_out_size=5, seed=1) for _ in range(2))
    assert one == same
    assert one != generate("chain_sum", SUMS, train_size=20, held_out_size=5, seed=2)


def test_template_shortens_the_prompt_and_the_verifier_still_judges() -> None:
    train, _ = generate(
        "chain_sum", SUMS, train_size=9, held_out_size=1, seed=0, prompt="{expression}=", keep_spaces=False
    )
    verify = reasoning_gym.get_score_answer_fn("chain_sum")
    for row in train:
        assert isinstance(row.prompt, str)
        assert " " not in row.prompt
        assert eval(row.prompt.removesuffix("=")) == int(row.ground_truth)
        entry = {"question": row.extra_info["question"], "answer": row.ground_truth, **row.extra_info}
        assert verify(row.ground_truth, entry) == 1.0
        assert verify(str(int(row.ground_truth) + 1), entry) < 1.0


@pytest.mark.parametrize(
    ("task", "config", "options", "named"),
    [
        ("chain_some", SUMS, {}, "data.task.name=chain_some"),
        ("chain_sum", {"min_term": 2}, {}, "data.task.config"),
        ("chain_sum", {**SUMS, "min_terms": 5}, {}, "data.task.config"),
        ("chain_sum", SUMS, {"prompt": "{formula}"}, "data.task.prompt"),
        ("chain_sum", SUMS, {"held_out_size": 500}, "data.task.val_size=500"),
    ],
)
def test_bad_task_names_its_key(task: str, config: dict[str, Any], options: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        generate(task, config, **{"train_size": 5, "held_out_size": 2, "seed": 0, **options})
