// Rows of the list of ops (op_cases.h): norms of one sample.
#pragma once

#include <string>
#include <vector>

#include "core/ops/op_case.h"
#include "gossamer/core/ops/group_norm.h"

namespace gossamer::testing::rows {

// Several strips of channels or part of one, several groups, one pixel, many pixels.
inline void group_norms(std::vector<OpCase>& all) {
  const struct {
    Shape x;
    i64 groups;
  } list[] = {{{3, 4, 5, 6}, 2},
              {{2, 3, 3, 24}, 8},
              {{2, 17}, 1},
              {{2, 4, 3, 16}, 16},
              {{1, 20, 20, 8}, 2}};
  for (const auto& [x, groups] : list) {
    const std::string what = std::to_string(groups) + " groups";
    const int terms = static_cast<int>(x.numel() / x[-1]);
    all.push_back({"group_norm",
                   what,
                   {x, {x[-1]}, {x[-1]}},
                   [groups = groups](const std::vector<Tensor>& in) {
                     return group_norm(in[0], in[1], in[2], {.groups = groups, .eps = 0.1f});
                   },
                   {Draw::normal, Draw::positive},
                   {false, true, true},
                   terms,
                   true,
                   true});
    all.push_back({"evonorm_s0",
                   what,
                   {x, {x[-1]}, {x[-1]}, {x[-1]}},
                   [groups = groups](const std::vector<Tensor>& in) {
                     return evonorm_s0(in[0], in[1], in[2], in[3], {.groups = groups, .eps = 0.1f});
                   },
                   {Draw::normal, Draw::normal, Draw::positive},
                   {false, true, true, true},
                   terms,
                   true,
                   true});
  }
}

}  // namespace gossamer::testing::rows
