"""Procedural substation worlds: geometry, materials, weathering and faults from a seed (NumPy only)."""
