"""Rewards from rules. A user's Python function scores responses in worker processes that it may hang, crash or exhaust.

runner      a pool of workers, score(samples) -> results            sample          what goes in and comes out
process     one worker as its parent sees it                        worker          the same, from inside
function    load a user's file, read what it returned               wire            messages: msgpack over pipes
combine     several weighted rewards                                reasoning_gym   verifier of generated tasks
source      a file's function, several of them, or a server         remote          a server that is asked over HTTP
"""
