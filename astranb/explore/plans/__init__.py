"""Plans of a model on given GPUs: which fit, how long a step takes, and what it costs."""
