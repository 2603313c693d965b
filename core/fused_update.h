// One pass over all parameters on a GPU: the gradient event of A2CiD2 (mix, then the optimizer's
// step on both copies), after it a difference that has arrived meanwhile, and the copy that layers
// read. The same events in the same order as sgd_update or adam_update followed by jump (update.h),
// bit for bit on one device; but each number is read and written once, and everything that changes
// from step to step is read from device memory, so that a recorded graph of the pass stays valid.
#pragma once

#include "gossamer/core/update.h"

namespace gossamer::fused {

// The numbers of one step. On the device: a u8 tensor of sizeof(StepNumbers), written in stream
// order before the pass.
struct StepNumbers {
  double squared_norm = 0;  // of the gradients, if it is measured
  float learning_rate = 0, momentum = 0, grad_scale = 1;
  // before the step (x, twin) <- (c x + s twin, s x + c twin)
  float mix_c = 1, mix_s = 0;
  // after it, if `jump`: (x, twin) -= (jump_x, jump_twin) (own - received)
  float jump_x = 0, jump_twin = 0;
  std::int32_t jump = 0;      // 0: own and received are not read
  AdamFactors<float> adam{};  // AdamFactors::at(step, …, learning rate, …)
};
static_assert(std::is_trivially_copyable_v<StepNumbers>);
// Adam's steps are counted where the parameters are, since there alone it is known which were left
// out.
struct AdamCount {
  Tensor steps;  // i64 [1]; undefined: not Adam
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  i64 period = 1;
};
Tensor step_numbers(Device);  // u8, holds StepNumbers{}
// Both in stream order, without a wait. First: squared_norm <- |g|^2 without the loss scale.
void measure_gradients(Tensor& numbers, FlatParams&);
// All others. They travel as arguments of a launch, so nothing on the host has to stay where it is;
// grad_scale (from the norm, if there is a limit) and the factors of Adam are worked out there.
void write_numbers(Tensor& numbers, const StepNumbers&, const GradientScale& = {},
                   const AdamCount& = {});

// Settings of groups of parameters. A group takes whole parameters; 256 groups at most.
struct ParameterGroup {
  float weight_decay = 0, rate = 1;  // rate: on the learning rate
};
struct ParameterGroups {
  Tensor settings;       // f32 [groups, 2]
  Tensor group_of_line;  // u8 [size/32]: of each 128 bytes of the flat block
};
// group_of(entry's index in params.entries()) for every parameter.
ParameterGroups parameter_groups(const FlatParams&, const std::vector<ParameterGroup>&,
                                 const std::function<int(std::size_t)>& group_of);
// Matrices and filters decay, vectors don't: as sgd_update.
ParameterGroups parameter_groups(const FlatParams&, float weight_decay);

// What the pass works on; undefined where not wanted. All on one device, each of the parameters'
// layout.
struct UpdateBuffers {
  Tensor values;  // f32 [size]
  Tensor twin;    // f32: A2CiD2's x~
  Tensor grads;   // f32, bf16 or f16
  // bf16 or f16 of the first elements (FlatParams: [decayed])
  Tensor compute_half;
  Tensor compute_f32;    // f32 [size], written behind those
  float loss_scale = 1;  // of the gradients, which are divided by it
  // FlatParams::overflow(): not 0, and the optimizer's step is left out
  Tensor overflow;
  Tensor own, received;  // f32 or f16 [size]: the two snapshots of an exchange
};
// values, grads with their scale, and the compute copies
UpdateBuffers buffers_of(const FlatParams&);

// On a range of the block; it begins and ends on 128 bytes, as parameters do.
enum class Decay { coupled, decoupled };  // g += wd x, or AdamW's x -= lr wd x
void sgd_pass(const UpdateBuffers&, const Tensor& momentum, const ParameterGroups&, bool nesterov,
              const Tensor& numbers, FlatRange = {});
void adam_pass(const UpdateBuffers&, const AdamState&, const ParameterGroups&, Decay,
               const Tensor& numbers, FlatRange = {});

// --- exchanges. Snapshots are f32 or f16.
// snapshot <- c x + s twin, without touching them: the drift up to now, which the next gradient
// event does for both in one go. twin may be undefined: x
void snapshot(const Tensor& x, const Tensor& twin, float c, float s, Tensor& snapshot);
// A difference that no pass takes along: jump() of update.h for either wire format. twin may be
// undefined.
void apply_difference(Tensor& x, Tensor& twin, float jump_x, float jump_twin, const Tensor& own,
                      const Tensor& received);

}  // namespace gossamer::fused
