#!/usr/bin/env python3
"""Model files between Gossamer and PyTorch, both ways, through the real safetensors package and
torchvision.

    safetensors_torch.py CHECKER      # the program built from checkpoint_interop.cpp

For each model: a file saved by Gossamer is loaded strictly by torchvision and computes the logits
Gossamer computed; files saved by the safetensors package and by torch.save (a state dict; a
checkpoint of a channels-last model in DataParallel) are loaded by Gossamer, which computes the
logits PyTorch computed; and the package, given the tensors and metadata of Gossamer's file, writes
the same bytes. Exits with 77 (ctest: skipped) and the reason when a package is missing.
"""

import copy
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "golden"))
try:
    import numpy as np
    import safetensors
    import safetensors.torch
    import torch
    import torchvision

    from formula import symmetric
except ImportError as missing:
    print(f"skipped: {missing} (wanted: numpy, torch, torchvision, safetensors)")
    sys.exit(77)

torch.set_num_threads(1)
CHECKER = sys.argv[1]
IMAGES = torch.from_numpy(symmetric("images", 2 * 3 * 64 * 64, 3**0.5).reshape(2, 3, 64, 64))


def gossamer(*words):
    return subprocess.run(
        [CHECKER, *map(str, words)], check=True, capture_output=True, text=True
    ).stdout


def close(name, ours, theirs):
    error = float((ours - theirs).norm() / theirs.norm())
    print(f"{name}: relative difference of logits {error:.1e}")
    assert error < 1e-4, name


def check(name, folder):
    model = getattr(torchvision.models, name)().eval()

    gossamer("save", name, folder / "ours", folder / "ours_logits")
    loaded = safetensors.torch.load_file(folder / "ours")
    model.load_state_dict(loaded, strict=True)
    with torch.no_grad():
        close(
            f"{name} Gossamer -> PyTorch",
            safetensors.torch.load_file(folder / "ours_logits")["logits"],
            model(IMAGES),
        )

    with safetensors.safe_open(folder / "ours", "pt") as file:
        metadata = file.metadata()
    safetensors.torch.save_file(loaded, folder / "again", metadata=metadata)
    same = (folder / "ours").read_bytes() == (folder / "again").read_bytes()
    print(f"{name}: the package writes the same bytes: {same}")
    # Its metadata is an unordered map, so only the order of those two entries may differ.
    assert same or sorted((folder / "ours").read_bytes()) == sorted((folder / "again").read_bytes())

    torch.manual_seed(5)
    other = getattr(torchvision.models, name)()
    other(IMAGES)  # running statistics off their start
    other.eval()
    safetensors.torch.save_file(
        {"module." + k: v for k, v in other.state_dict().items()},
        folder / "theirs",
        metadata={"format": "pt"},
    )
    torch.save(other.state_dict(), folder / "theirs.pth")
    wrapped = torch.nn.DataParallel(copy.deepcopy(other).to(memory_format=torch.channels_last))
    torch.save({"epoch": 3, "model": wrapped.state_dict()}, folder / "theirs.pt")
    with torch.no_grad():
        wanted = other(IMAGES)
    for file in ("theirs", "theirs.pth", "theirs.pt"):
        gossamer("load", name, folder / file, folder / "theirs_logits")
        ours = safetensors.torch.load_file(folder / "theirs_logits")["logits"]
        close(f"{name} PyTorch -> Gossamer ({file})", ours, wanted)


with tempfile.TemporaryDirectory() as directory:
    print(
        f"safetensors {safetensors.__version__}, torch {torch.__version__}, "
        f"torchvision {torchvision.__version__}"
    )
    for model_name in ("resnet18", "resnet50"):
        check(model_name, pathlib.Path(directory))
print("passed")
