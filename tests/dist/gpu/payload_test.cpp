// Training with exchanges between fake GPUs, with the threads of a real run: training, pairing, GPU
// exchange and device of every worker. For TSan.
#include "gossamer/dist/gpu/payload.h"

#include <future>

#include <gmock/gmock.h>

#include "dist/gpu/fakes.h"
#include "dist/workers.h"
#include "gossamer/dist/gpu/device_group.h"
#include "gossamer/dist/gpu/nccl_channel.h"
#include "gossamer/dist/gpu/nccl_port.h"
#include "gossamer/dist/local/local_cluster.h"
#include "gossamer/dist/time.h"
#include "support/use_backend.h"

namespace gossamer::dist {
namespace {

// Messages between threads.
class Post {
 public:
  explicit Post(int n) : handlers_(static_cast<std::size_t>(n)) {}
  void send(int from, int to, std::span<const char> message) {
    const std::scoped_lock lock(mutex_);
    if (const auto& r = handlers_.at(static_cast<std::size_t>(to));
        r.message && !cut_.contains(std::minmax(from, to)))
      r.message(from, message);
  }
  void on_events(int rank, SideChannel::Handlers h) {
    const std::scoped_lock lock(mutex_);
    handlers_.at(static_cast<std::size_t>(rank)) = std::move(h);
  }
  void mark_dead(int rank) {
    const std::scoped_lock lock(mutex_);
    for (std::size_t i = 0; i < handlers_.size(); ++i) {
      cut_.insert(std::minmax(rank, static_cast<int>(i)));
      if (static_cast<int>(i) != rank && handlers_[i].dead) handlers_[i].dead(rank);
    }
  }

