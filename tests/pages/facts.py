"""The words of the pages that hold results, # for each number, and how numpy gets these."""

import functools
import math

import numpy

import learning
import papers
import recorded
import theory
from fact import Fact

cached = functools.cache
chi, constants, spectral = map(cached, (theory.chi, theory.constants, theory.spectral))


@cached
def moments(n, accelerated):
    return theory.Ring(n, accelerated)


long_run = cached(lambda n, accelerated: moments(n, accelerated).rate_in_the_long_run())
slope = cached(lambda n, accelerated, *span: moments(n, accelerated).slope(*span))
floor = cached(lambda n, accelerated, momentum: theory.Noisy(n, accelerated, momentum).floor())
published = cached(lambda staleness, n=64, begin=100, end=300: theory.slope(
    theory.published(n, end, 400, staleness), 1, begin, end))
kept = cached(theory.part_that_is_kept)
counted = cached(theory.exchanges_until_agreed)


def settled(n, accelerated):
    """A rate in the long run. That of A2CiD2, which is damped critically, comes slowly."""
    return long_run(n, accelerated), .0005 if accelerated else 0


def eta(n):
    return constants("ring", n)[0]


def alpha_tilde(n):
    return constants("ring", n)[1]


def expected(page, what, constant, computed, part, within):
    """A row that is held against what we expect: that constant, and ours."""
    yield Fact(page, f"{what} #", lambda: [(computed(), min(part, .06))])
    yield papers.row(page, what, computed, part, constant, within * constant)


def of_ring64():
    exact = [functools.partial(settled, 64, accelerated) for accelerated in (False, True)]
    late = (functools.partial(slope, 64, False, 800, 2000),
            functools.partial(slope, 64, True, 100, 300))
    for k, name, constant, slopes in ((0, "without (AD-PSGD)", .0048, .0048),
                                      (1, "A2CiD2", .0567, .0555)):
        yield from expected("paper ring64", f"{name}: exact exponent", constant,
                            lambda k=k: exact[k]()[0], .0005, .01)
        yield from expected("paper ring64", f"{name}: slope, 40 seeds", slopes, late[k], .04, .1)
    yield papers.row("paper ring64", "how many times as fast",
                     lambda: exact[1]()[0] / exact[0]()[0], .0005)
    yield Fact("paper ring64", "over [#, #] for A2CiD2", lambda: [100, 300])
    yield Fact("paper ring64", "Until t = # the baseline still falls faster (#)",
               lambda: [300, (slope(64, False, 100, 300), .02)])


def of_published_order():
    """Without acceleration, in the exact order, and by how old x is when it is sent."""
    page = "paper published-order"
    for n, begin, end, *constants_ in (
            (16, 20, 80, .0765, .197, .190, .184, .173, .151, .111),
            (64, 100, 300, .0059, .0555, .042, .035, .027, .017, .0089)):
        rows = [("without acceleration", .1, functools.partial(slope, n, False, begin, end)),
                ("exact order", .15, functools.partial(slope, n, True, begin, end))]
        rows += [(f"published, staleness {stale}" if math.isfinite(stale) else
                  "published, no gradients", .15,
                  functools.partial(published, stale, n, begin, end))
                 for stale in (.05, .1, .2, .5, math.inf)]
        for (what, within, computed), constant in zip(rows, constants_, strict=True):
            yield from expected(page, f"ring of {n}: {what}", constant, computed, .08, within)
    yield Fact(page, "on [#, #] for n = 16, on [#, #] for n = 64", lambda: [20, 80, 100, 300])
    yield Fact(page, "slow steps (about # ms)",
               lambda: [(papers.PUBLISHED["imagenet"][2] * 60e3 / (900_800 / 64), .002)])


def plateau(n):
    """Half of the distance that ten steps of D-PSGD measure, from their middle on, of where it
    settles, on a ring with Metropolis weights and noise alone."""
    modes = [(1 + 2 * math.cos(2 * math.pi * k / n)) / 3 for k in range(1, n)]
    seen = [math.sqrt(sum((1 - m ** (2 * steps)) / (1 - m * m) for m in modes))
            for steps in range(6, 11)]
    return .5 * sum(seen) / 5 / math.sqrt(sum(1 / (1 - m * m) for m in modes))


