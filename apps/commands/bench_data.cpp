// `gossamer bench data`: how many images a second a core decodes and augments, where the time goes,
// and whether that is enough for a GPU.
#include <algorithm>
#include <array>
#include <ctime>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fmt/core.h>

#include "gossamer/apps/commands.h"
#include "gossamer/apps/train/picture_step.h"
#include "gossamer/apps/train/pictures.h"
#include "gossamer/core/cuda.h"
#include "gossamer/core/error.h"
#include "gossamer/core/input_pass.h"
#include "gossamer/core/text/json.h"
#include "gossamer/data/augment/augment.h"
#include "gossamer/data/augment/preparer.h"
#include "gossamer/data/cache.h"
#include "gossamer/data/codec/image_reader.h"
#include "gossamer/data/codec/jpeg_measure.h"
#include "gossamer/data/dataset.h"
#include "gossamer/data/errors.h"
#include "gossamer/data/loader.h"
#include "gossamer/data/split.h"
#include "gossamer/data/work.h"
#include "gossamer/dist/time.h"
#include "gossamer/models/model_file.h"

namespace gossamer::apps {
namespace {

double cpu_now(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Sample {
  std::string name;
  std::vector<std::byte> bytes;
  data::ImageSize size;
};

struct Work {
  std::vector<Sample> samples;  // without the damaged ones
  data::ImageSize raw;          // 0 x 0: the set has files, not raw pixels
  data::Recipe recipe;
  double bytes = 0, megapixels = 0;  // means
  i64 damaged = 0, other = 0;        // other: not JPEG
};

struct Rate {  // of one kind of work
  i64 images = 0;
  double cpu_s = 0, wall_s = 0;  // summed over threads
  double per_core() const { return cpu_s > 0 ? static_cast<double>(images) / cpu_s : 0; }
  double per_core_wall() const { return wall_s > 0 ? static_cast<double>(images) / wall_s : 0; }
  double in_all(int threads) const { return per_core_wall() * threads; }
};

// What a thread reuses from image to image.
struct Buffers {
  data::ImageReader reader;
  data::Preparer preparer;
  std::vector<std::uint8_t> out;
};

// The part of a picture that the recipe asks for.
data::Box wanted_box(data::ImageSize size, const data::Recipe& recipe, Rng& rng) {
  return data::crop_of(recipe, size, data::Mirror::drawn, rng).needed();
}

struct Kind {
  const char* name;
  std::function<void(const Work&, const Sample&, Rng&, Buffers&)> run;
};

const std::array kKinds{
    Kind{"coefficients", [](const Work&, const Sample& s, Rng&,
                            Buffers&) { data::read_coefficients(s.bytes, s.name); }},
    Kind{"entropy",
         [](const Work& w, const Sample& s, Rng& rng, Buffers&) {
           data::skim_jpeg(s.bytes, s.name, wanted_box(s.size, w.recipe, rng));
         }},
    Kind{"decode",
         [](const Work& w, const Sample& s, Rng& rng, Buffers& buffers) {
           data::ImageReader& reader = buffers.reader;
           reader.start(wanted_box(reader.open(s.bytes, s.name), w.recipe, rng));
           for (data::Rows rows; reader.next(rows);) continue;
         }},
    Kind{"prepare", [](const Work& w, const Sample& s, Rng& rng, Buffers& buffers) {
           buffers.preparer.read({s.bytes, s.name, w.raw}, w.recipe, rng);
           buffers.preparer.finish(buffers.out.data());
         }}};

bool is_jpeg(const Sample& s) {
  return s.bytes.size() > 2 && s.bytes[0] == std::byte{0xFF} && s.bytes[1] == std::byte{0xD8};
}
bool needs_jpeg(const Kind& kind) {
  return kind.name == kKinds[0].name || kind.name == kKinds[1].name;
}

// All threads do one kind of work for `seconds`, each from another image on.
Rate measure(const Work& work, const Kind& kind, int threads, double seconds, i64 begin) {
  std::vector<Rate> rates(static_cast<std::size_t>(threads));
  std::vector<std::exception_ptr> errors(rates.size());
  const auto body = [&](std::size_t me) {
    try {
      Buffers buffers;
      buffers.out.resize(static_cast<std::size_t>(work.recipe.size) * work.recipe.size * 3);
      const i64 count = static_cast<i64>(work.samples.size());
      i64 at = begin + static_cast<i64>(me) * count / threads;
      const auto one = [&] {
        const Sample& sample = work.samples[static_cast<std::size_t>(at % count)];
        Rng rng(1, static_cast<std::uint64_t>(at++));
        if (needs_jpeg(kind) && !is_jpeg(sample)) return 0;
        kind.run(work, sample, rng, buffers);
        return 1;
      };
      one();  // the thread's decoder is made
      Rate& rate = rates[me];
      const double cpu = cpu_now(CLOCK_THREAD_CPUTIME_ID), wall = dist::wall_seconds();
      do rate.images += one();
      while (dist::wall_seconds() - wall < seconds);
      rate.cpu_s = cpu_now(CLOCK_THREAD_CPUTIME_ID) - cpu;
      rate.wall_s = dist::wall_seconds() - wall;
    } catch (...) {
      errors[me] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < rates.size(); ++i) others.emplace_back(body, i);
    body(0);
  }
  Rate sum;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    if (errors[i]) std::rethrow_exception(errors[i]);
    sum.images += rates[i].images;
    sum.cpu_s += rates[i].cpu_s;
    sum.wall_s += rates[i].wall_s;
  }
  return sum;
}

// The whole way through the loader: from files on disk to images in host memory, or to normalised
// images on a device, which also resizes training images. CPU time is that of the process.
Rate measure_loader(const std::shared_ptr<const data::Dataset>& set, const Work& work, int threads,
                    double seconds, Device device) {
  data::LoaderOptions options;
  options.batch = std::min<i64>(64, set->size());
  options.size = work.recipe.size;
  options.augment = work.recipe.augment;
  options.threads = threads;
  options.background = false;
  options.pinned = !device.is_cpu();
  options.boxes = options.pinned && options.augment == data::Augment::resized_crop_flip;
  nn::StepInputs inputs(device);
  const models::Preprocessing usual = models::usual_preprocessing("resnet50");
  const Pictures prepare{
      .mean = of_rgb(usual.mean), .std = of_rgb(usual.std), .dtype = DType::bf16, .device = device};
  data::Loader loader(set, options);
  const auto take = [&]() -> i64 {
    const data::Batch b = loader.next();
    if (!b.labels.defined()) return 0;  // the end of an epoch
    if (!device.is_cpu()) {
      prepare(picture_batch(inputs.put(step_batch(b), std::array{0.0f}).batch));
      inputs.step_ends();
    }
    return b.count();
  };
  take();
  Rate rate;
  const double cpu = cpu_now(CLOCK_PROCESS_CPUTIME_ID), wall = dist::wall_seconds();
  do rate.images += take();
  while (dist::wall_seconds() - wall < seconds || rate.images == 0);
  if (!device.is_cpu()) cuda::current_stream(device).synchronize();
  rate.cpu_s = cpu_now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
  rate.wall_s = dist::wall_seconds() - wall;
  return rate;
}

Work load(const data::Dataset& set, const BenchDataOptions& o) {
  Work work;
  work.raw = {set.raw().width, set.raw().height};
  work.recipe.size = o.size;
  work.recipe.resize = usual_resize(o.size);
  work.recipe.augment = o.mode == "train" ? data::Augment::resized_crop_flip : data::Augment::none;
  const i64 count = std::min<i64>(set.size(), o.images);
  std::size_t held = 0;
  for (i64 i = 0; i < count && held < std::size_t{2} << 30; ++i) {
    std::vector<std::byte> buffer;
    const i64 index = i * set.size() / count;  // from all over the set
    const auto bytes = set.bytes(index, buffer);
    Sample sample{set.name(index), {bytes.begin(), bytes.end()}, work.raw};
    try {
      if (work.raw.height == 0) sample.size = data::verify(sample.bytes, sample.name);
    } catch (const DataError&) {
      ++work.damaged;
      continue;
    }
    work.bytes += static_cast<double>(sample.bytes.size());
    work.megapixels += 1e-6 * sample.size.width * sample.size.height;
    held += sample.bytes.size();
    work.other += work.raw.height == 0 && !is_jpeg(sample);
    work.samples.push_back(std::move(sample));
  }
  check<DataError>(!work.samples.empty(), data::code::damaged_images,
                   "bench data: no image of the set can be read");
  work.bytes /= static_cast<double>(work.samples.size());
  work.megapixels /= static_cast<double>(work.samples.size());
  return work;
}

// Fills the cache, so that the loader is measured as in later epochs.
std::shared_ptr<const data::Dataset> filled(const std::shared_ptr<data::Cache>& cache,
                                            std::shared_ptr<const data::Dataset> set, int threads) {
  set = data::cached(std::move(set), cache);
  data::for_each_sample(
      0, set->size(), threads,
      [&](i64 i, std::vector<std::byte>& buffer) {
        try {
          set->bytes(i, buffer);
        } catch (const DataError&) {  // the loader will report it
        }
      },
      [&](i64) { return !cache->full(); });
  return set;
}

struct Share {
  double huffman = 0, idct = 0, resize = 0;
};

}  // namespace

int bench_data(const BenchDataOptions& o) {
  check<ConfigError>(o.mode == "train" || o.mode == "eval", "bench data: --mode ", o.mode,
                     " is unknown; use train or eval");
  const bool all = o.what == "all", loader = all || o.what == "loader",
             gpu = cuda::device_count() > 0, to_device = o.what == "device" || (all && gpu);
  check<ConfigError>(
      loader || to_device ||
          std::ranges::any_of(kKinds, [&](const Kind& k) { return o.what == k.name; }),
      "bench data: --what ", o.what,
      " is unknown; use all, coefficients, entropy, decode, prepare, loader or device");
  check<DeviceError>(gpu || !to_device, "bench data: --what device: ", cuda::why_none());
  check<ConfigError>(o.threads >= 1 && o.threads <= 1024 && o.size >= 1 && o.size <= 4096 &&
                         o.images >= 1 && o.seconds > 0,
                     "bench data: --threads goes from 1 to 1024, --size from 1 to 4096; --images "
                     "and --seconds must be positive");
  check<ConfigError>(o.cache_gb >= 0 && o.cache_gb <= 1e6,
                     "bench data: --cache-gb goes from 0 to 1000000");
  check<ConfigError>(o.cache_gb == 0 || loader || to_device,
                     "bench data: --cache-gb is for the loader; use --what loader, device or all");
  const auto of_set = data::parts_in(o.paths);
  auto set = data::open(o.paths, o.mode == "train" ? of_set.front() : of_set.back());
  const Work work = load(*set, o);
  const i64 jpegs = work.raw.height ? 0 : static_cast<i64>(work.samples.size()) - work.other;

  std::vector<Kind> kinds;
  for (const Kind& k : kKinds) {
    const bool possible =
        needs_jpeg(k) ? jpegs > 0 : work.raw.height == 0 || k.name == kKinds[3].name;
    check<ConfigError>(possible || o.what != k.name, "bench data: --what ", o.what,
                       ": the data set has no such pictures");
    if (possible && (all || o.what == k.name)) kinds.push_back(k);
  }
  // Short slices in turns, so that other load on the machine affects all kinds alike.
  const double loader_s = loader || to_device ? o.seconds / (all ? 4 : 1) : 0;
  const int rounds = std::max(
      1, static_cast<int>((o.seconds - loader_s) /
                          (0.25 * static_cast<double>(std::max<std::size_t>(1, kinds.size())))));
  std::vector<Rate> rates(kinds.size());
  for (int round = 0; round < rounds; ++round)
    for (std::size_t k = 0; k < kinds.size(); ++k) {
      const Rate r = measure(work, kinds[k], o.threads, std::min(o.seconds, 0.25), round * 101);
      rates[k].images += r.images;
      rates[k].cpu_s += r.cpu_s;
      rates[k].wall_s += r.wall_s;
    }
  const auto cache = std::make_shared<data::Cache>(static_cast<std::size_t>(1e9 * o.cache_gb));
  if (o.cache_gb > 0) set = filled(cache, std::move(set), o.threads);
  const Rate from_disk =
      loader ? measure_loader(set, work, o.threads, loader_s, Device::cpu()) : Rate{};
  const Rate on_device =
      to_device ? measure_loader(set, work, o.threads, loader_s, Device::cuda()) : Rate{};
  const auto rate_of = [&](const std::string& name) {
    for (std::size_t k = 0; k < kinds.size(); ++k)
      if (kinds[k].name == name) return rates[k];
    return Rate{};
  };
  const Rate floor = rate_of("coefficients"), entropy = rate_of("entropy"),
             decode = rate_of("decode"), prepare = rate_of("prepare");
  const bool shares = entropy.images && decode.images && prepare.images;
  Share share;
  if (shares) {
    share.huffman = prepare.per_core() / entropy.per_core();
    share.idct = prepare.per_core() / decode.per_core() - share.huffman;
    share.resize = 1 - share.huffman - share.idct;
  }
  // its rate is already that of all threads
  const bool by_loader = kinds.empty();
  const Rate& main = prepare.images ? prepare
                     : by_loader    ? (loader ? from_disk : on_device)
                                    : rates[0];
  const double rate = main.in_all(by_loader ? 1 : o.threads),
               cores_needed = o.gpu_rate > 0 ? o.gpu_rate / main.per_core() : 0;

  if (o.json) {
    JsonObject out;
    out.add("engine", "gossamer")
        .add("mode", o.mode)
        .add("what", o.what)
        .add("size", o.size)
        .add("threads", o.threads);
    out.add("files", work.samples.size()).add("damaged", work.damaged).add("not_jpeg", work.other);
    out.add("mean_bytes", work.bytes).add("mean_megapixels", work.megapixels);
    out.add("images_per_s", rate)
        .add("images_per_s_per_core", main.per_core())
        .add("images_per_s_per_core_wall", main.per_core_wall());
    for (std::size_t k = 0; k < kinds.size(); ++k)
      out.add(kinds[k].name + std::string("_per_s_per_core"), rates[k].per_core())
          .add(kinds[k].name + std::string("_per_s_per_core_wall"), rates[k].per_core_wall());
    if (floor.images && prepare.images)
      out.add("gap_to_coefficients_percent", 100 * (1 - prepare.per_core() / floor.per_core()));
    if (shares) {
      JsonObject parts;
      parts.add("huffman", share.huffman)
          .add("idct_colour", share.idct)
          .add("resize", share.resize);
      out.raw("share", parts.str());
    }
    if (loader)
      out.add("loader_images_per_s", from_disk.per_core_wall())
          .add("loader_images_per_s_per_core", from_disk.per_core());
    if (to_device)
      out.add("device_images_per_s", on_device.per_core_wall())
          .add("device_images_per_s_per_core", on_device.per_core());
    else if (all)
      out.add("device_not_measured", cuda::why_none());
    if (o.cache_gb > 0) out.add("cached_mb", 1e-6 * static_cast<double>(cache->used()));
    if (o.gpu_rate > 0)
      out.add("gpu_rate", o.gpu_rate)
          .add("cores_needed", cores_needed)
          .add("starves", rate < o.gpu_rate);
    fmt::print("{}\n", out.str());
    return 0;
  }
  fmt::print("{} files, {:.1f} KB and {:.3f} megapixels on average{}; {} to {} x {}, {} thread{}\n",
             work.samples.size(), work.bytes / 1e3, work.megapixels,
             work.damaged ? fmt::format(" ({} damaged ones left out)", work.damaged) : "", o.mode,
             o.size, o.size, o.threads, o.threads == 1 ? "" : "s");
  fmt::print("{:<42}{:>14}{:>16}\n", "images/s per core, by", "CPU time", "wall time");
  const auto line = [](const char* text, const Rate& r) {
    if (r.images) fmt::print("  {:<40}{:>14.0f}{:>16.0f}\n", text, r.per_core(), r.per_core_wall());
  };
  line("coefficients of whole files (libjpeg)", floor);
  line("entropy decoding for the crop", entropy);
  line("decoding the crop", decode);
  line("to a finished u8 image", prepare);
  const auto whole_way = [](const char* text, const Rate& r) {
    if (r.images) fmt::print("  {:<40}{:>14.0f}\n", text, r.per_core());
  };
  if (cache->used() > 0)
    fmt::print("  the loader's files: {:.3g} GB of them in the cache\n",
               1e-9 * static_cast<double>(cache->used()));
  whole_way("by the loader, from files to host memory", from_disk);
  whole_way("by the loader, from files to the GPU", on_device);
  if (shares)
    fmt::print("time: Huffman {:.0f} %, IDCT and colour {:.0f} %, resize {:.0f} %\n",
               100 * share.huffman, 100 * share.idct, 100 * share.resize);
  fmt::print("in all, images/s:");
  if (!kinds.empty()) fmt::print(" {:.0f} from memory", rate);
  if (from_disk.images)
    fmt::print("{} {:.0f} by the loader from files to host memory", kinds.empty() ? "" : ",",
               from_disk.per_core_wall());
  if (on_device.images)
    fmt::print("{} {:.0f} to the GPU", from_disk.images ? "," : "", on_device.per_core_wall());
  fmt::print("\n");
  if (all && !to_device) fmt::print("to a GPU: not measured: {}\n", cuda::why_none());
  if (o.gpu_rate > 0)
    fmt::print("a GPU that takes {:.0f} images/s {}: it needs {:.1f} cores like these\n",
               o.gpu_rate, rate < o.gpu_rate ? "would starve" : "is fed", cores_needed);
  return 0;
}

}  // namespace gossamer::apps
