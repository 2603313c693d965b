// The tape: order, sharing, freeing, hooks, and what it says when misused.
#include "gossamer/core/autograd.h"

#include <cmath>
#include <functional>
#include <thread>

#include <gtest/gtest.h>

#include "gossamer/core/flat.h"
#include "gossamer/core/memory.h"
#include "gossamer/core/ops.h"

namespace gossamer {
namespace {

// on a mutable tensor the name is the setter
bool wants(const Tensor& t) { return t.requires_grad(); }
std::vector<float> list(const Tensor& t) {
  const Tensor wide = t.to(DType::f32);
  return {wide.span<float>().begin(), wide.span<float>().end()};
}
Tensor leaf(float value, Shape shape = {2}) { return Tensor::full(shape, value).requires_grad(); }

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}
bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Tape, AddsTheGradientsOfEveryUse) {
  Tensor x = leaf(3);
  const Tensor y = x * x, z = y + x + y;  // a diamond: y is used twice, x three times
  sum(z).backward();
  EXPECT_EQ(list(x.grad()), (std::vector<float>(2, 4 * 3 + 1)));
}

TEST(Tape, AddHandsOneGradientToTwoInputsWithoutMixingThem) {
  Tensor a = leaf(1), b = leaf(2);
  const Tensor h = relu(a), k = relu(b);
  // the sum for h must not be written into what k got
  sum((h + k) + h).backward();
  EXPECT_EQ(list(a.grad()), (std::vector<float>{2, 2}));
  EXPECT_EQ(list(b.grad()), (std::vector<float>{1, 1}));
}

TEST(Tape, AccumulatesOverTapesUntilMarkedStale) {
  Tensor x = leaf(1);
  sum(x * 2.0f).backward();
  sum(x * 3.0f).backward();
  EXPECT_EQ(list(x.grad()), (std::vector<float>{5, 5}));
  x.slot()->stale = true;
  EXPECT_FALSE(x.grad().defined());
  sum(x * 7.0f).backward();
  EXPECT_EQ(list(x.grad()), (std::vector<float>{7, 7}));
}

TEST(Tape, GoesThroughReshapeButNotThroughDetachOrSlice) {
  Tensor x = leaf(2, {2, 3});
  sum(square(x.reshape({3, 2}))).backward();
  EXPECT_EQ(x.grad().shape(), (Shape{2, 3}));
  EXPECT_EQ(list(x.grad()), (std::vector<float>(6, 4)));
  EXPECT_FALSE(wants(square(x.detach())));
  EXPECT_FALSE(wants(square(x.slice(0, 1))));
}

TEST(Tape, LeavesNoNodeBehindAfterBackward) {
  Tensor x = leaf(1);
  {
    Tensor y = x;
    for (int i = 0; i < 10; ++i) y = relu(y + x);
    EXPECT_GT(Node::live(), 10);
    sum(y).backward();
  }
  EXPECT_EQ(Node::live(), 0);
}

TEST(Tape, LeavesNoNodeBehindWhenAForwardPassIsAbandoned) {
  Tensor x = leaf(1);
  try {
    Tensor y = relu(x);
    y = matmul(y, y);  // throws: rank 1
    FAIL();
  } catch (const ShapeError&) {
  }
  EXPECT_EQ(Node::live(), 0);
}

TEST(Tape, FreesSavedTensorsWhileItWalks) {
  reset_peak();
  Tensor x = leaf(0.5f, {1 << 18});  // 1 MiB each
  Tensor y = x;
  for (int i = 0; i < 16; ++i) y = tanh(y);
  const Tensor loss = sum(y);
  y = Tensor();
  const std::size_t before = memory_stats().in_use;
  reset_peak();
  loss.backward();
  // Each step frees a saved MiB and makes a gradient of one: the peak stays near the start.
  EXPECT_LE(memory_stats().peak, before + (std::size_t{4} << 20));
  EXPECT_LE(memory_stats().in_use, before - (std::size_t{12} << 20));
}