def kept_of_resnet8():
    """Megabytes until backward of one picture: (its input, batch norm's, a convolution's, all)."""
    total, size, channels = 4 * 32 * 32 * 3, 32, 16
    for width in (16, 32, 64):  # each stage: two convolutions, inputs and batch norms of them
        layers = 3 if width == 16 else 2
        before = size * size * channels
        if width > channels:
            size, channels = size // 2, width
        here = size * size * channels
        norms = layers * (here + 4 * channels)  # x, and four numbers of a channel
        inputs = 2 * here if width == 16 else before + here
        total += 4 * (norms + inputs)
    total += 4 * (8 * 8 * 64 + 64)  # before and after the mean over places
    return 4 * 3072 / 1e6, 4 * (16384 + 64) / 1e6, 4 * 16384 / 1e6, total / 1e6


def parameters_of_resnet8():
    convolutions = [(3, 16), (16, 16), (16, 16), (16, 32), (32, 32), (32, 64), (64, 64)]
    count = sum(9 * a * b + 2 * b for a, b in convolutions) + 64 * 10 + 10
    return 4 * count / 1e6


# What `gossamer simulate quadratic` prints in its last line.
SAYS = "mean from time # on: loss #, (x - mean)^2 #; in all # gradients, # exchanges"


def without_noise(distance):
    """That line for 500 steps of 8 workers with 8 values each, and rate .05."""
    return [500 / 3, learning.settling(8, 8, .05, 167, 500), distance, 8 * 500, 8 * 500]


def own_steps(period):
    return learning.of_own_steps(16, 64, .02, period, 97, 480)


def replicas():
    return learning.choco(.05, .4, learning.pulls(8, 8))


