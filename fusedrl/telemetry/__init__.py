"""What a run leaves behind and shows: the run folder, metrics, progress, timers."""
