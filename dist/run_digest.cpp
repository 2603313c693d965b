// See run_digest.h.
#include "gossamer/dist/run_digest.h"

#include <array>

#include <fmt/format.h>

#include "gossamer/dist/agreement.h"

namespace gossamer::dist {
namespace {

// What a RunDigest is of, and how many values the short digest of each has.
constexpr std::array<const char*, 4> kParts = {"another model (names, shapes or frozen parameters)",
                                               "another method, optimizer, setting of it or rate",
                                               "another graph",
                                               "another batch (of one or of all), seed of a common "
                                               "order or total (total_samples, in C total_steps)"};
constexpr std::uint64_t kPartBase = 1u << 13;

}  // namespace

std::string difference(double ours, double theirs) {
  if (!(theirs >= 0 && theirs < 0x1p52)) theirs = ours;  // it is no digest
  auto a = static_cast<std::uint64_t>(ours), b = static_cast<std::uint64_t>(theirs);
  std::string found;
  for (std::size_t i = kParts.size(); i-- > 0; a /= kPartBase, b /= kPartBase)
    if (a % kPartBase != b % kPartBase)
      found = found.empty() ? kParts[i] : kParts[i] + (" and " + found);
  return found.empty() ? "another model, method, graph or total" : found;
}

RunDigest run_digest(const std::string& method, const FlatParams& params, Optimizer& optimizer,
                     const Graph& graph, const MethodOptions& options) {
  // What is frozen does not come with the state.
  std::string model = std::to_string(params.fingerprint());
  for (const NamedTensor& frozen : params.frozen()) {
    const Tensor on_host = frozen.tensor.to(Device::cpu());
    model +=
        ';' + std::to_string(hash_of({static_cast<const char*>(on_host.data()), on_host.bytes()}));
  }
  std::string settings = std::string(";") + optimizer.name();
  for (const NamedTensor& each : optimizer.state())
    settings += fmt::format(";{} of {}", each.name, each.tensor.numel());
  for (const NamedSetting& each : method_settings(method, options.settings))
    settings += ';' + each.setting.name + '=' + setting_text(each.value);
  const std::array<std::string, kParts.size()> texts = {
      model, fmt::format("{};{}{}", method, options.rate, settings), text_of(graph),
      fmt::format("{};{};{};{}", options.batch, options.total_samples, options.global_batch,
                  options.global_batch > 0 ? options.seed : 0)};
  std::string all;
  double parts = 0;
  for (const std::string& text : texts) {
    all += text + '\n';
    parts = parts * kPartBase + static_cast<double>(hash_of(text) % kPartBase);
  }
  return {static_cast<double>(hash_of(all) >> 12), parts};  // 52 bits each
}

}  // namespace gossamer::dist
