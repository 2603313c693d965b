"""Words of a page, with # for each number, and the values that belong there."""

import math
import re
from dataclasses import dataclass
from typing import Callable

NUMBER = r"((?:(?<=[\s(])-)?[\d.,]*\d(?:e[-+]?\d+)?)"


def find(words, text):
    """Where the words stand: each # is a group of the match."""
    pattern = r"\s+".join(map(re.escape, words.split())).replace(r"\#", NUMBER)
    return re.search(r"(?<!\w)" + pattern if words[:1].isalnum() else pattern, text)


@dataclass(frozen=True)
class Fact:
    page: str
    words: str
    values: Callable  # a list: a value, or (value, part by which a simulation may be off)
    # Of a row of a table, whose numbers are printed without zeros at their ends: how many digits
    # they have. Its name is of what its values were computed for. 0: as many as are shown.
    digits: int = 0

    def wanted(self):
        return [v if isinstance(v, tuple) else (v, 0) for v in self.values()]

    def allowed(self, shown, wanted, part):
        if self.digits and wanted:
            last = 10.0 ** (math.floor(math.log10(abs(wanted))) - self.digits + 1)
        elif self.digits:
            last = 1e-12
        else:
            mantissa, _, power = shown.replace(",", "").partition("e")
            last = 10.0 ** (int(power or 0) - len(mantissa.partition(".")[2]))
        return max(.51 * last, part * abs(wanted))
