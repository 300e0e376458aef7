"""The live page of a run: what it shows, who may see it, and what it may change."""
