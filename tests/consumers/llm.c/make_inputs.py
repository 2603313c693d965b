#!/usr/bin/env python3
"""Writes what llm.c's train_gpt2 reads into a folder: a GPT-2 of two layers and 64 channels with
first weights, and tokens of a text.   make_inputs.py TEXT FOLDER"""
import array
import pathlib
import random
import sys

text = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
folder = pathlib.Path(sys.argv[2])
length, vocabulary, layers, heads, c, padded = 64, 128, 2, 2, 64, 128
draw = random.Random(1)


def header(*numbers):
    return array.array("i", list(numbers) + [0] * (256 - len(numbers))).tobytes()


def normal(n):
    return [draw.gauss(0, 0.02) for _ in range(n)]


def ones(n):
    return [1.0] * n


def zeros(n):
    return [0.0] * n


# in the order of llm.c's ParameterTensors
weights = normal(padded * c) + normal(length * c)
for part in (
    ones(c), zeros(c), normal(3 * c * c), zeros(3 * c), normal(c * c), zeros(c),
    ones(c), zeros(c), normal(4 * c * c), zeros(4 * c), normal(4 * c * c), zeros(c),
):
    weights += part * layers
weights += ones(c) + zeros(c)
(folder / "gpt2_124M.bin").write_bytes(
    header(20240326, 3, length, vocabulary, layers, heads, c, padded)
    + array.array("f", weights).tobytes())

tokens = [min(ord(letter), vocabulary - 1) for letter in text]
data = folder / "dev/data/tinyshakespeare"
data.mkdir(parents=True, exist_ok=True)
cut = len(tokens) * 9 // 10
for name, part in (("train", tokens[:cut]), ("val", tokens[cut:])):
    (data / f"tiny_shakespeare_{name}.bin").write_bytes(
        header(20240520, 1, len(part)) + array.array("H", part).tobytes())
