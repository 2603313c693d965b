#!/usr/bin/env python3
"""Every number in the words of the lesson and the course, and every number that the pages of papers
print, computed anew. (What a section computes while it is used is compared with the program by
tests/apps/lesson_test.cpp.)

    # SOURCE: the repository; PROGRAM: gossamer, which prints the pages of papers
    check.py SOURCE PROGRAM

A page is cut into passages: a section of the lesson, a page of the course or of a paper. Each
number of one is (1) part of a fact: words of the passage, with values that are computed here; or
(2) no result, by a rule (see not_a_result) or as facts.py says. Any other number fails, and so does
a fact whose words are no longer there. Exits with 77 (ctest: skipped) when numpy is missing.
"""

import json
import pathlib
import re
import sys

try:
    import numpy  # noqa: F401
except ImportError as missing:
    print(f"skipped: {missing} (wanted: python3-numpy)")
    sys.exit(77)

sys.dont_write_bytecode = True  # the sources may not be writable
import papers
from fact import find
from facts import FACTS, OF_THE_PROTOCOL, SET

SOURCE = pathlib.Path(sys.argv[1])
NUMBER = re.compile(r"(?<![\w.,])(?:\d{1,3}(?:,\d{3})+|\d+)?(?:(?<=\d)\.\d+|(?<!\w)\.\d+)?"
                    r"(?:e[-+]?\d+)?(?![\w])")
NOUNS = r"workers?|seeds?|pictures|bytes|processes|orders|convolutions|channels|pixels|wires"
COUNTS = re.compile(rf"\s+(?:new |more |late |such |different )?(?:{NOUNS})\b")
NAMES = re.compile(r"(?:(?:ring|chain|star) of|unit|units|units \d and|section|workers?|rank|"
                   r"exit code|table|figure)\s+$", re.I)


def said_in(words, right):
    """The sentences of a section: of the guess, the right option only."""
    def text(value):
        return value if isinstance(value, str) else " ".join(value)
    guess = words["guess"]
    parts = [words["title"], words["intro"], guess["question"], guess["options"][right],
             guess["because"], words["check"]]
    more = [v for k, v in words.items() if k not in ("title", "intro", "guess", "check")]
    said = [text(p) for p in parts + [v for v in more if text(v).endswith(".")]]
    return re.sub(r"\*([^*]*)\*", r"\1", " ".join(said))


def passages():
    lesson = SOURCE / "apps/lesson"
    words = json.loads((lesson / "words.json").read_text())["sections"]
    scripts = "\n".join(p.read_text() for p in sorted(lesson.glob("sections_*.js")))
    parts = dict(re.findall(r"^sections\.(\w+) = (.*?)^\};", scripts, re.S | re.M))
    for name, said in words.items():
        right = int(re.search(r"guess\(root, say\.guess, (\d)\)", parts[name])[1])
        table = re.findall(r"^    (\w+): \[(\d[\d, ]*)\]", parts[name], re.M)
        rows = " ".join(f"{row}: {numbers.replace(',', '')}" for row, numbers in table)
        yield f"lesson {name}", said_in(said, right) + " " + rows
    for path in sorted((SOURCE / "apps/course/units").glob("*.md")):
        yield f"course {path.stem}", path.read_text()


def without_code(text):
    """Commands become nothing, but what they were given: (text, numbers of their arguments)."""
    given = set()

    def forget(command):
        given.update(re.findall(r"\d+(?:\.\d+)?|\.\d+", command[0]))
        return " " * len(command[0])

    def block(fenced):  # what a command prints stays
        lines = [forget([line]) if line.startswith(("$", "```")) else line.lstrip()
                 for line in fenced[0].split("\n")]
        return "\n".join(lines)

    text = re.sub(r"```console.*?```", block, text, flags=re.S)
    text = re.sub(r"^    gossamer .*$", forget, text, flags=re.M)
    text = re.sub(r"`[^`]*`", forget, text)
    return re.sub(r"^    .*$", lambda m: " " * len(m[0]), text, flags=re.M), given  # formulas


