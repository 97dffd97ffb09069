import pytest
import reasoning_gym

from fusedrl.rewards.function import VERIFIER
from fusedrl.rewards.reasoning_gym import compute_score, full_marks, last_number, watched
from fusedrl.rewards.runner import RewardRunner
from fusedrl.rewards.sample import RewardSample

# one task of each kind: exact answers, several right answers judged from the metadata, and free-form ones
TASKS = ("chain_sum", "countdown", "gsm_symbolic", "spell_backward", "sudoku", "n_queens", "base_conversion")


@pytest.mark.parametrize("task", TASKS)
def test_the_entry_s_own_answer_has_full_marks_and_nonsense_has_not(task: str) -> None:
    for entry in reasoning_gym.create_dataset(task, seed=4, size=2):
        rest = {"ground_truth": entry["answer"], "extra_info": entry["metadata"]}
        source = f"reasoning_gym/{task}"
        right = {"score": 1.0, "acc": 1.0, "pred": entry["answer"].strip()}
        assert compute_score(source, f" {entry['answer']}\n", **rest) == right
        assert compute_score(source, "", **rest)["acc"] == 0.0
        assert compute_score(source, "zzz", **rest)["acc"] == 0.0


@pytest.mark.parametrize(
    ("response", "score", "pred"),
    [
        ("12", 1.0, "12"),
        ("12.0", 1.0, "12.0"),
        ("012", 1.0, "012"),
        ("the sum is <answer> 12 </answer>.", 1.0, "12"),
        ("<answer>3</answer> no: <answer>12</answer>", 1.0, "12"),
        ("12 <answer>3</answer>", 0.0, "3"),
        ("13", 0.0, "13"),
        ("123", 2 / 3, "123"),
    ],
)
def test_chain_sum_scores_the_answer_as_its_dataset_does(response: str, score: float, pred: str) -> None:
    question = {"metadata": {}, "question": "5 + 7 ="}
    found = compute_score("reasoning_gym/chain_sum", response, "12", question)
    assert found == {"score": pytest.approx(score), "acc": float(score == 1.0), "pred": pred}
    marks = full_marks("reasoning_gym/chain_sum", response, "12", question)
    assert marks == {"score": float(score == 1.0), "acc": float(score == 1.0), "pred": pred}


@pytest.mark.parametrize(
    ("response", "score"),
    [
        ("5 + 7 = 12.", 1.0),
        ("The answer is 12!", 1.0),
        ("12 is not 13", 0.0),
        ("It is -12.", 0.0),
        ("It is 12.5", 0.0),
        ("twelve", 0.0),
        ("", 0.0),
    ],
)
def test_the_last_number_of_a_sentence_is_scored(response: str, score: float) -> None:
    found = last_number("reasoning_gym/chain_sum", response, "12", {"question": "5 + 7 ="})
    assert (found["score"], found["acc"]) == (score, score)


def test_a_watching_verifier_tells_accuracy_and_pays_nothing() -> None:
    found = [watched("reasoning_gym/chain_sum", response, "12", {"question": "5 + 7 ="}) for response in ("12", "13")]
    assert [(each["score"], each["acc"]) for each in found] == [(0.0, 1.0), (0.0, 0.0)]


def test_metadata_may_stand_alone_or_under_its_key() -> None:
    entry = reasoning_gym.create_dataset("countdown", seed=1, size=1)[0]
    for extra in (entry["metadata"], {"metadata": entry["metadata"], "index": 3}):
        found = compute_score("reasoning_gym/countdown", entry["answer"], entry["answer"], extra)
        assert found["score"] == 1.0


@pytest.mark.parametrize("source", ["gsm8k", "reasoning_gym/", ""])
def test_other_data_sources_are_refused(source: str) -> None:
    with pytest.raises(ValueError, match="this verifier scores 'reasoning_gym/TASK' only"):
        compute_score(source, "1", "1")


def test_it_serves_as_the_custom_function_in_a_worker() -> None:
    entries = list(reasoning_gym.create_dataset("chain_sum", seed=2, size=20))
    samples = [
        RewardSample(
            str(i), "reasoning_gym/chain_sum", entry["answer"] if i % 2 else "no", entry["answer"], entry["metadata"]
        )
        for i, entry in enumerate(entries)
    ]
    with RewardRunner(VERIFIER, workers=1) as runner:
        results = runner.score(samples)
    assert [result.score for result in results] == [0.0, 1.0] * 10
    assert [result.extra["acc"] for result in results] == [0.0, 1.0] * 10
