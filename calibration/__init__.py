"""Calibration of an engine bundle: INT8 ranges (`int8`), scores and the router's thresholds (`gate`).

Both read frames through `edge_sdk.preprocess`, the very code of the runtime: a network calibrated on
other pixels than it sees is the commonest INT8 fault.
"""
