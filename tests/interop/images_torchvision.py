#!/usr/bin/env python3
"""Pictures and crops against Pillow and torchvision themselves.

    # CHECKER: the program built from image_interop.cpp
    images_torchvision.py CHECKER [PHOTOS.tar]

Evaluation (shorter side 256, centre 224) of all photos and of made files of every kind: not one
byte may differ. 100,000 random crops, and fewer of square and thin pictures: left edge, top edge,
width and height must be distributed as torchvision's (chi-square of two samples). Exits with 77
(ctest: skipped) when a package is missing.
"""

import os
import struct
import subprocess
import sys
import tarfile
import tempfile
import zlib

try:
    import numpy as np
    import torch
    from PIL import Image
    from torchvision import transforms as T
except ImportError as missing:
    print(f"skipped: {missing} (wanted: numpy, torch, torchvision, Pillow)")
    sys.exit(77)

torch.set_num_threads(1)
CHECKER = sys.argv[1]
CHAIN = T.Compose([T.Resize(256), T.CenterCrop(224)])


def ours(*arguments):
    return subprocess.run(
        [CHECKER, *map(str, arguments)], stdout=subprocess.PIPE, check=True
    ).stdout


def made(folder):
    """Files of the kinds that data sets hold by mistake."""
    y, x = np.mgrid[0:300, 0:410]
    picture = Image.fromarray(
        np.stack([(x * 255 // 409), (y * 255 // 299), ((x // 7 + y // 5) * 9) % 256], -1).astype(
            np.uint8
        )
    )
    for name, image, options in [
        ("cmyk.jpg", picture.convert("CMYK"), {"quality": 92}),
        ("gray.jpg", picture.convert("L"), {}),
        ("progressive.jpg", picture, {"progressive": True}),
        ("444.jpg", picture, {"subsampling": 0}),
        ("422.jpg", picture, {"subsampling": 1}),
        ("420.jpg", picture, {"subsampling": 2, "quality": 30}),
        ("png.JPEG", picture, {"format": "PNG"}),
        ("jpeg.png", picture, {"format": "JPEG"}),
        ("palette.png", picture.convert("P"), {}),
        ("alpha.png", picture.convert("RGBA"), {}),
        ("bits.png", picture.convert("1"), {}),
        ("gray.png", picture.convert("L"), {}),
        ("a.bmp", picture, {}),
        ("sliver.jpg", picture.crop((0, 0, 300, 33)).resize((500, 33)), {}),
        ("tiny.jpg", picture.resize((9, 7)), {}),
    ]:
        image.save(f"{folder}/{name}", **options)
        yield f"{folder}/{name}"
    deep = np.stack(
        [
            (x * 65535 // 409),
            (y * 65535 // 299),
            (x * y * 7 + 129) % 65536,
            65535 - (x * 97) % 65536,
        ],
        -1,
    )
    ramp = ((x * 255 // 409), (y * 255 // 299))
    for name, depth, colours, values, chunks in [
        ("rgb16.png", 16, 2, deep[..., :3], []),
        ("rgba16.png", 16, 6, deep, []),
        ("gray-alpha16.png", 16, 4, deep[..., 1:3], []),
        ("gray-alpha8.png", 8, 4, np.stack(ramp, -1), []),
        ("gray-trns.png", 8, 0, ramp[0], [(b"tRNS", b"\0\x40")]),
        ("rgb-trns.png", 8, 2, np.asarray(picture), [(b"tRNS", b"\0\1\0\2\0\3")]),
        (
            "palette-trns.png",
            8,
            3,
            ramp[0],
            [(b"PLTE", bytes(i * 37 % 256 for i in range(768))), (b"tRNS", bytes(range(256)))],
        ),
    ]:
        with open(f"{folder}/{name}", "wb") as file:
            file.write(png(depth, colours, values, chunks))
        yield f"{folder}/{name}"
    turned = Image.Exif()
    turned[0x0112] = 6  # orientation: never applied
    picture.save(f"{folder}/exif.jpg", exif=turned)
    yield f"{folder}/exif.jpg"


def png(depth, colours, values, chunks):
    """A PNG of samples as they are: Pillow writes no 16-bit colours."""

    def chunk(kind, data):
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    height, width = values.shape[:2]
    lines = values.astype(">u2" if depth == 16 else np.uint8).reshape(height, -1)
    data = zlib.compress(b"".join(b"\0" + line.tobytes() for line in lines))
    header = struct.pack(">IIBBBBB", width, height, depth, colours, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        chunk(*c) for c in [(b"IHDR", header), *chunks, (b"IDAT", data), (b"IEND", b"")]
    )


def compare(paths):
    for begin in range(0, len(paths), 50):
        some = paths[begin : begin + 50]
        pixels = np.frombuffer(ours("eval", 256, 224, *some), np.uint8).reshape(
            len(some), 224, 224, 3
        )
        for path, image in zip(some, pixels):
            wanted = np.asarray(CHAIN(Image.open(path).convert("RGB")), np.int16)
            difference = np.abs(image.astype(np.int16) - wanted)
            assert (
                difference.max() == 0
            ), f"{path}: {np.count_nonzero(difference)} bytes differ, by up to {difference.max()}"
    print(f"{len(paths)} pictures without one different byte")


def sixteen_bits(folder):
    """Pillow clips 16-bit gray at 255; the right answer is known."""
    values = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    Image.fromarray(values).save(f"{folder}/16.png")
    pixels = np.frombuffer(ours("eval", 256, 256, f"{folder}/16.png"), np.uint8).reshape(
        256, 256, 3
    )
    assert np.abs(pixels - (values / 257.0)[..., None]).max() <= 0.5001, "16-bit gray"


def chi_square(a, b, name):
    """Two samples of the same size: values in about 40 bins of equal count; asserts that the
    statistic is within 5 deviations of its mean."""
    edges = np.unique(np.quantile(np.concatenate([a, b]), np.linspace(0, 1, 41)))
    if len(edges) < 3:
        return
    edges[-1] += 1
    counts = [np.histogram(s, edges)[0].astype(float) for s in (a, b)]
    used = counts[0] + counts[1] > 0
    statistic = ((counts[0] - counts[1])[used] ** 2 / (counts[0] + counts[1])[used]).sum()
    freedom = used.sum() - 1
    assert (
        statistic < freedom + 5 * (2 * freedom) ** 0.5 + 3
    ), f"{name}: chi-square {statistic:.1f} with {freedom} degrees of freedom"
    print(f"  {name}: chi-square {statistic:.1f}, {freedom} degrees of freedom")


def crops(width, height, count=100_000):
    torch.manual_seed(1)
    image = torch.empty(3, height, width)
    theirs = np.array(
        [T.RandomResizedCrop.get_params(image, (0.08, 1.0), (3 / 4, 4 / 3)) for _ in range(count)]
    )  # top, left, height, width
    mine = np.frombuffer(ours("crops", width, height, count), np.int32).reshape(count, 4)
    print(f"{count} crops of {width} x {height}")
    for name, a, b in (("left", 0, 1), ("top", 1, 0), ("width", 2, 3), ("height", 3, 2)):
        chi_square(mine[:, a], theirs[:, b], name)


with tempfile.TemporaryDirectory() as temporary:
    os.makedirs(f"{temporary}/made")
    compare(sorted(set(made(f"{temporary}/made"))))
    sixteen_bits(temporary)
    if len(sys.argv) > 2 and os.path.exists(sys.argv[2]):
        with tarfile.open(sys.argv[2]) as tar:
            members = [
                m for m in tar if m.isfile() and not m.name.startswith("/") and ".." not in m.name
            ]
            for member in members:
                tar.extract(member, temporary)
        compare([f"{temporary}/{m.name}" for m in members])
    crops(500, 375)
    crops(64, 64, 20_000)
    crops(500, 33, 20_000)
