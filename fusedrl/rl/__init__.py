"""The mathematics of RLHF as pure functions on torch tensors; nothing here knows models, ranks or configs.

advantages   gae, grpo, dr_grpo, rloo, reinforce_pp, remax          groups      a score beside its prompt's others
shaping      scores and KL -> rewards per token, DAPO's parts       kl          estimators, coefficient controllers
losses       policy, value, entropy, kl, ptx, gspo, dapo            aggregate   token losses -> one number
correction   rollout engine against trainer                         normalize   whitening, moments that merge
alignment    sequence positions -> response tokens                  batching    mini- and micro-batches
statistics   verl's critic/* and length metrics                     masked      reductions NaN cannot pass
"""
