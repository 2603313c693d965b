#!/usr/bin/env python3
"""Writes which code points are white space, letters and numbers to tiktoken and tokenizers, which
must agree: ranges in hexadecimal, in lines.

    unicode_classes.py > unicode_classes.json      (tiktoken 0.14, tokenizers 0.23.3)
"""
import json
import textwrap

import tiktoken
from tokenizers import Regex, pre_tokenizers

CHARACTERS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
BYTES = {bytes([b]): b for b in range(256)}


def ranges(points):
    out = []
    for c in points:
        if out and c == out[-1][1] + 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return " ".join(f"{a:X}" if a == b else f"{a:X}-{b:X}" for a, b in out)


def members(pattern):
    openai = tiktoken.Encoding("one class", pat_str=pattern, mergeable_ranks=BYTES,
                               special_tokens={})
    theirs = pre_tokenizers.Split(Regex(pattern), "removed")
    one = [c for c in CHARACTERS if openai.encode_ordinary(chr(c))]
    two = [c for c in CHARACTERS if not theirs.pre_tokenize_str(chr(c))]
    assert one == two, pattern
    return textwrap.wrap(ranges(one), 94, break_on_hyphens=False)


print(json.dumps({"space": members(r"\s"), "letter": members(r"\p{L}"),
                  "number": members(r"\p{N}")}, indent=1))
