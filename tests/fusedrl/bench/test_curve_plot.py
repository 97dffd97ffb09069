"""The picture has a panel for each metric, in the form that its name asks for."""

from pathlib import Path

from fusedrl.bench.curve_plot import save_plot
from fusedrl.bench.curves import Curve, Point


def test_a_picture_grows_with_the_metrics(tmp_path: Path) -> None:
    points = (Point(0, 0.5, 0.4, 0.6), Point(1, 0.7, 0.6, 0.8))
    found = [Curve("ppo", metric, 3, points) for metric in ("score", "acc")]
    save_plot(found[:1], path=tmp_path / "one.png", title="arithmetic")
    save_plot(found, path=tmp_path / "two.png", title="arithmetic")
    one, two = ((tmp_path / name).read_bytes() for name in ("one.png", "two.png"))
    assert one.startswith(b"\x89PNG")
    assert int.from_bytes(one[16:20]) < int.from_bytes(two[16:20])  # the widths
    save_plot(found, path=tmp_path / "two.svg", title="arithmetic")
    assert b"<svg" in (tmp_path / "two.svg").read_bytes()
