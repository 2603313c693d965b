"""Numbers that Python and C++ compute alike (tests/golden_formula.h): so golden tests need no
stored weights.

Value i of the stream called `name`: splitmix64 of FNV-1a(name) + (i + 1) * golden ratio; its upper
24 bits give u in [0, 1).
"""

import numpy as np


def fnv1a(name):
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = ((h ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return h


def words(name, n):
    with np.errstate(over="ignore"):
        z = np.uint64(fnv1a(name)) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(
            0x9E3779B97F4A7C15
        )
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def unit(name, n):
    return (words(name, n) >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)


def symmetric(name, n, bound):
    return (np.float32(2) * unit(name, n) - np.float32(1)) * np.float32(bound)


def state_value(name, shape):
    """f32 value of a state entry, by its name and shape (torch's layout)."""
    n = int(np.prod(shape)) if len(shape) else 1
    if name.endswith("num_batches_tracked"):
        return np.zeros(shape, np.int64)
    if name.endswith("running_mean"):
        out = symmetric(name, n, 0.1)
    elif name.endswith("running_var") or (name.endswith("weight") and len(shape) == 1):
        out = np.float32(0.5) + unit(name, n)
    elif len(shape) == 1:
        out = symmetric(name, n, 0.1)
    else:
        fan_in = n // shape[0]
        out = symmetric(name, n, np.sqrt((6.0 if len(shape) == 4 else 1.0) / fan_in))
    return out.reshape(shape)