FACTS = [
    *of_ring64(), *of_published_order(), *papers.facts(),
    Fact("lesson graphs", "χ1 is # on the ring, # on the star and # on the complete graph. But "
         "the star's hub has to make # exchanges",
         lambda: [chi(g, 16)[0] for g in ("ring", "star", "complete")] + [16 / 2]),
    Fact("lesson graphs", "χ1 #, χ2 #, η #, α̃ #",
         lambda: [*chi("ring", 16), eta(16), alpha_tilde(16)]),
    Fact("lesson clocks", "8 · ½ = # exchanges", lambda: [8 / 2]),
    Fact("lesson clocks", "with mean # have deviation #", lambda: [8 / 2, math.sqrt(8 / 2)]),
    Fact("lesson ball", "λ₂ = #, η = #, α̃ = #",
         lambda: [1 / chi("ring", 16)[0], eta(16), alpha_tilde(16)]),
    Fact("lesson decay", "# times (x − x̄)² falls at # instead of #",
         lambda: [long_run(64, True) / long_run(64, False), settled(64, True),
                  settled(64, False)]),
    Fact("lesson decay", "the exact slopes are # and #",
         lambda: [settled(64, True), settled(64, False)]),
    Fact("lesson decay", "fits #", lambda: [(slope(64, True, 100, 300), .04)]),
    Fact("lesson late", "then agrees at #", lambda: [(published(math.inf), .06)]),
    Fact("lesson late", "at #; A2CiD2 at #",
         lambda: [(published(.5), .06), (slope(64, True, 100, 300), .04)]),
    Fact("lesson waits", "is done? # %", lambda: [100 * (8 / 3) / (7 + 1 / 3)]),
    Fact("lesson noise", "theory says # for AD-PSGD and # for A2CiD2",
         lambda: [(floor(64, False, .9), .005), (floor(64, True, .9), .005)]),
    Fact("lesson noise", "16 workers # stands beside #",
         lambda: [(floor(16, True, 0), .005), (floor(16, False, 0), .005)]),
    Fact("lesson noise", "from time # on", lambda: [300 / 3]),
    Fact("lesson learning", "of which # times is", lambda: [8 / 2]),
    Fact("lesson run", "the distance is # times as large, and at the end the workers' own models "
         "have # % and not # %", recorded.of_unlike_data),
    Fact("lesson control", "Half of it is about # % of where 16 workers would settle, and # % "
         "with 32", lambda: [(100 * plateau(16), .03), (100 * plateau(32), .03)]),
    Fact("lesson death", "χ1 #, χ2 #", lambda: [*chi("ring", 11)]),
    *[Fact("lesson scaling", f"{g}: " + " ".join(["#"] * 7), functools.partial(counted, g))
      for g in ("star", "ring", "complete")],

    Fact("course 1_tape", "conv1 # MB 2 batch_norm 1 x 32 x 32 x 16 bn1 # MB 3 conv2d 1 x 32 x 32 "
         "x 16 layer1.0.conv1 # MB 19 ops keep # MB until backward has passed them; parameters # "
         "MB", lambda: [*kept_of_resnet8(), parameters_of_resnet8()]),
    Fact("course 2_matrices", "A ring of 16 needs # rounds", lambda: [spectral("ring", 16)[1]]),
    Fact("course 2_matrices", "rho # factor of |x - mean| in each round (gap #): a millionth after "
         "# rounds rho # factor of |x - mean| in each round (gap #): a millionth after # rounds",
         lambda: [v for g in ("ring", "star") for v in
                  (spectral(g, 16)[0], 1 - spectral(g, 16)[0], spectral(g, 16)[1])]),
    Fact("course 3_rates", "chi1 # plain gossip needs time ~ chi1 chi2 # A2CiD2 needs time ~ "
         "sqrt(chi1 chi2) = # chi1 # plain gossip needs time ~ chi1 chi2 # A2CiD2 needs time ~ "
         "sqrt(chi1 chi2) = # busiest # exchanges per gradient of one worker; if it can do only "
         "1, the whole graph slows down: chi1 #",
         lambda: [*chi("ring", 16), math.prod(chi("ring", 16)) ** .5, *chi("complete", 16),
                  math.prod(chi("complete", 16)) ** .5, 16 / 2,
                  chi("star", 16)[0] * (16 / 2)]),
    Fact("course 4_a2cid2", "at the rate #: E |x − mean|² falls as e^(−# t)",
         lambda: [settled(64, False)] * 2),
    Fact("course 4_a2cid2", "decays at # +- 2.8e-05 per mean gradient duration (fitted from 100 to "
         "300) the mean of all possible runs, in the long run, exactly: #",
         lambda: [(slope(64, False, 100, 300), .01), settled(64, False)]),
    Fact("course 4_a2cid2", "seeds the mean of all possible runs, in the long run, exactly: #",
         lambda: [settled(64, True)]),
    Fact("course 4_a2cid2", "The factor of unit 3 gives #",
         lambda: [(long_run(64, False) * 2 * alpha_tilde(64), .005)]),
    Fact("course 5_late", "agrees at the rate #; plain gossip has # in the long run, and # from "
         "time # to #", lambda: [settled(64, True), settled(64, False),
                                 (slope(64, False, 100, 300), .01), 100, 300]),
    Fact("course 5_late", "40 seeds decays at #", lambda: [(published(.5), .06)]),
    Fact("course 5_late", "102 MB needs # gradients at 25 Gb/s, one of 800 MB about one",
         lambda: [102e6 * 8 / 25e9 / .25]),
    Fact("course 5_late", "Both are faster than #", lambda: [settled(64, True)]),
    Fact("course 6_pairing", "all # steps/s of # if no worker ever waited: efficiency #",
         lambda: [(16 / 2.5, .01), ((15 + .1) / .25, .005), (1.6 / 15.1, .012)]),
    Fact("course 7_faults", "after one exchange, # % after two, # % after five",
         lambda: [(100 * kept()[1], .03), (100 * kept()[4], .03)]),
    Fact("course 7_faults", "chi1 # plain gossip needs time ~ chi1 chi1 #",
         lambda: [chi("ring", 16)[0], chi("ring", 15)[0]]),
    Fact("course 12_compression", "still settle (#)",
         lambda: [learning.choco(.05, 1, learning.pulls(8, 8))]),
    Fact("course 7_faults", "chain of 15 workers, # edges",
         lambda: [len(theory.graph("chain", 15))]),
    Fact("course 7_faults", "budget # images = 6 epochs", lambda: [6 * 512]),
    Fact("course 9_learning_rate", "The best γ for their mean model is #",
         lambda: [learning.best_rate(100, 16)]),
    Fact("course 9_learning_rate", "100 # 100 #",
         lambda: [(learning.loss_of_mean(gamma, 100, 16, 64), .03) for gamma in (.0429, .02)]),
    Fact("course 9_learning_rate", f"{SAYS} {SAYS}",
         lambda: [v for n in (16, 64) for v in
                  (300 / 3, (learning.loss_of_mean(.1, 10**4, n, 64), .05),
                   (learning.noise_distance(.1, n), .02), 300 * n, 300 * n)]),
    Fact("course 10_unlike", "The formula puts the model # above the minimum (the simulation #)",
         lambda: [learning.above_the_minimum(8, 2, 8, 3, 10),
                  (learning.above_the_minimum(8, 2, 8, 3, 10), .05)]),
    Fact("course 10_unlike", "from time 400 on: loss #, (x - mean)^2",
         lambda: [(learning.above_the_minimum(8, 2, 8, 3, 10), .05)]),
    Fact("course 10_unlike", f"without and with tracking: {SAYS}",
         lambda: without_noise(learning.apart(learning.ring(8), .05, learning.pulls(8, 8)))),
    Fact("course 11_own_steps", "their mean (x - x̄)² is #", lambda: [own_steps(8)[1]]),
    Fact("course 11_own_steps", SAYS, lambda: [97, *own_steps(8), 16 * 480, 15 * 480 / 8]),
    Fact("course 11_own_steps", "From # to # there are # steps", lambda: [97, 480, 480 - 97 + 1]),
    Fact("course 11_own_steps", "# averages of 16 workers are #", lambda: [480 / 8] * 2),
    Fact("course 11_own_steps", f"shrinks old noise by a: {SAYS} {SAYS}",
         lambda: [v for period in (8, 32) for v in
                  (97, (numpy.mean([learning.loss_of_mean(.02, t, 16, 64)
                                    for t in range(97, 481)]), .05),
                   (learning.of_own_noise(.02, period, 16), .03), 16 * 480, 15 * 480 / period)]),
    Fact("course 12_compression", "(x - mean)² settles at #", lambda: [replicas()]),
    Fact("course 12_compression", f"{SAYS} {SAYS}",
         lambda: [*without_noise(learning.apart(learning.ring(8), .05, learning.pulls(8, 8))),
                  *without_noise(replicas())]),
    Fact("course 12_compression", f"its own mirror image: {SAYS} {SAYS}",
         lambda: [v for radius in (math.inf, .1) for v in
                  (500 / 3, *learning.with_a_liar(learning.pulls(8, 8), .05, radius, 500),
                   8 * 500, 8 * 500)]),
]

