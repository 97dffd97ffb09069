"""Runs an order of pipeline work over the stages of one or more models, and times it.

- plan.py: what work a step has, and in which order; a pure function of shapes and layouts
- costs.py: what one micro-batch costs on one stage, for planning
- program.py: an order checked, replayed and lowered
- microbatch.py: right-padded token rows and the tensors that go with them
- stage.py: forward and backward of one micro-batch on one stage
- megatron_stage.py: the only file that knows how Megatron-Core's stages are called
- messages.py: activations and gradients between ranks, one process group per (model, direction)
- executor.py: runs this rank's instruction list; makes the groups, watches for failures
- pass_run.py: one pass: what it is given, its tables, what it gives
- training.py: one training step of several models: zero, run, finalize
- results.py: what last stages computed, made known to all ranks
- timeline.py: when each op ran, on every rank, and the bubble that this amounts to
- clocks.py, cuda_clock.py: ranks' clocks brought to rank 0's; a clock of CUDA events
- memory.py: what is held for backwards to come, measured
- trace.py: passes as a trace for Perfetto
- failure.py: errors that name the op, the message and the place in the grid; how ranks tell each other
- watchdog.py: where a rank stands, told when something went wrong, even by a rank that is stuck
"""
