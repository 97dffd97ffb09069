"""All tables by name."""

from schedules.bench import baselines, front, published, speed, split

TABLES = {
    "published": published.TABLE,
    "front": front.TABLE,
    "split": split.TABLE,
    "baselines": baselines.TABLE,
    "speed": speed.TABLE,
}
