#!/usr/bin/env python3
"""PyTorch's training step of ResNet-50 on the same GPU, for comparison with ours: bf16 autocast,
eager in both layouts, or compiled.

    torch_step.py [--batch 256] [--seconds 8] [--compile]

Prints a JSON object for each way: eager and channels_last; with --compile only compile (channels
last). Needs torch and torchvision; without them it says so and ends with 77.
"""
import argparse
import json
import statistics
import sys

parser = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--batch", type=int, default=256)
parser.add_argument("--seconds", type=float, default=8)
parser.add_argument("--compile", action="store_true")
options = parser.parse_args()
try:
    import torch
    import torchvision
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)
if not torch.cuda.is_available():
    print("skipped: PyTorch finds no GPU")
    sys.exit(77)

torch.backends.cudnn.benchmark = True


def measure(mode, layout):
    model = torchvision.models.resnet50().cuda().to(memory_format=layout).train()
    network = torch.compile(model) if mode == "compile" else model
    images = torch.randn(options.batch, 3, 224, 224, device="cuda").to(memory_format=layout)
    labels = torch.randint(0, 1000, (options.batch,), device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4,
                                fused=True)
    loss_of = torch.nn.CrossEntropyLoss(label_smoothing=0.1)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = loss_of(network(images), labels)
        loss.backward()
        optimizer.step()

    def milliseconds(steps):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(steps):
            step()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / steps

    torch.cuda.reset_peak_memory_stats()
    for _ in range(10):
        step()
    milliseconds(3)
    samples, spent = [], 0.0
    while spent < options.seconds * 1e3 or len(samples) < 5:
        samples.append(milliseconds(5))
        spent += 5 * samples[-1]
    middle = statistics.median(samples)
    print(json.dumps({
        "engine": "pytorch", "version": torch.__version__, "mode": mode, "batch": options.batch,
        "dtype": "bf16", "ms_median": round(middle, 3),
        "images_per_s": round(1e3 * options.batch / middle, 1),
        "peak_bytes": torch.cuda.max_memory_allocated()}), flush=True)


if options.compile:
    measure("compile", torch.channels_last)
else:
    measure("channels_last", torch.channels_last)
    measure("eager", torch.contiguous_format)
