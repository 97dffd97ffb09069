from fusedrl.rollout.exchange import Traffic


def test_traffic_of_rounds_adds_up_field_by_field():
    total = Traffic(1, 2, 3, 4) + Traffic(10, 20, 30, 40)
    assert total == Traffic(bytes_sent=11, bytes_received=22, bytes_copied=33, messages=44)


def test_pieces_of_every_kind_arrive_where_they_belong(ranks):
    # sent, kept, of another dtype, at an offset that no view of the target's dtype could start at
    first, second = ranks.run("tests.distributed.exchange_jobs:swap_rows", world=2)
    assert first["whole"] == [[0.0, 1.0], [10.0, 11.0]]
    assert second["whole"] == [[0.0, 1.0], [10.0, 11.0]]
    assert first["half"] == second["half"] == [5.0]
    assert first["traffic"] == {"bytes_sent": 10, "bytes_received": 8, "bytes_copied": 10, "messages": 2}
    assert second["traffic"] == {"bytes_sent": 8, "bytes_received": 10, "bytes_copied": 8, "messages": 2}
