"""The best orders found so far, each with its problem and a record that a test verifies by replay.

    orders/exp9/problem.yaml      the problem, without a memory cap
    orders/exp9/free.csv          its best order without a cap
    orders/exp9/cap26.24.csv      its best order within a cap of 26.24

They are results to look up. No search starts from them unless it is told to (`solve --start`).
"""

from schedules.found.keep import keep
from schedules.found.room import ROOM, Kept, load, load_all, order_files
from schedules.found.verify import verify

__all__ = ["ROOM", "Kept", "keep", "load", "load_all", "order_files", "verify"]
