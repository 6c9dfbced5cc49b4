"""Floor 6: what leaves the notebook. Traces, figures for analysis, the picture of an infrastructure."""
