"""Writes ops.safetensors beside itself: inputs, results and gradients of PyTorch for
tests/ops_golden_test.cpp.

Run by hand with any PyTorch >= 1.10:  python3 tests/golden/ops.py
Images are stored as [N, H, W, C] and filters as [K, R, S, C/groups], which is how Gossamer sees
them.
"""

import pathlib

import tensor_file
import torch
import torch.nn.functional as F

torch.manual_seed(20261121)
tensors = {}


def keep(name, t):
    tensors[name] = t.detach().float().contiguous().clone()


def nhwc(t):
    return t.permute(0, 2, 3, 1)


def leaf(*shape):
    return torch.randn(*shape, requires_grad=True)


def image_case(name, y, g, **inputs):
    """y and every 4-D input are NCHW here."""
    y.backward(g)
    keep(name + ".y", nhwc(y) if y.dim() == 4 else y)
    keep(name + ".g", nhwc(g) if g.dim() == 4 else g)
    for key, x in inputs.items():
        keep(f"{name}.{key}", nhwc(x) if x.dim() == 4 else x)
        keep(f"{name}.d{key}", nhwc(x.grad) if x.dim() == 4 else x.grad)


for name, shape, wshape, options in [
    ("conv_3x3", (2, 5, 7, 6), (4, 5, 3, 3), dict(padding=1)),
    ("conv_stride", (2, 4, 9, 8), (6, 4, 3, 3), dict(stride=2, padding=1)),
    ("conv_dilated", (1, 3, 9, 9), (2, 3, 3, 3), dict(padding=2, dilation=2)),
    ("conv_groups", (2, 6, 5, 5), (4, 3, 3, 3), dict(padding=1, groups=2)),
    ("conv_stem", (1, 3, 14, 14), (4, 3, 7, 7), dict(stride=2, padding=3)),
]:
    x, w = leaf(*shape), leaf(*wshape)
    y = F.conv2d(x, w, **options)
    image_case(name, y, torch.randn_like(y), x=x, w=w)

for name, options in [
    ("max_pool", dict(kernel_size=3, stride=2, padding=1)),
    ("avg_pool", dict(kernel_size=3, stride=2, padding=1)),
]:
    x = leaf(2, 3, 7, 8)
    y = (F.max_pool2d if name == "max_pool" else F.avg_pool2d)(x, **options)
    image_case(name, y, torch.randn_like(y), x=x)

x = leaf(2, 5, 3, 4)
y = F.adaptive_avg_pool2d(x, 1).flatten(1)
image_case("global_avg_pool", y, torch.randn_like(y), x=x)

for training in (True, False):
    name = "norm_train" if training else "norm_eval"
    x, add, scale, shift = leaf(3, 4, 3, 5), leaf(3, 4, 3, 5), leaf(4), leaf(4)
    mean, var = torch.randn(4) * 0.1, torch.rand(4) + 0.5
    keep(name + ".mean_before", mean)
    keep(name + ".var_before", var)
    y = F.relu(F.batch_norm(x, mean, var, scale, shift, training, 0.1, 1e-5) + add)
    image_case(name, y, torch.randn_like(y), x=x, add=add, scale=scale, shift=shift)
    keep(name + ".mean_after", mean)
    keep(name + ".var_after", var)

for name, f in [
    ("gelu", F.gelu),
    ("sigmoid", torch.sigmoid),
    ("tanh", torch.tanh),
    ("softmax", lambda t: F.softmax(t, -1)),
    ("log_softmax", lambda t: F.log_softmax(t, -1)),
]:
    x = torch.randn(5, 9).mul(3).requires_grad_()
    y = f(x)
    image_case(name, y, torch.randn_like(y), x=x)

x, w, bias = leaf(6, 10), leaf(4, 10), leaf(4)
y = F.linear(x, w, bias)
image_case("linear", y, torch.randn_like(y), x=x, w=w, bias=bias)

for name, smoothing in [("cross_entropy", 0.0), ("cross_entropy_smooth", 0.1)]:
    x = torch.randn(7, 10).mul(4).requires_grad_()
    labels = torch.randint(10, (7,))
    y = F.cross_entropy(x, labels, label_smoothing=smoothing)
    image_case(name, y, torch.ones_like(y), x=x)
    keep(name + ".labels", labels)

# Five steps of torch.optim.SGD; only the matrix takes weight decay.
for name, nesterov in [("sgd", False), ("sgd_nesterov", True)]:
    w, b = leaf(6, 5), leaf(7)
    keep(name + ".w0", w)
    keep(name + ".b0", b)
    optimizer = torch.optim.SGD(
        [{"params": [w], "weight_decay": 0.05}, {"params": [b], "weight_decay": 0.0}],
        lr=0.1,
        momentum=0.9,
        nesterov=nesterov,
    )
    for step in range(5):
        w.grad, b.grad = torch.randn_like(w), torch.randn_like(b)
        keep(f"{name}.gw{step}", w.grad)
        keep(f"{name}.gb{step}", b.grad)
        optimizer.step()
    keep(name + ".w5", w)
    keep(name + ".b5", b)

# Later cases stand last, so that those above keep their random numbers.
x = torch.randn(5, 9).mul(3).requires_grad_()
y = F.gelu(x, approximate="tanh")
image_case("gelu_tanh", y, torch.randn_like(y), x=x)

for name, f in [
    ("relu", F.relu),
    ("gelu", F.gelu),
    ("gelu_tanh", lambda t: F.gelu(t, approximate="tanh")),
]:
    x, w, bias = leaf(2, 3, 10), leaf(4, 10), leaf(4)
    y = f(F.linear(x, w, bias))
    image_case("linear_" + name, y, torch.randn_like(y), x=x, w=w, bias=bias)

tensor_file.write(
    pathlib.Path(__file__).with_name("ops.safetensors"),
    tensors,
    made_by="tests/golden/ops.py, PyTorch " + torch.__version__,
)
