"""Writes rearrange.safetensors beside itself: inputs, results and gradients of PyTorch for the ops
of core/ops/rearrange.h, for tests/core/ops/golden_test.cpp.

Run by hand with any PyTorch >= 1.10:  python3 tests/golden/rearrange.py
"""

import pathlib

import tensor_file
import torch

torch.manual_seed(20261128)
tensors = {}


def leaf(*shape):
    return torch.randn(*shape, requires_grad=True)


def case(name, y, **inputs):
    g = torch.randn_like(y)
    y.backward(g)
    tensors.update({name + ".y": y, name + ".g": g})
    for key, x in inputs.items():
        tensors.update({f"{name}.{key}": x, f"{name}.d{key}": x.grad})


x = leaf(3, 2, 4, 5)
case("transpose", x.transpose(-2, 0), x=x)
x = leaf(2, 5, 3)
case("slice_along", x[:, 1:4], x=x)
x = leaf(2, 9, 3)
case("sum_along", x.sum(1), x=x)
a, b, c = leaf(2, 3, 4), leaf(2, 1, 4), leaf(2, 2, 4)
case("concat", torch.cat([a, b, c, a], 1), a=a, b=b, c=c)

tensor_file.write(
    pathlib.Path(__file__).with_name("rearrange.safetensors"),
    {name: t.detach() for name, t in tensors.items()},
    made_by="tests/golden/rearrange.py, PyTorch " + torch.__version__,
)
