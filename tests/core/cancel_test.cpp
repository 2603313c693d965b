// Work that another thread ends.
#include "gossamer/core/cancel.h"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "gossamer/core/ops.h"

namespace gossamer {
namespace {

TEST(Cancel, EndsTheNextKernelOfThatThreadAlone) {
  std::atomic<bool> flag = false;
  const Tensor x = Tensor::full({100}, 1);
  {
    const CancelScope scope(flag);
    EXPECT_EQ(add(x, x).span<float>()[9], 2);
    flag = true;
    EXPECT_THROW(add(x, x), Cancelled);
    EXPECT_THROW(check_cancelled(), Cancelled);
    std::thread([&] { EXPECT_EQ(add(x, x).span<float>()[9], 2); }).join();
    flag = false;
    EXPECT_EQ(add(x, x).span<float>()[9], 2);
    flag = true;
    const std::atomic<bool> other = false;
    const CancelScope inner(other);
    EXPECT_NO_THROW(check_cancelled());
  }
  EXPECT_NO_THROW(check_cancelled());
}

}  // namespace
}  // namespace gossamer
