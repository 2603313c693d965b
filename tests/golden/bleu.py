#!/usr/bin/env python3
"""Writes bleu.json: sacreBLEU's tokens of hard lines, and its scores (BLEU, chrF) of small test
sets with one or several references.

    bleu.py > bleu.json        (sacrebleu 2.6.0)
"""
import json
import random

import sacrebleu
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

LINES = [
    "", " ", "Hello, world.", "It's 3.14, not 3,000.5!", "a-b 1-2 1-b -5 10-", "e.g., U.S.A.",
    "&quot;Zitat&quot; &amp; mehr &lt;b&gt; &amp;quot;", "<skipped> text<skipped>more",
    "Größe: 5,5 m² – „schön“ (sehr)!", "価格は1,000円。", "1.,2 ..,, ,.5", "x.1 1.x .1 1.",
    "tab\tand\u00a0no-break\u2003em\u3000wide\u0085next\x1cfile", "trailing \u00a0 ", "a\u200bb",
    "{curly} [square] `tick` ~tilde~ ^hat^ _under_", "@at #hash $1.50 %5 *star* +1 =2 a/b \\ |",
    "semi;colon:colon? \"quoted\" 'single'", "line-\nbreak and\nnew line", "...", "1,2,3.4.5-6-7",
]


def changed(line, rng):
    words = line.split()
    for _ in range(rng.randrange(4)):
        if len(words) > 2:
            i = rng.randrange(len(words) - 1)
            kind = rng.randrange(3)
            if kind == 0:
                del words[i]
            elif kind == 1:
                words[i], words[i + 1] = words[i + 1], words[i]
            else:
                words.insert(i, rng.choice(words))
    return " ".join(words)


def sets():
    rng = random.Random(1)
    word = ["der", "die", "Hund", "läuft", "über", "1,5", "Straße.", "und", "springt,", "(rot)"]
    references = [" ".join(rng.choice(word) for _ in range(rng.randrange(3, 13)))
                  for _ in range(40)]
    yield [changed(line, rng) for line in references], references
    yield [line.rsplit(" ", 2)[0] for line in references[:25]], references[:25]
    yield ["der Hund", "ein Hund läuft", ""], ["der Hund läuft", "der Hund läuft schnell", "x"]
    yield ["a b c x y z w"], ["a b c d e f g"]
    yield ["nothing here fits"], ["all else is other"]
    yield ["a b"], ["a b"]
    yield [""], ["a b c d"]


def several():
    rng = random.Random(2)
    for translations, first in sets():
        yield translations, [first, [changed(line, rng) for line in first],
                             [line.replace("ü", "ue") + " ja" for line in first]]
    # near lengths, of which the shorter counts; a word that one reference has twice
    yield ["a b c"], [["a b c d"], ["a b"]]
    yield ["der der der"], [["der Hund der"], ["der\u3000Hund"]]


tokenize = Tokenizer13a()
out = {"tokens": [{"line": line, "tokens": tokenize(line.rstrip()).split()} for line in LINES],
       "sets": []}
for translations, references in sets():
    metric = sacrebleu.BLEU()
    score = metric.corpus_score(translations, [references])
    out["sets"].append({"translations": translations, "references": references,
                        "score": score.score, "text": str(score)[len("BLEU = "):]})
    out["signature"] = str(metric.get_signature())
chrf = sacrebleu.CHRF()
for each in out["sets"]:
    each["chrf"] = chrf.corpus_score(each["translations"], [each["references"]]).score
out["chrf_signature"] = str(chrf.get_signature())
out["several"] = []
for translations, references in several():
    metric, chrf = sacrebleu.BLEU(), sacrebleu.CHRF()
    score = metric.corpus_score(translations, references)
    out["several"].append({"translations": translations, "references": references,
                           "score": score.score, "text": str(score)[len("BLEU = "):],
                           "chrf": chrf.corpus_score(translations, references).score,
                           "signature": str(metric.get_signature()),
                           "chrf_signature": str(chrf.get_signature())})
print(json.dumps(out, indent=0, ensure_ascii=False))
