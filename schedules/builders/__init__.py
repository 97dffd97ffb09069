"""Builders: functions that make an order for a problem, without search."""

from schedules.builders.greedy import greedy
from schedules.builders.interleaved import interleaved_1f1b
from schedules.builders.overlay import overlay
from schedules.builders.serial import gpipe, serial_1f1b
from schedules.builders.zero_bubble import zero_bubble

__all__ = ["gpipe", "greedy", "interleaved_1f1b", "overlay", "serial_1f1b", "zero_bubble"]
