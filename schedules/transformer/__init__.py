"""What a LLaMA pipeline costs, by formula: shapes -> FLOPs, bytes -> durations, activations -> a Problem. Torch-free.

    shapes     LLaMA's published sizes
    attention  the attention core: FLOPs and what it keeps
    flops      forward, input-gradient and weight-gradient FLOPs of a layer and of the head
    memory     activation bytes of a layer and of the head; bytes of a message
    device     FLOP/s and message time of a device: its sheet, and what is assumed
    lengths    micro-batches of samples of log-normal lengths
    stages     layers per stage, and the costs of stages x micro-batches
    fused      actor and critic on the same ranks, as a Problem
    problem_text, command   the file and the command line

An estimate, not a measurement: good for the proportions between stages, models and micro-batches.
"""
