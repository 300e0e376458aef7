"""Training of the reference detector: its network, its data, its loss and the loop.

Run it as `python -m engines.recipe.train --data data --out runs/substation-rgbt`.
"""
