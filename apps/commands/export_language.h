// `gossamer export MODEL --to huggingface|gguf`: language models with their tokenizers.
#pragma once

#include "gossamer/apps/commands.h"

namespace gossamer::apps {

int export_language(const ExportCommand&);

}  // namespace gossamer::apps
