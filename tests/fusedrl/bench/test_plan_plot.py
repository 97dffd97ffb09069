"""The picture is a PNG, of any number of plans."""

from pathlib import Path

from fusedrl.bench.plan_plot import save_plot


def test_a_png_shows_another_plan(tmp_path: Path) -> None:
    rows = [
        {"plan": name, "predicted_s": s, "measured_s": 1.1 * s}
        for s, name in enumerate(("best", "split", "random 1"), 1)
    ]
    save_plot(rows[:2], path=tmp_path / "two.png")
    save_plot(rows, path=tmp_path / "three.png")
    two, three = ((tmp_path / name).read_bytes() for name in ("two.png", "three.png"))
    assert two.startswith(b"\x89PNG")
    assert two != three