 private:
  std::mutex mutex_;
  std::vector<SideChannel::Handlers> handlers_;
  std::set<std::pair<int, int>> cut_;
};

// What a worker's exchanges stand on.
struct Setup {
  Setup(int rank, fake::Machine& machine, Post& post, Group& group, bool peer_copy,
        const GpuEdge::Limits& limits)
      : rank_(rank), post_(post) {
    fake::Gpu& gpu = machine.gpu(rank);
    if (peer_copy)
      maker = std::make_unique<PeerCopyMaker>(gpu, memory);
    else
      maker = std::make_unique<NcclChannelMaker>(rank, gpu, gpu, 2, 1);
    payload = std::make_unique<GpuPayload>(
        rank, gpu, [this](int) -> GpuChannelMaker& { return *maker; },
        GpuPayload::Outside{
            .send = [&post, rank](int to,
                                  std::vector<char> message) { post.send(rank, to, message); },
            .post = [&group](Event e) { group.control().post(std::move(e)); },
            .clock = wall_seconds},
        limits);
    post.on_events(rank, {.message =
                              [this](int from, std::span<const char> message) {
                                payload->message(from, message);
                              },
                          .dead = [this](int peer) { payload->dead(peer); }});
  }
  ~Setup() { post_.on_events(rank_, {}); }
  const int rank_;
  Post& post_;
  fake::Memory memory;
  std::unique_ptr<GpuChannelMaker> maker;
  std::unique_ptr<GpuPayload> payload;
};

struct Trial {
  int workers = 3;
  const char* method = "a2cid2";
  DType wire = DType::f32;
  bool peer_copy = false;
  fake::Faults faults{};
  double gradients = 600;  // on a loaded machine some time goes by before each has met somebody
  int dies = -1;
  double learning_rate = .05;
};
struct Outcome {
  std::vector<MethodStats> stats;
  std::vector<std::vector<float>> x;
  std::vector<std::string> problems;
};

Outcome train(const Trial& run) {
  // as on a GPU: differences go with the optimizer's pass
  const UseBackend passes("cuda_emulated");
  fake::Machine machine(run.workers, 3, run.faults);
  machine.eager = true;
  LocalCluster cluster(run.workers, Seconds(.3));
  Post post(run.workers);
  std::atomic<bool> over = false;
  std::vector<std::thread> devices;
  for (int i = 0; i < run.workers; ++i)
    devices.emplace_back([&, i] {
      while (!over)
        if (!machine.step(i)) std::this_thread::sleep_for(std::chrono::microseconds(20));
    });
  Outcome out{.stats = std::vector<MethodStats>(static_cast<std::size_t>(run.workers)),
              .x = std::vector<std::vector<float>>(static_cast<std::size_t>(run.workers)),
              .problems = {}};
  std::exception_ptr error;
  try {
    on_workers(cluster, run.workers, [&](int rank, Group& host) {
      Quadratic q(rank, 40);
      MethodOptions options;
      options.total_samples = run.gradients * run.workers;
      options.seed = 4;
      options.exchange_timeout_s = run.faults.transfer_hangs > 0 ? .3 : 20;
      options.exchange_least_s = .2;
      options.wire = run.wire;
      Setup setup(rank, machine, post, host, run.peer_copy,
                  {.grace_s = run.dies < 0 ? 30. : 1, .abort_s = 30});
      DeviceGroup group({.host = host, .port = machine.gpu(rank), .edges = setup.payload.get()});
      auto method =
          make_method(run.method, q.params, q.sgd, group, make_graph("ring", run.workers), options);
      while (!method->done()) {
        q.gradient();
        std::this_thread::sleep_for(std::chrono::microseconds(300));
        method->step(run.learning_rate);
        if (rank == run.dies && method->stats().gradients > 20) {
          machine.kill(rank);
          cluster.kill(rank);
          post.mark_dead(rank);
          fail<Error>("killed");
        }
      }
      method->finish();
      out.stats[static_cast<std::size_t>(rank)] = method->stats();
      const auto x = q.params.values().span<float>();
      out.x[static_cast<std::size_t>(rank)].assign(x.begin(), x.begin() + 40);
    });
  } catch (...) {
    error = std::current_exception();
  }
  over = true;
  for (std::thread& t : devices) t.join();
  out.problems = machine.problems();
  if (error) std::rethrow_exception(error);
  return out;
}

void expect_trained(const Outcome& out, const Trial& run) {
  EXPECT_THAT(out.problems, testing::IsEmpty());
  for (int rank = 0; rank < run.workers; ++rank) {
    if (rank == run.dies) continue;
    EXPECT_GT(out.stats[static_cast<std::size_t>(rank)].exchanges, 0) << "worker " << rank;
    ASSERT_EQ(out.x[static_cast<std::size_t>(rank)].size(), 40u);
    const float x = out.x[static_cast<std::size_t>(rank)][0],
                last = static_cast<float>(run.workers - 1);
    if (run.learning_rate == 0)
      EXPECT_NEAR(x, last / 2, 1e-4)
          << "nothing but exchanges moved the workers, so their mean must be what it was";
    else
      EXPECT_TRUE(x > -.1f && x < last + .1f) << x << ": targets are 0 to " << last;
    EXPECT_EQ(out.x[static_cast<std::size_t>(rank)], out.x[run.dies == 0 ? 1 : 0]);
  }
}

TEST(GpuTraining, RunsOverNcclEdges) {
  const Trial run;
  expect_trained(train(run), run);
}

TEST(GpuTraining, KeepsTheMeanOverNcclEdgesAndPeerCopiesInBothWireFormats) {
  for (const bool peer_copy : {false, true})
    for (const DType wire : {DType::f32, DType::f16}) {
      SCOPED_TRACE(std::string(peer_copy ? "copies, " : "nccl, ") + name_of(wire));
      const Trial run{.method = peer_copy ? "adpsgd" : "a2cid2",
                      .wire = wire,
                      .peer_copy = peer_copy,
                      .gradients = 600,
                      .learning_rate = 0};
      expect_trained(train(run), run);
    }
}

TEST(GpuTraining, KeepsTheMeanWhenExchangesFailAndHang) {
  const Trial run{.faults = {.init_fails = .1, .transfer_fails = .1, .transfer_hangs = .01},
                  .gradients = 600,
                  .learning_rate = 0};
  const Outcome out = train(run);
  expect_trained(out, run);
  i64 failed = 0;
  for (const MethodStats& s : out.stats) failed += s.failed;
  EXPECT_GT(failed, 0);
}

TEST(GpuTraining, GoesOnWhenAWorkerDies) {
  const Trial run{.workers = 4, .faults = {.notices = false}, .gradients = 600, .dies = 2};
  expect_trained(train(run), run);
}

TEST(GpuPayload, SaysWhatIsWrongWithACall) {
  fake::Machine machine(2, 1);
  fake::Memory memory;
  PeerCopyMaker maker(machine.gpu(0), memory);
  GpuPayload payload(
      0, machine.gpu(0), [&](int) -> GpuChannelMaker& { return maker; },
      {.send = [](int, std::vector<char>) {}, .post = [](Event) {}, .clock = wall_seconds});
  const Tensor own = Tensor::zeros({4}), theirs = Tensor::zeros({4}), other = Tensor::zeros({5});
  EXPECT_THROW(payload.exchange(1, 7, own, other, {}, Seconds(100)), ShapeError);
  EXPECT_THROW(payload.exchange(1, 7, own, {}, {}, Seconds(100)), ShapeError);
  payload.exchange(1, 7, own, theirs, {}, Seconds(100));
  EXPECT_THROW(payload.exchange(1, 8, own, theirs, {}, Seconds(100)), DistError);
  EXPECT_THROW(payload.drain(Seconds(0)), DistError);
  payload.abort(1);
  payload.drain(Seconds(60));
}

// A device that fails, for good, when the test says so.
class FailingDevice final : public DevicePort {
 public:
  explicit FailingDevice(DevicePort& inner) : inner_(inner) {}
  void fail_now() { failed_ = true; }
  Event make_event() override { return working().make_event(); }
  void record(Event e, Stream stream) override { working().record(e, stream); }
  void wait(Stream stream, Event e) override { working().wait(stream, e); }
  bool done(Event e) override { return working().done(e); }
  void run(Stream stream, const std::function<void()>& kernels) override {
    working().run(stream, kernels);
  }
  void copy(Stream stream, void* to, const void* from, std::size_t bytes) override {
    working().copy(stream, to, from, bytes);
  }

