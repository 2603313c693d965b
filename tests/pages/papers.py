"""What `gossamer paper NAME` prints, computed anew: the words of each page with # for its numbers,
and how numpy gets these. What the page quotes from a paper stands in PUBLISHED, with its place;
what the page sets is compared with what is computed with here."""

import dataclasses
import functools
import json
import math
import re
import subprocess

import numpy as np

import machines
import phases
import theory
from fact import Fact

# Copied from the papers' tables and figures, once, by hand; the pages are held against this. Those
# of Decent-DP were compared with the pictures in its authors' repository
# (github.com/WangZesen/Decentralized-Training-Exp, images/) on 2026-11-29.
PUBLISHED = {
    # A2CiD2, table 1: powers of n, synchronous, accelerated, A2CiD2
    "powers": {"star": (2, 1.5, 1), "ring": (3, 2, 2), "complete": (2, 2, 1)},
    # A2CiD2, table 3: minutes of CIFAR-10, to .1
    "minutes": {n: row for n, *row in ((4, 21.9, 20.9), (8, 11.1, 10.5), (16, 6.6, 5.2),
                                       (32, 3.2, 2.7), (64, 1.8, 1.5))},
    # A2CiD2, table 2: thousands of gradients (fastest, slowest), minutes, of A2CiD2; of all-reduce
    "imagenet": (14, 13, 150, 14, 170),
    # Decent-DP, figure 6, iteration times in ms: all-reduce, SGP, one-peer exponential, AER
    "iterations": {
        "8 T4 a node, 100 Gb/s": {16: (372.5, 425.5, 314.8, 312.3),
                                  32: (225.5, 292.4, 178.8, 178.8),
                                  64: (167.3, 235.5, 123.1, 122.2)},
        "4 A100 a node, 100 Gb/s": {8: (73.0, 69.4, 63.4, 61.7), 16: (54.8, 53.0, 46.8, 45.8),
                                    32: (51.5, 50.7, 44.7, 43.7)},
        "4 A40 a node, 25 Gb/s": {8: (166.1, 150.5, 122.8, 122.0), 16: (195.5, 99.9, 97.4, 78.9),
                                  32: (188.5, 112.4, 110.8, 67.9)}},
    # Consensus Control, table of phases, n = 64: points of top-1 against all-reduce
    "control": {"at all": -2.84, "in phase 1": -2.40, "in phase 2": .43, "in phase 3": -.25},
    # Decent-DP, table 3, ResNet-50 on ImageNet, n = 32: top-1
    "top1": {"all-reduce": 76.01, "decentralized": 75.31, "accumulated": 76.54},
}
ARXIV = {"A2CiD2": 2306.08289, "Decent-DP": 2410.11998, "Consensus Control": 2102.04828}

CIFAR = dict(gradients=300 * 390, compute=.043, sigma=.04, bytes=44.7e6, buckets=2)
IMAGENET = dict(gradients=900_800, compute=.632, slow=1.06, sigma=.04, bytes=102e6, buckets=4)
CLUSTERS = {"8 T4 a node, 100 Gb/s": machines.Machines(8, 4e9, 1e-5, 12.5e9, 2e-5),
            "4 A100 a node, 100 Gb/s": machines.Machines(4, 2e11, 1e-5, 12.5e9, 2e-5),
            "4 A40 a node, 25 Gb/s": machines.Machines(4, 16e9, 1e-5, 3.125e9, 5e-5)}
PARAMETERS = 63e6
cached = functools.cache


def row(page, what, ours, part, published=None, within=None):
    """A line of the table: published (or expected) and ours, low and high; or ours alone."""
    if published is None:
        return Fact(page, f"{what} #", lambda: [(ours(), part)], digits=4)

    def values():
        return [published, (ours(), part), published - within, published + within]
    return Fact(page, f"{what} # # # to #", values, digits=4)


# --- slides-table1

powers = cached(theory.powers_of_n)
TABLE1 = [row("paper slides-table1", f"{graph}, {kind}: power of n",
              lambda graph=graph, k=k: powers(graph)[k], .015 if k == 2 else 0,
              PUBLISHED["powers"][graph][k], .05)
          for graph in ("star", "ring", "complete")
          for k, kind in enumerate(("synchronous", "accelerated", "A2CiD2"))]


