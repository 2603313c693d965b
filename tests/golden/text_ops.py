"""Writes text_ops.safetensors beside itself: inputs, results and gradients of PyTorch for the ops
of language models, computed in f64 and stored in f32, for tests/core/ops/golden_text_test.cpp.

Run by hand with any PyTorch >= 2.0:  python3 tests/golden/text_ops.py
"""

import pathlib

import tensor_file
import torch
import torch.nn.functional as F

torch.manual_seed(20261123)
tensors = {}


def leaf(*shape):
    return torch.randn(*shape, dtype=torch.float64).float().double().requires_grad_()


def case(name, y, **inputs):
    g = torch.randn_like(y).float().double()
    y.backward(g)
    tensors.update({name + ".y": y, name + ".g": g})
    for key, x in inputs.items():
        tensors.update({f"{name}.{key}": x, f"{name}.d{key}": x.grad})


def heads(x, n):
    return x.unflatten(-1, (n, -1)).transpose(1, 2)


def attend(q, k, v, n, **how):
    y = F.scaled_dot_product_attention(heads(q, n), heads(k, n), heads(v, n), **how)
    return y.transpose(1, 2).flatten(2)


x, scale, shift = leaf(3, 4, 10), leaf(10), leaf(10)
case("layer_norm", F.layer_norm(x, (10,), scale, shift, 1e-5), x=x, scale=scale, shift=shift)

qkv = leaf(2, 9, 3 * 12)
case("attention_causal", attend(*qkv.chunk(3, -1), 3, is_causal=True), qkv=qkv)
q, kv = leaf(2, 5, 8), leaf(2, 7, 16)
mask = torch.arange(7) < torch.tensor([[7], [4]])  # lengths 7 and 4
case("attention_cross", attend(q, *kv.chunk(2, -1), 2, attn_mask=mask[:, None, None]), q=q, kv=kv)

table = leaf(6, 5)
case("embedding", F.embedding(torch.tensor([[3, 0, 3], [5, 3, 0]]), table), table=table)
x, table = leaf(7, 5), leaf(9, 5)
labels = torch.tensor([3, -1, 0, 8, 8, -1, 2])
loss = F.cross_entropy(x @ table.T, labels, ignore_index=-1, label_smoothing=0.1)
case("head_loss", loss, x=x, table=table)

tensor_file.write(
    pathlib.Path(__file__).with_name("text_ops.safetensors"),
    {name: t.detach().float() for name, t in tensors.items()},
    made_by="tests/golden/text_ops.py, PyTorch " + torch.__version__,
)
