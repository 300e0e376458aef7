"""Measurements of this SDK on this machine, side by side in one run, each beside its conditions."""
