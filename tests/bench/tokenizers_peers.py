#!/usr/bin/env python3
"""How fast text becomes ids: ours beside Hugging Face's tokenizers and OpenAI's tiktoken.

    tokenizers_peers.py GOSSAMER LIBGOSSAMER.so TEXT [SPLIT] [SECONDS]

GOSSAMER makes a vocabulary of 8,192 byte pairs of TEXT, cut as SPLIT has it (gpt2), which all three
read. The text, in parts of whole lines of 64 KB, is encoded by each in turn, on one thread, until
SECONDS (20) are over. What counts is the time of the processor, since the machine may be shared; a
first round, which shows that the ids are the same, does not count. Ours is called through the C
API.
"""

import ctypes
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
try:
    import tiktoken
    import tokenizers
except ImportError as missing:
    sys.exit(f"wanted: tokenizers, tiktoken ({missing})")

PROGRAM, LIBRARY, TEXT = sys.argv[1:4]
SPLIT = sys.argv[4] if len(sys.argv) > 4 else "gpt2"
SECONDS = float(sys.argv[5]) if len(sys.argv) > 5 else 20
PART = 1 << 16


def cpu():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(": ", 1)[1]
    return "an unknown CPU"


def parts_of(text):
    out, begin = [], 0
    while begin < len(text):
        end = text.find("\n", begin + PART) + 1 or len(text)
        out.append(text[begin:end])
        begin = end
    return out


def ours(folder):
    gsm = ctypes.CDLL(LIBRARY)
    gsm.gsm_last_error.restype = ctypes.c_char_p
    tokenizer = ctypes.c_void_p()
    if gsm.gsm_tokenizer_open(str(folder).encode(), ctypes.byref(tokenizer)) != 0:
        sys.exit(gsm.gsm_last_error().decode())
    room = (ctypes.c_int32 * (4 * PART))()
    count = ctypes.c_int64()

    def encode(text):
        data = text.encode()
        count.value = len(room)
        if gsm.gsm_tokenizer_encode(tokenizer, data, ctypes.c_size_t(len(data)), 0, room,
                                    ctypes.byref(count)) != 0:
            sys.exit(gsm.gsm_last_error().decode())
        return room, count.value

    return encode, lambda made: made[0][:made[1]]


def peers(folder):
    """The same vocabulary for both: of GPT-2's two files, or of a tokenizer.json."""
    if (folder / "tokenizer.json").exists():
        whole = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        file = json.loads((folder / "tokenizer.json").read_text())
        vocabulary = file["model"]["vocab"]
        pattern = file["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"]
    else:
        whole = tokenizers.ByteLevelBPETokenizer(str(folder / "vocab.json"),
                                                 str(folder / "merges.txt"))
        vocabulary = json.loads((folder / "vocab.json").read_text())
        pattern = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    names = [*range(33, 127), *range(161, 173), *range(174, 256)]
    byte_of = {chr(b): b for b in names}
    byte_of |= {chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in names)}
    ranks = {bytes(byte_of[c] for c in token): i for token, i in vocabulary.items()
             if not token.startswith("<|")}
    fast = tiktoken.Encoding("peer", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    return {"tokenizers": (lambda text: whole.encode(text, add_special_tokens=False),
                           lambda made: made.ids),
            "tiktoken": (fast.encode_ordinary, lambda made: made)}


def main():
    text = pathlib.Path(TEXT).read_text()
    parts = parts_of(text)
    size = len(text.encode())
    with tempfile.TemporaryDirectory() as at:
        folder = pathlib.Path(at) / "ids"
        subprocess.run([PROGRAM, "data", "tokenize", TEXT, "--tokenizer", "bpe:8192", "--split",
                        SPLIT, "--out", folder], check=True, stdout=subprocess.DEVNULL)
        encoders = {"gossamer": ours(folder)} | peers(folder)
        for part in parts:
            lists = [list(ids(encode(part))) for encode, ids in encoders.values()]
            assert lists[0] == lists[1] == lists[2], "the ids differ"
        times = {name: [] for name in encoders}
        end = time.monotonic() + SECONDS
        while time.monotonic() < end or len(times["gossamer"]) < 3:
            for name, (encode, _) in encoders.items():
                began = time.process_time()
                for part in parts:
                    encode(part)
                times[name].append(time.process_time() - began)
    print(f"{cpu()}, one thread, {size / 1e6:.1f} MB of {pathlib.Path(TEXT).name}, bpe:8192, split "
          f"{SPLIT}, {len(times['gossamer'])} rounds")
    print(f"tokenizers {tokenizers.__version__}, tiktoken {tiktoken.__version__}")
    first = statistics.median(times["gossamer"])
    for name, each in times.items():
        middle = statistics.median(each)
        print(f"{name:10}  {size / middle / 1e9:.4f} GB/s   {middle / first:.2f} times as long")


main()
