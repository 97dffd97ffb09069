"""Problems: forms, ranks of stages, digest, and errors that name the place."""

from dataclasses import replace

import pytest

from schedules.problem import Model, Problem, ProblemError

ACTOR = Model("actor", [0, 1], 4, 1, 2, activation=1.95)


def test_duration_splits_backward_into_input_and_weight_part():
    model = Model("m", [0, 1], 2, forward=[1, 2], backward=[[3, 4], [5, 6]], backward_weight=2)
    assert [model.duration("F", s, 0) for s in (0, 1)] == [1, 2]
    assert model.duration("B", 1, 1) == 6
    assert model.duration("B", 1, 1, split=True) == 4
    assert model.duration("W", 1, 1) == 2


def test_stages_and_ranks_answer_each_other_in_v_and_wide_placements():
    v = Model("v", [0, 1, 1, 0], 1, 1, 1)
    wide = Model("wide", [[0, 1], [2, 3]], 1, 1, 1)
    assert [v.stages_on(r) for r in (0, 1)] == [(0, 3), (1, 2)]
    assert wide.ranks_of(1) == (2, 3)
    assert wide.stages_on(3) == (1,)


def test_model_without_backward_is_forward_only():
    assert not Model("reference", [0, 1], 4, 1).trains
    assert ACTOR.trains


def test_digest_ignores_the_written_form_and_the_memory_cap():
    same = Model("actor", (0, 1), 4, [1.0, 1.0], [[2] * 4] * 2, activation=[1.95] * 2)
    assert Problem(2, (ACTOR,)).digest == Problem(2, (same,), memory_cap=9).digest


@pytest.mark.parametrize(
    "change", [{"name": "b"}, {"placement": [1, 0]}, {"microbatches": 5}, {"forward": 1.5}, {"backward_weight": 1}]
)
def test_digest_tells_different_work_apart(change):
    assert Problem(2, (ACTOR,)).digest != Problem(2, (replace(ACTOR, **change),)).digest


def test_eight_activations_fit_their_own_sum():
    problem = Problem(2, (ACTOR,), memory_cap=15.6)
    assert problem.fits(sum([1.95] * 8))
    assert not problem.fits(15.7)
    assert not problem.with_cap(9).fits(10)


def test_least_memory_adds_the_stages_of_a_training_model_only():
    problem = Problem(1, (Model("t", [0, 0], 2, 1, 1, activation=[3, 4]), Model("f", [0, 0], 2, 1, activation=5)))
    assert problem.least_memory(0) == 7


def model(**change):
    return replace(ACTOR, **change)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: model(name="a b"), "models: name 'a b' must be"),
        (lambda: model(name="a" * 65), "models: name 'aaaaaaaaaaaa...aaaaaaaaaaaaa' must be up to 64 letters"),
        (lambda: model(microbatches=0), "actor.microbatches: expected a whole number of at least 1, got 0"),
        (lambda: model(placement=[]), "actor.placement: expected a list with the rank of each stage"),
        (lambda: model(placement=[0, []]), r"actor.placement\[1\]: the stage has no rank"),
        (lambda: model(placement=[0, None]), r"actor.placement\[1\]: expected a rank"),
        (lambda: model(placement=[0, [1, 1]]), r"actor.placement\[1\]: a rank is named twice"),
        (lambda: model(forward=-1), "actor.forward: expected a finite number of at least 0, got -1"),
        (lambda: model(backward_weight=[1, 3]), "actor.backward_weight: stage 1, micro-batch 0: 3 exceeds backward 2"),
        (lambda: model(backward=None, backward_weight=1), "actor.backward_weight: there is no backward to split"),
        (lambda: Problem(0, (ACTOR,)), "ranks: expected a whole number of at least 1, got 0"),
        (lambda: Problem(2, ()), "models: at least one model"),
        (lambda: Problem(1, (ACTOR,)), r"actor.placement\[1\]: rank 1 is outside 0..0"),
        (lambda: Problem(2, (ACTOR, ACTOR)), "models: the name 'actor' is used 2 times"),
        (lambda: Problem(2, (ACTOR,), comm=-1), "comm: expected a finite number of at least 0, got -1"),
        (lambda: Problem(2, (ACTOR,), memory_cap=1.9), "memory_cap: 1.9 is below 1.95, the activations of one"),
        (lambda: Problem(2, (ACTOR,)).model("critic"), "models: no model named 'critic'; there are actor"),
    ],
)
def test_bad_problem_names_the_place(make, message):
    with pytest.raises(ProblemError, match=f"^{message}"):
        make()


@pytest.mark.parametrize(
    ("ranks", "placement", "microbatches", "message"),
    [
        (10**8, [0], 1, "ranks: 100000000 is more than 4096 pipeline columns"),
        (10**5000, [0], 1, "ranks: a number of thousands of digits is more than 4096"),
        (1, [0], 10**12, r"a: 3000000000000 ops \(kinds x stages x micro-batches\), more than 5000000"),
        (2, [[0, 1], [0, 1]], 500_000, "a: 6000000 ops"),
        (1, [0] * 1000, 2000, "a: 6000000 ops"),
    ],
    ids=["ranks", "digits", "micro-batches", "ranks of a stage", "stages"],
)
def test_absurd_sizes_are_refused_at_once(ranks, placement, microbatches, message):
    with pytest.raises(ProblemError, match=f"^{message}"):
        Problem(ranks, (Model("a", placement, microbatches, 1, 2, backward_weight=1),))


def test_models_that_are_too_large_together_are_refused():
    with pytest.raises(ProblemError, match=r"^models: 6000000 ops"):
        Problem(1, tuple(Model(name, [0], 1_000_000, 1, 2) for name in "abc"))
