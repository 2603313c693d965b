#!/usr/bin/env python3
"""Random strings, with Hugging Face's tokenizers and with tiktoken as they are installed.

    tokenizers_live.py TOKENIZER_INTEROP [STRINGS]

TOKENIZER_INTEROP is the program built from tokenizer_interop.cpp. Every tokenizer.json of
tests/golden/tokenizers gives the library's ids for STRINGS (3,000) strings of pieces that are hard
to split and of random code points; so does ranks.tiktoken by tiktoken.

Exits with 77 (ctest: skipped) and the reason when a package is missing.
"""
import base64
import json
import pathlib
import random
import subprocess
import sys

try:
    import tiktoken
    from tokenizers import Tokenizer
except ImportError as missing:
    print(f"skipped: {missing} (wanted: tokenizers, tiktoken)")
    sys.exit(77)

FOLDER = pathlib.Path(__file__).parent.parent / "golden" / "tokenizers"
PIECES = [" ", "  ", "\n", "\r\n", "\t", "a", "the", "The", "'s", "'LL", "1", "12", "\u0660", "!",
          "...", "\u00e9", "e\u0301", "\u65e5\u672c", "\U0001f600", "\u180e", "\u2028", "\u00a0",
          "<s>", "</s>", "<unk>", "<|endoftext|>", "<|im_start|>", "\u2581", "<0x41>", "king",
          "kings", "<mask>", "\ufb01n", "fin", "\u01c5", "\u02b0", "\u0345", "/", "\u212b", "\x00"]


def draw(rng):
    out = ""
    for _ in range(rng.randrange(1, 25)):
        if rng.random() < 0.8:
            out += rng.choice(PIECES)
            continue
        point = rng.choice((rng.randrange(0x250), rng.randrange(0x3000), rng.randrange(0x110000)))
        out += "" if 0xD800 <= point < 0xE000 else chr(point)
    return out


def ours(program, path, strings, *split):
    texts = "".join(json.dumps(s) + "\n" for s in strings)
    made = subprocess.run([program, path, *split], input=texts, capture_output=True, text=True,
                          check=True)
    return [json.loads(line) for line in made.stdout.splitlines()]


def report(name, strings, pairs):
    wrong = [(s, a, b) for s, (a, b) in zip(strings, pairs) if a != b]
    print(f"{name}: {len(strings)} strings, {len(wrong)} differ")
    for each in wrong[:3]:
        print("  ", ascii(each))
    return len(wrong)


def main(program, count):
    rng = random.Random(7)
    strings = [draw(rng) for _ in range(count)]
    wrong = 0
    for path in sorted(FOLDER.glob("*/tokenizer.json")):
        theirs = Tokenizer.from_file(str(path))
        pairs = []
        for own, s in zip(ours(program, path, strings), strings):
            theirs.encode_special_tokens = False
            marked = theirs.encode(s).ids
            theirs.encode_special_tokens = True
            pairs.append((own, [marked, theirs.encode(s, add_special_tokens=False).ids]))
        wrong += report(path.parent.name, strings, pairs)
    ranks = FOLDER / "cl100k" / "ranks.tiktoken"
    split = json.loads(ranks.with_name("tokenizer.json").read_text())["pre_tokenizer"]
    theirs = tiktoken.Encoding(
        "small", pat_str=split["pretokenizers"][0]["pattern"]["Regex"],
        mergeable_ranks={base64.b64decode(a): int(b)
                         for a, b in (x.split() for x in ranks.read_text().splitlines())},
        special_tokens={})
    pairs = [(own[1], theirs.encode_ordinary(s))
             for own, s in zip(ours(program, ranks, strings, "cl100k"), strings)]
    wrong += report("tiktoken", strings, pairs)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3000))
