import pytest

from fusedrl.parallel.comm import pack, unpack
from tests.distributed.pool import RankPool

JOBS = "tests.distributed.parallel_jobs"


@pytest.mark.parametrize("payloads", [[b"", b"a", b"bcd", bytes(range(256))], [b"", b"", b"", b""]])
def test_every_rank_gets_all_bytes_in_rank_order(ranks: RankPool, payloads: list[bytes]) -> None:
    assert ranks.run(f"{JOBS}:gather_bytes", world=4, payloads=payloads) == [payloads] * 4


@pytest.mark.parametrize("payload", [b"", b"\0\1\2"])
def test_bytes_of_the_source_reach_all(ranks: RankPool, payload: bytes) -> None:
    assert ranks.run(f"{JOBS}:broadcast_from", world=2, src=1, payload=payload) == [payload] * 2


def test_objects_arrive_as_they_were(ranks: RankPool) -> None:
    expected = [{"rank": rank, "list": [1.5, None, "x"], 7: b"\0"} for rank in range(2)]
    assert ranks.run(f"{JOBS}:gather_objects", world=2) == [expected] * 2


def test_objects_that_would_need_pickle_are_refused() -> None:
    with pytest.raises(TypeError):
        pack(object())
    assert unpack(pack({"a": (1, 2)})) == {"a": [1, 2]}
