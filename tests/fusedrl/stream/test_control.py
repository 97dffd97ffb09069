"""Whatever the order of events: all samples become ready, every unit runs once, and the results are the same."""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusedrl.stream.control import Control, Policy, ProtocolError, Score, Send, Work
from fusedrl.stream.messages import (
    Abort,
    Extract,
    Extracted,
    Failed,
    Finished,
    Generate,
    Hello,
    Infer,
    Stop,
    UnitRef,
    UnitsDone,
    Want,
)
from tests.fusedrl.stream.fake_cluster import FakeCluster, state

TASKS = ("ref", "values")


def work_of(lengths: list[int], *, instances: int, **changes: Any) -> Work:
    ids = list(range(len(lengths)))
    shares = [ids[i::instances] for i in range(instances)]
    return Work(shares=shares, prompt_tokens=dict.fromkeys(ids, 2), tasks=TASKS, chunk_tokens=9, **changes)


def run(lengths: list[int], policy: Policy, *, instances: int, rows: int, seed: int, **changes: Any) -> FakeCluster:
    control = Control(work_of(lengths, instances=instances, **changes), policy=policy)
    cluster = FakeCluster(control, rows=rows, lengths=dict(enumerate(lengths)), random=Random(seed))
    cluster.run()
    return cluster


policies = st.builds(Policy, streaming=st.booleans(), r_t=st.integers(0, 30), m=st.integers(1, 5))
steps = st.fixed_dictionaries(
    {
        "lengths": st.lists(st.integers(0, 12), min_size=1, max_size=16),
        "instances": st.integers(1, 4),
        "rows": st.integers(1, 6),
        "unit_size": st.integers(1, 5),
        "scored": st.booleans(),
    }
)


@settings(max_examples=60)
@given(step=steps, policy=policies, seeds=st.tuples(st.integers(), st.integers()))
def test_results_depend_neither_on_policy_nor_on_the_order_of_events(step, policy, seeds) -> None:  # type: ignore[no-untyped-def]
    first = run(policy=policy, seed=seeds[0], **step).control
    other = run(policy=Policy(streaming=False), seed=seeds[1], **step).control
    assert first.done
    assert first.finished == other.finished
    assert set(first.finished) == set(range(len(step["lengths"])))
    assert first.values == other.values
    assert set(first.values) == {(task, each) for task in TASKS for each in range(len(step["lengths"]))}
    assert first.scores == other.scores == ({each: each / 2 for each in first.finished} if step["scored"] else {})


@settings(max_examples=40)
@given(step=steps, policy=policies, seed=st.integers())
def test_work_is_handed_out_once_and_the_tail_moves_at_most_once(step, policy, seed) -> None:  # type: ignore[no-untyped-def]
    cluster = run(policy=policy, seed=seed, **step)
    messages = [(c.instance, c.message) for c in cluster.commands if isinstance(c, Send)]
    units = [unit for _, m in messages if isinstance(m, Infer) for unit in m.units]
    assert len(units) == len(set(units)) == len(TASKS) * len(cluster.control.groups)
    fresh = [s.sample_id for _, m in messages if isinstance(m, Generate) and m.source < 0 for s in m.samples]
    assert sorted(fresh) == list(range(len(step["lengths"])))
    extracts = [(i, m) for i, m in messages if isinstance(m, Extract)]
    moved = [each for _, m in extracts for each in m.sample_ids]
    assert len(moved) == len(set(moved)) <= policy.r_t * policy.streaming
    taking = [(m.source, i) for i, m in messages if isinstance(m, Generate) and m.source >= 0]
    assert not {source for source, _ in taking} & {to for _, to in taking}  # nobody gives and takes
    scored = [c.sample.sample_id for c in cluster.commands if isinstance(c, Score)]
    assert sorted(scored) == (list(range(len(step["lengths"]))) if step["scored"] else [])
    assert sum(isinstance(m, Stop) for _, m in messages) == step["instances"]


def joined(*, instances: int = 2, samples: int = 4, policy: Policy | None = None, **changes: Any) -> Control:
    control = Control(work_of([9] * samples, instances=instances, **changes), policy=policy or Policy())
    for instance in range(instances):
        control.handle(Hello(samples), instance=instance)
    return control


def finish(control: Control, *ids: int, instance: int) -> list[Any]:
    return control.handle(Finished(tuple(state(each, 9, reason="stop") for each in ids)), instance=instance)


def kinds(commands: list[Any]) -> list[str]:
    return [type(c.message).__name__ if isinstance(c, Send) else type(c).__name__ for c in commands]


def test_nothing_is_generated_before_all_have_joined_and_then_each_gets_its_share() -> None:
    control = Control(work_of([9] * 4, instances=2), policy=Policy())
    assert control.handle(Hello(4), instance=1) == []
    assert control.missing == [0]
    shares = {c.instance: [s.sample_id for s in c.message.samples] for c in control.handle(Hello(4), instance=0)}  # type: ignore[union-attr]
    assert shares == {0: [0, 2], 1: [1, 3]}


def test_a_finished_sample_is_scored_and_read_at_once_when_streaming() -> None:
    control = joined()
    assert kinds(finish(control, 1, 3, instance=1)) == ["Score", "Score"]
    assert kinds(control.handle(Want(1), instance=1)) == ["Infer"]


def test_without_streaming_nothing_is_scored_or_read_before_the_last_has_finished() -> None:
    control = joined(policy=Policy(streaming=False, r_t=4))
    assert kinds(finish(control, 1, 3, instance=1)) == []
    assert kinds(control.handle(Want(1), instance=1)) == []
    assert kinds(finish(control, 0, instance=0)) == []
    assert kinds(finish(control, 2, instance=0)) == ["Score"] * 4 + ["Infer"]


