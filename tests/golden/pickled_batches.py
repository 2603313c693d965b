"""Writes the batches that tests/data/pickled_test.cpp reads, with numpy and pickle, as the scripts
of ImageNet-32 do: a dict with data (uint8, N x 3072), labels (from 1 on) and mean.
  python3 pickled_batches.py FOLDER
"""
import pathlib
import pickle
import sys

import numpy as np

folder = pathlib.Path(sys.argv[1])


def pixels(n):
    i = np.arange(n * 3072).reshape(n, 3, 1024)
    return (i // 3072 * 7 + i // 1024 % 3 * 50 + i % 1024 % 61).astype(np.uint8).reshape(n, 3072)


def write(name, protocol, n, more, labels):
    batch = {"data": pixels(n), **labels, **more}
    (folder / name).write_bytes(pickle.dumps(batch, protocol))


# Python 3.5's protocol, with which ImageNet-32 was written, and that of Python 3.8 on
write("imagenet32.pickle3", 3, 3, {"mean": np.zeros(3)}, {"labels": [1000, 1, 333]})
write("imagenet32.pickle4", 4, 2, {}, {"labels": [2, 1]})
# protocol 2: Python 3 writes bytes as text
write("imagenet32.pickle2", 2, 1, {}, {"labels": [1]})
# as Python 3.14 writes CIFAR's batches again that it read with encoding="bytes"
batch = {b"batch_label": b"x", b"labels": [6, 0], b"data": pixels(2), b"filenames": [b"a", b"b"]}
(folder / "cifar.pickle5").write_bytes(pickle.dumps(batch, 5))
(folder / "cifar.pickle4").write_bytes(pickle.dumps(batch, 4))
(folder / "cifar.pickle2").write_bytes(pickle.dumps(batch, 2))
