"""Consensus Control (Kong et al., ICML 2021) on a ring where noise alone drives workers apart:
D-PSGD that mixes beside the computation, weights 1/3. No line of the program is used."""

import numpy as np


def waves(n):
    return (1 + 2 * np.cos(2 * np.pi * np.arange(1, n) / n)) / 3


def distance_of_noise(n):
    """Mean |x_i - mean|^2 where x <- W x + noise of variance 1: each wave keeps its own."""
    return (1 / (1 - waves(n) ** 2)).sum() / n


def rounds_until(part, n):
    """Of gossip, one after the other, until the slowest wave is so small."""
    rounds, left = 0, 1.0
    while left > part:
        left *= waves(n)[0]
        rounds += 1
    return rounds


def controlled(fractions=(.5, .25, 1), n=16, dims=64, rate=.1, steps=600, runs=24, generator=1):
    """(mean distances late in each phase, mean rounds of gossip): after a step workers gossip until
    their distance is the phase's part of what it was at first, and keep of the last round what
    ends there, found by halving."""
    rng = np.random.default_rng(generator)
    length = steps // len(fractions)
    late, rounds = np.zeros(len(fractions)), 0

    def mixed(x):
        return (x + np.roll(x, 1, 0) + np.roll(x, -1, 0)) / 3

    def far(x):
        return np.sqrt(((x - x.mean(0)) ** 2).sum() / n)

    for _ in range(runs):
        x = np.zeros((n, dims))
        for phase, part in enumerate(fractions):
            target, seen = np.inf, []
            for step in range(length):
                x = mixed(x) - rate * rng.normal(size=x.shape)
                if part < 1 and len(seen) < steps // 20:
                    seen.append(far(x))
                    if len(seen) == steps // 20:
                        target = part * np.mean(seen[len(seen) // 2:])
                while far(x) > target:
                    rounds += 1
                    further = mixed(x)
                    if far(further) > target:
                        x = further
                        continue
                    low, high = 0.0, 1.0
                    while high - low > 1e-9:
                        middle = (low + high) / 2
                        low, high = ((middle, high) if far(x + middle * (further - x)) > target
                                     else (low, middle))
                    x = x + high * (further - x)
                if 60 <= step <= length - 5:
                    late[phase] += far(x) / (length - 64) / runs
    return late, rounds / runs
