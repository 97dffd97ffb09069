"""A page of samples shows what a model wrote, and nothing of it is markup."""

import json
from html.parser import HTMLParser
from pathlib import Path

from fusedrl.trainers.sample_table import page, write_samples

HOSTILE = "</div><script>alert(1)</script><img src=x onerror=\"a\"> & 'q' \x1b[31m\u202egnp.exe\x00"


class Seen(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attributes)

    def handle_data(self, text: str) -> None:
        self.text += text


def line(**more: object) -> dict[str, object]:
    return {"index": 0, "sample": 0, "prompt": "1+1=", "response": "2", "length": 1, "finish_reason": "stop", **more}


def seen(*lines: dict[str, object], most: int = 500) -> Seen:
    found = Seen()
    found.feed(page(lines, title="step_3", most=most))
    return found


def test_what_a_model_wrote_stays_text() -> None:
    plain = seen(line(ground_truth="2", pred="2"))
    found = seen(line(response=HOSTILE, ground_truth={"<b>": [HOSTILE]}, pred=HOSTILE))
    assert found.tags == plain.tags
    shown = HOSTILE.replace("\x1b", "\\u001b").replace("\u202e", "\\u202e").replace("\x00", "\\u0000")
    assert shown in found.text


def test_columns_that_no_sample_has_are_left_out_and_failures_stand_last() -> None:
    assert "score" not in seen(line()).text
    text = seen(line(score=0.5), line(score=0.0, failure="timeout: no answer in 10 s")).text
    assert text.index("score") < text.index("finish_reason") < text.index("failure")
    assert "timeout: no answer in 10 s" in text


def test_a_page_is_bounded_and_says_so() -> None:
    lines = [line(response=f"r{number}r") for number in range(4)]
    text = seen(*lines, most=3).text
    assert "the first 3 of 4 samples" in text
    assert "r2r" in text
    assert "r3r" not in text
    assert "4 samples" in seen(*lines, most=4).text


def test_both_files_are_written_and_lines_read_back(tmp_path: Path) -> None:
    lines = [line(response=HOSTILE, ground_truth=["7", None])]
    write_samples(tmp_path / "samples", lines)
    assert [json.loads(each) for each in (tmp_path / "samples.jsonl").read_text().splitlines()] == lines
    assert (tmp_path / "samples.html").read_text() == page(lines, title="samples")
