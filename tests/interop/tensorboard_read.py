#!/usr/bin/env python3
"""What TensorBoard itself reads in the event file of a run.

    # PROGRAM: gossamer
    tensorboard_read.py PROGRAM

A small run is trained; every value of its log must be there under its tag, and the first images.
Exits with 77 (ctest: skipped) when TensorBoard is missing.
"""

import io
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import tensorboard
    from tensorboard.backend.event_processing import event_accumulator
except (ImportError, OSError) as missing:
    print(f"skipped: {missing} (wanted: tensorboard)")
    sys.exit(77)

try:
    from PIL import Image
except ImportError:
    Image = None

PROGRAM = pathlib.Path(sys.argv[1]).resolve()


def gossamer(folder, *arguments):
    subprocess.run([PROGRAM, *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL)


def close(what, ours, wanted):
    assert abs(ours - wanted) <= 1e-6 * max(1, abs(wanted)), (what, ours, wanted)


print(f"tensorboard {tensorboard.__version__}")
with tempfile.TemporaryDirectory() as directory:
    at = pathlib.Path(directory)
    gossamer(at, *"data make-shapes s --train 96 --val 40 --size 32".split())
    gossamer(
        at,
        *"train data.train=s/train data.val=s/val train.batch=8 train.epochs=2".split(),
        *"run.log_every=4 train.ema=0.5 eval.every=1 run.tensorboard=true run.name=t".split(),
    )
    events = [json.loads(line) for line in (at / "runs/t/log.jsonl").read_text().splitlines()]
    steps = [e for e in events if e["event"] == "step"]
    evaluations = [e for e in events if e["event"] == "eval"]
    assert steps and evaluations
    reader = event_accumulator.EventAccumulator(str(at / "runs/t"))
    reader.Reload()
    tags = reader.Tags()["scalars"]
    for tag in ("loss", "learning_rate", "images_per_s"):
        assert len(reader.Scalars(tag)) == len(steps), (tag, tags)
    for read, logged in zip(reader.Scalars("loss"), steps):
        close("loss", read.value, logged["loss"])
    for prefix in ("", "ema_"):
        wanted = [e for e in evaluations if e.get("ema", False) == bool(prefix)]
        assert len(wanted) == 2, evaluations  # on the way and at the end
        for tag, key in (("top1", "top1"), ("top5", "top5"), ("val_loss", "loss")):
            read = reader.Scalars(prefix + tag)
            assert len(read) == len(wanted), (prefix + tag, len(read), len(wanted))
            for ours, logged in zip(read, wanted):
                close(prefix + tag, ours.value, logged[key])
    images = reader.Tags()["images"]
    assert len(images) == 8 and images[0].startswith("first images/0 "), images
    for tag in images:
        (image,) = reader.Images(tag)
        assert (image.width, image.height, image.step) == (32, 32, 0), (tag, image)
        assert image.encoded_image_string.startswith(b"\xff\xd8"), tag  # JPEG
        if Image:
            picture = Image.open(io.BytesIO(image.encoded_image_string)).convert("RGB")
            assert picture.size == (32, 32) and len(picture.getcolors(1 << 24)) > 50, tag
    print(f"{len(images)} images{'' if Image else ', not decoded: there is no Pillow'}")
    print(f"{len(tags)} tags, {len(steps)} steps, {len(evaluations)} evaluations: equal to the log")
print("passed")
