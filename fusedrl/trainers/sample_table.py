"""Samples to look at: all of them as jsonl, the first as a page that any browser opens without a network.

    write_samples(folder / "samples", lines)        samples.jsonl, samples.html

Whatever a model wrote is shown as text: nothing of it can become markup, load or run, and characters that would not be
seen (controls, marks of writing direction) are spelled out.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

from fusedrl.checkpoint.atomic import write_file

MOST = 500  # samples on a page
COLUMNS = ("index", "sample", "prompt", "response", "ground_truth", "score", "acc", "pred", "length", "finish_reason")
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff]")
PAGE = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width"><title>{title}</title>
<style>
body {{ font: 14px/1.4 sans-serif; margin: 1.5em; }}
table {{ border-collapse: collapse; }} .scroll {{ overflow: auto; max-height: 85vh; }}
th, td {{ border: 1px solid #ccc; padding: .3em .5em; text-align: left; vertical-align: top; }}
th {{ background: #eee; position: sticky; top: 0; }}
td div {{ white-space: pre-wrap; overflow-wrap: anywhere; max-height: 24em; max-width: 40em; overflow: auto; }}
</style></head><body>
<h1>{title}</h1>
<p>{told}</p>
<div class="scroll" tabindex="0" role="region" aria-label="samples">{table}</div></body></html>
"""


def write_samples(stem: Path, lines: Sequence[Mapping[str, object]]) -> None:
    """Both files, each whole or absent."""
    write_file(stem.with_suffix(".jsonl"), "".join(json.dumps(line, default=str) + "\n" for line in lines))
    write_file(stem.with_suffix(".html"), page(lines, title=stem.name))


def page(lines: Sequence[Mapping[str, object]], *, title: str, most: int = MOST) -> str:
    """The HTML page of the first `most` samples; columns that no sample has are left out."""
    told = f"{len(lines)} samples" if len(lines) <= most else f"the first {most} of {len(lines)} samples"
    return PAGE.format(title=as_text(title), told=told, table=table(lines[:most]))


def table(lines: Sequence[Mapping[str, object]]) -> str:
    """The samples as an HTML table."""
    columns = [name for name in COLUMNS if any(name in line for line in lines)]
    columns += ["failure"] if any("failure" in line for line in lines) else []
    head = "".join(f"<th>{as_text(name)}</th>" for name in columns)
    body = "\n".join(_row(line, columns) for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"


def _row(line: Mapping[str, object], columns: Iterable[str]) -> str:
    return "<tr>" + "".join(f"<td><div>{as_text(line.get(name, ''))}</div></td>" for name in columns) + "</tr>"


def as_text(value: object) -> str:
    """Text for a page, whatever it holds."""
    plain = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return escape(UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", plain))
