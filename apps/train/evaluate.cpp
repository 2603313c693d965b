// See evaluate.h.
#include "gossamer/apps/train/evaluate.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include <sched.h>

#include "gossamer/apps/json.h"
#include "gossamer/core/cuda.h"
#include "gossamer/core/input_pass.h"
#include "gossamer/core/ops.h"
#include "gossamer/models/registry.h"
#include "gossamer/nn/checkpoint.h"

namespace gossamer::apps {
namespace {

// Lists in the model file's metadata: one entry a line (class names are folder names and hold no
// line break).
template <class List>
std::string lines(const List& list) {
  std::string out;
  for (const auto& item : list) {
    if (!out.empty()) out += "\n";
    if constexpr (std::is_convertible_v<decltype(item), std::string>)
      out += item;
    else
      out += json_text(item);
  }
  return out;
}

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

}  // namespace

DType compute_type(const std::string& name) {
  return name == "bf16" ? DType::bf16 : name == "f16" ? DType::f16 : DType::f32;
}

Tensor Pictures::operator()(const Tensor& images) const {
  return normalize(images.to(device), mean, std, dtype);
}

Tensor Pictures::operator()(const data::Batch& batch) const {
  if (batch.images.defined()) return (*this)(batch.images);
  const i64 n = batch.count(), side = batch.size;
  Tensor out = Tensor::empty({n, side, side, 3}, dtype, device);
  input_pass(batch.bytes.to(device), batch.pictures.to(device), mean, std, out);
  return out;
}

namespace {
data::Shrink filter_of(const std::string& name) {
  return name == "area" ? data::Shrink::area : data::Shrink::bilinear;
}
}  // namespace

Pictures pictures(const Config& c) {
  Pictures p;
  p.train_size = static_cast<int>(c.data.size.value ? c.data.size.value
                                                    : models::info(c.model.name).image_size);
  p.size = static_cast<int>(c.data.eval_size.value ? c.data.eval_size.value : p.train_size);
  check<ConfigError>(std::ranges::all_of(c.data.sizes, [&](i64 s) { return s <= p.train_size; }),
                     "data.sizes holds a side above data.size = ", p.train_size);
  p.resize = static_cast<int>(c.data.resize.value ? c.data.resize.value
                              : p.size <= 64      ? p.size
                                                  : p.size * 256 / 224);
  check<ConfigError>(p.resize >= p.size, "data.resize = ", p.resize, " is smaller than ",
                     c.data.eval_size.value ? "data.eval_size" : "data.size", " = ", p.size);
  // Channel statistics of CIFAR-10 and ImageNet as everyone uses them.
  p.mean =
      p.size <= 64 ? std::array{0.4914f, 0.4822f, 0.4465f} : std::array{0.485f, 0.456f, 0.406f};
  p.std = p.size <= 64 ? std::array{0.2023f, 0.1994f, 0.2010f} : std::array{0.229f, 0.224f, 0.225f};
  for (std::size_t i = 0; i < c.data.mean.size(); ++i)
    p.mean[i] = static_cast<float>(c.data.mean[i]);
  for (std::size_t i = 0; i < c.data.std.size(); ++i) p.std[i] = static_cast<float>(c.data.std[i]);
  p.filter = filter_of(c.data.filter);
  p.dtype = compute_type(c.train.dtype);
  return p;
}

std::map<std::string, std::string> model_metadata(const Config& c, const Pictures& p,
                                                  const std::vector<std::string>& classes) {
  return {{"format", "pt"},
          {"model", c.model.name},
          {"classes", lines(classes)},
          {"image_size", std::to_string(p.size)},
          {"resize", std::to_string(p.resize)},
          {"filter", c.data.filter},
          {"mean", lines(p.mean)},
          {"std", lines(p.std)}};
}

LoadedModel load_model(const std::string& path, DType dtype) {
  const auto meta = nn::read_metadata(path);
  const auto get = [&](const std::string& key) {
    const auto it = meta.find(key);
    check<IoError>(it != meta.end(), path, ": the header has no \"", key,
                   "\"; was this file written by gossamer train?");
    return it->second;
  };
  const auto number = [&](const std::string& key, const std::string& text) {
    float value = NAN;
    try {
      value = std::stof(text);
    } catch (const std::exception&) {  // stays no number
    }
    check<IoError>(std::abs(value) <= 1e6f, path, ": \"", key, "\" in the header is \"", text,
                   "\", wanted a number");
    return value;
  };
  LoadedModel m;
  m.name = get("model");
  const auto known = models::list();
  check<IoError>(std::ranges::any_of(known, [&](const auto& info) { return info.name == m.name; }),
                 path, ": the model in the header is \"", m.name,
                 "\", which this program does not have; `gossamer doctor` lists what it has");
  m.classes = split_lines(get("classes"));
  check<IoError>(!m.classes.empty(), path,
                 ": \"classes\" in the header is empty, wanted one name a line");
  m.pictures.size = static_cast<int>(number("image_size", get("image_size")));
  m.pictures.resize = static_cast<int>(number("resize", get("resize")));
  check<IoError>(m.pictures.size >= 1 && m.pictures.size <= 4096 &&
                     m.pictures.resize >= m.pictures.size && m.pictures.resize <= 8192,
                 path, ": image_size ", m.pictures.size, " and resize ", m.pictures.resize,
                 " in the header make no sense");
  // files from before there were two have none
  if (const auto filter = meta.find("filter"); filter != meta.end()) {
    check<IoError>(filter->second == "bilinear" || filter->second == "area", path,
                   ": \"filter\" in the header is \"", filter->second,
                   "\", wanted bilinear or area");
    m.pictures.filter = filter_of(filter->second);
  }
  for (const char* key : {"mean", "std"}) {
    const auto list = split_lines(get(key));
    check<IoError>(list.size() == 3, path, ": \"", key, "\" in the header has ", list.size(),
                   " numbers, wanted 3");
    for (std::size_t i = 0; i < 3; ++i)
      (key[0] == 'm' ? m.pictures.mean : m.pictures.std)[i] = number(key, list[i]);
    check<IoError>(
        key[0] == 'm' || std::ranges::all_of(m.pictures.std, [](float s) { return s > 0; }), path,
        ": \"std\" in the header must be above 0");
  }
  m.pictures.dtype = dtype;
  m.net = models::make(m.name, {.classes = static_cast<i64>(m.classes.size())});
  nn::load(path, *m.net);
  if (dtype != DType::f32)
    m.params = std::make_unique<FlatParams>(m.net->parameters(), m.net->buffers(),
                                            FlatOptions{.compute = dtype});
  m.net->eval();
  return m;
}

Counts evaluate(nn::Module& net, const std::shared_ptr<const data::Dataset>& set,
                const Pictures& prepare, const EvalOptions& options,
                std::vector<std::string>* damaged) {
  const NoGrad no_grad;
  data::Loader loader(set, {.batch = options.batch,
                            .size = prepare.size,
                            .resize = prepare.resize,
                            .filter = prepare.filter,
                            .threads = options.threads,
                            .rank = options.part,
                            .world = options.parts,
                            .shard = true,
                            .shuffle = false,
                            .drop_last = false,
                            .strict = options.strict,
                            .replace_damaged = false});
  const bool was_training = net.training();
  net.eval();
  Counts counts;
  const int k = static_cast<int>(std::min<std::size_t>(5, set->classes().size()));
  for (i64 step = 0; options.max_batches == 0 || step < options.max_batches; ++step) {
    const data::Batch batch = loader.next();
    if (!batch.images.defined()) break;
    const Tensor logits = net(prepare(batch.images));
    const Tensor labels = batch.labels.to(prepare.device);
    const auto n = static_cast<double>(batch.images.shape(0));
    counts.images += n;
    counts.loss += n * cross_entropy(logits, labels).item();
    counts.top1 += static_cast<double>(count_top_k(logits, labels, 1));
    counts.top5 += static_cast<double>(count_top_k(logits, labels, k));
  }
  net.train(was_training);
  if (damaged) *damaged = loader.damaged();
  return counts;
}

int cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

int compute_threads_for(const Config& c, int workers_here) {
  return static_cast<int>(c.train.threads.value ? c.train.threads.value
                                                : std::max(1, cores() / workers_here));
}

int data_threads_for(const Config& c, int workers_here) {
  if (c.data.threads.value) return static_cast<int>(c.data.threads.value);
  const int share = cores() / workers_here;
  // then the cores are free, but for those that drive GPU and exchanges
  const bool gpu = c.train.device != "cpu" && cuda::device_count() > 0;
  return gpu ? std::clamp(share - 2, 1, 64) : std::clamp(share / 4, 1, 16);
}

}  // namespace gossamer::apps