TEXT_OF_TABLE1 = [
    ("mean of # to # seeds", lambda: [max(8, 4096 // 1024), 4096 // 16]),
    ("over n = #, #, ... # by least squares", lambda: [16, 32, 1024]),
]


# --- cifar-minutes and imagenet-idle: all-reduce by the distribution of the slowest; of gossip,
# whose gradients seldom wait, the mean time of a gradient

def minutes(n, method):
    of = CIFAR
    steps = of["gradients"] // n
    if method == "A2CiD2":
        return steps * of["compute"] / 60
    return steps / 60 * machines.all_reduce_step(
        machines.JEAN_ZAY, [of["compute"]] * n, of["sigma"], of["bytes"], of["buckets"])


@cached
def waits_of_cifar(n):
    return machines.part_that_waits(machines.JEAN_ZAY, n, CIFAR["compute"], CIFAR["sigma"],
                                    CIFAR["bytes"], 4000)


def gossip_minutes(n):
    assert waits_of_cifar(n) < .002
    return minutes(n, "A2CiD2")


def parameters_of_resnet18():
    """For CIFAR: a stem of 3 x 3, stages of two blocks with 64 to 512 channels."""
    count, before = 9 * 3 * 64 + 2 * 64, 64
    for width in (64, 128, 256, 512):
        count += 9 * before * width + 9 * width * width * 3 + 4 * 2 * width
        if before != width:
            count += before * width + 2 * width
        before = width
    return count + 512 * 10 + 10


def parameters_of_transformer(vocabulary=37_000, width=512, inner=2048, layers=6):
    attention = 4 * width * width + 4 * width
    around = 2 * width * inner + width + inner
    norm = 2 * width
    return vocabulary * width + layers * (3 * attention + 2 * around + 5 * norm)


MINUTES = [row("paper cifar-minutes", f"{name}, n = {n}", functools.partial(of, n, *more), .003,
               PUBLISHED["minutes"][n][k], part * PUBLISHED["minutes"][n][k])
           for n in (4, 8, 16, 32, 64)
           for k, (name, of, more, part) in enumerate((("all-reduce", minutes, ("sums",), .15),
                                                       ("A2CiD2", gossip_minutes, (), .05)))]
A_GRADIENT = [60 * PUBLISHED["minutes"][n][1] * n / CIFAR["gradients"] for n in (4, 64)]
TEXT_OF_CIFAR = [
    ("CIFAR-10 with # to # workers", lambda: [4, 64]),
    ("(each +- # minute)", lambda: [.1]),
    ("# epochs of # batches of #: # gradients of all workers together; # MB; nodes of # A100 with "
     "# GB/s and # us within a node, # Gb/s and # us between nodes, shared by its # workers",
     lambda: [300, 50_000 // 128, 128, CIFAR["gradients"], 4e-6 * parameters_of_resnet18(),
              machines.JEAN_ZAY.node, machines.JEAN_ZAY.inside / 1e9,
              machines.JEAN_ZAY.inside_latency * 1e6, machines.JEAN_ZAY.between * 8e-9,
              machines.JEAN_ZAY.latency * 1e6, machines.JEAN_ZAY.node]),
    ("# buckets of # MB (PyTorch's are # MB)",
     lambda: [CIFAR["buckets"], CIFAR["bytes"] / CIFAR["buckets"] / 1e6, 25]),
    ("column of # workers only (one node): # ms a gradient, and a log-normal spread of # %",
     lambda: [4, 1e3 * CIFAR["compute"], 100 * CIFAR["sigma"]]),
    ("no gradient waits for an exchange: #, #, #, #, # minutes",
     lambda: [(minutes(n, "A2CiD2"), .002) for n in (4, 8, 16, 32, 64)]),
    ("A2CiD2 with # workers does not come out: # minutes are # ms a gradient, a seventh more than "
     "with #, and nothing in this model takes them; +-# minute is # %",
     lambda: [64, PUBLISHED["minutes"][64][1], 1e3 * A_GRADIENT[1], 4, .1,
              100 * .1 / PUBLISHED["minutes"][64][1]]),
    ("Six seconds to begin and end a run would make #",
     lambda: [(minutes(64, "A2CiD2") + .1, .003)]),
]


def imagenet():
    """Seconds of all, and gradients of a quick and of a slow worker."""
    c, slow = IMAGENET["compute"], IMAGENET["slow"]
    seconds = IMAGENET["gradients"] / (56 / c + 8 / (c * slow))
    return seconds, seconds / c, seconds / (c * slow)


def of_many(count, gradients, largest):
    """Of so many workers' counts, which vary by the spread of their gradients: the mean extreme."""
    seen = gradients + math.sqrt(gradients) * IMAGENET["sigma"] * np.random.default_rng(0).normal(
        size=(4000, count))
    return (seen.max(axis=1) if largest else seen.min(axis=1)).mean()


@cached
def summed():
    """Seconds of a step by all-reduce."""
    c = IMAGENET["compute"]
    return machines.all_reduce_step(machines.JEAN_ZAY, [c * IMAGENET["slow"]] * 8 + [c] * 56,
                                    IMAGENET["sigma"], IMAGENET["bytes"], IMAGENET["buckets"])


def idle_of_sums():
    return 1 - IMAGENET["compute"] * (8 * IMAGENET["slow"] + 56) / 64 / summed()


def judged_of_imagenet(k, what, ours, within, part):
    return row("paper imagenet-idle", what, ours, part, PUBLISHED["imagenet"][k], within)


IDLE = [
    judged_of_imagenet(0, "A2CiD2: fastest worker, thousands",
                       lambda: of_many(56, imagenet()[1], True) / 1e3, .5, .001),
    judged_of_imagenet(1, "A2CiD2: slowest worker, thousands",
                       lambda: of_many(8, imagenet()[2], False) / 1e3, .5, .001),
    judged_of_imagenet(2, "A2CiD2: minutes", lambda: imagenet()[0] / 60, 5, .001),
    judged_of_imagenet(3, "all-reduce: every worker, thousands",
                       lambda: IMAGENET["gradients"] / 64e3, .5, .001),
    judged_of_imagenet(4, "all-reduce: minutes",
                       lambda: summed() * IMAGENET["gradients"] / 64 / 60, 5, .002),
    # it seldom happens at all, so its size is known only roughly
    row("paper imagenet-idle", "A2CiD2: part of the time in which a worker waits",
        lambda: 1e-6, 1),
    row("paper imagenet-idle", "all-reduce: part of the time in which a worker waits",
        idle_of_sums, .005),
]
TEXT_OF_IMAGENET = [
    ("# epochs of batches of #: # gradients in all; # MB",
     lambda: [90, 128, round(90 * 1_281_167 / 128, -2), 102]),
    ("a spread of # %", lambda: [100 * IMAGENET["sigma"]]),
    ("Fitted: # ms a gradient to A2CiD2's # minutes; one of the eight nodes is # % slower, to its "
     "slowest worker's #k",
     lambda: [1e3 * IMAGENET["compute"], PUBLISHED["imagenet"][2], 100 * (IMAGENET["slow"] - 1),
              PUBLISHED["imagenet"][1]]),
    ("A2CiD2 would take # minutes", lambda: [imagenet()[0] / 60]),
]


# --- aer-iteration

@cached
def fitted(cluster):
    sizes = PUBLISHED["iterations"][cluster]
    b, a = np.polyfit([1 / n for n in sizes], [ms[3] for ms in sizes.values()], 1)
    return a, b


@cached
def iteration(cluster, n, method, size=2):
    a, b = fitted(cluster)
    compute, m = (a + b / n) / 1e3, CLUSTERS[cluster]
    if method == "all-reduce":
        return 1e3 * machines.reduced(compute, 10, m.all_reduce(n, 4 * PARAMETERS / 10))
    rounds = {"SGP": "one-peer-exp-directed", "one-peer exponential": "one-peer-exp", "AER": "aer"}
    return 1e3 * machines.iteration(m, rounds[method], n, compute, size * PARAMETERS)


METHODS = ("all-reduce", "SGP", "one-peer exponential", "AER")
ITERATIONS = [row("paper aer-iteration", f"{cluster}: {method}, n = {n}",
                  functools.partial(iteration, cluster, n, method), 1e-6, ms[k], .2 * ms[k])
              for cluster, sizes in PUBLISHED["iterations"].items()
              for n, ms in sizes.items() for k, method in enumerate(METHODS)]


def missed():
    """The cells that are not within 20 %, as the page's note has them: (words, values)."""
    found = [(cluster, method, n, 100 * (iteration(cluster, n, method) / ms[k] - 1))
             for cluster, sizes in PUBLISHED["iterations"].items()
             for k, method in enumerate(METHODS) for n, ms in sizes.items()]
    return [cell for cell in found if abs(cell[3]) > 20]


T4, A100, A40 = CLUSTERS
TEXT_OF_AER = [
    ("iteration times of the transformer, #k tokens", lambda: [25]),
    ("# million parameters", lambda: [parameters_of_transformer() / 1e6]),
    ("in ten buckets of # MB", lambda: [4 * PARAMETERS / 10 / 1e6]),
    ("Within a node: # GB/s (A100, NVLink), # GB/s (A40, PCIe #); T4: # GB/s, chosen after looking "
     "at its all-reduce (PCIe #",
     lambda: [CLUSTERS[A100].inside / 1e9, CLUSTERS[A40].inside / 1e9, 4, CLUSTERS[T4].inside / 1e9,
              3]),
    ("half precision (# MB)", lambda: [2 * PARAMETERS / 1e6]),
    *[(re.sub(r"(?<!\w)\d+", "#", cluster) + ": a = #, b = #",
       lambda cluster=cluster, m=m: [m.node, m.between * 8e-9, *fitted(cluster)])
      for cluster, m in CLUSTERS.items()],
    ("Not within # %", lambda: [20]),
    ("one-peer exponential would take # ms on # A40 (published: #): four models",
     lambda: [(iteration(A40, 16, "one-peer exponential", 4), .002), 16,
              PUBLISHED["iterations"][A40][16][2]]),
    ("more than # Gb/s", lambda: [CLUSTERS[A40].between * 8e-9]),
    ("exponential on # A40 are too slow", lambda: [16]),
    ("take the # Gb/s at their word", lambda: [CLUSTERS[A40].between * 8e-9]),
    ("published, it takes # ms longer than AER for every n",
     lambda: [np.mean([ms[1] - ms[3] for ms in PUBLISHED["iterations"][T4].values()])]),
]


def note_of_missed():
    words = "; ".join(f"{cluster}: {method}, n = {n} (# %)" for cluster, method, n, _ in missed())
    return Fact("paper aer-iteration", f"Not within 20 %: {words}.",
                lambda: [cell[3] for cell in missed()], digits=2)


# --- straggler

@cached
def efficiency(method, n):
    """No gradient of gossip waits: it is sent while the next is computed."""
    return 1 if method in ("a2cid2", "adpsgd") else machines.efficiency(method, n)


def straggler():
    expected = {"allreduce": .339, "local-sgd": .344, "sgp": .335, "dpsgd": .352,
                "a2cid2": 1, "adpsgd": 1}
    for method, constant in expected.items():
        part = .02 if constant < 1 else 0
        for n in (4, 8, 16, 32, 64):
            ours = functools.partial(efficiency, method, n)
            judged = (constant, .01) if n == 16 else ()
            yield row("paper straggler", f"{method}, n = {n}", ours, part, *judged)
        yield Fact("paper straggler", f"{method}, n = 16 #",
                   lambda method=method: [(efficiency(method, 16), .004)], digits=4)


TEXT_OF_STRAGGLER = [
    ("# s a gradient, log-normal with sigma #", lambda: [machines.GRADIENT, machines.SIGMA]),
    ("ResNet-50 (# MB) over # Gb/s, # ms",
     lambda: [machines.MODEL / 1e6, machines.APART.between * 8e-9, machines.APART.latency * 1e3]),
    ("# gradient durations, mean of 8 seeds; of gossip", lambda: [1000]),
    ("local-sgd averages every # steps", lambda: [8]),
]


# --- control-phases

@cached
def late():
    return phases.controlled()


def plateau():
    return .1 * math.sqrt(64 * phases.distance_of_noise(16))


CONTROL = [fact for n in (8, 16, 32, 64) for fact in (
    row("paper control-phases", f"ring of {n}: distance^2 of noise",
        functools.partial(phases.distance_of_noise, n), 0, phases.distance_of_noise(n),
        .001 * phases.distance_of_noise(n)),
    *[row("paper control-phases", f"ring of {n}: rounds to a {name}",
          functools.partial(phases.rounds_until, part, n), 0, phases.rounds_until(part, n), 0)
      for name, part in (("half", .5), ("quarter", .25))])] + [
    row("paper control-phases", f"simulated, phase {k + 1} ({name}): distance",
        lambda k=k: late()[0][k], .03, part * plateau(), .1 * part * plateau())
    for k, (name, part) in enumerate((("half", .5), ("a quarter", .25), ("no control", 1)))] + [
    row("paper control-phases", "simulated: rounds of gossip paid, of 600 steps",
        lambda: late()[1], .05)]
TEXT_OF_CONTROL = [
    ("Real training: --images # --data", lambda: [40_000]),
    ("noise in # coordinates, learning rate #, # steps in three phases, mean of 16 seeds",
     lambda: [64, .1, 600]),
]


# --- the pages that really train: what they say follows from the runs that they report

def mean_and_error(values):
    values = np.array(values)
    return values.mean(), values.std(ddof=1) / math.sqrt(len(values))


def part_of(pictures, percent):
    """The exact top-1 of so many pictures, of which the report has two digits."""
    return 100 * round(percent / 100 * pictures) / pictures


def runs_of(report, pictures=1024):
    """Of each arm (top-1 of all seeds, training losses), from the lines about runs that ended."""
    out = {}
    for _, arm, top1, loss in re.findall(
            r"^seed (\d+), (.*?): ([\d.]+) %(?:, training loss ([\d.]+))?$", report, re.M):
        tops, losses = out.setdefault(arm, ([], []))
        tops.append(part_of(pictures, float(top1)))
        losses.append(float(loss or 0))
    return out


def facts_of_adam(report):
    page, runs = "paper accum-adam", runs_of(report)
    names = {"all-reduce": "all-reduce Adam", "decentralized": "decentralized Adam",
             "accumulated": "accumulated Adam"}
    out = []
    for short, arm in names.items():
        tops, losses = runs[arm]
        out.append(Fact(
            page, f"{arm}: top-1 % # # its standard error over seeds # training loss #",
            lambda short=short, tops=tops, losses=losses: [
                PUBLISHED["top1"][short], mean_and_error(tops)[0],
                (mean_and_error(tops)[1], .002), (np.mean(losses), .001)], digits=4))
    of = {short: np.array(runs[arm][0]) for short, arm in names.items()}
    above, below = of["accumulated"] - of["all-reduce"], of["all-reduce"] - of["decentralized"]
    comes = "comes" if above.mean() > 0 and below.mean() > 0 else "does not come"
    top = PUBLISHED["top1"]
    return out + [
        Fact(page, f"(# > # > #), {comes} out here: accumulated is better than all-reduce by # +- "
             "# points, all-reduce better than decentralized by # +- # (from",
             lambda: [top["accumulated"], top["all-reduce"], top["decentralized"],
                      *mean_and_error(above), *mean_and_error(below)]),
        Fact(page, "on shapes10 (# pictures), # threads of this process with # pictures each a "
             "step, 128 pictures a run, # seeds; s = n/2 = #, AER of # nodes with # workers each; "
             "learning rates as the paper's, #, # and #",
             lambda: [4096, 8, 8, 2, 8 / 2, 8 / 2, 2, 1e-3, 1e-3, 1.5e-3]),
        Fact(page, "on ImageNet, n = #", lambda: [32]),
    ]


def facts_of_trained_control(report):
    page, runs = "paper control-phases --images", runs_of(report)
    out = []
    sums = np.array(runs["all-reduce"][0])
    for arm, (tops, _) in runs.items():
        words = f"trained: {arm}: top-1 % # its standard error over seeds #"
        values = list(mean_and_error(tops))
        if arm != "all-reduce":
            words += (" against all-reduce, points (published: n = 64) # # standard error of this "
                      "difference #")
            values += [PUBLISHED["control"][arm.removeprefix("no control ")],
                       *mean_and_error(np.array(tops) - sums)]
        out.append(Fact(page, words, lambda values=values: values, digits=4))
    one, two, three = (np.array(runs[f"no control in phase {k}"][0]) for k in (1, 2, 3))
    came = "came" if (three - one).mean() > 0 and (two - three).mean() > 0 else "did not come"
    published = PUBLISHED["control"]
    return out + [
        Fact(page, f"(#, #, +# points with # epochs and n = #). In this short training it {came} "
             "out: phase 3 is better than phase 1 by # +- # points, phase 2 better than phase 3 by "
             "# +- #.",
             lambda: [*[published[f"in phase {k}"] for k in (1, 3, 2)], 300, 64,
                      *mean_and_error(three - one), *mean_and_error(two - three)]),
        Fact(page, "on shapes10 (# pictures, judged by #), # threads of this process with # "
             "pictures each a step, 128 pictures a run, SGD with Nesterov's momentum, learning "
             "rate #, divided by ten after a half and three quarters of the run; # seeds",
             lambda: [4096, 1024, 16, 8, .2, 2]),
    ]


def verdicts(page, text):
    """Whether 'holds' stands where ours is within what is allowed, and the count of these."""
    rows = re.findall(r" (\S+) +(\S+) +(\S+) to (\S+) +(holds|does not)$", text, re.M)
    wrong, hold = [], 0
    for _, ours, low, high, said in rows:
        holds = float(low) <= float(ours) <= float(high)
        hold += said == "holds"
        if holds != (said == "holds"):
            wrong.append(f"{page}: {ours} from {low} to {high}: {said}")
    counted = re.search(r"(\d+) of (\d+) (?:published numbers|numbers that we expect) hold", text)
    if rows and (not counted or [int(counted[1]), int(counted[2])] != [hold, len(rows)]):
        wrong.append(f"{page}: {hold} of {len(rows)} hold, it says {counted and counted[0]}")
    return wrong


def facts():
    texts = {"slides-table1": TEXT_OF_TABLE1, "cifar-minutes": TEXT_OF_CIFAR,
             "imagenet-idle": TEXT_OF_IMAGENET, "aer-iteration": TEXT_OF_AER,
             "straggler": TEXT_OF_STRAGGLER, "control-phases": TEXT_OF_CONTROL}
    out = [*TABLE1, *MINUTES, *IDLE, *ITERATIONS, note_of_missed(), *straggler(), *CONTROL]
    out += [Fact(f"paper {name}", *text) for name, each in texts.items() for text in each]
    cited = {"A2CiD2": ("slides-table1", "ring64", "published-order", "cifar-minutes",
                        "imagenet-idle", "cifar-accuracy"),
             "Decent-DP": ("aer-iteration", "accum-adam"), "Consensus Control": ("control-phases",)}
    out += [Fact(f"paper {page}", "(arXiv #)", lambda name=name: [ARXIV[name]])
            for name, pages in cited.items() for page in pages]
    trained = [fact for fact in out if fact.page == "paper control-phases" and
               not fact.words.startswith("Real training")]
    return out + [dataclasses.replace(fact, page=f"{fact.page} --images") for fact in trained]


def pages(program, source):
    """(name, text, facts that follow from what it reported) of each."""
    def run(*arguments):
        done = subprocess.run([program, "paper", *arguments], capture_output=True, text=True,
                              check=True)
        return done.stdout, done.stderr

    for each in json.loads(run("--json")[0]):
        name = each["name"]
        if name == "cifar-accuracy":  # of runs by the day: its words alone
            words = (source / "apps/paper/accuracy.cpp").read_text()
            yield name, "\n".join(re.findall(r'"((?:[^"\\]|\\.)*)"', words)), []
        elif name != "accum-adam":
            yield name, run(name)[0], []
        if each["trains"]:
            text, report = run(name, "--images", "128", "--seeds", "2")
            of = {"accum-adam": ("", facts_of_adam), "control-phases": (
                " --images", facts_of_trained_control)}[name]
            yield name + of[0], text, of[1](report)
