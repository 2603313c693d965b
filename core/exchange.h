// What workers that exchange models do with them, on any device: snapshots, differences, distances
// and sketches of parameters.
// Threads: one at a time for a block.
#pragma once

#include <cstdint>
#include <span>

#include "gossamer/core/tensor.h"

namespace gossamer {

// Snapshots are f32 or f16, of a multiple of 8 elements; twin may be undefined.

// snapshot <- c x + s twin. x and twin stay: the next gradient event does this drift for both.
void take_snapshot(const Tensor& x, const Tensor& twin, float c, float s, Tensor& snapshot);
// (x, twin) -= (jump_x, jump_twin) (own - received)
void apply_difference(Tensor& x, Tensor& twin, float jump_x, float jump_twin, const Tensor& own,
                      const Tensor& received);
// (x, y) <- (c x + s y, s x + c y), of equal f32 blocks
void mix(Tensor& x, Tensor& y, float c, float s);
// |a - b|^2, left on the device: f32 [1]
void squared_distance_to(const Tensor& a, const Tensor& b, const Tensor& out);
// sums[j] = sum of +-x[i] over i = j mod 1,024, signs drawn from `stream`; in double, the host
// waits for a GPU.
inline constexpr i64 kSketchWidth = 1024;
void count_sketch(const Tensor& x, std::uint64_t stream, std::span<double> sums);

}  // namespace gossamer
