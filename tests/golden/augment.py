"""Writes augment.safetensors beside itself: what torchvision's PIL backend makes of small pictures,
for tests/data_augment_golden_test.cpp.

    /usr/bin/python3 augment.py          # Debian 12: python3-torchvision 0.14, python3-pil 9.4

"PICTURE/OPERATION/VALUE[/bilinear]": u8 [height, width, 3], the operation of functional.py on that
picture. "rand_augment/OPERATION" and "trivial_augment/OPERATION": f32 [31], the magnitudes of the
two policies, for pictures of 37 x 53 pixels. "crop_boxes/WIDTHxHEIGHT": i32, of 100,000 boxes of
RandomResizedCrop how many have that area, aspect and place. The pictures are a formula.
"""

import math
import pathlib

import numpy as np
import PIL
import tensor_file
import torch
import torchvision
from PIL import Image
from torchvision.transforms import InterpolationMode, RandomResizedCrop
from torchvision.transforms import functional as F
from torchvision.transforms.autoaugment import RandAugment, TrivialAugmentWide, _apply_op


def pattern(width, height):
    """tests/data/helpers.h's picture."""
    y, x, c = np.meshgrid(
        np.arange(height, dtype=np.uint64),
        np.arange(width, dtype=np.uint64),
        np.arange(3, dtype=np.uint64),
        indexing="ij",
    )
    low = (1 << 32) - 1
    mixed = ((x * 2654435761 + y * 40503 + c * 97) & low) >> np.uint64(7)
    return (x * 7 + y * 13 + c * 31 + (x * y) // np.uint64(5) + mixed % np.uint64(41)).astype(
        np.uint8
    )


pictures = {
    "wide": pattern(23, 17),
    "soft": pattern(17, 23) // 3 + np.uint8(60),
    "square": pattern(16, 16),
    "thin": pattern(1, 9),
    "flat": np.full((6, 5, 3), 77, np.uint8),
}
NAMES = {
    "ShearX": "shear_x",
    "ShearY": "shear_y",
    "TranslateX": "translate_x",
    "TranslateY": "translate_y",
    "Rotate": "rotate",
    "Brightness": "brightness",
    "Color": "colour",
    "Contrast": "contrast",
    "Sharpness": "sharpness",
    "Posterize": "posterize",
    "Solarize": "solarize",
    "AutoContrast": "autocontrast",
    "Equalize": "equalize",
}
VALUES = {
    "ShearX": (0.09, -0.3, 0.99),
    "ShearY": (0.09, -0.3, 0.99),
    "TranslateX": (4.6, -3.2, 32.0),
    "TranslateY": (4.6, -3.2, 32.0),
    "Rotate": (9.0, -30.0, 135.0, 90.0, -90.0, 180.0),
    "Brightness": (0.27, -0.9),
    "Color": (0.27, -0.9),
    "Contrast": (0.27, -0.9),
    "Sharpness": (0.27, -0.9),
    "Posterize": (7, 4, 2),
    "Solarize": (178.5, 255.0, 0.0, 8.5),
    "AutoContrast": (0,),
    "Equalize": (0,),
}
WARPS = ("ShearX", "ShearY", "Rotate")

out = {}
for picture, pixels in pictures.items():
    image = Image.fromarray(pixels)
    for op, values in VALUES.items():
        for value in values if picture in ("wide", "square") else values[:1]:
            for mode in (
                (InterpolationMode.NEAREST, InterpolationMode.BILINEAR)
                if op in WARPS
                else (InterpolationMode.NEAREST,)
            ):
                suffix = "/bilinear" if mode == InterpolationMode.BILINEAR else ""
                out[f"{picture}/{NAMES[op]}/{value}{suffix}"] = np.asarray(
                    _apply_op(image, op, value, mode, None)
                )
    for shift in (0.1, -0.07, 0.5) if picture in ("wide", "square") else (0.1,):
        out[f"{picture}/hue/{shift}"] = np.asarray(F.adjust_hue(image, shift))
    out[f"{picture}/invert/0"] = np.asarray(F.invert(image))

for policy, space in (
    ("rand_augment", RandAugment()._augmentation_space(31, (37, 53))),
    ("trivial_augment", TrivialAugmentWide()._augmentation_space(31)),
):
    for op, (magnitudes, _) in space.items():
        if magnitudes.ndim:
            out[f"{policy}/{NAMES[op]}"] = magnitudes.numpy().astype(np.float32)

torch.manual_seed(1)
for width, height in ((500, 375), (333, 500), (40, 200)):
    image, counts = Image.new("RGB", (width, height)), np.zeros((8, 4, 3, 3), np.int32)

    def bin_of(value, bins):
        return min(max(int(value * bins), 0), bins - 1)

    for _ in range(100_000):
        y, x, h, w = RandomResizedCrop.get_params(image, (0.08, 1.0), (3 / 4, 4 / 3))
        across, down = x / (width - w + 1) if width > w else 0, (
            y / (height - h + 1) if height > h else 0
        )
        counts[
            bin_of(w * h / (width * height), 8),
            bin_of((math.log(w / h) / math.log(4 / 3) + 1) / 2, 4),
            bin_of(across, 3),
            bin_of(down, 3),
        ] += 1
    out[f"crop_boxes/{width}x{height}"] = counts.reshape(-1)

tensor_file.write(
    pathlib.Path(__file__).with_name("augment.safetensors"),
    out,
    torchvision=torchvision.__version__,
    pillow=PIL.__version__,
)
