from tests.distributed.pool import RankPool

FAILURES = "tests.fusedrl.pipeline.failure_jobs"


def expected(microbatch: int) -> list[list[float]]:
    width = microbatch + 1
    return [[float(i + microbatch), float(i + width + microbatch)] for i in range(width)]


def test_forgotten_views_of_any_shape_arrive_whole_in_any_take_sequence(ranks: RankPool) -> None:
    _, receiver = ranks.run(f"{FAILURES}:mailbox_toy", world=2)
    assert receiver["taken"] == {m: expected(m) for m in range(8)}
    assert receiver["error"] == ""


def test_message_that_no_op_uses_is_an_error(ranks: RankPool) -> None:
    _, receiver = ranks.run(f"{FAILURES}:mailbox_toy", world=2, leave=True)
    assert "used by no op: ['actor:F0@0->1']" in receiver["error"]
