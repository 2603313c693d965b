// What only a GPU can show: streams and events, copies, memory in stream order, pinned memory,
// graphs, out of memory.
#include <cstring>
#include <thread>

#include <gtest/gtest.h>

#include "gossamer/core/blocks.h"
#include "gossamer/core/cuda.h"
#include "gossamer/core/cuda/backend_cuda.h"
#include "gossamer/core/cuda/conv_term.h"
#include "gossamer/core/ops.h"

namespace gossamer {
namespace {

using cuda::Event;
using cuda::Stream;

class Gpu : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda::device_count() == 0) GTEST_SKIP() << cuda::why_none();
  }
  const Device gpu = Device::cuda();
};

Tensor ramp(i64 n) {
  Tensor t = Tensor::empty({n});
  for (i64 i = 0; i < n; ++i) t.as<float>()[i] = static_cast<float>(i % 1000) - 500;
  return t;
}

TEST_F(Gpu, TensorsComeBackAsTheyWent) {
  const Tensor x = ramp(1000003);
  const Tensor back = x.to(gpu).to(Device::cpu());
  EXPECT_EQ(std::memcmp(x.data(), back.data(), x.bytes()), 0);
  for (const DType type : {DType::bf16, DType::u8, DType::i32, DType::i64}) {
    const Tensor small = Tensor::full({1001}, 7, type),
                 there = small.to(gpu).to(DType::f32).to(Device::cpu());
    for (const float v : there.span<float>()) ASSERT_EQ(v, 7.0f);
  }
  EXPECT_EQ(Tensor::full({}, 2.5f, DType::f32, gpu).item(), 2.5f);
  EXPECT_EQ(Tensor::zeros({3}, DType::i32, gpu).to(Device::cpu()).as<std::int32_t>()[2], 0);
  EXPECT_NEAR(squared_norm(x.to(gpu)), squared_norm(x), 1e-6 * squared_norm(x));
}

TEST_F(Gpu, StreamsWaitForEachOtherWithoutTheHost) {
  const Stream other(gpu, Stream::Priority::high);
  Tensor x = Tensor::zeros({1 << 24}, DType::f32, gpu);
  const std::uint64_t before = cuda::waits();
  for (int i = 0; i < 50; ++i) x.fill(static_cast<float>(i));
  const Event filled(gpu);
  filled.record(cuda::current_stream(gpu));
  other.wait(filled);
  Tensor y;
  {
    const cuda::UseStream use(other);
    y = x.clone();
  }
  const Event copied(gpu);
  copied.record(other);
  cuda::current_stream(gpu).wait(copied);
  x.fill(-1);
  EXPECT_LE(cuda::waits() - before, 2u) << "only the cache may have asked for memory";
  EXPECT_EQ(y.to(Device::cpu()).as<float>()[(1 << 24) - 1], 49.0f);
}

TEST_F(Gpu, EventsMeasureTimeAndKeepDeadlines) {
  const Event begin(gpu, Event::Timing::on), end(gpu, Event::Timing::on);
  const Stream& stream = cuda::current_stream(gpu);
  Tensor x = Tensor::empty({1 << 26}, DType::f32, gpu);
  begin.record(stream);
  for (int i = 0; i < 100; ++i) x.fill(1);
  end.record(stream);
  EXPECT_FALSE(end.wait(std::chrono::milliseconds(0)));
  ASSERT_TRUE(end.wait(std::chrono::seconds(30)));
  EXPECT_GT(Event::milliseconds(begin, end), 0.0);
  EXPECT_TRUE(stream.idle());
}

TEST_F(Gpu, MemoryUsedOnAnotherStreamIsNotGivenOutBeforeThatIsDone) {
  const Stream other(gpu);
  auto block = allocate(64 << 20, gpu);
  void* const data = block->data;
  for (int i = 0; i < 200; ++i) cuda::fill(data, 1, 64 << 20, other);
  cuda::record_use(*block, other);
  block.reset();
  if (!other.idle()) EXPECT_NE(allocate(64 << 20, gpu)->data, data);
  other.synchronize();
  bool again = false;
  std::vector<std::shared_ptr<Block>> kept;
  for (int i = 0; i < 4 && !again; ++i)
    again = kept.emplace_back(allocate(64 << 20, gpu))->data == data;
  EXPECT_TRUE(again);
}

TEST_F(Gpu, OutOfMemorySaysWhereItWent) {
  const std::size_t total = cuda::free_memory(gpu).total;
  try {
    (void)Tensor::empty({static_cast<i64>(total)}, DType::f32, gpu);
    FAIL() << "four times the memory of the device cannot be there";
  } catch (const DeviceError& e) {
    for (const char* part :
         {"out of memory on cuda:0", "wanted", "in use by tensors", "cached", "smaller batch"})
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
  }
  EXPECT_EQ(Tensor::full({4}, 3, DType::f32, gpu).to(Device::cpu()).as<float>()[3], 3.0f)
      << "and life goes on";
}

