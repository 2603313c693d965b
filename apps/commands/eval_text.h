// Evaluation of models for text, which `gossamer eval` finds by their file.
#pragma once

#include "gossamer/apps/commands.h"
#include "gossamer/apps/config.h"
#include "gossamer/apps/train/evaluate.h"
#include "gossamer/apps/train/model_source.h"
#include "gossamer/core/device.h"

namespace gossamer::apps {

struct LanguageModel;

// Evaluates a language model. Returns the exit code, as eval_pairs() does.
int eval_text(const EvalCommand&, const ModelSource&, Config, Device);
// The same of questions with several endings, with --choices (eval_choices.cpp).
int eval_choices(const EvalCommand&, const LanguageModel&, const Config&, Device);
// Evaluates a translation model (eval_pairs.cpp).
int eval_pairs(const EvalCommand&, const ModelSource&, Config, Device);

// Says it if memory did not suffice for eval.batch rows at a time, or work for a graph (eval.cpp).
void say_how_it_ran(const Config&, const Counts&);
// Sets the configuration up for this task; of the options only those of text may be given.
void begin_text_evaluation(const EvalCommand&, const std::string& task, Config&);

}  // namespace gossamer::apps
