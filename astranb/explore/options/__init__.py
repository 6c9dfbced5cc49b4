"""What to run, from words: the options of ``astranb run``, which are also the axes of sweeps."""
