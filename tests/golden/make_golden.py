#!/usr/bin/env python3
"""Writes the golden files beside it: what PyTorch computes for fixed weights and images
(formula.py), in f64.

    # Debian 12: python3-torch 1.13, python3-torchvision 0.14
    /usr/bin/python3 make_golden.py

MODEL.safetensors: logits and loss of one training batch, for each parameter "grad/NAME" = [norm,
sum, 64 entries], and the logits of the same images in eval mode afterwards (they see the updated
running statistics). Also "bias/NAME" of each batch norm: where a ReLU's input is within rounding of
0, chance decides whether a gradient passes, and no two f32 programs agree (PyTorch's own f32
gradients of ResNet-50 are 2 % off its f64 ones). So open_gaps() moves each bias a little, into the
widest gap between the values its ReLU sees in this batch; then f32 suffices for every mask, and the
masks stay ordinary. sgd.safetensors: losses of ten SGD steps of resnet8-cifar (momentum, Nesterov,
weight decay on tensors of rank >= 2 only).
"""

import pathlib

import numpy as np
import tensor_file
import torch
import torch.nn.functional as F
import torchvision
from torch import nn

from formula import fnv1a, state_value, symmetric, words

HERE = pathlib.Path(__file__).parent


class Block(nn.Module):
    def __init__(self, cin, cout, stride, pad):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.extra, self.changes = cout - cin, stride != 1 or cin != cout
        if self.changes and not pad:
            self.downsample = nn.Sequential(
                nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout)
            )

    def shortcut(self, x):
        if hasattr(self, "downsample"):
            return self.downsample(x)
        if self.changes:
            return F.pad(
                x[:, :, ::2, ::2], (0, 0, 0, 0, self.extra // 2, self.extra - self.extra // 2)
            )
        return x

    def forward(self, x):
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))) + self.shortcut(x))


class Cifar(nn.Module):
    def __init__(self, blocks, widths, pad):
        super().__init__()
        self.conv1 = nn.Conv2d(3, widths[0], 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        cin, self.stages = widths[0], len(blocks)
        for s, (n, w) in enumerate(zip(blocks, widths)):
            layer = nn.Sequential()
            for i in range(n):
                layer.append(Block(cin, w, 2 if s > 0 and i == 0 else 1, pad))
                cin = w
            setattr(self, f"layer{s + 1}", layer)
        self.fc = nn.Linear(cin, 10)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        for s in range(self.stages):
            x = getattr(self, f"layer{s + 1}")(x)
        return self.fc(x.mean((2, 3)))


MODELS = {  # name: (model, batch, image size, classes)
    "resnet50": (lambda: torchvision.models.resnet50(), 4, 96, 1000),
    "resnet18-cifar": (lambda: Cifar([2, 2, 2, 2], [64, 128, 256, 512], False), 4, 32, 10),
    "resnet20-cifar": (lambda: Cifar([3, 3, 3], [16, 32, 64], True), 8, 32, 10),
    "resnet8-cifar": (lambda: Cifar([1, 1, 1], [16, 32, 64], True), 16, 32, 10),
}


def write_single(path, tensors, **metadata):
    tensor_file.write(
        path, {n: np.asarray(tensors[n], dtype="<f4") for n in sorted(tensors)}, **metadata
    )


def build(name):
    make, batch, size, classes = MODELS[name]
    model = make().double()
    model.load_state_dict(
        {k: torch.from_numpy(state_value(k, tuple(v.shape))) for k, v in model.state_dict().items()}
    )
    images = symmetric("images", batch * 3 * size * size, 3**0.5).reshape(batch, 3, size, size)
    labels = (words("labels", batch) % np.uint64(classes)).astype(np.int64)
    return model, torch.from_numpy(images).double(), torch.from_numpy(labels)


def sampled(name, gradient):
    flat = gradient.reshape(-1).numpy()
    count = min(64, flat.size)
    step = flat.size // count
    start = fnv1a(name) % step
    return np.concatenate([[np.linalg.norm(flat), flat.sum()], flat[start::step][:count]])


def centred_in_gap(norm, values):
    """Moves norm's bias so that `values` (N, C, H, W), what the next ReLU sees, keep away from 0;
    returns the moved values."""
    moved = values.clone()
    closest = np.inf
    for c in range(values.shape[1]):
        v = np.sort(values[:, c].reshape(-1).numpy())
        reach = 0.25 * v.std()
        middles = (v[1:] + v[:-1]) / 2
        points = np.concatenate([middles[np.abs(middles) <= reach], [-reach, 0.0, reach]])
        distance = np.abs(v[None, :] - points[:, None]).min(1)
        old = float(norm.bias.data[c])
        new = float(np.float32(old - points[distance.argmax()]))
        norm.bias.data[c] = new
        moved[:, c] += new - old
        closest = min(closest, float(moved[:, c].abs().min()) / v.std())
    return moved, closest


@torch.no_grad()
def open_gaps(model, images):
    model_state = {
        k: v.clone() for k, v in model.state_dict().items() if "running" in k or "tracked" in k
    }
    margins = []

    def through(norm, before, shortcut=0):
        moved, closest = centred_in_gap(norm, norm(before) + shortcut)
        margins.append(closest)
        return F.relu(moved)

    x = through(model.bn1, model.conv1(images))
    if hasattr(model, "maxpool"):
        x = model.maxpool(x)
    for stage in (m for n, m in model.named_children() if n.startswith("layer")):
        for block in stage:
            if hasattr(block, "shortcut"):
                side = block.shortcut(x)
            else:
                side = block.downsample(x) if block.downsample is not None else x
            x = through(block.bn1, block.conv1(x))
            if hasattr(block, "conv3"):
                x = through(block.bn2, block.conv2(x))
                x = through(block.bn3, block.conv3(x), side)
            else:
                x = through(block.bn2, block.conv2(x), side)
    model.load_state_dict(model_state, strict=False)
    return min(margins)


def gradients(name):
    model, images, labels = build(name)
    margin = open_gaps(model, images)
    logits = model(images)
    loss = F.cross_entropy(logits, labels)
    loss.backward()
    out = {"logits": logits.detach().numpy(), "loss": loss.detach().numpy()}
    for key, parameter in model.named_parameters():
        out["grad/" + key] = sampled(key, parameter.grad)
        if key.endswith("bias") and key != "fc.bias":
            out["bias/" + key] = parameter.detach().numpy()
    model.eval()
    with torch.no_grad():
        out["eval_logits"] = model(images).numpy()
    write_single(HERE / f"{name}.safetensors", out, torch=torch.__version__, model=name)
    print(name, "loss", float(loss), "smallest margin (standard deviations)", margin)


def sgd():
    model, images, labels = build("resnet8-cifar")
    decayed = [p for p in model.parameters() if p.ndim >= 2]
    spared = [p for p in model.parameters() if p.ndim < 2]
    optimizer = torch.optim.SGD(
        [{"params": decayed, "weight_decay": 0.05}, {"params": spared, "weight_decay": 0}],
        lr=0.02,
        momentum=0.9,
        nesterov=True,
    )
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    write_single(
        HERE / "sgd.safetensors",
        {"losses": np.array(losses)},
        torch=torch.__version__,
        model="resnet8-cifar",
    )
    print("sgd", losses)


if __name__ == "__main__":
    for model_name in MODELS:
        gradients(model_name)
    sgd()
