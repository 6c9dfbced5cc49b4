"""Floor 0: what all other floors use.

Units, errors with place and hint, the compiled-kernel decorator, the event
queue, the array-state toolkit and progress. Nothing here knows what is simulated.
"""
