"""What traces say: times, statistics, modules, differences, pictures."""
