"""Writes a safetensors file with nothing but numpy."""

import json
import struct

import numpy as np

TYPES = {"uint8": "U8", "int32": "I32", "float32": "F32", "float64": "F64"}


def write(path, arrays, **metadata):
    """arrays: name -> anything that numpy.asarray takes; the order is kept."""
    header, data = {"__metadata__": metadata} if metadata else {}, []
    at = 0
    for name, array in arrays.items():
        array = np.asarray(array, order="C")
        header[name] = {
            "dtype": TYPES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [at, at + array.nbytes],
        }
        at += array.nbytes
        data.append(array.tobytes())
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data))
