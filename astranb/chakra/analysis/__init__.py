"""Analysis of traces: times, statistics, modules, differences, pictures."""