# What a page sets, so that there is nothing to compute.
SET = [
    ("paper ring64", "values in # coordinates"),
    ("lesson control", "The first # steps only measure"),
    ("lesson control", "% with #"),
    ("lesson run", "the two runs, 2 minutes each on # cores"),
    ("lesson scaling", "n grows from # to #"),
    ("lesson scaling", "star n², n^#, n; ring"),
    ("lesson death", "than one of #"),
    ("course 1_tape", "the next on 16 x 16 with #, the last on 8 x 8 with #"),
    ("course 4_a2cid2", "at a rate of # or more, in the long run #"),
    ("course 5_late", "a model of # MB needs"),
    ("course 5_late", "one of # MB about one"),
    ("course 5_late", "a very long wait, and # times with"),
    ("course 6_pairing", "3 waits for #"),
    ("course 9_learning_rate", "What is it for # steps"),
    ("course 9_learning_rate", "Now # steps"),
    ("course 11_own_steps", "r = # and μ = #"),
    ("course 11_own_steps", "Lemma #"),
    ("course 12_compression", "κ = #"),
    ("course 12_compression", "lets a worker send # in"),
]

# Of workers that pair by messages: nothing here repeats that protocol. tests/apps/course_test.cpp
# compares those of the course with what the program prints.
OF_THE_PROTOCOL = [
    ("lesson waits", "agrees at a rate of #, else of #"),
    ("lesson waits", "the loss ends # above the minimum, not #"),
    ("course 5_late", "decays at # +- 0.0024"),
    ("course 5_late", "decays at # +- 0.0025"),
    ("course 10_unlike", "loss 0.04603, (x - mean)^2 #; in all # gradients, # exchanges"),
    ("course 5_late", "# exchanges per gradient, # % with the partner of the time before"),
]
