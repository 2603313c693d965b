// See groups.h.
#include "gossamer/apps/capi/groups.h"

#include "gossamer/apps/capi/objects.h"

namespace gossamer::capi {

std::vector<nn::RateFactor> read_rates(const char* text) {
  std::vector<nn::RateFactor> all;
  for (const std::string& part : parts_of(text)) all.push_back(nn::parse_rate_factor(part));
  return all;
}

std::vector<nn::OwnDecay> read_decays(const char* text) {
  std::vector<nn::OwnDecay> all;
  for (const std::string& part : parts_of(text)) all.push_back(nn::parse_own_decay(part));
  return all;
}

}  // namespace gossamer::capi
