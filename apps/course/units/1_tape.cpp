// Unit 1 of the course: an op of your own, with its gradient. Fill the hole, then
//   gossamer course check 1
#include "check.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/tape.h"
#include "gossamer/models/registry.h"

using namespace gossamer;

// Your prediction: how many megabytes (10^6 bytes) does the tape of a resnet20-cifar keep for 16
// pictures of 32 x 32?
const double prediction = NAN;

// y = x s(x), s(x) = 1 / (1 + e^-x), element by element; x is f32.
Tensor swish(const Tensor& x) {
  Tensor y = Tensor::zeros(x.shape());
  // The hole: 1. y from x (x.span<float>() and y.span<float>() are their elements);
  // 2. record("swish", y, {x}, {what you keep}, [](const Tensor& g, const std::vector<Tensor>&
  // kept)
  //    -> Grads { return {the gradient of x}; });
  return y;
}

// ---- The test. `gossamer course check` uses its own copy of what follows.

double megabytes_of_a_tape() {
  const auto model = models::make("resnet20-cifar");
  const Tensor loss = mean((*model)(Tensor::full({16, 32, 32, 3}, .5f)));
  return static_cast<double>(tape_bytes(tape(loss), model->parameters())) / 1e6;
}

int main() {
  using course::expect;
  const std::vector<float> at = {-3, -1, -.25f, 0, .5f, 2}, c = {1, -2, 3, .5f, -1, 4};
  const auto exact = [](double v) { return v / (1 + std::exp(-v)); };
  const auto slope = [&](double v) { return (exact(v + 1e-4) - exact(v - 1e-4)) / 2e-4; };
  Tensor x = Tensor::from(at, {2, 3});
  const Tensor weights = Tensor::from(c, {2, 3});
  const Tensor y = swish(x);
  for (std::size_t k = 0; k < at.size(); ++k)
    expect(course::near(y.span<float>()[k], exact(at[k]), 1e-5),
           "swish(" + course::shown(at[k]) + ") is " +
               course::shown_beside(exact(at[k]), y.span<float>()[k]),
           "it is " + course::shown_beside(y.span<float>()[k], exact(at[k])) +
               "; y is x times 1 / (1 + e^-x)");
  course::done("the values of y");

  x.requires_grad();
  const auto before = Node::live();
  {
    const Tensor loss = sum(swish(swish(x)));
    expect(loss.requires_grad(), "the loss knows that it depends on x",
           "nothing is on the tape: call record() once y is computed");
  }
  expect(Node::live() == before, "a loss that is dropped without backward() leaves no tape",
         std::to_string(Node::live() - before) +
             " nodes are left: the closure captures y, which holds the node that holds the "
             "closure. Keep what you need by the fourth argument of record(), and capture nothing");
  {
    const Tensor loss = sum(swish(x));
    const std::size_t kept = tape_bytes(tape(loss));
    expect(kept > 0, "the tape keeps what the derivative needs",
           "it keeps nothing: give x to the fourth argument of record(), and capture nothing");
    expect(kept <= x.bytes(), "the tape keeps " + std::to_string(x.bytes()) + " bytes, those of x",
           "it keeps " + std::to_string(kept) +
               ": s can be computed again from x, in one op, by record()");
  }
  course::done("what is kept: x, and only as long as the tape");
  sum(mul(swish(x), weights)).backward();
  expect(Node::live() == before, "nothing is left of the tape",
         "something outside of the tape holds a tensor of it: keep x by the fourth argument of "
         "record(), and nowhere else");
  expect(x.grad().defined(), "x has a gradient", "return one gradient for each input");
  bool without_g = true;
  for (std::size_t k = 0; k < at.size(); ++k)
    without_g = without_g && course::near(x.grad().span<float>()[k], slope(at[k]), 1e-3);
  for (std::size_t k = 0; k < at.size(); ++k) {
    const double wanted = c[k] * slope(at[k]), got = x.grad().span<float>()[k];
    expect(course::near(got, wanted, 2e-3),
           "the gradient at " + course::shown(at[k]) + " is " + course::shown_beside(wanted, got),
           without_g ? "that is dy/dx; what comes back is g dy/dx, g the gradient of y"
                     : "it is " + course::shown_beside(got, wanted) +
                           "; dy/dx = s + x s (1 - s), by the rule for products");
  }
  course::done("the gradient, against finite differences");
  {
    const auto nodes = tape(swish(x));
    const Tensor ones = Tensor::full(x.shape(), 1.f), zeros = Tensor::zeros(x.shape());
    const std::vector<Tensor> kept(nodes.back()->saved.size(), zeros);
    const Grads of_zero = nodes.back()->back(ones, kept, {Place{}});
    for (const float got : of_zero.at(0).span<float>())
      expect(course::near(got, .5, 1e-3), "the closure reads x from what is kept",
             "the test put zeros there, and the gradient is " + course::shown(got) +
                 " instead of 0.5: read kept[0], and capture nothing");
  }
  course::done("the closure reads what is kept");

  x = Tensor::from(at, {2, 3});
  x.requires_grad();
  sum(swish(swish(x))).backward();
  for (std::size_t k = 0; k < at.size(); ++k) {
    const double wanted = slope(exact(at[k])) * slope(at[k]);
    expect(course::near(x.grad().span<float>()[k], wanted, 2e-3), "swish of swish has a gradient",
           "what was kept has changed since: keep x, not a memory that is used again");
  }
  course::done("the chain rule: swish of swish");
  course::predicted(prediction, megabytes_of_a_tape(), .25, "the megabytes of the tape");
  return course::end();
}
