// Evaluation of a language model, which `gossamer eval` finds by its file.
#pragma once

#include "gossamer/apps/commands.h"
#include "gossamer/apps/config.h"

namespace gossamer::apps {

int eval_text(const EvalCommand&, Config);

}  // namespace gossamer::apps
