"""The page: sections of charts, tables and links, in one file that opens without a network.

Everything that comes from the run is shown as text; the page's policy lets nothing load or run.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fusedrl.checkpoint.atomic import write_file
from fusedrl.report.figures import charts, lengths, phases
from fusedrl.report.look import html_page
from fusedrl.report.reading import CONFIG, ORDER, RunRecords, read_run
from fusedrl.report.timeline import phases as step_phases
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


def write_report(folder: Path, *, out: Path | None = None) -> tuple[Path, list[str]]:
    """Write a run's page: (where it is, what could not be read). Raises ValueError where there is no run."""
    records = read_run(folder)
    path = folder / NAME if out is None else out
    write_file(path, page(records))
    return path, records.problems


def page(records: RunRecords) -> str:
    """The whole page."""
    body = "".join(f"<section>{section}</section>\n" for section in _sections(records))
    return html_page(records.folder.resolve().name, body)


def _sections(records: RunRecords) -> Iterator[str]:
    yield _head(records)
    if drawn := charts(records):
        yield f'<h2>Curves</h2><div class="charts">{drawn}</div>'
    if drawn := phases(records) + lengths(records):
        yield f'<h2>Time and lengths</h2><div class="charts">{drawn}</div>'
    if drawn := _step(records):
        yield f"<h2>A step</h2>{drawn}"
    if keys := dict(main_keys(records.config)):
        rows = "".join(f"<tr><th>{as_text(k)}</th><td><div>{as_text(v)}</div></td></tr>" for k, v in keys.items())
        heading = f"<h2>Configuration</h2><p>Main keys; all: {_link(CONFIG)}</p>"
        yield f'{heading}<div class="scroll" tabindex="0"><table>{rows}</table></div>'
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
        step = records.traces[-1].stem.removeprefix("trace_")
        drawn = step_phases(records.trace, label=f"Phases of {step}, by rank")
        drawn += timeline(records.trace, label=f"Training passes of {step}")
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
    return f'{heading}<div class="scroll" tabindex="0">{table(cut)}</div>'


def _cut(value: Any) -> Any:
    return f"{value[:LONGEST]} ..." if isinstance(value, str) and len(value) > LONGEST else value
