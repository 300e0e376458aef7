"""Networks of this project: how they are trained, exported and checked."""
