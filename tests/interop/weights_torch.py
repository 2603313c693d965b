#!/usr/bin/env python3
"""Weights from and for others, with torch, torchvision and onnxruntime as clients.

    weights_torch.py GOSSAMER CHECKER PHOTOS.tar

GOSSAMER is the program, CHECKER the one built from checkpoint_interop.cpp.

In: a ResNet-18 that torch saved, as .pth and as safetensors, gives torch's probabilities and its
accuracy on a folder of photos in ten classes; training of the head alone starts from it and leaves
the other tensors as they are, bit for bit. Out: every model as ONNX gives in onnxruntime the logits
that Gossamer computes; torch.load(weights_only=True) and torchvision read what is exported for
them.

Exits with 77 (ctest: skipped) and the reason when a package or the photos are missing.
"""

import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "golden"))
try:
    import numpy as np
    import onnx
    import onnxruntime
    import safetensors.torch
    import torch
    import torchvision
    from PIL import Image

    from formula import symmetric
except ImportError as missing:
    print(
        f"skipped: {missing} (wanted: numpy, torch, torchvision, safetensors, onnx, onnxruntime)"
    )
    sys.exit(77)

GOSSAMER, CHECKER, PHOTOS = sys.argv[1:]
if not pathlib.Path(PHOTOS).exists():
    print(f"skipped: {PHOTOS} is not there")
    sys.exit(77)
