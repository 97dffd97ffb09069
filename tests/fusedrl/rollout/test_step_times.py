"""Times add up by size of work, over ranks too, and fade."""

from fusedrl.rollout.step_times import StepTimes


def measured() -> StepTimes:
    times = StepTimes()
    for rows, ms in ((1, 2.0), (2, 3.0), (3, 5.0), (0, 9.0)):
        times.decoded(rows, ms=ms)
    times.prefilled(10, ms=4.0)
    times.inferred("ref", 20, ms=1.0)
    times.inferred("ref", 30, ms=2.0)
    return times


def test_decode_steps_are_kept_by_classes_of_rows_and_no_work_is_no_step() -> None:
    sums = measured().sums
    assert set(sums) == {("decode", 1), ("decode", 2), ("prefill", 0), ("infer", "ref")}
    pair = sums["decode", 2]
    assert (pair.count, pair.size, pair.ms) == (2, 5, 8.0)


def test_what_other_ranks_tell_adds_up() -> None:
    both = StepTimes()
    for _ in range(2):
        both.absorb(measured().to_rows())
    assert (both.sums["infer", "ref"].size, both.sums["infer", "ref"].ms) == (100, 6.0)


def test_fading_keeps_means() -> None:
    times = measured()
    times.fade(0.5)
    assert times.sums["decode", 2].count == 1.0
    assert times.sums["decode", 2].ms / times.sums["decode", 2].count == 4.0


def test_calls_of_the_reward_function_count_one_by_one() -> None:
    times = StepTimes()
    for ms in (3.0, 5.0):
        times.scored(ms=ms)
    sums = times.sums["score", 0]
    assert (sums.count, sums.size, sums.ms) == (2, 2, 8.0)
