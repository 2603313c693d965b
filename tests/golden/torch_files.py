#!/usr/bin/env python3
"""Writes torch.pth and torch.safetensors: the same small tensors, saved by torch and by the package
safetensors, and torch_training.pth: a checkpoint as torchvision's training writes it.
torch_legacy.pth and torch_legacy_training.pth are the same objects as before torch 1.6. All are for
tests/core/io/torch_file_test.cpp. Values are exact in every type.

    torch_files.py      # needs torch and safetensors; writes beside itself
"""

import argparse
import pathlib

import safetensors.torch
import torch

folder = pathlib.Path(__file__).parent
net = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 2, bias=False), torch.nn.BatchNorm2d(3))
net = net.to(memory_format=torch.channels_last)
for i, tensor in enumerate(net.state_dict().values()):
    tensor.copy_(torch.arange(tensor.numel()).reshape(tensor.shape) + i)
weights = net.state_dict()  # an OrderedDict with _metadata
block = torch.arange(12, dtype=torch.float32)
weights["window"] = block[4:]
weights["columns"] = block.reshape(3, 4).T
weights["parameter"] = torch.nn.Parameter(block[:2].clone())
for kind in (torch.bfloat16, torch.float16, torch.float64, torch.uint8, torch.int32, torch.int64):
    weights[str(kind)] = torch.arange(5, dtype=kind)


def save(value, name, legacy_name):
    torch.save(value, folder / name)
    torch.save(value, folder / legacy_name, _use_new_zipfile_serialization=False)


save(
    {"epoch": 3, "lr": 0.1, "model": weights, "model_ema": {"n": torch.ones(1)}, "best": None},
    "torch.pth",
    "torch_legacy.pth",
)
whole = {
    name: (t.float() if t.dtype == torch.float64 else t).detach().clone().contiguous()
    for name, t in weights.items()
}
safetensors.torch.save_file(whole, folder / "torch.safetensors")

layer = torch.nn.Linear(2, 1)
average = torch.optim.swa_utils.AveragedModel(layer)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.5, momentum=0.5)
schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 4])
layer(torch.ones(1, 2)).sum().backward()
optimizer.step()
schedule.step()
for i, parameter in enumerate(layer.parameters()):
    parameter.data.copy_(torch.arange(parameter.numel()).reshape(parameter.shape) + 3 + 2 * i)
options = argparse.Namespace(
    lr=0.5,
    opt="sgd",
    amp=False,
    resume=None,
    lr_steps=[2, 4],
    device=torch.device("cpu"),
    output_dir=pathlib.PosixPath("runs"),
)
save(
    {
        "model": layer.state_dict(),
        "optimizer": optimizer.state_dict(),
        "lr_scheduler": schedule.state_dict(),
        "epoch": 1,
        "args": options,
        "model_ema": average.state_dict(),
    },
    "torch_training.pth",
    "torch_legacy_training.pth",
)

# What else torch.load(weights_only=True) reads beside the weights, and tensors of types and kinds
# that Gossamer lacks.
torch.save(
    {
        "weights": {
            "w": torch.arange(3.0),
            "mask": torch.ones(2, dtype=torch.bool),
            "small": torch.ones(2, dtype=torch.int16),
            "sparse": torch.eye(2).to_sparse(),
            "deep": torch.zeros((1,) * 7),
        },
        "seed": 2**63,
        "large": -(2**70),
        "shape": torch.Size([3]),
        "type": torch.float16,
        "set": {1, 2},
        "losses": [0.5] * 100,
        "bytes": b"x" * 300,
        "complex": 1j,
        "random": torch.get_rng_state()[:8],
    },
    folder / "torch_beside.pth",
)
