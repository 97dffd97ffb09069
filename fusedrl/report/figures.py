"""Which metrics stand in which chart: of verl's names, those that a run has. One unit a chart."""

from fusedrl.report.chart import HUES, Series, curves, histogram, stacked
from fusedrl.report.reading import RunRecords

# heading, unit, metrics, where the axis starts at the latest
CHARTS: tuple[tuple[str, str, tuple[str, ...], float | None], ...] = (
    ("Score and reward", "a response, mean", ("critic/score/mean", "critic/rewards/mean"), None),
    ("KL from the reference", "nats", ("actor/reward_kl_penalty", "actor/kl_loss"), None),
    ("KL from the policy that sampled", "nats a token", ("actor/ppo_kl",), None),
    ("KL coefficient", "", ("actor/reward_kl_penalty_coeff",), 0.0),
    ("Policy loss", "", ("actor/pg_loss",), None),
    ("Value loss", "", ("critic/vf_loss",), None),
    ("Loss", "", ("train/loss", "rm/loss", "val/loss"), None),
    ("Accuracy", "share of pairs", ("rm/accuracy", "val-core/accuracy"), 0.0),
    ("Entropy", "nats a token", ("actor/entropy",), None),
    ("Gradient norms", "", ("actor/grad_norm", "critic/grad_norm", "train/grad_norm", "rm/grad_norm"), 0.0),
    ("Learning rates", "", ("actor/lr", "critic/lr", "train/lr", "rm/lr"), 0.0),
    ("Clipped", "share of tokens", ("actor/pg_clipfrac", "critic/vf_clipfrac"), 0.0),
    ("Response length", "tokens", tuple(f"response_length/{part}" for part in ("mean", "min", "max")), 0.0),
    ("Responses cut at the limit", "share", ("response_length/clip_ratio",), 0.0),
    ("Bubble", "share of rank time", tuple(f"perf/bubble_ratio/{k}" for k in ("planned", "replayed", "measured")), 0.0),
    ("Throughput", "tokens a second and rank", ("perf/throughput",), 0.0),
)
WHOLE, AFTER = "timing_s/step", ("timing_s/testing", "timing_s/save_checkpoint")


def series_of(records: RunRecords, name: str) -> Series:
    """A metric over the steps that have it; a value of null is a gap."""
    return Series(name, [(row["step"] or 0.0, row[name]) for row in records.rows if name in row])


def charts(records: RunRecords) -> str:
    """All curves that the run has metrics for, validations first."""
    present = set(records.names())
    found = [_validations(records)]
    for label, unit, names, low in CHARTS:
        own = [series_of(records, name) for name in names if name in present]
        found.append(curves(own, label=label, unit=unit, low=low) if own else "")
    return "".join(found)


def _validations(records: RunRecords) -> str:
    """val-core/SOURCE/VARIABLE/STATISTIC: a chart a variable."""
    variables: dict[str, list[str]] = {}
    for name in records.names():
        if name.startswith("val-core/") and name.count("/") >= 3:
            variables.setdefault(name.split("/")[-2], []).append(name)
    found = ""
    for variable, names in variables.items():
        unit = "validation" if len(names) <= HUES else f"validation; {HUES} of {len(names)} figures"
        found += curves([series_of(records, n) for n in names[:HUES]], label=f"Validation: {variable}", unit=unit)
    return found


def phases(records: RunRecords) -> str:
    """The seconds of each step, phase on phase; what no phase has is "other"."""
    rows = [row for row in records.rows if row.get(WHOLE) is not None]
    names = [n for n in records.names() if n.startswith("timing_s/") and n != WHOLE and n not in AFTER]
    if not rows:
        return ""
    seconds = [_seconds(row, names) for row in rows]
    layers = [name for name in [*names, "other"] if any(each.get(name) for each in seconds)]
    steps = [row["step"] or 0.0 for row in rows]
    series = [
        Series(name.removeprefix("timing_s/"), [(x, each.get(name)) for x, each in zip(steps, seconds, strict=True)])
        for name in layers
    ]
    return stacked(_folded(series), label="Time of a step, by phase", unit="seconds") if series else ""


def _seconds(row: dict[str, float | None], names: list[str]) -> dict[str, float]:
    """By phase. Generation runs within the stream of samples: there, stream is what is left after it."""
    found = {name: max(0.0, row.get(name) or 0.0) for name in names}
    if found.get("timing_s/stream"):
        found["timing_s/stream"] = max(0.0, found["timing_s/stream"] - found.get("timing_s/gen", 0.0))
    rest = (row[WHOLE] or 0.0) - sum(found.values())
    return found | {"other": rest if rest > 1e-9 else 0.0}


def _folded(series: list[Series]) -> list[Series]:
    """No more than there are hues: the shortest phases join "other"."""
    if len(series) <= HUES:
        return series
    by_size = sorted((s for s in series if s.name != "other"), key=lambda s: -sum(y or 0.0 for _, y in s.points))
    kept = {each.name for each in by_size[: HUES - 1]}
    rest = [each for each in series if each.name not in kept]
    other = [(points[0][0], sum(y or 0.0 for _, y in points)) for points in zip(*(s.points for s in rest), strict=True)]
    return [*(each for each in series if each.name in kept), Series("other", other)]


def lengths(records: RunRecords) -> str:
    """The last validation's responses by their length."""
    found = [each.get("length") for each in records.samples]
    values = [n for n in found if isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 2**40]
    label = "Response lengths of the last validation"
    return histogram(values, label=label, unit="tokens") if values else ""
