// Decentralized training in a morning: sixteen workers, two threads each, train a small net by
// A2CiD2, with nothing but the standard library. Each worker has its own parameters, takes
// gradients at its own pace, and now and then averages with one neighbour on a ring.
//
//   c++ -std=c++20 -O2 -pthread apps/course/morning.cpp -o morning && ./morning
//
// Nabli, Belilovsky, Oyallon: A2CiD2, Accelerating Asynchronous Communication in Decentralized Deep
// Learning, NeurIPS 2023. The same in full: dist/gossip/.
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <mutex>
#include <numbers>
#include <random>
#include <thread>
#include <utility>
#include <vector>

using Vector = std::vector<double>;
using Index = std::size_t;
using Random = std::mt19937_64;

// ---- Automatic differentiation. A tape records each operation with its two arguments and the
// derivatives by them. Walked backwards, it hands each node's gradient on to what it was made of.
struct Tape;
struct Scalar {
  double value;
  Index at;  // its place on the tape
  Tape* tape;
};

struct Tape {
  struct Node {
    Index a, b;
    double by_a, by_b;
  };
  std::vector<Node> nodes;

  Scalar add(double value, Node node) {
    nodes.push_back(node);
    return {value, nodes.size() - 1, this};
  }
  Scalar leaf(double value) { return add(value, {0, 0, 0, 0}); }
  // d end / d leaf, of the first `leaves` on the tape
  Vector gradient(const Scalar& end, Index leaves) const {
    Vector g(nodes.size());
    g[end.at] = 1;
    for (Index k = nodes.size(); k-- > leaves;) {
      g[nodes[k].a] += nodes[k].by_a * g[k];
      g[nodes[k].b] += nodes[k].by_b * g[k];
    }
    g.resize(leaves);
    return g;
  }
};
Scalar operator+(Scalar a, Scalar b) { return a.tape->add(a.value + b.value, {a.at, b.at, 1, 1}); }
Scalar operator*(Scalar a, Scalar b) {
  return a.tape->add(a.value * b.value, {a.at, b.at, b.value, a.value});
}
Scalar tanh(Scalar a) {
  const double y = std::tanh(a.value);
  return a.tape->add(y, {a.at, a.at, 1 - y * y, 0});
}

// ---- The net: 2 inputs, two hidden layers of 16 units, one output. It learns which of two moons a
// point is from: 1 for the upper, -1 for the lower.
const std::vector<int> kWidths{2, 16, 16, 1};

struct Example {
  double a, b, label;
};
Scalar output(Tape& tape, const std::vector<Scalar>& x, const Example& e) {
  std::vector<Scalar> values{tape.leaf(e.a), tape.leaf(e.b)};
  auto parameter = x.begin();
  for (Index layer = 1; layer < kWidths.size(); ++layer) {
    std::vector<Scalar> next;
    for (int unit = 0; unit < kWidths[layer]; ++unit) {
      Scalar sum = *parameter++;  // the bias
      for (const Scalar& value : values) sum = sum + *parameter++ * value;
      next.push_back(layer + 1 < kWidths.size() ? tanh(sum) : sum);
    }
    values = next;
  }
  return values[0];
}
Example draw(Random& random) {
  const double angle = std::uniform_real_distribution(0., std::numbers::pi)(random);
  std::normal_distribution noise(0., .12);
  const double label = random() % 2 == 0 ? 1 : -1, lower = (1 - label) / 2;
  return {lower + label * std::cos(angle) + noise(random),
          lower / 2 + label * std::sin(angle) + noise(random), label};
}

Vector initial(Random random) {
  std::normal_distribution weight(0., .3);
  Vector x((1 + 2) * 16 + (1 + 16) * 16 + 1 + 16);
  for (double& each : x) each = weight(random);
  return x;
}

// The gradient of the loss (output - label)^2 / 2, mean over examples that it draws, and the share
// of them that x judges right.
std::pair<Vector, double> judge(const Vector& x, int examples, Random& random) {
  Tape tape;
  std::vector<Scalar> leaves;
  for (const double value : x) leaves.push_back(tape.leaf(value));
  Scalar loss = tape.leaf(0);
  double right = 0;
  for (int k = 0; k < examples; ++k) {
    const Example e = draw(random);
    const Scalar said = output(tape, leaves, e), miss = said + tape.leaf(-e.label);
    loss = loss + miss * miss * tape.leaf(.5 / examples);
    right += said.value * e.label > 0 ? 1. / examples : 0;
  }
  return {tape.gradient(loss, x.size()), right};
}

// ---- A2CiD2. Between events x and its twin drift towards each other, dx = eta (twin - x) dt. A
// gradient moves both alike. An exchange moves x to the mean, and the twin further. Only x is sent.
struct Constants {
  double eta = 0, alpha = .5, alpha_tilde = .5;  // as they stand: AD-PSGD, where no twin matters
};
// chi1: the time in which the slowest wave of the graph fades; chi2: half of the largest resistance
// of an edge. On a ring, where each worker makes one exchange in a unit of time:
Constants of_ring(Index n) {
  const double size = static_cast<double>(n);
  const double chi1 = 1 / (1 - std::cos(2 * std::numbers::pi / size)), chi2 = (size - 1) / size;
  return {1 / (2 * std::sqrt(chi1 * chi2)), .5, .5 * std::sqrt(chi1 / chi2)};
}

