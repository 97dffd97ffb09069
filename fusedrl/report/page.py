"""The page: sections of charts, tables and links, in one file that opens without a network.

Everything that comes from the run is shown as text; the page's policy lets nothing load or run.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fusedrl.checkpoint.atomic import write_file
from fusedrl.report.figures import charts, lengths, phases
from fusedrl.report.reading import CONFIG, ORDER, RunRecords, read_run
from fusedrl.report.timeline import timeline
from fusedrl.trainers.sample_table import as_text, table

NAME = "report.html"
SAMPLES = 50
LONGEST = 2000  # characters of a sample's field
# keys that tell runs apart, wherever they stand in a configuration
KEYS = """
path lr n temperature name method adv_estimator kl_coef use_kl_loss use_kl_in_reward loss_mode clip_ratio
gamma lam ppo_epochs ppo_mini_batch_size ppo_micro_batch_size_per_gpu micro_batch_size_per_gpu
train_files val_files train_batch_size max_prompt_length max_response_length max_length seed
tensor_model_parallel_size pipeline_model_parallel_size context_parallel_size dtype inference
total_training_steps total_epochs
"""
LIGHT = ("#0072b2", "#d55e00", "#009e73", "#b0578d", "#a87400", "#2d8fc4", "#5b5b5b", "#7a4fb5")
DARK = ("#4ba3dd", "#ff8a3d", "#2fc79a", "#e59ac6", "#f0b52a", "#8fd0f5", "#b8b8b8", "#b695f0")
STYLE = """\
:root { color-scheme: light dark; --ink: #1c1f23; --page: #fff; --faint: #d8dbe0; --soft: #5d6470; LIGHT }
@media (prefers-color-scheme: dark) { :root {
  --ink: #e4e7eb; --page: #15181c; --faint: #363c45; --soft: #a0a8b3; DARK } }
body { font: 14px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--page); margin: 1.5em auto;
  max-width: 1060px; padding: 0 1em; }
a { color: var(--c0); } h2 { margin: 1.6em 0 .5em; font-size: 1.15em; } small, p { color: var(--soft); }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(320px, 100%), 1fr)); gap: 1em; }
figure { margin: 0; min-width: 0; } .wide { overflow-x: auto; } svg { width: 100%; height: auto; display: block; }
svg text { fill: var(--soft); font-size: 11px; } .middle { text-anchor: middle; } .end { text-anchor: end; }
.grid { stroke: var(--faint); } polyline { fill: none; stroke-width: 1.6; }
.legend span { display: inline-block; margin-right: .8em; overflow-wrap: anywhere; }
.legend { font-size: 12px; min-height: 1.4em; }
.legend i { display: inline-block; width: .8em; height: .8em; margin-right: .35em; }
code { overflow-wrap: anywhere; } .scroll { overflow-x: auto; max-height: 40em; } table { border-collapse: collapse; }
th, td { border: 1px solid var(--faint); padding: .2em .5em; text-align: left; vertical-align: top; }
td div { white-space: pre-wrap; overflow-wrap: anywhere; max-height: 12em; max-width: 30em; overflow: auto; }
HUES"""
PAGE = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width"><title>{title}</title>
<style>
{style}</style></head><body>
<h1>{title}</h1>
{body}</body></html>
"""


def write_report(folder: Path, *, out: Path | None = None) -> tuple[Path, list[str]]:
    """Write a run's page: (where it is, what could not be read). Raises ValueError where there is no run."""
    records = read_run(folder)
    path = folder / NAME if out is None else out
    write_file(path, page(records))
    return path, records.problems


def page(records: RunRecords) -> str:
    """The whole page."""
    body = "".join(f"<section>{section}</section>\n" for section in _sections(records))
    return PAGE.format(title=as_text(records.folder.resolve().name), style=_style(), body=body)


def _style() -> str:
    hues = "".join(
        f".s{k} {{ stroke: var(--c{k}); }} .f{k} {{ fill: var(--c{k}); }} .b{k} {{ background: var(--c{k}); }}\n"
        for k in range(len(LIGHT))
    )
    light, dark = (" ".join(f"--c{k}: {c};" for k, c in enumerate(each)) for each in (LIGHT, DARK))
    return STYLE.replace("LIGHT", light).replace("DARK", dark).replace("HUES", hues)


def _sections(records: RunRecords) -> Iterator[str]:
    yield _head(records)
    if drawn := charts(records):
        yield f'<h2>Curves</h2><div class="charts">{drawn}</div>'
    if drawn := phases(records) + lengths(records):
        yield f'<h2>Time and lengths</h2><div class="charts">{drawn}</div>'
    if drawn := _step(records):
        yield f"<h2>A step</h2>{drawn}"
    if keys := dict(main_keys(records.config)):
        rows = "".join(f"<tr><td>{as_text(k)}</td><td><div>{as_text(v)}</div></td></tr>" for k, v in keys.items())
        heading = f"<h2>Configuration</h2><p>Main keys; all: {_link(CONFIG)}</p>"
        yield f'{heading}<div class="scroll"><table>{rows}</table></div>'
    if records.validation is not None and records.samples:
        yield _samples(records, records.validation)


def _head(records: RunRecords) -> str:
    steps = [row["step"] or 0.0 for row in records.rows]
    told = f"Steps {steps[0]:g} to {steps[-1]:g}." if steps else "No steps."
    problems = "".join(f"<li>{as_text(line)}</li>" for line in records.problems)
    listed = f"<p>What could not be read:</p><ul>{problems}</ul>" if problems else ""
    command = f"<p><code>{as_text(records.command)}</code></p>" if records.command else ""
    return f"<p>{told} A mark tells its numbers where the pointer rests on it.</p>{command}{listed}"


def _link(name: str) -> str:
    return f'<a href="{quote(name)}">{as_text(name)}</a>'


def _step(records: RunRecords) -> str:
    """The profiled step's timeline, and links to what lies beside the page."""
    drawn = ""
    if records.trace is not None:
        drawn = timeline(records.trace, label=f"Training passes of {records.traces[-1].stem.removeprefix('trace_')}")
    if records.traces:
        links = ", ".join(_link(path.name) for path in records.traces)
        drawn += f"<p>Traces for Perfetto (ui.perfetto.dev): {links}</p>"
    if (records.folder / ORDER).exists():
        drawn += f"<p>The planned order of a training pass: {_link(ORDER)}</p>"
    return drawn


def main_keys(config: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """(key, value) of the configuration's KEYS that are set."""
    for key, value in config.items():
        name = f"{above}{key}"
        if isinstance(value, dict):
            yield from main_keys(value, f"{name}.")
        elif str(key) in KEYS.split() and value is not None:
            yield name, value


def _samples(records: RunRecords, path: Path) -> str:
    cut = [{name: _cut(value) for name, value in line.items()} for line in records.samples[:SAMPLES]]
    total = len(records.samples)
    told = f"{total} samples" if total <= SAMPLES else f"the first {SAMPLES} of {total} samples"
    html = path.with_suffix(".html")
    more = f"; all: {_link(f'{path.parent.name}/{html.name}')}" if html.exists() else ""
    heading = f"<h2>Samples of the last validation</h2><p>{as_text(path.stem)}: {told}{more}</p>"
    return f'{heading}<div class="scroll">{table(cut)}</div>'


def _cut(value: Any) -> Any:
    return f"{value[:LONGEST]} ..." if isinstance(value, str) and len(value) > LONGEST else value