TEST(Tape, WalksAndFreesVeryLongChainsWithoutRecursion) {
  Tensor x = leaf(1, {1});
  {
    Tensor y = x;
    for (int i = 0; i < 100000; ++i) y = y + x;
    sum(y).backward();
    EXPECT_EQ(x.grad().item(), 100001);
  }
  {
    Tensor y = x;  // and when nobody walks it
    for (int i = 0; i < 100000; ++i) y = neg(y);
  }
  EXPECT_EQ(Node::live(), 0);
}

TEST(Tape, RefusesASecondWalkAndSaysWhy) {
  Tensor x = leaf(1);
  const Tensor loss = sum(x * x);
  loss.backward();
  EXPECT_TRUE(has(error_of([&] { loss.backward(); }), "Run forward again"));
}

TEST(Tape, RefusesRootsThatAreNotOneElementOrWereNotRecorded) {
  Tensor x = leaf(1);
  EXPECT_TRUE(has(error_of([&] { (x * x).backward(); }), "[2]"));
  EXPECT_TRUE(has(error_of([&] { Tensor::zeros({1}).backward(); }), "nothing was recorded"));
  EXPECT_TRUE(has(error_of([&] { sum(Tensor::zeros({3})).backward(); }), "nothing was recorded"));
}

TEST(Tape, ChecksWhatAnOpReturnsAndNamesIt) {
  const auto broken = [](const Tensor& x, std::function<Grads(const Tensor&)> back) {
    Tensor y = Tensor::zeros({});
    record("broken_op", y, {x}, {},
           [back](const Tensor& g, const std::vector<Tensor>&) { return back(g); });
    return y;
  };
  Tensor x = leaf(1);
  const std::string shape = error_of(
      [&] { broken(x, [](const Tensor&) { return Grads{Tensor::zeros({3})}; }).backward(); });
  EXPECT_TRUE(has(shape, "broken_op") && has(shape, "[3]") && has(shape, "[2]")) << shape;
  const std::string count =
      error_of([&] { broken(x, [](const Tensor&) { return Grads{}; }).backward(); });
  EXPECT_TRUE(has(count, "broken_op") && has(count, "0 gradients for 1")) << count;
  const Tensor h = relu(x);
  const std::string type = error_of([&] {
    broken(h, [](const Tensor&) { return Grads{Tensor::zeros({2}, DType::bf16)}; }).backward();
  });
  EXPECT_TRUE(has(type, "broken_op") && has(type, "bf16")) << type;
}

TEST(Tape, AnUndefinedGradientMeansNone) {
  Tensor x = leaf(1), y = leaf(2);
  Tensor z = Tensor::zeros({});
  record("half", z, {x, y}, {}, [](const Tensor&, const std::vector<Tensor>&) {
    return Grads{Tensor(), Tensor::full({2}, 4)};
  });
  z.backward();
  EXPECT_FALSE(x.grad().defined());
  EXPECT_EQ(list(y.grad()), (std::vector<float>{4, 4}));
}

TEST(Tape, CallsOnReadyOnceWhenTheLastGradientOfALeafIsIn) {
  Tensor x = leaf(1), w = leaf(2);
  std::vector<std::string> calls;
  x.slot()->on_ready = [&] {
    calls.push_back("x=" + std::to_string(static_cast<int>(x.grad().span<float>()[0])));
  };
  w.slot()->on_ready = [&] { calls.push_back("w"); };
  const Tensor first = x * 2.0f;  // walked last
  sum(first + x * 3.0f + w).backward();
  EXPECT_EQ(calls, (std::vector<std::string>{"w", "x=5"}));
  calls.clear();
  x.slot()->stale = true;
  sum(x).backward();
  EXPECT_EQ(calls, (std::vector<std::string>{"x=1"}));
}

TEST(Tape, CallsOnReadyAgainAfterABackwardPassThatFailed) {
  Tensor x = leaf(1);
  int calls = 0;
  x.slot()->on_ready = [&] { ++calls; };
  const Tensor loss = sum(x * x);
  loss.backward();
  EXPECT_THROW(loss.backward(), Error);
  sum(x * x).backward();
  EXPECT_EQ(calls, 2);
}

TEST(Tape, NoGradRecordsNothingInItsThreadOnly) {
  Tensor x = leaf(1);
  {
    const NoGrad off;
    EXPECT_FALSE(wants((x * x)));
    { const NoGrad nested; }
    EXPECT_FALSE(wants((x * x))) << "the inner guard must not switch recording on";
    bool other = false;
    std::thread([&] { other = wants(x * x); }).join();
    EXPECT_TRUE(other);
  }
  EXPECT_TRUE(wants((x * x)));
}

