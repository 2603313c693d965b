// A program may exit while its other threads compute: nothing that they use is destroyed.
#include <array>
#include <string>

#include <gtest/gtest.h>

#include "gossamer/core/backend.h"
#include "gossamer/core/compute.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/parallel.h"
#include "support/exits.h"

namespace gossamer {
namespace {

// Of another size in each turn, so that oneDNN makes something new.
void convolve(const std::string& engine, int turn) {
  const i64 side = 8 + turn % 50;
  const ConvGeometry g{2, side, side, 3, 16, 5, 5, side, side, 1, 2, 1, 1};
  const Tensor x = Tensor::full({g.n, g.h, g.w, g.c}, 1), w = Tensor::full({g.k, g.r, g.s, g.c}, 1),
               dy = Tensor::full({g.n, g.ho, g.wo, g.k}, 1);
  Tensor y = Tensor::empty(dy.shape()), dx = Tensor::empty(x.shape()),
         dw = Tensor::empty(w.shape());
  backend(engine).conv(g, x, w, y);
  backend(engine).conv_dx(g, dy, w, dx);
  backend(engine).conv_dw(g, x, dy, dw);
}

TEST(Exit, WhileThreadsConvolveOnEveryBackend) {
  std::vector<std::function<void(int)>> works;
  for (const std::string& engine : backend_names()) {
    for (int i = 0; i < 2; ++i)
      works.emplace_back([engine, i](int turn) {
        set_compute_threads(1 + i);
        convolve(engine, 3 * turn + i);
      });
  }
  testing::expect_clean_exits(100, 2, works);
}

TEST(Exit, WhileThreadsDifferentiate) {
  const auto work = [](int turn) {
    set_compute_threads(1 + turn % 2);
    const Tensor x = Tensor::full({16, 32}, 1), w = Tensor::full({64, 32}, .1f).requires_grad();
    mean(gelu(linear(x, w, {}))).backward();
  };
  testing::expect_clean_exits(100, 3, {work, work, work});
}

}  // namespace
}  // namespace gossamer
