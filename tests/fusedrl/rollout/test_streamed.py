"""An engine in a stream: samples go on elsewhere with what they have, and its work is timed by size."""

from collections.abc import Callable

from tests.distributed.pool import RankPool


def test_samples_go_on_with_their_keys_where_that_is_worth_it(
    ranks: RankPool, checkpoint: Callable[[str], str]
) -> None:
    (found,) = ranks.run("tests.distributed.streamed_jobs:move_some", world=1, folder=checkpoint("llama"))
    assert found["moved"] == found["plain"]
    assert found["with_cache"] == [0, 2]
    assert found["bytes"] == found["bytes_per_token"] * found["tokens"] > 0
    times = found["times"]
    # both prompts in the first engine; in the second one a sample with two tokens of response, and the one that waited
    assert times["prefill/0"]["size"] == (3 + 2) + (3 + 2) + 2
    assert times["decode/2"]["count"] >= 1
    assert all(each["ms"] > 0 for each in times.values())
