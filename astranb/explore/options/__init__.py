"""Options of ``astranb run``, from words to a simulation; they are also the axes of sweeps."""
