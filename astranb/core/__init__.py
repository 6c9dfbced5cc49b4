"""Floor 0: what every other floor stands on.

Units, errors with place and hint, the compiled-kernel decorator, the event
queue, the array-state toolkit and progress. Nothing here knows what is simulated.
"""
