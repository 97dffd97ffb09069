"""Generation: engines, sampling, the weight hand-over, requests over replicas.

    requests.py   a request for one sample, and its completion
    sampling.py   parameters and the draw of a token with its log-probability
    randomness.py random numbers by (seed, step, sample id, position)
    megatron.py   the built-in engine: continuous batching on a Megatron GPTModel, tensor and pipeline parallel
    lane.py       one batch in flight: who gets a row, who gives way
    rows.py       its live rows       cache.py   its key-value cache, bounded
    decoder.py    the forward pass    support.py which models it runs
    links.py      messages between the stages of a pipeline
    cached_tokens.py  keys and values of samples that move to another engine
    handover.py   weights from the training to the generation layout, in place
    reshard.py    the plan of a hand-over: a pure function of both layouts
    spread.py     a batch over the generation replicas, everybody's samples for everybody

docs/rollout.md says how they work together and where the time goes.
"""
