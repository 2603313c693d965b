# GIF and BMP files of every kind that is read, and the pixels that Pillow 13 makes of them
# (convert("RGB")): gif_bmp.safetensors holds NAME.file and NAME.rgb.
#   python3 tests/golden/gif_bmp.py [tests/golden/gif_bmp.safetensors]
import io
import pathlib
import random
import struct
import sys

import numpy as np
import tensor_file
from PIL import Image

random.seed(39)
files = {}


def noise(n):
    return bytes(random.randrange(256) for _ in range(n))


def grays(n):
    return b"".join(bytes([i] * 3) for i in range(n))


# --- BMP

def bmp(name, bits, pixels, size, palette=b"", header=40, packed=0, colours=0, masks=(), top=False,
        begin=None):
    w, h = size
    dib = (struct.pack("<IHHHH", 12, w, h, 1, bits) if header == 12 else
           struct.pack("<IiiHHIIiiII", header, w, -h if top else h, 1, bits, packed, 0, 0, 0,
                       colours, 0))
    words = struct.pack(f"<{len(masks)}I", *masks)
    dib += (words + bytes(200))[:header - 40] if header > 40 else words
    at = 14 + len(dib) + len(palette) if begin is None else begin
    files[name] = b"BM" + struct.pack("<IHHI", 0, 0, 0, at) + dib + palette + pixels


def plain(name, bits, size=(13, 5), colours=0, pad=4, ramp=False, **more):
    held = (colours or 1 << bits) if bits <= 8 else 0
    entries = grays(held) if ramp else noise(3 * held)
    palette = b"".join(entries[3 * i:3 * i + 3] + bytes(pad - 3) for i in range(held))
    rows = noise((size[0] * bits + 31) // 32 * 4 * size[1])
    bmp(name, bits, rows, size, palette, colours=colours, **more)


for bits in (1, 4, 8, 16, 24, 32):
    plain(f"bmp{bits}", bits)
    plain(f"bmp{bits}-top", bits, top=True)
    plain(f"bmp{bits}-os2", bits, header=12, pad=3)
    plain(f"bmp{bits}-v5", bits, header=124)
plain("bmp8-few", 8, colours=40)
plain("bmp4-few", 4, colours=11)
plain("bmp8-gray", 8, ramp=True)
plain("bmp8-gray-few", 8, colours=100, ramp=True)
plain("bmp8-begin-0", 8, begin=0)
plain("bmp8-begin-in-palette", 8, begin=54)
for k, masks in enumerate(((0xFF0000, 0xFF00, 0xFF, 0), (0xFF000000, 0xFF0000, 0xFF00, 0),
                           (0xFF000000, 0xFF00, 0xFF, 0), (0xFF000000, 0xFF0000, 0xFF00, 0xFF),
                           (0xFF, 0xFF00, 0xFF0000, 0xFF000000),
                           (0xFF0000, 0xFF00, 0xFF, 0xFF000000),
                           (0xFF000000, 0xFF00, 0xFF, 0xFF0000), (0, 0, 0, 0))):
    plain(f"bmp32-masks{k}", 32, header=108, packed=3, masks=masks)
plain("bmp32-masks-behind", 32, packed=3, masks=(0xFF000000, 0xFF0000, 0xFF00))
plain("bmp16-565", 16, (40, 40), packed=3, masks=(0xF800, 0x7E0, 0x1F))
plain("bmp16-555", 16, (40, 40), packed=3, masks=(0x7C00, 0x3E0, 0x1F))
palette8, palette4 = (b"".join(noise(3) + b"\0" for _ in range(n)) for n in (256, 16))
bmp("bmp-rle8", 8, b"\5\1\3\2\0\0\0\5abcde\0\0\2\3\1\0\2\2\1\4\7\0\0" + b"\x63\x09\0\0" * 6, (8, 6),
    palette8, packed=1)
bmp("bmp-rle4", 4, b"\5\x12\3\x23\0\0\0\5\x12\x34\x50\0\2\x31\0\2\2\1\4\x76\0\0" +
    b"\x63\x19\0\0" * 6, (8, 6), palette4, packed=2, top=True)


# --- GIF

def lzw(pixels, bits):
    clear = 1 << bits
    width, held, count, out = bits + 1, 0, 0, bytearray()
    codes, free = {bytes([i]): i for i in range(clear)}, clear + 2

    def put(code):
        nonlocal held, count
        held |= code << count
        count += width
        while count >= 8:
            out.append(held & 255)
            held, count = held >> 8, count - 8

    put(clear)
    text = b""
    for pixel in pixels:
        longer = text + bytes([pixel])
        if longer in codes:
            text = longer
            continue
        put(codes[text])
        if free < 4096:
            codes[longer] = free
            width += free == 1 << width and width < 12
            free += 1
        text = bytes([pixel])
    put(codes[text])
    put(clear + 1)
    out.append(held & 255)
    return b"".join(bytes([len(out[i:i + 255])]) + out[i:i + 255] for i in range(0, len(out), 255))


def gif(name, screen=(17, 11), frame=None, bits=3, palette=None, own=None, transparent=None,
        interlaced=False, runs=1, tail=b"\0;"):
    x, y, w, h = frame or (0, 0, *screen)

    def table(colours):
        return 0x80 | (len(colours) // 3).bit_length() - 2 if colours else 0

    out = b"GIF89a" + struct.pack("<HHBBB", *screen, table(palette), 5, 0) + (palette or b"")
    out += b"!\xfe\3abc\0"
    if transparent is not None:
        out += b"!\xf9\4\1\0\0" + bytes([transparent]) + b"\0"
    out += b"," + struct.pack("<HHHHB", x, y, w, h, table(own) | 0x40 * interlaced) + (own or b"")
    pixels = [random.randrange(1 << bits) for _ in range(w * h // runs + 1) for _ in range(runs)]
    files[name] = out + bytes([bits]) + lzw(pixels[:w * h], bits) + tail


eight, four = noise(24), noise(12)
gif("gif", palette=eight)
gif("gif-interlaced", palette=eight, interlaced=True)
gif("gif-interlaced-3", (9, 3), palette=eight, interlaced=True)
gif("gif-transparent", palette=eight, transparent=2)
gif("gif-small-frame", (20, 15), (3, 4, 9, 7), palette=eight)
gif("gif-small-transparent-frame", (20, 15), (3, 4, 9, 7), palette=eight, transparent=6)
gif("gif-large-frame", (8, 8), (3, 4, 17, 11), palette=eight)
gif("gif-own-palette", palette=four, own=eight)
gif("gif-few-colours", palette=four)
gif("gif-no-palette", bits=8)
gif("gif-gray-ramp", palette=grays(4))
gif("gif-trailing", palette=eight, tail=b"\0;more bytes")
gif("gif-no-trailer", palette=eight, tail=b"\0")
gif("gif-no-terminator", palette=eight, tail=b"")
gif("gif-second-frame", palette=eight,
    tail=b"\0," + struct.pack("<HHHHB", 0, 0, 1, 1, 0) + b"\2\2D\1\0;")
gif("gif-full-table", (80, 70), palette=noise(768), bits=8)
gif("gif-runs", (80, 70), palette=eight, runs=400)

tensors = {}
for name, file in files.items():
    tensors[name + ".file"] = np.frombuffer(file, np.uint8)
    tensors[name + ".rgb"] = np.asarray(Image.open(io.BytesIO(file)).convert("RGB"))
tensor_file.write(
    pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "tests/golden/gif_bmp.safetensors"),
    tensors,
)
