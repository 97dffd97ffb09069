from fusedrl.trainers.report import mean_of


def test_each_metric_is_averaged_over_the_updates_that_have_it() -> None:
    assert mean_of([{"a": 1.0, "b": 5.0}, {"a": 3.0}]) == {"a": 2.0, "b": 5.0}
