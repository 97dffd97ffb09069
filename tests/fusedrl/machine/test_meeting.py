import pytest

from fusedrl.machine import meeting
from fusedrl.machine.meeting import HINT, TAKEN, meet
from fusedrl.machine.place import Place
from tests.distributed.pool import RankPool

PLACE = Place(rank=1, world=3, source="torchrun")


def test_ranks_sum_their_numbers_and_learn_what_each_found(monkeypatch: pytest.MonkeyPatch) -> None:
    everyone = [{"host": host} for host in ("a", "b", "a")]
    for total, level in ((6.0, "ok"), (5.0, "bad")):
        monkeypatch.setattr(meeting, "_sum_and_gather", lambda *_, total=total, **__: (total, everyone))
        found, told = meet({}, PLACE, timeout_s=1.0)
        assert found.level == level
        assert told == everyone
    assert found.text == "the sum over ranks is 5.0, 6.0 was expected"


@pytest.mark.parametrize(
    ("error", "change"),
    [
        (RuntimeError("Connection refused\nmore"), HINT),
        (ValueError("no MASTER_PORT"), HINT),
        (OSError("failed to listen, name: EADDRINUSE"), TAKEN),
    ],
)
def test_ranks_that_do_not_meet_say_so_in_one_line(
    monkeypatch: pytest.MonkeyPatch, error: Exception, change: str
) -> None:
    def failing(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(meeting, "_sum_and_gather", failing)
    found, told = meet({"host": "a"}, PLACE, timeout_s=1.0)
    assert (found.level, found.change) == ("bad", change)
    assert found.text == f"rank 1 of 3 did not meet the others: {str(error).splitlines()[0]}"
    assert told == [{"host": "a"}]


def test_real_ranks_meet(ranks: RankPool) -> None:
    texts = ranks.run("tests.fusedrl.machine.meeting_jobs:met", world=2)
    assert texts[0][1] == texts[1][1] == ["0", "1"]
    assert all(text.startswith("2 ranks on 2 hosts met and summed right") for text, _ in texts)
