// See run_figures.h.
#include "gossamer/apps/train/run_figures.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "gossamer/core/text/json.h"

namespace gossamer::apps {
namespace {

using Member = double RunFigures::*;
constexpr std::array<std::pair<const char*, Member>, 4> kOfTheRun{
    {{"legs", &RunFigures::legs},
     {"samples", &RunFigures::samples},
     {"dealt_again", &RunFigures::dealt_again},
     {"wall_s", &RunFigures::wall_s}}};
constexpr std::array<std::pair<const char*, Member>, 11> kOfWorkers{
    {{"worker_s", &RunFigures::worker_s},
     {"gradients", &RunFigures::gradients},
     {"skipped_steps", &RunFigures::skipped_steps},
     {"exchanges", &RunFigures::exchanges},
     {"failed", &RunFigures::failed},
     {"refused", &RunFigures::refused},
     {"exposed_s", &RunFigures::exposed_s},
     {"transfer_s", &RunFigures::transfer_s},
     {"bytes_sent", &RunFigures::bytes_sent},
     {"data_wait_s", &RunFigures::data_wait_s},
     {"failed_checkpoints", &RunFigures::failed_checkpoints}}};

}  // namespace

RunFigures& RunFigures::operator+=(const RunFigures& later) {
  for (const auto& [name, member] : kOfTheRun) this->*member += later.*member;
  for (const auto& [name, member] : kOfWorkers) this->*member += later.*member;
  return *this;
}

RunFigures& RunFigures::merge(const RunFigures& other) {
  for (const auto& [name, member] : kOfTheRun)
    this->*member = std::max(this->*member, other.*member);
  for (const auto& [name, member] : kOfWorkers) this->*member += other.*member;
  return *this;
}

std::string RunFigures::json() const {
  JsonObject out;
  for (const auto& [name, member] : kOfTheRun) out.add(name, this->*member);
  for (const auto& [name, member] : kOfWorkers) out.add(name, this->*member);
  return out.str();
}

RunFigures parse_figures(const std::string& text) {
  RunFigures out;
  const auto json = parse_json<nlohmann::json>(text);
  const auto read = [&](const char* name, Member member) {
    const auto at = json.find(name);
    if (at == json.end() || !at->is_number()) return;
    const double value = at->get<double>();
    if (std::isfinite(value) && value > 0) out.*member = value;
  };
  if (!json.is_object()) return out;
  for (const auto& [name, member] : kOfTheRun) read(name, member);
  for (const auto& [name, member] : kOfWorkers) read(name, member);
  return out;
}

}  // namespace gossamer::apps
