"""Scores of responses: the reward function's, and a reward model's on top where there is one.

The function runs in worker processes of rank 0 alone (fusedrl.rewards.runner); every rank joins the broadcast.
"""
