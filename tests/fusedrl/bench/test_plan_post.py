import pytest
import torch

from fusedrl.bench.plan_post import Post


def test_messages_to_oneself_are_taken_in_turn_by_tag_and_none_may_be_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.distributed.get_rank", lambda: 3)
    post = Post()
    for number, tag in ((1.0, 7), (2.0, 8), (3.0, 7)):
        post.send(torch.tensor([number]), 3, tag=tag)
    assert [float(post.receive(3, tag=7)) for _ in range(2)] == [1.0, 3.0]
    with pytest.raises(AssertionError, match="was not taken"):
        post.finish()
    assert float(post.receive(3, tag=8)) == 2.0
    post.finish()
