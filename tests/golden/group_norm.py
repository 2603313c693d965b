"""Writes group_norm.safetensors beside itself: inputs, results and gradients of PyTorch in f64,
stored in f32, for tests/core/ops/group_norm_test.cpp. EvoNorm-S0 is its equation (Liu et al. 2020),
differentiated by PyTorch.

Run by hand with any PyTorch >= 1.10:  python3 tests/golden/group_norm.py
"""

import pathlib

import tensor_file
import torch
import torch.nn.functional as F

torch.manual_seed(20261129)
tensors = {}


def leaf(*shape):
    return torch.randn(*shape, dtype=torch.float64).float().double().requires_grad_()


def nhwc(t):
    return t.permute(0, 2, 3, 1) if t.dim() == 4 else t


def case(name, y, **inputs):
    g = torch.randn_like(y).float().double()
    y.backward(g)
    tensors.update({name + ".y": nhwc(y), name + ".g": nhwc(g)})
    for key, x in inputs.items():
        tensors.update({f"{name}.{key}": nhwc(x), f"{name}.d{key}": nhwc(x.grad)})


def evonorm_s0(x, v, scale, shift, groups, eps=1e-5):
    grouped = x.reshape(x.shape[0], groups, -1)
    var = grouped.var(-1, unbiased=False, keepdim=True).expand_as(grouped).reshape(x.shape)
    c = (1, -1, 1, 1)
    gated = x * torch.sigmoid(v.reshape(c) * x)
    return gated / torch.sqrt(var + eps) * scale.reshape(c) + shift.reshape(c)


for groups, channels in [(1, 6), (2, 8), (3, 12), (5, 5)]:
    x, scale, shift = leaf(3, channels, 4, 5), leaf(channels), leaf(channels)
    case(f"group_norm_{groups}", F.group_norm(x, groups, scale, shift, 1e-5), x=x, scale=scale,
         shift=shift)
    x, v, scale, shift = leaf(3, channels, 4, 5), leaf(channels), leaf(channels), leaf(channels)
    case(f"evonorm_s0_{groups}", evonorm_s0(x, v, scale, shift, groups), x=x, v=v, scale=scale,
         shift=shift)

tensor_file.write(
    pathlib.Path(__file__).with_name("group_norm.safetensors"),
    {name: t.detach().float() for name, t in tensors.items()},
    made_by="tests/golden/group_norm.py, PyTorch " + torch.__version__,
)
