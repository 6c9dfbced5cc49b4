"""Nothing: how long it takes to start Python is measured with it."""


def main(_given: str) -> None:
    """Do nothing."""
