"""What the pages say of learning, computed with numpy from textbooks' formulas: no line of the
program is used. Workers minimise the mean of ½|x - b_i|², by steps of gamma; W has Metropolis
weights on a ring. The b_i are drawn as the program draws them, by Philox4x32-10 and Box-Muller, for
the pages show what one draw of them gives."""

import math

import numpy as np


def philox(counter, stream, seed):
    """Four words of 32 bits (Salmon et al., SC 2011)."""
    low = (1 << 32) - 1
    c = [counter & low, counter >> 32, stream & low, stream >> 32]
    k = [seed & low, seed >> 32]
    for _ in range(10):
        p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(q >> 32) ^ c[1] ^ k[0], q & low, (p >> 32) ^ c[3] ^ k[1], p & low]
        k = [(k[0] + 0x9E3779B9) & low, (k[1] + 0xBB67AE85) & low]
    return c


def pulls(n, dims, seed=0):
    """b, a row for each worker."""
    b = np.zeros((n, dims))
    for i in range(n):
        for k in range(dims):
            w = philox(k, 0x7175616400000000 + i, seed)
            u, v = [((w[j] << 32 | w[j + 1]) >> 11) * 2.0**-53 for j in (0, 2)]
            b[i, k] = np.float32(math.sqrt(-2 * math.log(1 - u)) * math.cos(2 * math.pi * v))
    return b


def ring(n):
    one = np.eye(n)
    return (one + np.roll(one, 1, 0) + np.roll(one, -1, 0)) / 3


def distance(x):
    return ((x - x.mean(0)) ** 2).mean()


# --- unit 9: noise of variance 1, and all b at 0

def loss_of_mean(gamma, t, n, dims):
    a = 1 - gamma
    return dims / 2 * (a ** (2 * t) + gamma**2 / n * (1 - a ** (2 * t)) / (1 - a * a))


def best_rate(t, n):
    """Newton's method on the slope of loss_of_mean, by differences."""
    gamma, h = math.log(4 * n * t) / (2 * t), 1e-5
    for _ in range(20):
        low, here, high = (loss_of_mean(gamma + s * h, t, n, 1) for s in (-1, 0, 1))
        gamma -= h * (high - low) / 2 / (high - 2 * here + low)
    return gamma


def noise_distance(gamma, n):
    """(x - mean)² in the long run: the trace of the C that W ((1 - gamma)² C + gamma²) W' keeps."""
    w, keep = ring(n) - 1 / n, (1 - gamma) ** 2
    c = np.zeros((n, n))
    for _ in range(400):
        c = w @ (keep * c + gamma**2 * np.eye(n)) @ w.T
    return np.trace(c) / n


# --- unit 10: unlike speeds; D-PSGD and its fixed point

def above_the_minimum(n, dims, seed, slow, by):
    """The loss at sum r_i b_i / sum r_i, where worker `slow` is `by` times slower."""
    b, r = pulls(n, dims, seed), np.ones(n)
    r[slow] = 1 / by
    return ((r @ b / r.sum() - b.mean(0)) ** 2).sum() / 2


def apart(w, gamma, b):
    """(x - mean)² where x = W (x - gamma (x - b))."""
    return distance(np.linalg.solve(np.eye(len(w)) - (1 - gamma) * w, gamma * w @ b))


def settling(n, dims, gamma, begin, end):
    """The mean model's loss without noise, mean over the steps from begin to end."""
    way = ((1 - pulls(n, dims).mean(0)) ** 2).sum() / 2
    return way * np.mean([(1 - gamma) ** (2 * t) for t in range(begin, end + 1)])


# --- unit 11: own steps without noise, means of all workers after every `period` of them

def of_own_steps(n, dims, gamma, period, begin, end):
    """(loss of the mean model, (x - mean)²), means over the steps from begin to end."""
    b = pulls(n, dims)
    x, out = np.ones((n, dims)), []
    for t in range(1, end + 1):
        x = x - gamma * (x - b)
        if t % period == 0:
            x[:] = x.mean(0)
        if t >= begin:
            out.append((((x - b.mean(0)).mean(0) ** 2).sum() / 2, distance(x)))
    return np.mean(out, 0)


def of_own_noise(gamma, period, n):
    """(x - mean)² by noise of variance 1, mean over a period: a walk of n workers whose moments
    C = E x x' are followed, and which are as one after it."""
    c, out = np.zeros((n, n)), []
    for _ in range(period):
        out.append(np.trace(c) / n - c.mean())
        c = (1 - gamma) ** 2 * c + gamma**2 * np.eye(n)
    return np.mean(out)


# --- unit 12: replicas, and a liar

def choco(gamma, kappa, b):
    """(x - mean)² where replicas have become what they stand for: D-PSGD with I + kappa (W - I)."""
    n = len(b)
    return apart(np.eye(n) + kappa * (ring(n) - np.eye(n)), gamma, b)


def with_a_liar(b, gamma, radius, steps, liar=3):
    """(loss of the mean model, (x - mean)²): at each step h = x - gamma (x - b), of which worker
    `liar` sends -h; nobody pulls further than the radius."""
    n, x = len(b), np.ones(b.shape)
    for _ in range(steps):
        h = x - gamma * (x - b)
        x = h.copy()
        for i in range(n):
            for j in ((i - 1) % n, (i + 1) % n):
                way = (-h[j] if j == liar else h[j]) - h[i]
                far = np.linalg.norm(way)
                x[i] += way / 3 * min(1, radius / far if far else 1)
    return ((x - b).mean(0) ** 2).sum() / 2, distance(x)
