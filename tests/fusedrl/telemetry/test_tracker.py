from pathlib import Path

from fusedrl.telemetry.tracker import Tracker, finite, flat, plain_name


class Named(Tracker):
    name = "named"


def test_an_id_is_kept_for_the_run_that_goes_on(tmp_path: Path) -> None:
    first = Named(tmp_path / "tracking")
    assert first.kept_id is None
    first.keep_id("abc")
    assert Named(tmp_path / "tracking").kept_id == "abc"
    assert Named(tmp_path / "elsewhere").kept_id is None


def test_values_that_are_not_finite_leave_a_gap() -> None:
    assert finite({"a": 1, "b": float("nan"), "c": float("inf"), "d": 0.5}) == {"a": 1.0, "d": 0.5}


def test_a_nested_configuration_becomes_dotted_keys() -> None:
    assert dict(flat({"a": {"b": {"c": 1}, "d": [2]}, "e": None})) == {"a.b.c": 1, "a.d": [2], "e": None}


def test_names_keep_to_mlflow_s_characters() -> None:
    assert plain_name("val-core/sums of 2/acc/mean@1") == "val-core/sums of 2/acc/mean_at_1"
    assert plain_name("a#b") == "a_b"
