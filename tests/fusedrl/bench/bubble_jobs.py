"""Jobs of the rank pool for the tests of the sweep of bubble ratios."""


def nothing() -> None:
    """Only starts the process that ranks are forked from."""
