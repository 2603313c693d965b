#!/usr/bin/env python3
"""Writes what Hugging Face's tokenizers make of hard strings and of every code point.

    hf_tokenizers.py tests/golden/tokenizers      (tokenizers 0.23.3)

Reads strings.json and NAME/tokenizer.json, small vocabularies of tinyshakespeare with the steps of
published ones, and writes

  NAME/golden.json   for the strings and `extra` ones (kept from the file that is there):
                     ids: as encode() gives them, begin marks included
                     plain: the names of marks are text, and nothing is added; null: the same
                     text, clean: of the ids, with and without marks; null: the string, text
                     points: a CRC-32 of the ids of each block of 4,096 code points (block_text())
  steps.json         single normalizers and pre-tokenizers, and what they make of the strings
"""
import array
import json
import pathlib
import sys
import zlib

from tokenizers import Tokenizer

BLOCK = 4096


def block_text(block):
    """Each code point behind a letter, and between a space and a digit."""
    points = range(block * BLOCK, (block + 1) * BLOCK)
    return "".join(f"a{chr(c)} {chr(c)}1" for c in points if not 0xD800 <= c < 0xE000)


def crc(ids):
    return f"{zlib.crc32(array.array('I', ids).tobytes()):08x}"


def golden(tokenizer, strings, extra):
    out = {"extra": extra, "ids": [], "plain": [], "text": [], "clean": []}
    for s in strings + extra:
        tokenizer.encode_special_tokens = False
        ids = tokenizer.encode(s).ids
        text = tokenizer.decode(ids, skip_special_tokens=False)
        clean = tokenizer.decode(ids, skip_special_tokens=True)
        tokenizer.encode_special_tokens = True
        plain = tokenizer.encode(s, add_special_tokens=False).ids
        out["ids"].append(ids)
        out["plain"].append(None if plain == ids else plain)
        out["text"].append(None if text == s else text)
        out["clean"].append(None if clean == text else clean)
    out["points"] = [crc(tokenizer.encode(block_text(b), add_special_tokens=False).ids)
                     for b in range(0x110000 // BLOCK)]
    return out


SPLITS = [{"String": " "}, {"String": "aa"}, {"Regex": r"\d"}, {"Regex": r"\s+"},
          {"Regex": r"(?=[A-Z])"}, {"Regex": r"[\p{L}\p{M}]+|\p{P}"}, {"Regex": r"a{2,3}|\u0041"},
          {"Regex": r"[^\S\n]"}, {"Regex": r"(?<=\p{Ll})(?:x|\x{2E})?"}]
BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
PRE = [{"type": "Split", "pattern": p, "behavior": b, "invert": i}
       for p in SPLITS for b in BEHAVIORS for i in (False, True)]
PRE += [{"type": "Whitespace"}, {"type": "WhitespaceSplit"},
        {"type": "Digits", "individual_digits": True},
        {"type": "Digits", "individual_digits": False}]
PRE += [{"type": "Metaspace", "replacement": m, "prepend_scheme": s, "split": c}
        for m in ("\u2581", "_") for s in ("always", "first", "never") for c in (False, True)]
PRE += [{"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, PRE[-7]]},
        {"type": "Sequence", "pretokenizers": [PRE[0], {"type": "Digits",
                                                       "individual_digits": True}]}]
NORMALIZERS = [{"type": t} for t in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase")]
NORMALIZERS += [{"type": "Strip", "strip_left": a, "strip_right": b}
                for a in (False, True) for b in (False, True)]
NORMALIZERS += [{"type": "Prepend", "prepend": "\u2581"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
                {"type": "Replace", "pattern": {"String": "aa"}, "content": "a"},
                {"type": "Replace", "pattern": {"Regex": r" {2,}"}, "content": "$0\\1"},
                {"type": "Replace", "pattern": {"Regex": r"(?=\d)"}, "content": "#"}]
NORMALIZERS += [{"type": "Sequence", "normalizers": [NORMALIZERS[9], NORMALIZERS[10]]},
                {"type": "Sequence", "normalizers": []}]


def with_step(kind, step):
    return Tokenizer.from_str(json.dumps({
        "version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": None,
        "post_processor": None, "decoder": None,
        "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}, kind: step}))


def steps(strings):
    out = {"normalizers": [], "pre_tokenizers": []}
    for step in NORMALIZERS:
        made = [with_step("normalizer", step).normalizer.normalize_str(s) for s in strings]
        t = with_step("normalizer", step)
        points = [f"{zlib.crc32(t.normalizer.normalize_str(block_text(b)).encode()):08x}"
                  for b in range(0x110000 // BLOCK)] if len(step) == 1 else []
        out["normalizers"].append({"step": step, "points": points,
                                   "made": [None if a == b else a for a, b in zip(made, strings)]})
    for step in PRE:
        t = with_step("pre_tokenizer", step).pre_tokenizer
        made = ["\x00".join(p for p, _ in t.pre_tokenize_str(s)) for s in strings]
        out["pre_tokenizers"].append(
            {"step": step, "made": f"{zlib.crc32(chr(1).join(made).encode()):08x}"})
    return out


def write(path, value):
    path.write_text(json.dumps(value, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    strings = json.loads((folder / "strings.json").read_text())["strings"]
    write(folder / "steps.json", steps(strings))
    for path in sorted(folder.glob("*/tokenizer.json")):
        made = path.with_name("golden.json")
        extra = json.loads(made.read_text())["extra"] if made.exists() else []
        write(made, golden(Tokenizer.from_file(str(path)), strings, extra))
