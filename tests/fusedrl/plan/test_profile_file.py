"""Profiles written and read."""

from dataclasses import replace
from pathlib import Path

import pytest

from fusedrl.plan.profile_file import make_table, profile_text, read_profile
from tests.fusedrl.plan.example_profile import example


def test_what_is_written_is_read_back_the_same(tmp_path: Path) -> None:
    path, profile = tmp_path / "profile.yaml", example()
    path.write_text(profile_text(profile))
    found = read_profile(path)
    assert (found.about, found.dtype, found.models) == (profile.about, profile.dtype, profile.models)
    assert found.tables == profile.tables
    assert profile_text(found) == path.read_text()


def test_the_smallest_times_stay_numbers(tmp_path: Path) -> None:
    path, profile = tmp_path / "profile.yaml", example()
    tiny = make_table("decode_ends", {(1.0,): [1e-9], (2.0,): [2.5e-8], (3.0,): [0.0]}, model="tiny", tp=1)
    path.write_text(profile_text(replace(profile, tables=(tiny,))))
    assert read_profile(path).tables == (tiny,)


def test_tables_are_found_by_how_they_were_measured() -> None:
    profile = example()
    table = profile.find("layer", model="tiny", tp=2)
    assert table is not None
    assert table.get("tp") == 2
    assert profile.find("layer", model="tiny", tp=4) is None


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("of: decode_ends", "of: decoding", r"tables\[6\]: of='decoding' is none of layer, "),
        ("  - [1024, 0.101024]", "  - [1024]", r"tables\[14\]: rows must be lists of the numbers bytes, all"),
        ("  - [64, 16, 1.025, 2.05, 0.5125]\n", "", r"\(layer\): the point \[64, 16\] is missing"),
        ("tables:", "tabels:", "tables must be a list"),
        ("dtype: float32", "dtype: [", "cannot be read"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, old: str, new: str, told: str) -> None:
    text = profile_text(example())
    assert old in text
    path = tmp_path / "profile.yaml"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(ValueError, match=told):
        read_profile(path)
