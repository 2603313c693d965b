// For images_torchvision.py and sizes_torchvision.py: pictures as evaluation prepares them, resized
// pixels, and random crops, as raw bytes on stdout.
//   image_interop eval RESIZE CROP PICTURE...      u8 [CROP, CROP, 3] of each
//   image_interop crops WIDTH HEIGHT COUNT         i32 x, y, width, height of each
//   image_interop passes                           number of kinds of instructions that resize
//   image_interop sizes < RECORDS                  each resized, once with each of these kinds
// A record of `sizes` is i32 width, height, a, b, centre and u8 [height, width, 3]. centre 0: it
// becomes u8 [b, a, 3]; 1: shorter side to a, of that the centre, u8 [b, b, 3].
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "gossamer/core/random.h"
#include "gossamer/data/augment/augment.h"
#include "gossamer/data/augment/preparer.h"
#include "gossamer/data/codec/resize.h"

namespace {

using namespace gossamer;

// The rows come in sevens, as from a decoder.
void resize(const data::Image& from, const data::Axis& across, const data::Axis& down,
            data::ResizePasses passes) {
  data::Resizer resizer(passes);
  resizer.start(across, down, 0);
  const std::size_t row = static_cast<std::size_t>(from.width) * 3;
  for (int y = down.begin(); y < down.end(); y += 7)
    resizer.add({from.pixels.data() + static_cast<std::size_t>(y) * row, row,
                 std::min(7, down.end() - y), from.pixels.data() + from.pixels.size()});
  std::vector<std::uint8_t> out(across.first.size() * down.first.size() * 3);
  resizer.finish(out.data());
  std::fwrite(out.data(), 1, out.size(), stdout);
}

int sizes() {
  const auto kinds = data::resize_passes();
  for (std::int32_t n[5]; std::fread(n, sizeof n, 1, stdin) == 1;) {
    data::Image from{n[1], n[0], {}};
    from.pixels.resize(static_cast<std::size_t>(n[0]) * static_cast<std::size_t>(n[1]) * 3);
    if (std::fread(from.pixels.data(), 1, from.pixels.size(), stdin) != from.pixels.size())
      return 1;
    const data::CentreCrop at =
        n[4] ? data::centre_crop({n[0], n[1]}, n[2], n[3]) : data::CentreCrop{n[2], n[3], 0, 0};
    for (const data::ResizePasses passes : kinds)
      resize(from, data::make_axis(n[0], at.width, at.x, n[4] ? n[3] : n[2]),
             data::make_axis(n[1], at.height, at.y, n[3]), passes);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string mode = argc > 4 || argc == 2 ? argv[1] : "";
  if (mode == "sizes") return sizes();
  if (mode == "passes") {
    std::printf("%zu\n", data::resize_passes().size());
    return 0;
  }
  if (mode == "eval") {
    const int resize = std::atoi(argv[2]), crop = std::atoi(argv[3]);
    for (int i = 4; i < argc; ++i) {
      const Tensor image = data::read_image(argv[i], resize, crop);
      std::fwrite(image.as<std::uint8_t>(), 1, static_cast<std::size_t>(image.numel()), stdout);
    }
    return 0;
  }
  if (mode == "crops") {
    for (int i = 0; i < std::atoi(argv[4]); ++i) {
      // a stream for each image, as in the loader
      Rng rng(7, static_cast<std::uint64_t>(i));
      const data::Box box =
          data::random_resized_crop({std::atoi(argv[2]), std::atoi(argv[3])}, rng);
      const std::int32_t numbers[] = {box.x, box.y, box.width, box.height};
      std::fwrite(numbers, sizeof numbers, 1, stdout);
    }
    return 0;
  }
  std::fprintf(stderr,
               "image_interop: eval RESIZE CROP PICTURE..., crops WIDTH HEIGHT COUNT, passes or "
               "sizes\n");
  return 2;
} catch (const std::exception& error) {
  std::fprintf(stderr, "image_interop: %s\n", error.what());
  return 1;
}