TEST_F(Gpu, AGraphRepeatsItsWork) {
  Tensor x = Tensor::zeros({1 << 20}, DType::f32, gpu),
         one = Tensor::full({1 << 20}, 1, DType::f32, gpu);
  const cuda::Graph graph = cuda::Graph::capture(gpu, [&] {
    const Tensor twice = add(one, one);  // lives in the graph's own memory
    axpy(x, 0.5f, twice);
  });
  EXPECT_EQ(graph.nodes(), 2u);
  EXPECT_EQ(x.to(Device::cpu()).as<float>()[5], 0.0f) << "capturing computes nothing";
  for (int i = 0; i < 10; ++i) graph.launch(cuda::current_stream(gpu));
  EXPECT_EQ(x.to(Device::cpu()).as<float>()[(1 << 20) - 1], 10.0f);
  EXPECT_THROW((void)cuda::Graph::capture(gpu, [&] { (void)x.to(Device::cpu()); }), DeviceError);
  EXPECT_EQ(squared_norm(one), 1 << 20) << "a failed capture leaves the device in order";
}

// What waits for it after a launch sees the work of that launch before the event, and need not wait
// for what is behind it.
TEST_F(Gpu, AnEventOfAGraphIsMarkedByEachLaunch) {
  const auto zeros = [&](i64 n) { return Tensor::zeros({n}, DType::f32, gpu); };
  Tensor x = zeros(1 << 20), seen = zeros(1 << 20), y = zeros(1 << 24);
  const Tensor one = Tensor::full({1 << 20}, 1, DType::f32, gpu),
               many = Tensor::full({1 << 24}, 1, DType::f32, gpu);
  const cuda::Event half(gpu);
  const cuda::Graph graph = cuda::Graph::capture(gpu, [&] {
    for (int i = 0; i < 50; ++i) axpy(y, 1, many);  // so that the event is late
    axpy(x, 1, one);
    half.record_external(cuda::current_stream(gpu));
    for (int i = 0; i < 50; ++i) axpy(y, 1, many);
  });
  EXPECT_EQ(graph.nodes(), 102u) << "100 passes, one that counts, and the event";
  EXPECT_TRUE(half.done()) << "nothing was marked yet";
  const Stream other(gpu, Stream::Priority::high);
  for (int launch = 1; launch <= 10; ++launch) {
    if (launch == 5) {  // between launches, eagerly
      axpy(x, 1, one);
      half.record_external(cuda::current_stream(gpu));
    } else {
      graph.launch(cuda::current_stream(gpu));
    }
    other.wait(half);
    cuda::copy(seen.data(), x.data(), x.bytes(), other);
    const cuda::Event copied(gpu);
    copied.record(other);
    ASSERT_TRUE(copied.wait(std::chrono::seconds(30)));
    EXPECT_TRUE(half.done());
    EXPECT_EQ(seen.to(Device::cpu()).as<float>()[(1 << 20) - 1], static_cast<float>(launch));
  }
  EXPECT_EQ(y.to(Device::cpu()).as<float>()[7], 900.0f);
}

TEST_F(Gpu, MeasuredPlansAreRightAndUsedAgain) {
  const ConvGeometry g{16, 28, 28, 64, 128, 3, 3, 28, 28, 1, 1, 1, 1};
  const Tensor x = ramp(16 * 28 * 28 * 64).reshape({16, 28, 28, 64}).to(gpu).to(DType::bf16),
               w = ramp(128 * 9 * 64).reshape({128, 3, 3, 64}).to(gpu).to(DType::bf16);
  Tensor y = Tensor::empty({16, 28, 28, 128}, DType::bf16, gpu);
  backend(gpu).conv(g, x, w, y);
  const std::uint64_t before = cuda::waits();
  backend(gpu).conv(g, x, w, y);
  EXPECT_EQ(cuda::waits(), before) << "a known problem waits for nothing";
  EXPECT_LT(cudnn::conv_error(gpu, cudnn::problem_of(cudnn::ConvOp::forward, DType::bf16, g),
                              {x.data(), w.data(), y.data()}),
            3e-2);
  for (const auto& choice : conv_engine(gpu).choices())
    std::printf("%s: %s, %s, %.1f us\n", choice.problem.key().c_str(), choice.plan.c_str(),
                choice.from.c_str(), choice.microseconds);
}

}  // namespace
}  // namespace gossamer
