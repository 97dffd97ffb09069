from fusedrl.rewards.sample import RewardResult, count


def test_count_names_every_status() -> None:
    results = [RewardResult("a", 1.0), RewardResult("b", 0.0, "timeout"), RewardResult("c", 0.0)]
    assert count(results) == {"ok": 2, "error": 0, "invalid": 0, "timeout": 1, "died": 0}
    assert [result.ok for result in results] == [True, False, True]
