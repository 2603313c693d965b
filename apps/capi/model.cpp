// Inference.
#include "gossamer/apps/capi/model.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>

#include "gossamer/apps/capi/cancel.h"
#include "gossamer/apps/train/model_source.h"
#include "gossamer/core/autograd.h"
#include "gossamer/core/ops.h"
#include "gossamer/data/augment/augment.h"
#include "gossamer/models/language_file.h"

namespace gossamer::capi {

namespace {

i64 parameters_of(const nn::Module& net) {
  i64 sum = 0;
  for (const NamedTensor& p : net.parameters()) sum += p.tensor.numel();
  return sum;
}

}  // namespace

Model::Model(const nn::Weights& weights, Device device, DType type)
    : device_(device),
      type_(type),
      file_(models::open(weights, device, type)),
      parameters_(parameters_of(*file_.net)),
      net_((apps::check_finite(*file_.net, weights.file), std::move(file_.net))) {
  for (const std::string& line : file_.notes) log_line(line);
}

data::Shrink Model::filter() const {
  return file_.pictures.filter == "area" ? data::Shrink::area : data::Shrink::bilinear;
}

void Model::check_reads_pictures() const {
  check<ConfigError>(channels() == 3, "the model is for images of ", channels(),
                     " channels, and pictures in files have 3; use gsm_model_forward");
}

Tensor Model::logits(const Tensor& images) const {
  const bool bytes = images.dtype() == DType::u8;
  // A ReLU makes 0 of NaN, so the outputs would not tell.
  if (!bytes) check_finite("images", images.as<float>(), images.numel());
  const NoGrad no_grad;
  const Computing computing;
  const Tensor here = images.to(device_);
  return cast(net_(bytes ? file_.pictures(here, type_) : cast(here, type_)), DType::f32)
      .to(Device::cpu());
}

void Model::classify(const Tensor& image, gsm_class* classes, int32_t* count) const {
  const Tensor p = softmax(logits(image));
  const std::span<const float> values = p.span<float>();
  check<DataError>(std::ranges::all_of(values, [](float v) { return std::isfinite(v); }),
                   "the model's outputs for this picture are not numbers; are its weights?");
  const std::vector<i64> order = nn::largest(values, *count);
  *count = static_cast<int32_t>(order.size());
  for (const i64 k : order) *classes++ = {k, values[static_cast<std::size_t>(k)]};
}

}  // namespace gossamer::capi

using namespace gossamer;
using namespace gossamer::capi;

namespace {

void check_room(const gsm_class* classes, const int32_t* count) {
  check_given("classes or count", classes, count);
  check<ArgumentError>(*count >= 1, "count is ", *count, "; it must be at least 1");
}

gsm_model* give_model(const nn::Weights& weights, Device device = Device::cpu(),
                      DType type = DType::f32) try {
  return static_cast<gsm_model*>(add_object(std::make_shared<Model>(weights, device, type)));
} catch (const Error&) {
  const auto task = weights.metadata.find("task");
  check<IoError>(task == weights.metadata.end() || task->second != "translation", weights.file,
                 ": is a model that translates; gsm_translator_open opens it");
  check<IoError>(!models::is_language(weights), weights.file,
                 ": is a language model; gsm_language_open opens it");
  throw;
}

nn::Weights weights_at(const char* path) {
  check_path(path);
  return apps::read_model(apps::find_model(path));
}

nn::Weights weights_of(const void* bytes, size_t size) {
  return nn::read_weights(std::span(static_cast<const std::byte*>(bytes), size),
                          "the bytes of the model");
}

template <class T>
gsm_status forward(gsm_model* model, const T* images, i64 n, i64 height, i64 width, float* logits,
                   DType type) {
  return guarded([&] {
    const Shared<Model> m(model);
    check_given("images or logits", images, logits);
    check_images(n, height, width, m->channels());
    const Tensor y =
        m->logits(Tensor::wrap(const_cast<T*>(images), {n, height, width, m->channels()}, type));
    std::ranges::copy(y.span<float>(), logits);
  });
}

}  // namespace

gsm_status gsm_model_open(const char* path, gsm_model** model) {
  return guarded([&] {
    check_given("path or model", path, model);
    *model = give_model(weights_at(path));
  });
}

gsm_status gsm_model_open_memory(const void* bytes, size_t size, gsm_model** model) {
  return guarded([&] {
    check_given("bytes or model", bytes, model);
    *model = give_model(weights_of(bytes, size));
  });
}

gsm_status gsm_model_open_with(const gsm_model_options* options, gsm_model** model) {
  return guarded([&] {
    check_given("options or model", options, model);
    const gsm_model_options o = options_of(options, "gsm_model_options");
    check<ArgumentError>((o.path != nullptr) != (o.bytes != nullptr),
                         "gsm_model_options: give path, or bytes");
    const Device device = device_of(o.device);
    const DType type = type_of(o.type, "gsm_model_options.type");
    *model = give_model(o.path ? weights_at(o.path) : weights_of(o.bytes, o.size), device, type);
  });
}

gsm_status gsm_model_info(gsm_model* model, gsm_model_info_t* info) {
  return guarded([&] {
    const Shared<Model> m(model);
    const models::OpenedModel& file = m->file();
    gsm_model_info_t is{};
    is.parameters = m->parameters();
    is.classes = m->classes();
    is.image_size = file.pictures.size;
    is.resize = file.pictures.resize;
    const auto shown = std::min<std::ptrdiff_t>(3, file.pictures.channels());
    std::copy_n(file.pictures.mean.begin(), shown, is.mean);
    std::copy_n(file.pictures.std.begin(), shown, is.std);
    is.channels = file.pictures.channels();
    std::snprintf(is.name, sizeof is.name, "%s", file.name.c_str());
    give(is, info, "gsm_model_info_t");
  });
}

gsm_status gsm_model_class_name(gsm_model* model, int64_t index, const char** name) {
  return guarded([&] {
    const Shared<Model> m(model);
    check_given("name", name);
    check_index("class", index, static_cast<std::size_t>(m->classes()));
    *name = m->file().classes[static_cast<std::size_t>(index)].c_str();
  });
}

gsm_status gsm_model_classify_file(gsm_model* model, const char* path, gsm_class* classes,
                                   int32_t* count) {
  return guarded([&] {
    const Shared<Model> m(model);
    check_path(path);
    check_room(classes, count);
    m->check_reads_pictures();
    const models::Preprocessing& p = m->file().pictures;
    m->classify(data::read_image(path, p.resize, p.size, m->filter()), classes, count);
  });
}

gsm_status gsm_model_classify_bytes(gsm_model* model, const void* bytes, size_t size,
                                    gsm_class* classes, int32_t* count) {
  return guarded([&] {
    const Shared<Model> m(model);
    check_given("bytes", bytes);
    check_room(classes, count);
    m->check_reads_pictures();
    const models::Preprocessing& p = m->file().pictures;
    m->classify(data::read_image({static_cast<const std::byte*>(bytes), size}, "the picture",
                                 p.resize, p.size, m->filter()),
                classes, count);
  });
}

gsm_status gsm_model_forward_u8(gsm_model* model, const uint8_t* images, int64_t n, int64_t height,
                                int64_t width, float* logits) {
  return forward(model, images, n, height, width, logits, DType::u8);
}

gsm_status gsm_model_forward(gsm_model* model, const float* images, int64_t n, int64_t height,
                             int64_t width, float* logits) {
  return forward(model, images, n, height, width, logits, DType::f32);
}

gsm_status gsm_model_free(gsm_model* model) {
  return guarded([&] { free_object<Model>(model); });
}
