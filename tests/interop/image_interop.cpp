// For images_torchvision.py: pictures as evaluation prepares them, and random crops, as raw bytes
// on stdout.
//   image_interop eval RESIZE CROP PICTURE...      u8 [CROP, CROP, 3] of each
//   image_interop crops WIDTH HEIGHT COUNT         i32 x, y, width, height of each
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "gossamer/core/random.h"
#include "gossamer/data/augment/augment.h"

int main(int argc, char** argv) try {
  using namespace gossamer;
  const std::string mode = argc > 4 ? argv[1] : "";
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
  std::fprintf(stderr, "image_interop: eval RESIZE CROP PICTURE... or crops WIDTH HEIGHT COUNT\n");
  return 2;
} catch (const std::exception& error) {
  std::fprintf(stderr, "image_interop: %s\n", error.what());
  return 1;
}
