#!/usr/bin/env python3
"""Resizing at random sizes against Pillow and torchvision themselves.

    # CHECKER: the program built from image_interop.cpp
    sizes_torchvision.py CHECKER [COUNT]

COUNT random sizes (10,000) of random pixels, with every kind of vector instructions that CHECKER
was compiled for: evaluation as torchvision does it (shorter side, centre crop), crops that become
squares, and any size to any other. Not one byte may differ. Exits with 77 (ctest: skipped) when a
package is missing, or if Pillow is older than 13, which does the passes in another order if a
picture becomes much lower.
"""

import random
import subprocess
import sys
import time

try:
    import numpy as np
    import PIL
    from PIL import Image
    from torchvision import transforms as T
except (ImportError, OSError) as missing:
    print(f"skipped: {missing} (wanted: numpy, torch, torchvision, Pillow)")
    sys.exit(77)
if int(PIL.__version__.split(".")[0]) < 13:
    print(f"skipped: Pillow {PIL.__version__} (wanted: 13 or later)")
    sys.exit(77)

CHECKER = sys.argv[1]
COUNT = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
KINDS = int(subprocess.run([CHECKER, "passes"], stdout=subprocess.PIPE, check=True).stdout)
AT_ONCE = 50
draw = random.Random(685)


def side(least, most):
    """As many small as large ones."""
    return round(least * (most / least) ** draw.random())


def cases():
    """(width, height, a, b, centre), as in image_interop.cpp. 1.25 and 1.5 have many ties."""
    yield 320, 685, 256, 224, 1
    yield 685, 320, 256, 224, 1
    for i in range(COUNT - 2):
        kind = i % 8
        if kind == 0:
            yield side(30, 900), side(30, 900), 256, 224, 1
        elif kind < 4:
            resize = side(4, 100)
            yield side(1, 500), side(1, 500), resize, draw.randint(1, resize), 1
        elif kind == 4:
            a = side(8, 96)
            yield side(2, 300), side(2, 300), a, a, 0
        elif kind == 5:
            a, b = side(4, 80), side(4, 120)
            yield a * 5 // 4, b * 5 // 4, a, b, 0
        else:
            yield side(1, 400), side(1, 400), side(1, 100), side(1, 100), 0


def wanted(pixels, a, b, centre):
    picture = Image.fromarray(pixels)
    if centre:
        return T.CenterCrop(b)(T.Resize(a)(picture))
    return picture.resize((a, b), Image.Resampling.BILINEAR)


def main():
    begin, done, generator = time.time(), 0, np.random.default_rng(1)
    all_cases = list(cases())
    for first in range(0, len(all_cases), AT_ONCE):
        some = all_cases[first : first + AT_ONCE]
        pictures = []
        for i, (width, height, *_) in enumerate(some):
            pixels = generator.integers(0, 256, (height, width, 3), np.uint8)
            # where rounding could go over, and pictures with exact ties
            pictures.append(pixels if i % 4 else (pixels >> 7) * np.uint8(255))
        given = b"".join(
            np.array(case, np.int32).tobytes() + pixels.tobytes()
            for case, pixels in zip(some, pictures)
        )
        out = subprocess.run([CHECKER, "sizes"], input=given, stdout=subprocess.PIPE, check=True)
        at = 0
        for case, pixels in zip(some, pictures):
            right = np.asarray(wanted(pixels, *case[2:]))
            for kind in range(KINDS):
                ours = np.frombuffer(out.stdout, np.uint8, right.size, at).reshape(right.shape)
                at += right.size
                wrong = np.count_nonzero(ours != right)
                assert wrong == 0, f"{case}: {wrong} of {right.size} bytes differ (kind {kind})"
            done += 1
        assert at == len(out.stdout)
    print(
        f"{done} sizes with {KINDS} kinds of instructions without one different byte "
        f"(Pillow {PIL.__version__}, {time.time() - begin:.0f} s)"
    )


main()
