// How a command's work runs on a GPU.
#pragma once

#include <string>
#include <vector>

#include "gossamer/core/device.h"
#include "gossamer/core/text/json.h"

namespace gossamer::apps {

// How the vendor's library computes every convolution that was met so far.
std::vector<JsonObject> convolutions_on(Device);
// The same for attention; what is not listed ran on our own kernels.
std::vector<JsonObject> attentions_on(Device);
// The same for products of matrices.
std::vector<JsonObject> products_on(Device);

// Says that a network runs without a graph, and why: a GraphFailure.
void say_no_graph(const std::string& why);

}  // namespace gossamer::apps
