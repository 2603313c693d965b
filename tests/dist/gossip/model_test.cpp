// The difference of an exchange inside the optimizer's pass: the same bits as mix, update and jump
// one after the other, whatever comes between, and in whatever order the streams of a device run.
#include "gossamer/dist/gossip/model.h"

#include <cstring>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "dist/gpu/fakes.h"
#include "gossamer/core/exchange.h"
#include "gossamer/core/update.h"
#include "gossamer/nn/optim.h"

namespace gossamer::dist {
namespace {

constexpr double kRates[] = {.1, .05, .02}, kClip = 2;

// A worker's parameters and optimizer.
struct Model {
  Model(bool with_twin, DType compute)
      : params({{"w", w}, {"b", b}}, {}, {.compute = compute, .separate = true}),
        sgd(params, {.momentum = .9f, .weight_decay = .1f, .nesterov = true}),
        state(params.values(), with_twin) {
    state.numbers.eta = .3;
    state.numbers.alpha_tilde = .8;
  }
  void gradient(int k) {
    params.settle_grads();
    const auto g = params.grads().span<float>();
    for (std::size_t i = 0; i < g.size(); ++i)
      g[i] = static_cast<float>((static_cast<int>(i) * 7 + k * 5) % 11 - 5) * .3f;
  }
  Tensor w = Tensor::full({9, 5}, .5f), b = Tensor::full({40}, -.25f);
  FlatParams params;
  nn::Sgd sgd;
  GossipModel state;
  std::vector<Tensor> everything() {
    std::vector<Tensor> out{params.values(), params.compute_f32(), sgd.state()[0].tensor};
    if (state.has_twin()) out.push_back(state.twin());
    if (params.compute_half().defined()) out.push_back(params.compute_half());
    return out;
  }
};

struct Event {
  enum Kind { gradient, snapshot, arrives, fails, looked_at } kind;
  double t = 0;
};

// Gradient events, exchanges one at a time, and looks at the state in between.
std::vector<Event> some_events(std::uint64_t seed) {
  Rng random(seed);
  std::vector<Event> out;
  bool in_flight = false;
  for (double t = 0; out.size() < 120; t += .4 * random.uniform53()) {
    switch (random.below(5)) {
      case 0:
      case 1:
        out.push_back({Event::gradient, t});
        break;
      case 2:
      case 3:
        if (!in_flight)
          out.push_back({Event::snapshot, t});
        else
          out.push_back({random.below(6) == 0 ? Event::fails : Event::arrives, t});
        in_flight = !in_flight;
        break;
      default:
        out.push_back({Event::looked_at, t});
    }
  }
  return out;
}

Tensor other_snapshot(i64 n, DType wire, std::size_t k) {
  Tensor t = Tensor::empty({n});
  for (i64 i = 0; i < n; ++i)
    t.as<float>()[i] = static_cast<float>((i * 3 + static_cast<i64>(k)) % 13 - 6) * .05f;
  Tensor out = Tensor::empty({n}, wire);
  take_snapshot(t, {}, 1, 0, out);
  return out;
}

// Every event a pass of its own, in the order of the paper: a difference follows the gradient event
// it was there for.
void one_by_one(Model& m, const std::vector<Event>& events, DType wire) {
  Tensor own = Tensor::empty({m.params.size()}, wire), theirs;
  A2cid2& numbers = m.state.numbers;
  Tensor &x = m.state.x(), &twin = m.state.twin();
  bool kept = false;
  // of the last snapshot; one exchange at a time, so of the difference too
  A2cid2::Mark mark;
  const auto apply = [&] {
    if (!std::exchange(kept, false)) return;
    const Jump jump = numbers.arrived(mark);
    apply_difference(x, twin, static_cast<float>(jump.x), static_cast<float>(jump.twin), own,
                     theirs);
  };
  for (std::size_t k = 0; k < events.size(); ++k) switch (events[k].kind) {
      case Event::gradient: {
        m.gradient(static_cast<int>(k));
        const A2cid2::Mix mix = numbers.gradient(events[k].t);
        const Twin with{twin, static_cast<float>(mix.c), static_cast<float>(mix.s)};
        m.sgd.step(static_cast<float>(kRates[k % 3]), twin.defined() ? &with : nullptr,
                   {.5, kClip});
        apply();
        m.params.refresh();
        break;
      }
      case Event::snapshot: {
        apply();
        const A2cid2::Mix mix = numbers.snapshot(events[k].t, mark);
        take_snapshot(x, twin, static_cast<float>(mix.c), static_cast<float>(mix.s), own);
        break;
      }
      case Event::arrives:
        theirs = other_snapshot(m.params.size(), wire, k);
        kept = true;
        break;
      case Event::fails:
        break;
      case Event::looked_at:
        apply();
    }
  apply();
}

// Runs the optimizer of `m` on the compute stream of a device that may do so later.
class OnDevice final : public Optimizer {
 public:
  OnDevice(Model& m, fake::Gpu& gpu) : m_(m), gpu_(gpu) {}
  void begin_step(const GradientScale&) override {}
  void update(FlatRange, float rate, const Twin* twin, const Difference* late) override {
    with_difference += late != nullptr;
    const std::optional<Twin> with = twin ? std::optional(*twin) : std::nullopt;
    const std::optional<Difference> difference = late ? std::optional(*late) : std::nullopt;
    gpu_.run(DevicePort::Stream::compute, [this, k = event, rate, with, difference] {
      m_.gradient(k);
      m_.sgd.step(rate, with ? &*with : nullptr, {.5, kClip}, difference ? &*difference : nullptr);
    });
  }
  std::vector<NamedTensor> state() override { return {}; }
  const char* name() const override { return "on a device"; }
  int event = 0, with_difference = 0;