def test_the_tail_moves_to_the_fullest_and_its_destination_gets_no_units_meanwhile() -> None:
    control = joined(samples=6, policy=Policy(r_t=3, m=1))
    assert "Extract" not in kinds(finish(control, 0, 2, instance=0))
    (extract,) = [c for c in finish(control, 5, instance=1) if isinstance(c, Send)]
    assert (extract.instance, extract.message) == (0, Extract(1, (4,)))
    finish(control, 1, 3, instance=1)  # all of the destination's own, before the moved one has come
    assert kinds(control.handle(Want(1), instance=1)) == []
    (generate,) = control.handle(Extracted(1, (state(4, 5),), 40), instance=0)
    assert generate == Send(1, Generate((state(4, 5),), 0))
    assert kinds(control.handle(Want(1), instance=1)) == []  # said before it had seen the moved sample
    assert kinds(control.handle(Want(2), instance=0)) == ["Infer"]
    assert control.moved == {"samples": 1, "bytes": 40, "prefilled": 1}


def test_a_destination_that_waits_for_samples_that_finished_first_gets_units_again() -> None:
    control = joined(samples=4, policy=Policy(r_t=2, m=1))
    finish(control, 0, instance=0)
    assert kinds(finish(control, 3, instance=1)) == ["Score", "Extract"]
    finish(control, 1, instance=1)
    assert kinds(control.handle(Want(2), instance=1)) in ([], ["Infer"])
    control = joined(samples=4, policy=Policy(r_t=2, m=1))
    finish(control, 1, instance=1)
    assert kinds(finish(control, 2, instance=0)) == ["Score", "Extract"]  # sample 3: instance 1 to 0
    finish(control, 0, instance=0)
    assert kinds(control.handle(Want(1), instance=0)) == []
    finish(control, 3, instance=1)
    assert kinds(control.handle(Extracted(0, (), 0), instance=1)) == ["Infer"]


def tail_of_five(*, rows: int) -> Control:
    """Left are 6 and 9 on instance 0, 10 on instance 1, 8 and 11 on instance 2; 10 has just been asked to move to 0."""
    control = joined(instances=3, samples=12, policy=Policy(r_t=5, m=1), destination_rows=rows)
    finish(control, 0, 3, instance=0)
    finish(control, 1, 4, 7, instance=1)
    assert [c for c in finish(control, 2, 5, instance=2) if isinstance(c, Send)] == [Send(1, Extract(0, (10,)))]
    return control


def test_a_tail_that_finished_before_it_could_move_leaves_the_chance_to_the_rest() -> None:
    control = tail_of_five(rows=4)
    finish(control, 10, instance=1)
    assert control.handle(Extracted(0, (), 0), instance=1) == [Send(2, Extract(0, (8, 11)))]
    finish(control, 8, instance=2)
    assert kinds(control.handle(Extracted(0, (state(11, 5),), 0), instance=2)) == ["Generate"]
    assert kinds(finish(control, 6, instance=0)) == ["Score"]  # one has moved: that was the migration
    assert control.moved["samples"] == 1


def test_the_chance_that_is_left_is_taken_when_another_sample_finishes() -> None:
    control = tail_of_five(rows=3)
    finish(control, 10, instance=1)
    assert control.handle(Extracted(0, (), 0), instance=1) == []  # 6, 9, 8 and 11 fit on no instance
    assert [c for c in finish(control, 9, instance=0) if isinstance(c, Send)] == [Send(0, Extract(2, (6,)))]


def test_a_migration_is_not_tried_again_while_an_instance_may_yet_give_samples() -> None:
    control = joined(instances=3, samples=12, policy=Policy(r_t=5, m=1))
    finish(control, 0, 3, instance=0)
    finish(control, 1, 4, 7, instance=1)
    assert kinds(finish(control, 2, 5, instance=2)) == ["Score", "Score", "Extract", "Extract"]
    finish(control, 10, instance=1)
    assert control.handle(Extracted(0, (), 0), instance=1) == []
    assert kinds(finish(control, 6, instance=0)) == ["Score"]


def test_free_rows_get_queued_samples_and_nothing_moves_while_some_wait() -> None:
    control = Control(work_of([9] * 8, instances=2), policy=Policy(r_t=8))
    for instance in range(2):
        control.handle(Hello(2), instance=instance)
    generates = [c for c in finish(control, 0, instance=0) if isinstance(c, Send)]
    assert [c.message for c in generates] == [Generate((state(4, 0),))]
    assert kinds(finish(control, 1, 3, instance=1)) == ["Generate", "Score", "Score"]


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (Hello(2), "said Hello twice"),
        (Finished((state(1, 3, reason="stop"),)), "spoke of sample 1, which it does not hold"),
        (Finished((state(0, 3),)), "finished sample 0 without a reason"),
        (Extracted(1, (), 0), "which expects none"),
        (UnitsDone((UnitRef("ref", 0),), ()), "that it was not given"),
        (UnitsDone((), ()), "that it was not given"),
        (Stop(), "sent Stop"),
    ],
)
def test_what_does_not_fit_is_an_error_that_names_the_instance(message: Any, text: str) -> None:
    with pytest.raises(ProtocolError, match=f"instance 0 .*{text}"):
        joined().handle(message, instance=0)


def test_a_failure_is_told_to_all_once_and_ends_the_step() -> None:
    control = joined()
    commands = control.handle(Failed("out of memory"), instance=1)
    assert commands == [Send(each, Abort("instance 1 failed: out of memory")) for each in range(2)]
    assert control.ended
    assert control.failure == "instance 1 failed: out of memory"
    assert control.fail("another") == []
    assert control.handle(Want(1), instance=0) == []
    assert control.scored(0, 1.0) == []