struct Worker {
  std::mutex mutex;  // of what follows
  Vector x, twin;
  double time = 0;                    // up to which x and twin have drifted
  void drift(double t, double eta) {  // exactly: x + twin stays, x - twin fades
    const double c = (1 + std::exp(-2 * eta * (t - time))) / 2, s = 1 - c;
    for (Index k = 0; k < x.size(); ++k) {
      const double before = x[k];
      x[k] = c * x[k] + s * twin[k];
      twin[k] = s * before + c * twin[k];
    }
    time = t;
  }
  void subtract(const Vector& u, double of_x, double of_twin) {
    for (Index k = 0; k < x.size(); ++k) x[k] -= of_x * u[k], twin[k] -= of_twin * u[k];
  }
};

class Training {
 public:
  // Told of each event while its workers are locked: an exchange of i with j, where `moved` is
  // x_i - x_j; or, if j is i, a gradient, where it was subtracted.
  using Watch = std::function<void(Index i, Index j, double time, const Vector& moved)>;
  Training(Index workers, int steps, const Constants& constants, const Watch& watch)
      : constants_(constants), steps_(steps), watch_(watch), workers_(workers) {
    for (Worker& each : workers_) each.x = each.twin = initial(Random(1));
  }

  // The mean of |x - mean|^2 over workers and the second half of the time.
  double run() {
    std::vector<std::jthread> threads;
    for (Index i = 0; i < workers_.size(); ++i) {
      threads.emplace_back([this, i] { compute(i); });
      threads.emplace_back([this, i] { communicate(i); });
    }
    double sum = 0;
    for (int t = steps_ / 2; t < steps_; ++t, wait(t))
      sum += 2 * mean_and_distance().second / steps_;
    return sum;
  }
  std::pair<Vector, double> mean_and_distance() {
    Vector mean(workers_[0].x.size());
    double distance = 0;  // mean |x|^2 - |mean|^2
    for (Worker& w : workers_) {
      const std::scoped_lock lock(w.mutex);
      for (Index k = 0; k < mean.size(); ++k)
        mean[k] += w.x[k] / size(), distance += w.x[k] * w.x[k] / size();
    }
    for (const double each : mean) distance -= each * each;
    return {mean, distance};
  }

 private:
  double size() const { return static_cast<double>(workers_.size()); }
  double now() const { return done_ / size(); }  // 1: one gradient a worker, on average
  void wait(double t) const {
    for (int seen = done_; now() < t && now() < steps_; seen = done_) done_.wait(seen);
  }

  void compute(Index i) {
    Worker& w = workers_[i];
    Random random(100 + i);
    Vector seen = initial(Random(1)), u(seen.size());
    while (now() < steps_) {
      const Vector g = judge(seen, 16, random).first;  // exchanges go on meanwhile
      std::this_thread::sleep_for(std::chrono::milliseconds(1 + i % 2));   // as larger nets need
      for (Index k = 0; k < u.size(); ++k) u[k] = .9 * u[k] + .03 * g[k];  // momentum
      const std::scoped_lock lock(w.mutex);
      ++done_, done_.notify_all();
      w.drift(now(), constants_.eta);
      w.subtract(u, 1, 1);
      seen = w.x;
      if (watch_) watch_(i, i, w.time, u);
    }
  }

  // A clock that rings at random times. Each worker starts half of its exchanges.
  void communicate(Index i) {
    Random random(200 + i);
    std::exponential_distribution until_next(.5);
    for (double next = until_next(random); next < steps_; next += until_next(random)) {
      wait(next);
      exchange(i, (i + (random() % 2 == 0 ? 1 : workers_.size() - 1)) % workers_.size());
    }
  }

  // Between machines the answer comes late; unit 5 of the course shows why that loses nothing.
  void exchange(Index i, Index j) {
    Worker &a = workers_[i], &b = workers_[j];
    const std::scoped_lock lock(a.mutex, b.mutex);
    const double t = now();
    a.drift(t, constants_.eta), b.drift(t, constants_.eta);
    Vector d = a.x;
    for (Index k = 0; k < d.size(); ++k) d[k] -= b.x[k];
    a.subtract(d, constants_.alpha, constants_.alpha_tilde);
    b.subtract(d, -constants_.alpha, -constants_.alpha_tilde);
    if (watch_) watch_(i, j, t, d);
  }

  const Constants constants_;
  const int steps_;  // a worker, on average
  const Watch watch_;
  std::vector<Worker> workers_;
  std::atomic<int> done_ = 0;  // gradients of all
};

int main() {
  for (const bool twin : {false, true}) {
    Training training(16, 200, twin ? of_ring(16) : Constants{}, {});
    const double distance = training.run();
    Random test(7);
    std::printf("%s the mean of 16 models is right in %.1f %%; they are %.2g apart\n",
                twin ? "A2CiD2: " : "AD-PSGD:",
                100 * judge(training.mean_and_distance().first, 1000, test).second, distance);
  }
  return 0;
}
