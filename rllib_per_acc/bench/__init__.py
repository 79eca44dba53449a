"""Benchmarks: ours and the other side in one run, fresh input in every repeat, medians, ratios."""