torch.set_num_threads(1)
SIZE, RESIZE, CLASSES = 112, 128, 10
KEYS = [f"data.eval_size={SIZE}", f"data.resize={RESIZE}"]
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def gossamer(*words):
    done = subprocess.run([GOSSAMER, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def close(name, ours, theirs, most=1e-4):
    error = float(np.linalg.norm(ours - theirs) / np.linalg.norm(theirs))
    print(f"{name}: relative difference {error:.1e}")
    assert error < most, name


def photos_in_ten_classes(folder):
    """Classes by colour: photos in the order of red minus blue. Every fourth one validates."""
    files = []
    with tarfile.open(PHOTOS) as tar:
        tar.extractall(folder / "photos", filter="data")
    for file in sorted((folder / "photos").rglob("*.JPEG")):
        red, _, blue = np.asarray(Image.open(file).convert("RGB").resize((32, 32))).mean((0, 1))
        files.append((red - blue, file))
    files.sort()
    for i, (_, file) in enumerate(files):
        part = "val" if i % 4 == 0 else "train"
        to = folder / "ten" / part / f"c{i * CLASSES // len(files)}"
        to.mkdir(parents=True, exist_ok=True)
        file.rename(to / file.name)
    return folder / "ten"


def tensors_of(folder):
    prepare = torchvision.transforms.Compose(
        [
            torchvision.transforms.Resize(RESIZE),
            torchvision.transforms.CenterCrop(SIZE),
            torchvision.transforms.ToTensor(),
            torchvision.transforms.Normalize(MEAN, STD),
        ]
    )
    files = sorted(folder.rglob("*.JPEG"))
    x = torch.stack([prepare(Image.open(f).convert("RGB")) for f in files])
    return files, x, torch.tensor([int(f.parent.name[1:]) for f in files])


@torch.no_grad()
def in_batches(model, x):
    return torch.cat([model(part) for part in x.split(50)])


@torch.no_grad()
def model_of(x, labels):
    """A ResNet-18 of random convolutions, with statistics of the photos and a fitted head."""
    torch.manual_seed(5)
    model = torchvision.models.resnet18(num_classes=CLASSES)
    model.train()
    for part in x[torch.randperm(len(x))].split(50):
        model(part)
    model.eval()
    head, model.fc = model.fc, torch.nn.Identity()
    features = in_batches(model, x)
    features = torch.cat([features, torch.ones(len(x), 1)], 1)
    wanted = torch.nn.functional.one_hot(labels, CLASSES).float()
    ridge = features.T @ features + 10 * torch.eye(features.shape[1])
    fit = torch.linalg.solve(ridge, features.T @ wanted)
    head.weight.copy_(8 * fit[:-1].T)
    head.bias.copy_(8 * fit[-1])
    model.fc = head
    return model


def weights_in(folder):
    ten = photos_in_ten_classes(folder)
    model = model_of(*tensors_of(ten / "train")[1:])
    files, x, labels = tensors_of(ten / "val")
    logits = in_batches(model, x)
    top1 = int((logits.argmax(1) == labels).sum()) / len(labels)
    torch.save(model.state_dict(), folder / "resnet18.pth")
    safetensors.torch.save_file(model.state_dict(), folder / "resnet18.safetensors")
    names = folder / "names.txt"
    names.write_text("".join(f"c{i}\n" for i in range(CLASSES)))
    for file in ("resnet18.pth", "resnet18.safetensors"):
        ours = json.loads(gossamer("eval", folder / file, f"data.val={ten}/val", *KEYS, "--json"))
        print(f"{file}: top-1 {ours['top1']:.4f} on {ours['images']} photos, torch {top1:.4f}")
        assert abs(ours["top1"] - top1) < 1e-9, file
        assert ours["model"] == "resnet18"
        some = files[:: len(files) // 8]
        out = gossamer(
            *("classify", folder / file, *some, "--json", "--top", CLASSES, "--classes", names),
            *("--size", SIZE, "--resize", RESIZE),
        )
        rows = [json.loads(line)["top"] for line in out.splitlines()]
        ours = np.array(
            [[p["probability"] for p in sorted(row, key=lambda p: p["class"])] for row in rows]
        )
        wanted = logits.softmax(1).numpy()[:: len(files) // 8]
        close(f"{file}: probabilities of {len(some)} photos", ours, wanted)

    gossamer(
        *("train", f"data.train={ten}/train", f"data.val={ten}/val", "train.epochs=2"),
        *(f"model.init={folder}/resnet18.pth", "model.freeze=all but fc", "train.batch=16"),
        *(f"data.size={SIZE}", f"run.dir={folder}/runs", "run.name=head", "run.report=false"),
        *("optim.learning_rate=0.01", "train.threads=1", "--workers", "2", *KEYS),
    )
    tuned = safetensors.torch.load_file(folder / "runs/head/model.safetensors")
    for name, tensor in model.state_dict().items():
        same = torch.equal(tuned[name], tensor)
        assert same != name.startswith("fc."), name
    summary = json.loads((folder / "runs/head/summary.json").read_text())
    print(f"head trained by two workers: top-1 {summary['top1']:.4f}; the rest has the same bits")
    return model, logits, x, folder / "runs/head/model.safetensors"


def weights_out(folder, model, logits, x):
    source = folder / "resnet18.pth"
    gossamer("export", source, "--to", "torch", "--out", folder / "out.pth")
    gossamer("export", source, "--to", "safetensors", "--out", folder / "out.safetensors")
    for state in (
        torch.load(folder / "out.pth", weights_only=True),
        safetensors.torch.load_file(folder / "out.safetensors"),
    ):
        other = torchvision.models.resnet18(num_classes=CLASSES).eval()
        other.load_state_dict(state, strict=True)
        for name, tensor in model.state_dict().items():
            assert torch.equal(state[name], tensor), name
    print("torch.load(weights_only=True) and torchvision read what was exported")

    pixels = (x[:8] * torch.tensor(STD)[:, None, None] + torch.tensor(MEAN)[:, None, None]) * 255
    pixels = pixels.round().clamp(0, 255).to(torch.uint8).numpy()
    wanted = logits[:8].numpy()
    for kind, images in (
        ("normalized", x[:8].numpy()),
        ("unit", pixels.astype(np.float32) / 255),
        ("bytes", pixels),
    ):
        gossamer(
            *("export", source, "--to", "onnx", "--out", folder / "m.onnx", "--input", kind),
            *("--size", SIZE, "--resize", RESIZE),
        )
        close(f"ONNX, input {kind}", run_onnx(folder / "m.onnx", images), wanted)


def run_onnx(path, images):
    onnx.checker.check_model(str(path), full_check=True)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    meta = session.get_modelmeta().custom_metadata_map
    assert {"model", "classes", "image_size", "mean", "std"} <= set(meta), meta
    return session.run(["logits"], {"images": images})[0]


def every_model_as_onnx(folder):
    images = symmetric("images", 2 * 3 * 64 * 64, 3**0.5).reshape(2, 3, 64, 64)
    findings = json.loads(gossamer("doctor", "--json"))["findings"]
    names = next(f["text"] for f in findings if f["subject"] == "models").split(", ")
    assert len(names) >= 10, names
    for name in names:
        file = folder / "m.safetensors"
        subprocess.run([CHECKER, "save", name, file, folder / "logits"], check=True)
        wanted = safetensors.torch.load_file(folder / "logits")["logits"].numpy()
        plain = safetensors.torch.load_file(file)
        safetensors.torch.save_file(plain, folder / "plain.safetensors")  # without our header
        for extra in ([], ["--keep-batch-norm"]):
            gossamer(
                *("export", folder / "plain.safetensors", "--to", "onnx", "--size", 64),
                *("--resize", 64, "--out", folder / "m.onnx", *extra),
            )
            ours = run_onnx(folder / "m.onnx", images.astype(np.float32))
            close(f"{name} as ONNX {' '.join(extra)}", ours, wanted)


with tempfile.TemporaryDirectory() as directory:
    at = pathlib.Path(directory)
    print(
        f"torch {torch.__version__}, torchvision {torchvision.__version__}, "
        f"onnxruntime {onnxruntime.__version__}"
    )
    trained, wanted_logits, pictures, _ = weights_in(at)
    weights_out(at, trained, wanted_logits, pictures)
    every_model_as_onnx(at)
print("passed")
