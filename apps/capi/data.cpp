// Data sets and their batches.
#include <algorithm>

#include "gossamer/apps/capi/cancel.h"
#include "gossamer/apps/capi/objects.h"
#include "gossamer/data/loader.h"

using namespace gossamer;
using namespace gossamer::capi;

namespace {

class Set final : public Object {
 public:
  explicit Set(const std::vector<std::string>& paths) : set_(data::open(paths)) {
    for (const std::string& line : set_->notes()) log_line(line);
  }
  const std::shared_ptr<const data::Dataset>& set() const { return set_; }

 private:
  std::shared_ptr<const data::Dataset> set_;
};

data::LoaderOptions loader_options(const gsm_loader_options& o) {
  check_numbers("gsm_loader_options", {{"batch", static_cast<double>(o.batch)},
                                       {"size", o.size},
                                       {"threads", o.threads},
                                       {"world", o.world}});
  data::LoaderOptions options;
  if (o.batch) options.batch = o.batch;
  if (o.size) options.size = o.size;
  if (o.threads) options.threads = o.threads;
  if (o.world) options.epoch.world = o.world;
  options.epoch.rank = o.rank;
  options.epoch.seed = o.seed;
  options.epoch.shuffle = options.epoch.drop_last = options.replace_damaged = !o.in_order;
  try {
    const data::CropChoice crop = data::parse_crop(o.augment ? o.augment : "none");
    options.augment = crop.augment;
    if (crop.pad >= 0) options.pad = crop.pad;
    options.reflect = crop.reflect;
    options.alternating = crop.alternating;
  } catch (const ConfigError& e) {
    fail<ConfigError>("gsm_loader_options.augment: ", e.what());
  }
  return options;
}

class Loading final : public Object {
 public:
  Loading(const Set& set, const data::LoaderOptions& options) : loader_(set.set(), options) {}
  bool has_threads() const override { return true; }
  data::Batch next() {
    try {
      data::Batch batch = loader_.next();
      tell_of_damaged();
      return batch;
    } catch (...) {
      tell_of_damaged();
      throw;
    }
  }

 private:
  void tell_of_damaged() {
    if (loader_.stats().damaged == told_) return;
    const std::vector<std::string> damaged = loader_.damaged();
    for (; told_ < static_cast<i64>(damaged.size()); ++told_)
      log_line("damaged picture: " + damaged[static_cast<std::size_t>(told_)]);
  }

  data::Loader loader_;
  i64 told_ = 0;
};

}  // namespace

gsm_status gsm_dataset_open(const char* const* paths, int32_t n, gsm_dataset** dataset) {
  return guarded([&] {
    check_given("paths or dataset", paths, dataset);
    check<ArgumentError>(n >= 1 && n <= 1 << 20, n, " paths; wanted 1 to ", 1 << 20);
    std::vector<std::string> list;
    for (int i = 0; i < n; ++i) {
      check_path(paths[i]);
      list.emplace_back(paths[i]);
    }
    *dataset = static_cast<gsm_dataset*>(add_object(std::make_shared<Set>(list)));
  });
}

gsm_status gsm_dataset_size(gsm_dataset* dataset, int64_t* images, int64_t* classes) {
  return guarded([&] {
    const Shared<Set> s(dataset);
    check_given("images or classes", images, classes);
    *images = s->set()->size();
    *classes = static_cast<i64>(s->set()->classes().size());
  });
}

gsm_status gsm_dataset_class_name(gsm_dataset* dataset, int64_t index, const char** name) {
  return guarded([&] {
    const Shared<Set> s(dataset);
    check_given("name", name);
    const std::vector<std::string>& names = s->set()->classes();
    check_index("class", index, names.size());
    *name = names[static_cast<std::size_t>(index)].c_str();
  });
}

gsm_status gsm_dataset_free(gsm_dataset* dataset) {
  return guarded([&] { free_object<Set>(dataset); });
}

gsm_status gsm_loader_new(gsm_dataset* dataset, const gsm_loader_options* options,
                          gsm_loader** loader) {
  return guarded([&] {
    const Shared<Set> s(dataset);
    check_given("loader", loader);
    *loader = static_cast<gsm_loader*>(add_object(std::make_shared<Loading>(
        *s.object(), loader_options(options_of(options, "gsm_loader_options")))));
  });
}

gsm_status gsm_loader_next(gsm_loader* loader, uint8_t* images, int32_t* labels, int64_t* n) {
  return guarded([&] {
    const Exclusive<Loading> l(loader);
    check_given("images, labels or n", images, labels, n);
    const data::Batch batch = [&] {
      const Computing computing;
      return l->next();
    }();
    if (batch.images.defined()) {
      std::ranges::copy(batch.images.span<std::uint8_t>(), images);
      std::ranges::copy(batch.labels.span<std::int32_t>(), labels);
    }
    *n = batch.count();
  });
}

gsm_status gsm_loader_free(gsm_loader* loader) {
  return guarded([&] { free_object<Loading>(loader); });
}
