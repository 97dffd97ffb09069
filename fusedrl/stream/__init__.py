"""The sample-level stream: generation and inference of a step as one flow of samples instead of two stages.

    sample.py       stages of a sample's life, and the ledger of all samples
    units.py        what a model reads in one call: fixed groups of samples
    control.py      the decisions: messages in, commands out
    migration.py    which samples move where when few are left
    coordinator.py  the decisions' socket on rank 0          client.py    an instance's connection to it
    messages.py     what is said                             wire.py      frames that only this run's ranks can make
    instance.py     the loop of a generation replica         scoring.py   the reward function beside the stream
    liveness.py     who has gone quiet                       address.py   where the coordinator listens
    run.py          a step on all ranks
    costs.py        milliseconds of each piece of work       simulator.py, simulator_kernel.py   a step from these
    tail_policy.py  the (r_t, m) that the simulator likes best on the lengths seen so far

docs/stream.md says how they work together. Nothing here imports Megatron: engines and models are plugged in.
"""
