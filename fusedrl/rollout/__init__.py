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
    vllm.py       the vLLM engine    vllm_library.py, vllm_settings.py, vllm_processor.py   what it asks of vLLM
    vllm_draw.py  our sampling inside vLLM
    handover.py   weights from the training to the generation layout, in place
    reshard.py    the plan of a hand-over: a pure function of both layouts
    exchange.py   one round of it: messages and copies
    hf_stream.py  weights as whole Hugging Face tensors, for engines that read these
    spread.py     a batch over the generation replicas, everybody's samples for everybody

docs/rollout.md says how they work together and where the time goes.
"""
