"""Builders: functions that make an order for a problem, without search."""

from schedules.builders.greedy import greedy
from schedules.builders.serial import gpipe, serial_1f1b

__all__ = ["gpipe", "greedy", "serial_1f1b"]