TEST(Tape, KeepsGradientsOfBfloat16LeavesInTheirType) {
  Tensor x = Tensor::full({3}, 2, DType::bf16).requires_grad();
  sum(x * x).backward();
  EXPECT_EQ(x.grad().dtype(), DType::bf16);
  EXPECT_EQ(list(x.grad()), (std::vector<float>(3, 4)));
}

// x -> 3 x for a tape test, with a gradient that is added in place where that is offered; `offered`
// notes each offer.
Tensor triple(const Tensor& x, std::vector<std::string>& offered) {
  Tensor y = mul(x, 3.0f).detach();
  record("triple", y, {x}, {},
         BackInPlace([&offered](const Tensor& g, const std::vector<Tensor>&, const Places& places) {
           const Place& place = places[0];
           offered.push_back(!place.at.defined() ? "nothing" : place.holds_sum ? "sum" : "window");
           Tensor own = place.at.defined() ? place.at : Tensor::full(g.shape(), std::nanf(""));
           for (std::size_t i = 0; i < static_cast<std::size_t>(own.numel()); ++i)
             own.span<float>()[i] =
                 (place.holds_sum ? own.span<float>()[i] : 0.0f) + 3 * g.span<float>()[i];
           return Grads{own};
         }));
  return y;
}

TEST(Tape, OffersAnOpTheSumSoFarOfAResultThatNobodyElseSees) {
  std::vector<std::string> offered;
  Tensor x = leaf(1);
  const Tensor h = relu(x);
  const Tensor a = triple(h, offered), b = triple(h, offered), c = square(h);
  // c comes first, then b and a add to what it left
  sum(a + b + c).backward();
  EXPECT_EQ(offered, (std::vector<std::string>{"sum", "sum"}));
  EXPECT_EQ(list(x.grad()), (std::vector<float>(2, 3 + 3 + 2)));
}

TEST(Tape, OffersNoMemoryThatOthersSee) {
  std::vector<std::string> offered;
  Tensor x = leaf(1), y = leaf(1);
  const Tensor h = relu(x), k = relu(y);
  const Tensor a = triple(h, offered);
  // add gave h and k one gradient: nothing may be added to it in place
  sum((h + k) + a).backward();
  EXPECT_EQ(offered, (std::vector<std::string>{"nothing"}));
  EXPECT_EQ(list(x.grad()), (std::vector<float>(2, 4)));
  EXPECT_EQ(list(y.grad()), (std::vector<float>(2, 1)));
}

TEST(Tape, AddsAResultToItself) {
  Tensor x = leaf(1);
  const Tensor h = relu(x);
  // one tensor as both gradients of one slot is a sum all the same
  sum(h + h).backward();
  EXPECT_EQ(list(x.grad()), (std::vector<float>(2, 2)));
}

TEST(Tape, OffersTheWindowOfAFlatParameterToItsFirstGradientAndThenTheSumInIt) {
  std::vector<std::string> offered;
  Tensor w = Tensor::full({2}, 1);
  w.requires_grad();
  FlatParams flat({{"w", w}});
  for (int step = 0; step < 2; ++step) {
    flat.zero_grad();
    const Tensor a = triple(w, offered), b = triple(w, offered);
    sum(a + b).backward();
    EXPECT_EQ(list(w.grad()), (std::vector<float>(2, 6)));
    EXPECT_EQ(w.grad().data(), flat.grads().data());
  }
  EXPECT_EQ(offered, (std::vector<std::string>{"window", "sum", "window", "sum"}));
}

TEST(Tape, LetsThreadsTrainSeparateModels) {
  std::vector<std::thread> threads;
  std::vector<float> results(4);
  for (std::size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      Tensor w = leaf(1 + static_cast<float>(t), {64});
      for (int step = 0; step < 50; ++step) {
        w.slot()->stale = true;
        sum(square(w)).backward();
      }
      results[t] = w.grad().span<float>()[7];
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(results, (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(Node::live(), 0);
}

}  // namespace
}  // namespace gossamer
