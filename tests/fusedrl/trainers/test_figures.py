import pytest

from fusedrl.trainers.figures import figures, values_of
from fusedrl.trainers.prompting import PromptRow
from fusedrl.trainers.repeats import best_of, pass_at_k
from fusedrl.trainers.scoring import Verdict


def row(source: str) -> PromptRow:
    return PromptRow((5,), source, "7", {})


def told(*accs: float) -> list[Verdict]:
    return [Verdict(acc / 2, acc=acc) for acc in accs]


def test_one_response_has_its_mean_alone() -> None:
    found = values_of(figures([row("a"), row("a"), row("b")], told(1, 0, 1), n=1))
    assert found == {
        "val-core/a/acc/mean@1": 0.5,
        "val-core/b/acc/mean@1": 1.0,
        "val-aux/a/reward/mean@1": 0.25,
        "val-aux/b/reward/mean@1": 0.5,
    }


def test_several_responses_have_verl_s_names_and_pass_at_k() -> None:
    found = values_of(figures([row("a"), row("a")], told(1, 0, 0, 1, 0, 0, 0, 0), n=4))
    core = {name.removeprefix("val-core/a/acc/") for name in found if name.startswith("val-core/")}
    assert core == {"mean@4", "best@4/mean", "pass@4"}
    aux = {name.removeprefix("val-aux/a/acc/") for name in found if name.startswith("val-aux/a/acc")}
    assert aux == {"std@4", "worst@4/mean", "best@2/mean", "worst@2/mean", "pass@1", "pass@2"}
    assert found["val-core/a/acc/mean@4"] == found["val-aux/a/acc/pass@1"] == 0.25
    assert found["val-aux/a/acc/pass@2"] == pass_at_k(4, 2, 2) / 2
    assert found["val-core/a/acc/best@4/mean"] == best_of([0, 0, 1, 1], 4) / 2
    assert found["val-aux/a/acc/std@4"] == 0.25
    assert found["val-aux/a/reward/mean@4"] == 0.125
    assert not any("pass" in name for name in found if "/reward/" in name)


def test_a_reward_alone_counts_and_has_pass_at_k_where_right_is_told() -> None:
    verdicts = [Verdict(score) for score in (3.0, 0.0, 2.0, 1.0)]
    found = values_of(figures([row("a"), row("a")], verdicts, n=2))
    assert found["val-core/a/reward/mean@2"] == 1.5
    assert not any("pass@" in name or "/acc/" in name for name in found)
    assert values_of(figures([row("a"), row("a")], verdicts, n=2, right_at=2.0))["val-core/a/reward/pass@2"] == 1.0
    assert values_of(figures([row("a"), row("a")], verdicts, n=2, right_at=2.5))["val-core/a/reward/pass@2"] == 0.5


def test_asked_ks_take_the_place_of_powers_of_two() -> None:
    found = figures([row("a")], told(*[1, 0] * 4), n=8, ks=[1, 3])
    assert {name.rpartition("/")[2] for name in found if "pass@" in name} == {"pass@1", "pass@3", "pass@8"}
    assert {name for name in found if "best@" in name and "/acc/" in name} == {
        "val-aux/a/acc/best@3/mean",
        "val-core/a/acc/best@8/mean",
    }


def test_answers_vote_where_the_function_tells_them() -> None:
    verdicts = [Verdict(acc, acc=acc, pred=pred) for acc, pred in ((0.0, "8"), (1.0, "7"), (1.0, "7"))]
    assert values_of(figures([row("a")], verdicts, n=3))["val-core/a/acc/maj@3/mean"] == 1.0


def test_a_failed_call_is_no_right_response_whatever_its_score() -> None:
    failed = Verdict(1.0, failure="timeout: no answer in 1 s")
    found = values_of(figures([row("a")], [*told(1), failed], n=2))
    assert found["val-core/a/acc/mean@2"] == 0.5
    assert found["val-aux/a/reward/mean@2"] == 0.75  # the configured score


def test_parts_of_a_weighted_function_are_told_beside_it_and_a_failed_call_has_none() -> None:
    verdicts = [Verdict(1.2, parts={"right": 1.0, "short": 1.0}), Verdict(0.2, parts={"right": 0.0, "short": 1.0})]
    found = values_of(figures([row("a")] * 3, [*verdicts, Verdict(-1.0, failure="died")], n=1))
    assert found["val-core/a/reward/mean@1"] == pytest.approx(0.4 / 3)
    assert found["val-aux/a/reward/right/mean@1"] == 1 / 3
    assert found["val-aux/a/reward/short/mean@1"] == 2 / 3


def test_rows_without_a_data_source_have_verl_s_name() -> None:
    assert "val-core/unknown/acc/mean@1" in figures([row("")], told(1), n=1)


def test_a_spread_of_0_and_1_is_not_taken_for_a_share_of_prompts() -> None:
    found = figures([row("a")], told(1, 1), n=2)
    assert [name for name, figure in found.items() if not figure.may_share] == [
        "val-aux/a/reward/std@2",
        "val-aux/a/acc/std@2",
    ]
