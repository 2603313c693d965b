// Networks from text: layers one after the other, each with its settings.
//
//   conv in=3 out=16 kernel=3 padding=1; batch_norm width=16; relu
//   residual { conv in=16 out=16 kernel=3 padding=1; batch_norm width=16; relu }
//   global_avg_pool
//   head: linear in=16 out=10
//
// A layer ends at the end of its line or at a semicolon. A word that ends in a colon names it;
// others are called by their places, "0", "1" … The groups in braces are what it is made of:
//
//   residual { body }              x + body(x)
//   residual { body } { shortcut } shortcut(x) + body(x)
//
// The layers and their settings are in layer_text.h: linear, conv, batch_norm, layer_norm,
// embedding, positions, attention, dropout, max_pool, avg_pool, residual, and without settings
// relu, gelu, gelu_tanh, tanh, sigmoid, global_avg_pool, flatten.
// Threads: as Module (module.h).
#pragma once

#include <memory>
#include <string>

#include "gossamer/nn/module.h"

namespace gossamer::nn {

// Initial values are drawn from init_rng() (init.h), layer by layer. The layers are named as the
// text names them; those in braces are below "body" and "shortcut". What each takes and gives is in
// core/ops.h: images are [N, H, W, C], tokens [N, T, width], others [N, width].
// ConfigError names the line and what is wrong there, or what a layer says of its sizes.
std::unique_ptr<Module> make_described(const std::string& text);

}  // namespace gossamer::nn