def not_a_result(text, match, given):
    """Whether a number is none: a year, a heading or a place in a list, a count that the text
    sets, an argument of a command, a constant of a formula (0 to 3, or beside a sign)."""
    number, before, after = match[0], text[:match.start()], text[match.end():]
    line = before.rsplit("\n", 1)[-1]
    if re.search(r"(?:fitted from|[\d.] to|\+-) $", before[-20:]) and "(fitted" in text[
            max(0, match.start() - 60):match.end() + 60]:
        return True  # the span of a fit, and how sure the program is of it
    if re.match(r"\s+%", after) and re.search(r"within\s+$", before):
        return True  # how near a prediction has to be
    if re.search(r"\d x $", before) or re.match(r" x \d", after):
        return True  # sizes
    if re.fullmatch(r"(19|20)\d\d", number) or re.fullmatch(r"(# )?", line):
        return True
    if number in given or COUNTS.match(after) or ("." not in number and NAMES.search(before)):
        return True
    signs = re.search(r"[-+·/=√^(<>−½]\s*$", before) or re.match(r"\s*[+·/=^²³√½]", after)
    return number in ("0", "1", "2", "3") or ("." not in number and bool(signs))


def counted(text, match):
    """The count of numbers that hold, which verdicts() compares."""
    return re.match(r"\d+ of \d+ (published numbers|numbers that we expect) hold",
                    text[text.rfind("\n", 0, match.start()) + 3:])


def value_of(text):
    return float(text.replace(",", "").replace("−", "-"))


def main():
    wrong, checked, plain, protocol = [], 0, 0, 0
    facts, used = list(FACTS), set()
    said = [(name, *without_code(whole)) for name, whole in passages()]
    for name, text, more in papers.pages(sys.argv[2], SOURCE):
        wrong += papers.verdicts(name, text)
        facts += more
        said.append((f"paper {name}", re.sub(r"computed in [\d.]+ s", "", text), set()))
    for name, text, given in said:
        covered = set()
        for fact in facts:
            if fact.page != name:
                continue
            found = find(fact.words, text)
            if not found:
                wrong.append(f"{name}: these words are not there: {fact.words}")
                continue
            used.add(fact)
            if fact.digits:
                covered.update(range(*found.span()))
            for k, (wanted, part) in enumerate(fact.wanted()):
                shown = found[k + 1]
                covered.update(range(found.start(k + 1), found.end(k + 1)))
                checked += 1
                if abs(value_of(shown) - wanted) > fact.allowed(shown, wanted, part):
                    wrong.append(f"{name}: {fact.words}: {shown}, computed {wanted:.6g}")
        for page, words in OF_THE_PROTOCOL + SET:
            if page != name:
                continue
            found = find(words, text)
            if not found:
                wrong.append(f"{name}: these words are not there: {words}")
                continue
            for k in range(1, found.re.groups + 1):
                covered.update(range(found.start(k), found.end(k)))
                protocol += (page, words) in OF_THE_PROTOCOL
        for match in NUMBER.finditer(text):
            if not match[0] or match.start() in covered:
                continue
            if name.startswith("paper ") and counted(text, match):
                plain += 1
                continue
            if not_a_result(text, match, given):
                plain += 1
                continue
            around = text[max(0, match.start() - 50):match.end() + 30]
            wrong.append(f"{name}: nothing computes {match[0]} in: {' '.join(around.split())}")
    for fact in facts:
        if fact not in used and not any(fact.words in w for w in wrong):
            wrong.append(f"{fact.page}: there is no such page")
    print(f"{checked} numbers computed, {plain} are no results, "
          f"{protocol} are of the pairing's protocol, which is not repeated here")
    if wrong:
        sys.exit("\n".join(wrong))


main()