 private:
  Model& m_;
  fake::Gpu& gpu_;
};

// The same by GossipModel. On a lazy device nothing runs when it is called: two streams do their
// work in any order that the events allow.
int by_model(Model& m, const std::vector<Event>& events, DType wire, bool lazy,
             std::uint64_t seed) {
  fake::Machine machine(1, seed);
  machine.eager = !lazy;
  fake::Gpu& gpu = machine.gpu(0);
  const i64 n = m.params.size();
  m.state.exchange_by(wire, &gpu);
  const Tensor theirs = m.state.incoming();
  OnDevice optimizer(m, gpu);
  Rng random(seed, 7);
  for (std::size_t k = 0; k < events.size(); ++k) {
    switch (events[k].kind) {
      case Event::gradient:
        optimizer.event = static_cast<int>(k);
        m.state.gradient(events[k].t, optimizer, static_cast<float>(kRates[k % 3]));
        break;
      case Event::snapshot:
        m.state.snapshot(events[k].t);
        break;
      case Event::arrives: {
        auto from = std::make_shared<Tensor>(other_snapshot(n, wire, k));
        gpu.run(DevicePort::Stream::exchange,
                [from, theirs] { std::memcpy(theirs.data(), from->data(), from->bytes()); });
        m.state.arrived();
        break;
      }
      case Event::fails:  // the buffer holds something by then
        gpu.run(DevicePort::Stream::exchange,
                [theirs] { std::memset(theirs.data(), 0x7b, theirs.bytes()); });
        break;
      case Event::looked_at:
        const GossipModel::Access access(m.state);
    }
    for (std::uint32_t i = random.below(8); i > 0; --i) machine.step(0);
  }
  const GossipModel::Access access(m.state);
  while (machine.step(0)) {
  }
  EXPECT_TRUE(machine.problems().empty());
  return optimizer.with_difference;
}

TEST(GossipModel, ADifferenceInsideThePassGivesTheBitsOfAPassOfItsOwn) {
  for (const bool with_twin : {false, true})
    for (const DType wire : {DType::f32, DType::f16})
      for (std::uint64_t seed = 1; seed <= 12; ++seed) {
        SCOPED_TRACE(testing::Message()
                     << "twin " << with_twin << " wire " << name_of(wire) << " seed " << seed);
        const std::vector<Event> events = some_events(seed);
        const DType compute = seed % 2 ? DType::f32 : DType::bf16;
        Model wanted(with_twin, compute);
        one_by_one(wanted, events, wire);
        for (const bool lazy : {false, true}) {
          Model got(with_twin, compute);
          EXPECT_GT(by_model(got, events, wire, lazy, seed), 0)
              << "differences that a pass applied";
          const auto want = wanted.everything(), have = got.everything();
          for (std::size_t i = 0; i < want.size(); ++i)
            ASSERT_EQ(std::memcmp(want[i].data(), have[i].data(), want[i].bytes()), 0)
                << i << " lazy " << lazy;
        }
      }
}

TEST(GossipModel, ADifferenceIsAppliedOnceAndByWhatComesFirst) {
  fake::Machine machine(1, 1);
  machine.eager = true;
  Model m(true, DType::f32);
  m.state.exchange_by(DType::f32, &machine.gpu(0));
  const Tensor own = m.state.outgoing(), theirs = m.state.incoming();
  OnDevice optimizer(m, machine.gpu(0));
  const auto late_in_event = [&](double t) {
    optimizer.with_difference = 0;
    m.state.gradient(t, optimizer, 0);
    return optimizer.with_difference == 1;
  };
  const auto exchange = [&](double t) {
    m.state.snapshot(t);
    Tensor(theirs).fill(2);
    m.state.arrived();
  };
  exchange(0);
  EXPECT_EQ(m.params.values().as<float>()[0], .5f) << "not before it is due";
  EXPECT_TRUE(late_in_event(1));
  EXPECT_FALSE(late_in_event(2));
  const float before = m.params.values().as<float>()[0];
  exchange(2);
  {
    const GossipModel::Access access(m.state);
    EXPECT_EQ(m.params.values().as<float>()[0], before - .5f * (own.as<float>()[0] - 2))
        << "before anybody looks";
  }
  EXPECT_FALSE(late_in_event(3));
  exchange(3);
  m.state.snapshot(3.5);
  EXPECT_FALSE(late_in_event(4)) << "the snapshot contains it";
}

// Does everything at once, and notes on which stream.
class NotingPort final : public DevicePort {
 public:
  Event make_event() override { return 0; }
  void record(Event, Stream) override {}
  void wait(Stream, Event) override {}
  bool done(Event) override { return true; }
  void run(Stream stream, const std::function<void()>& kernels) override {
    ran.push_back(stream);
    kernels();
  }
  void copy(Stream, void*, const void*, std::size_t) override { FAIL() << "nothing is copied"; }
  std::vector<Stream> ran;
};

// An exchange that is under way may wait for its peer, so nobody may wait for its stream.
TEST(GossipModel, ASketchIsThatOfTheNextSnapshotAndWaitsForNoExchange) {
  for (const bool with_twin : {false, true})
    for (const bool with_difference : {false, true}) {
      SCOPED_TRACE(testing::Message() << "twin " << with_twin << " difference " << with_difference);
      Model m(with_twin, DType::f32);
      NotingPort port;
      m.state.exchange_by(DType::f32, &port);
      if (with_twin)
        m.state.twin().fill(.125f);
      else
        m.state.numbers.eta = 0;
      if (with_difference) {
        m.state.snapshot(0);
        Tensor(m.state.incoming()).fill(2);
        m.state.arrived();
      }
      port.ran.clear();
      const PairSketch sketch = m.state.sketch(.5, 11);
      EXPECT_EQ(port.ran, std::vector{DevicePort::Stream::measure});
      m.state.snapshot(.5);
      PairSketch wanted{};
      add_sketch(m.state.outgoing(), 1, 11, wanted);
      for (std::size_t k = 0; k < kPairSketch; ++k) EXPECT_NEAR(sketch[k], wanted[k], 1e-5) << k;
    }
}

}  // namespace
}  // namespace gossamer::dist
