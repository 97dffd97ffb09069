"""A small run's folder, made by hand, and the page's parts as a browser sees them."""

import json
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

HOSTILE = "</script></title><img src=x onerror=alert(1)> & \x1b[31m"


def step(number: int, **more: Any) -> dict[str, Any]:
    return {
        "step": number,
        "critic/score/mean": 0.125 * number,
        "actor/ppo_kl": 0.001 * number,
        "actor/pg_loss": -0.25,
        "actor/grad_norm": 2.5,
        "critic/grad_norm": 0.75,
        "actor/lr": 1e-5,
        "response_length/mean": 7.5,
        "perf/bubble_ratio/planned": 0.0625,
        "perf/bubble_ratio/replayed": 0.1875,
        "perf/bubble_ratio/measured": 0.3125,
        "timing_s/gen": 1.5,
        "timing_s/update_fused": 2.25,
        "timing_s/step": 4.0,
        "val-core/sums/acc/mean@1": 0.6875,
        **more,
    }


def make(folder: Path, *rows: Mapping[str, Any], samples: int = 2) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "config.yaml").write_text(
        f"critic: {{optim: {{lr: 0.003}}, unused: 77771}}\nname: {json.dumps(HOSTILE)}\n"
    )
    (folder / "command.txt").write_text(HOSTILE)
    if samples:
        (folder / "validation").mkdir(exist_ok=True)
        lines = [{"index": k, "response": f"{HOSTILE} r{k}r", "length": 3 + k % 2} for k in range(samples)]
        (folder / "validation/step_2.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        (folder / "validation/step_1.jsonl").write_text('{"response": "of an earlier step"}\n')
    return folder


class Seen(HTMLParser):
    """Tags, attributes, all text, and the text of the marks' titles by figure."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.marks: dict[str, list[str]] = {}
        self._open: list[str] = []
        self._figure = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attributes
        self._open.append(tag)
        if tag == "svg":
            self._figure = dict(attributes)["aria-label"] or ""

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, text: str) -> None:
        self.text += text
        if self._open and self._open[-1] == "title" and "svg" in self._open:
            self.marks.setdefault(self._figure, []).append(text)
