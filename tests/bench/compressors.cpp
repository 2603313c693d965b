// Times what methods that compress do to a model on one core: bytes of f32 values encoded and
// decoded a second, in CPU time, beside a copy. The digest is of the codes, which are the same on
// every machine.
//     bench_compressors [REPETITIONS]     (9)
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "gossamer/core/io/xxh3.h"
#include "gossamer/core/parallel.h"
#include "gossamer/core/random.h"
#include "gossamer/core/tensor.h"
#include "gossamer/dist/coding.h"
#include "gossamer/dist/compressor.h"

namespace gossamer::dist {
namespace {

// The parameters of a model: how many values each has.
using Sizes = std::vector<i64>;

Sizes resnet20() {
  Sizes all{3 * 3 * 3 * 16, 16, 16};
  for (i64 stage = 0, in = 16; stage < 3; ++stage)
    for (i64 conv = 0, out = i64{16} << stage; conv < 6; ++conv, in = out)
      all.insert(all.end(), {9 * in * out, out, out});
  all.insert(all.end(), {64 * 10, 10});
  return all;
}

double median_seconds(int repetitions, const std::function<void()>& work) {
  std::vector<double> times;
  for (int k = 0; k < repetitions; ++k) {
    timespec begin, end;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    work();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    times.push_back(static_cast<double>(end.tv_sec - begin.tv_sec) +
                    1e-9 * static_cast<double>(end.tv_nsec - begin.tv_nsec));
  }
  const auto middle = times.begin() + repetitions / 2;
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

struct Case {
  const char* name;
  CompressorOptions options;
};

void run(const char* model, const Sizes& sizes, i64 times, int repetitions) {
  const i64 all = std::accumulate(sizes.begin(), sizes.end(), i64{0});
  const double bytes = static_cast<double>(4 * all * times);
  std::vector<float> v(static_cast<std::size_t>(all)), q(v.size());
  Rng rng(1);
  for (float& x : v) x = .01f * rng.normal();
  const auto row = [&](const char* name, double code_bytes, std::uint64_t digest,
                       const std::function<void()>& encode, const std::function<void()>& decode) {
    const auto rate = [&](const std::function<void()>& work) {
      return bytes / 1e9 / median_seconds(repetitions, [&] {
               for (i64 k = 0; k < times; ++k) work();
             });
    };
    std::printf("%-12s %-18s %8.2f %8.2f %8.2f %%   %016llx\n", model, name, rate(encode),
                rate(decode), 100 * code_bytes / (4 * static_cast<double>(all)),
                static_cast<unsigned long long>(digest));
    std::fflush(stdout);
  };
  const auto copy = [&] { std::memcpy(q.data(), v.data(), v.size() * sizeof(float)); };
  row("copy", 4 * static_cast<double>(all), 0, copy, copy);
  const std::vector<Case> cases{{"top-k 10 %", {"top-k", .1, {}}},
                                {"top-k 1 %", {"top-k", .01, {}}},
                                {"random-k 10 %", {"random-k", .1, {}}},
                                {"random-k 1 %", {"random-k", .01, {}}},
                                {"sign", {"sign", {}, {}}},
                                {"qsgd 4 bits", {"qsgd", {}, 4}},
                                {"qsgd 8 bits", {"qsgd", {}, 8}},
                                {"int8", {"int8", {}, {}}},
                                {"chunk-top-k", {"chunk-top-k", {}, {}}}};
  for (const Case& c : cases) {
    const Compressor by(c.options, 7);
    i64 size = 0;
    for (const i64 n : sizes) size += by.bytes<float>(n);
    std::vector<char> code(static_cast<std::size_t>(size));
    const auto each = [&](auto f) {
      std::size_t at = 0, coded = 0;
      for (const i64 n : sizes) {
        const auto width = static_cast<std::size_t>(n),
                   coded_width = static_cast<std::size_t>(by.bytes<float>(n));
        f(at, width, std::span<char>(code).subspan(coded, coded_width));
        at += width, coded += coded_width;
      }
    };
    const auto encode = [&] {
      each([&](std::size_t at, std::size_t width, std::span<char> to) {
        by.encode<float>(std::span(v).subspan(at, width), 3, to);
      });
    };
    encode();
    row(c.name, static_cast<double>(size), xxh3(std::as_bytes(std::span(code))), encode, [&] {
      each([&](std::size_t at, std::size_t width, std::span<const char> from) {
        by.decode<float>(from, 3, std::span(q).subspan(at, width));
      });
    });
  }
  // What dist.payload does to a whole model.
  const Tensor values = Tensor::from(v, {all}), out = Tensor::zeros({all});
  for (const Coding coding : {Coding::bf16, Coding::int8}) {
    Coded coded(coding, all);
    coded.encode(values, out);
    const std::span<const std::byte> code{static_cast<const std::byte*>(coded.bytes().data()),
                                          static_cast<std::size_t>(coded.bytes().numel())};
    row(
        coding == Coding::bf16 ? "payload bf16" : "payload int8",
        static_cast<double>(coded_bytes(coding, all)), xxh3(code),
        [&] { coded.encode(values, out); }, [&] { Coded::decode(coding, coded.bytes(), out); });
  }
}

}  // namespace
}  // namespace gossamer::dist

int main(int count, char** arguments) {
  using namespace gossamer::dist;
  gossamer::set_compute_threads(1);
  const int repetitions = count > 1 ? std::atoi(arguments[1]) : 9;
  std::printf("%-12s %-18s %8s %8s %10s   %s\n", "model", "", "encode", "decode", "bytes",
              "digest");
  run("one block", {4'194'304}, 1, repetitions);
  run("ResNet-20", resnet20(), 15, repetitions);
}
