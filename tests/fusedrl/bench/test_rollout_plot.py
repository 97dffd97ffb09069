"""The picture is a PNG that grows with the distributions."""

from pathlib import Path

from fusedrl.bench.rollout_plot import BARS, save_plot


def test_a_png_of_all_distributions_is_written(tmp_path: Path) -> None:
    found = dict.fromkeys(BARS, 2.0) | {"r_t": 3, "m": 1}
    save_plot({"fixed": found}, path=tmp_path / "one.png")
    save_plot({"fixed": found, "bimodal": found}, path=tmp_path / "two.png")
    one, two = ((tmp_path / name).read_bytes() for name in ("one.png", "two.png"))
    assert one.startswith(b"\x89PNG")
    assert int.from_bytes(one[16:20]) < int.from_bytes(two[16:20])  # the widths
