// bf16 and int8 on their way: what codes stand for, error feedback, and that no method's mean
// moves.
#include "gossamer/dist/coding.h"

#include <cmath>
#include <limits>

#include "dist/workers.h"
#include "gossamer/core/error.h"
#include "support/error_of.h"

namespace gossamer::dist {
namespace {

Tensor random_values(i64 n, std::uint64_t stream, float scale = 1) {
  Tensor out = Tensor::empty({n});
  Rng random(3, stream);
  for (float& v : out.span<float>()) v = scale * random.normal();
  return out;
}

TEST(Coding, WhatIsSentIsWhatTheReceiverDecodes) {
  for (const Coding coding : {Coding::bf16, Coding::int8})
    for (const i64 n : {i64{1}, i64{255}, i64{256}, i64{257}, i64{40000}}) {
      Coded codes(coding, n);
      EXPECT_EQ(codes.bytes().numel(), coded_bytes(coding, n));
      for (const float scale : {1e-42f, 1e-30f, 1e-3f, 1.0f, 1e30f, 0.0f}) {
        const Tensor values = random_values(n, 1, scale), came = Tensor::empty({n});
        Tensor sent = values.clone();
        Coded fresh(coding, n);
        fresh.encode(sent);
        Coded::decode(coding, fresh.bytes(), came);
        float most = 0;
        for (const float v : values.span<float>()) most = std::max(most, std::abs(v));
        const float step =
            coding == Coding::int8 ? most / 127 * 0.501f + 1e-38f : most / 256 + 1e-38f;
        for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
          EXPECT_EQ(came.span<float>()[i], sent.span<float>()[i]);
          EXPECT_NEAR(sent.span<float>()[i], values.span<float>()[i], step) << scale;
        }
      }
    }
  EXPECT_EQ(coded_bytes(Coding::f32, 1000), 4000);
  EXPECT_EQ(coded_bytes(Coding::bf16, 1000), 2000);
  EXPECT_EQ(coded_bytes(Coding::int8, 1000), 1016);
}

// Codes of a part are codes: also of a last part that ends within a block, and of none.
TEST(Coding, APartOfTheCodesStandsForThatPart) {
  constexpr i64 kValues = 1000;
  for (const Coding coding : {Coding::bf16, Coding::int8}) {
    Coded codes(coding, kValues);
    const Tensor values = random_values(kValues, 3);
    codes.encode(values);  // and now they are what is decoded
    for (const FlatRange part : {FlatRange{0, 512}, {256, 512}, {512, 1000}, {1000, 1000}}) {
      const i64 n = part.end - part.begin;
      const Tensor some = Tensor::empty({coded_bytes(coding, n)}, DType::u8);
      const Tensor came = Tensor::empty({n});
      codes.copy_part(part, some);
      Coded::decode(coding, some, came);
      for (i64 i = 0; i < n; ++i)
        EXPECT_EQ(came.as<float>()[i], values.as<float>()[part.begin + i]) << part.begin;
    }
    EXPECT_THROW(codes.copy_part({1, 257}, Tensor::empty({coded_bytes(coding, 256)}, DType::u8)),
                 ShapeError);
  }
}

// The receiver can tell that the sender had no numbers.
TEST(Coding, WhatIsNotFiniteStaysSo) {
  for (const Coding coding : {Coding::bf16, Coding::int8})
    for (const float bad :
         {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      Tensor values = random_values(600, 2);
      const Tensor came = Tensor::empty({600});
      values.span<float>()[300] = bad;
      Coded codes(coding, 600);
      codes.encode(values);
      Coded::decode(coding, codes.bytes(), came);
      EXPECT_FALSE(std::isfinite(came.span<float>()[300]));
      EXPECT_TRUE(std::isfinite(came.span<float>()[10])) << "another block";
      Tensor next = random_values(600, 3);
      codes.encode(next);
      for (const float v : next.span<float>())
        EXPECT_TRUE(std::isfinite(v)) << "the next has numbers";
    }
}

// The sum of all that was sent is that of all that was given, to within one rounding.
TEST(Coding, Int8FeedsItsErrorBack) {
  constexpr i64 kSize = 512;
  constexpr int kTimes = 200;
  Coded codes(Coding::int8, kSize);
  std::vector<double> given(kSize, 0.0), sent(kSize, 0.0);
  const Tensor values = random_values(kSize, 4);
  for (int t = 0; t < kTimes; ++t) {
    Tensor now = values.clone();
    codes.encode(now);
    for (std::size_t i = 0; i < kSize; ++i) {
      given[i] += static_cast<double>(values.span<float>()[i]);
      sent[i] += static_cast<double>(now.span<float>()[i]);
    }
  }
  for (std::size_t i = 0; i < kSize; ++i) EXPECT_NEAR(sent[i], given[i], 0.03) << i;
}

// A flight that is sent again after a resume has the same codes; its error counts when it is used.
TEST(Coding, TheErrorOfAFlightIsKeptWhenItIsUsed) {
  for (const Coding coding : {Coding::bf16, Coding::int8}) {
    const Tensor error = Tensor::zeros({600}), values = random_values(600, 5),
                 sent = Tensor::empty({600});
    Coded codes(coding, 600, error);
    const auto send = [&] {
      codes.encode(values, sent);
      const auto* bytes = static_cast<const char*>(codes.bytes().data());
      const auto left = error.span<float>();
      return std::pair(std::string(bytes, static_cast<std::size_t>(codes.bytes().numel())),
                       std::vector<float>(left.begin(), left.end()));
    };
    const auto first = send();
    EXPECT_EQ(send(), first) << "nothing was kept";
    codes.keep_error(values, sent);
    double largest = 0;
    for (std::size_t i = 0; i < 600; ++i) {
      const float left = values.span<float>()[i] - sent.span<float>()[i];
      EXPECT_EQ(error.span<float>()[i], left) << i;
      largest = std::max(largest, std::abs(static_cast<double>(left)));
    }
    EXPECT_GT(largest, 0);
  }
}

TEST(Coding, ItsNamesAreKnown) {
  EXPECT_EQ(coding_of("f32"), Coding::f32);
  EXPECT_EQ(coding_of("bf16"), Coding::bf16);
  EXPECT_EQ(coding_of("int8"), Coding::int8);
  EXPECT_EQ(error_of([] { coding_of("f16"); }),
            "payload \"f16\" is unknown; known are: f32, bf16, int8");
}

// --- methods

struct Case {
  std::string method, payload;
  bool overlap = true;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.method << " " << c.payload; }
class Payloads : public testing::TestWithParam<Case> {};

// Each worker has a gradient of its own in its first step, and none afterwards: the mean of all
// models is known, and rounding must not move it.
TEST_P(Payloads, KeepTheMean) {
  const Case c = GetParam();
  constexpr int kWorkers = 4;
  const bool rounds = method_traits(c.method).synchronous;
  const int steps = rounds ? 40 : 400;
  constexpr std::size_t kDims = 600;
  std::vector<Tensor> first;
  for (int rank = 0; rank < kWorkers; ++rank)
    first.push_back(random_values(kDims, 10 + static_cast<std::uint64_t>(rank)));
  LocalCluster cluster(kWorkers);
  Pace pace(kWorkers);
  std::atomic<double> sent = 0;
  on_workers(cluster, kWorkers, [&](int rank, Group& group) {
    Quadratic q(0, kDims);
    MethodOptions options;
    options.batch = 2;
    options.total_samples = 2.0 * kWorkers * steps;
    options.exchange_timeout_s = 5;
    options.settings.set("period", 2);
    options.settings.set("outer_rate", 1);
    options.settings.set("outer_momentum", 0);
    options.settings.set("overlap", c.overlap);
    options.settings = options.settings.only(method_settings(c.method));
    options.payload = c.payload;
    if (rounds) options.rounds = c.method == "sgp" ? "one-peer-exp-directed" : "one-peer-exp";
    auto method =
        make_method(c.method, q.params, q.sgd, group, make_graph("complete", kWorkers), options);
    {
      const Pace::Leaves leaves{pace, rank};
      for (int step = 0; !method->done(); ++step) {
        Tensor(q.params.grads()).zero();
        if (step == 0)
          Tensor(q.params.grads()).slice(0, kDims).copy_from(first[static_cast<std::size_t>(rank)]);
        method->step(1);
        if (!rounds) pace.step(rank);
      }
    }
    sent += method->stats().bytes_sent;
    method->finish();
    double worst = 0;
    for (std::size_t k = 0; k < kDims; ++k) {
      double want = 0;
      for (const Tensor& g : first) want -= static_cast<double>(g.span<float>()[k]) / kWorkers;
      worst =
          std::max(worst, std::abs(static_cast<double>(q.params.values().span<float>()[k]) - want));
    }
    EXPECT_LT(worst, 2e-5);
  });
  EXPECT_GT(sent, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Methods, Payloads,
    testing::Values(Case{"a2cid2", "bf16"}, Case{"a2cid2", "int8"}, Case{"adpsgd", "bf16"},
                    Case{"adpsgd", "int8"}, Case{"dpsgd", "bf16"}, Case{"dpsgd", "int8"},
                    Case{"dpsgd", "int8", false}, Case{"sgp", "bf16"}, Case{"sgp", "int8"},
                    Case{"sgp", "int8", false}, Case{"noloco", "bf16"}, Case{"noloco", "int8"},
                    Case{"diloco", "bf16"}, Case{"diloco", "int8"}),
    [](const auto& test) {
      return test.param.method + "_" + test.param.payload + (test.param.overlap ? "" : "_waits");
    });

TEST(PayloadErrors, AreRefusedWhereSumsAreMadeInF32) {
  for (const std::string name : {"allreduce", "local-sgd", "relay-sgd"}) {
    const std::string error = error_of([&] {
      LocalCluster cluster(1);
      Quadratic q(0, 5);
      MethodOptions options;
      options.payload = "bf16";
      make_method(name, q.params, q.sgd, cluster.group(0), make_graph("ring", 1), options);
    });
    const std::size_t list = error.find("payload bf16; it must be f32 for ");
    ASSERT_NE(list, std::string::npos) << error;
    EXPECT_NE(error.find(name, list), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace gossamer::dist