 private:
  DevicePort& working() {
    check<DeviceError>(!failed_, "an illegal memory access");
    return inner_;
  }
  DevicePort& inner_;
  std::atomic<bool> failed_ = false;
};

TEST(GpuPayload, ACallThatFailsLeavesNothingUnderWay) {
  fake::Machine machine(2, 1);
  FailingDevice device(machine.gpu(0));
  fake::Memory memory;
  PeerCopyMaker maker(device, memory);
  GpuPayload payload(
      0, device, [&](int) -> GpuChannelMaker& { return maker; },
      {.send = [](int, std::vector<char>) {}, .post = [](Event) {}, .clock = wall_seconds});
  const Tensor own = Tensor::zeros({4}), theirs = Tensor::zeros({4});
  device.fail_now();
  EXPECT_THROW(payload.exchange(1, 7, own, theirs, {}, Seconds(100)), DeviceError);
  EXPECT_NO_THROW(payload.drain(Seconds(0)));
}

TEST(GpuPayload, AnExchangeEndsThoughTheDeviceFailsBeforeItBegins) {
  fake::Machine machine(2, 1);
  std::promise<Event> ended;
  GpuPayload payload(0, machine.gpu(0),
                     [](int) -> GpuChannelMaker& { fail<DeviceError>("an illegal memory access"); },
                     {.send = [](int, std::vector<char>) {},
                      .post = [&](Event e) { ended.set_value(std::move(e)); },
                      .clock = wall_seconds});
  const Tensor own = Tensor::zeros({4}), theirs = Tensor::zeros({4});
  payload.exchange(1, 7, own, theirs, {}, Seconds(100));
  auto end = ended.get_future();
  ASSERT_EQ(end.wait_for(std::chrono::minutes(1)), std::future_status::ready);
  const Event e = end.get();
  EXPECT_FALSE(e.ok);
  EXPECT_EQ(e.peer, 1);
  EXPECT_EQ(e.session, 7u);
  EXPECT_EQ(e.why, "an illegal memory access");
  payload.drain(Seconds(60));
}

// The error that ended the worker is still to be told when its edges go.
TEST(GpuEdge, GoesQuietlyWhenItsDeviceHasFailed) {
  fake::Machine machine(2, 1);
  FailingDevice device(machine.gpu(0));
  fake::Memory memory;
  PeerCopyMaker maker(device, memory);
  std::vector<double> own(2), received(2), of_peer(2);
  {
    GpuEdge edge(0, 1, device, maker, {});
    const DevicePort::Event taken = device.make_event();
    edge.begin({.session = 3,
                .send = own.data(),
                .receive = received.data(),
                .bytes = 2 * sizeof(double),
                .snapshot = taken,
                .note = {},
                .inspect = {},
                .sound = {},
                .until = 100},
               0);
    using Kind = EdgeMessage::Kind;
    const Sent theirs{.data = of_peer.data(), .bytes = 2 * sizeof(double)};
    edge.receive({.kind = Kind::open, .session = 3, .generation = 0, .bytes = memory.share(theirs)},
                 0);
    std::vector<char> size(sizeof(std::uint64_t));
    const std::uint64_t bytes = theirs.bytes;
    std::memcpy(size.data(), &bytes, sizeof bytes);
    edge.receive({.kind = Kind::ready, .session = 3, .generation = 3, .bytes = size}, 0);
    edge.poll(0);
    ASSERT_EQ(edge.phase(), GpuEdge::Phase::moving);
    device.fail_now();
    EXPECT_THROW(edge.poll(0), DeviceError);
  }
  while (machine.step(0)) {
  }
}

TEST(Nccl, IsFoundOrItIsSaidWhyNot) {
  const std::string version = nccl_version();
  EXPECT_TRUE(version.starts_with("2.") || version.find("NCCL") != std::string::npos) << version;
  RecordProperty("nccl", version);
}

TEST(EdgeMessage, DamagedBytesAreRefused) {
  const EdgeMessage message{
      .kind = EdgeMessage::Kind::ready, .session = 7, .generation = 3, .bytes = {1, 2, 3}};
  const std::vector<char> good = encode(message);
  EdgeMessage out;
  EXPECT_EQ(decode(good, out), nullptr);
  EXPECT_EQ(out, message);
  Rng random(5);
  for (int i = 0; i < 20'000; ++i) {
    std::vector<char> bad = good;
    bad.resize(random.below(static_cast<std::uint32_t>(2 * good.size())));
    for (int k = 0; k < 3 && !bad.empty(); ++k)
      bad[random.below(static_cast<std::uint32_t>(bad.size()))] =
          static_cast<char>(random.below(256));
    if (decode(bad, out) == nullptr) EXPECT_EQ(encode(out), bad) << "one form for one meaning";
  }
  EXPECT_THROW(encode({.kind = EdgeMessage::Kind::offer,
                       .session = 1,
                       .generation = 0,
                       .bytes = std::vector<char>(2000)}),
               DistError);
}

}  // namespace
}  // namespace gossamer::dist
