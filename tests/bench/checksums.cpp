// Times the checksums of model files on one core beside a copy of as many bytes, and what they add
// to reading and writing a file that is in memory.
//     bench_checksums [MEGABYTES] [FOLDER]     (512, the folder of temporary files)
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <unistd.h>

#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/io/xxh3.h"

namespace gossamer {
namespace {

// CPU time, the median of some repetitions: a shared machine does not count.
double seconds_of(const std::function<void()>& work) {
  std::vector<double> times;
  for (int k = 0; k < 5; ++k) {
    const std::clock_t begin = std::clock();
    work();
    times.push_back(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  std::nth_element(times.begin(), times.begin() + 2, times.end());
  return times[2];
}

void row(const char* what, double bytes, const std::function<void()>& work) {
  std::printf("%-46s %6.1f GB/s\n", what, bytes / seconds_of(work) / 1e9);
  std::fflush(stdout);
}

// Without the space that says that a header is ours, its checksums do not count.
void disown(const std::filesystem::path& path) {
  std::FILE* file = std::fopen(path.c_str(), "r+b");
  std::fseek(file, 8, SEEK_SET);
  std::fputs("{\"__metadata__\": ", file);
  std::fclose(file);
}

void run(std::size_t megabytes, const std::filesystem::path& folder) {
  const std::size_t bytes = megabytes << 20;
  std::vector<NamedTensor> tensors;
  for (std::size_t i = 0; i < 16; ++i)
    tensors.push_back({std::to_string(i), Tensor::full({static_cast<i64>(bytes / 64)}, 1.5f)});
  std::vector<std::byte> from(bytes, std::byte{1}), to(bytes);
  const double size = static_cast<double>(bytes);
  row("copy", size, [&] { std::memcpy(to.data(), from.data(), bytes); });
  volatile std::uint64_t kept = 0;
  row("XXH3-64, from memory", size, [&] { kept = xxh3(from); });
  row("XXH3-64, from a cache", size, [&] {
    for (std::size_t at = 0; at < bytes; at += 1 << 18)
      kept = xxh3(std::span(from).first(1 << 18), kept);
  });
  const std::filesystem::path path = folder / ("checksums-" + std::to_string(::getpid()));
  row("write_file (with fsync)", size, [&] {
    write_file(path, {reinterpret_cast<const char*>(from.data()), bytes});
  });
  row("write_safetensors", size, [&] { write_safetensors(path, tensors); });
  row("check_safetensors", size, [&] { check_safetensors(path); });
  row("read_safetensors", size, [&] { read_safetensors(path); });
  disown(path);
  row("check_safetensors, a file without checksums", size, [&] { check_safetensors(path); });
  row("read_safetensors, a file without checksums", size, [&] { read_safetensors(path); });
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace gossamer

int main(int count, char** arguments) {
  gossamer::run(count > 1 ? std::strtoul(arguments[1], nullptr, 10) : 512,
                count > 2 ? arguments[2] : std::filesystem::temp_directory_path());
}
