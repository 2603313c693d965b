// Teaches a model of LLaMA's kind to answer as examples do, by an adapter:
//   tune FOLDER EXAMPLES
// EXAMPLES: lines of JSON, each {"prompt": "…", "completion": "…"} or {"messages": […]}.
#include <gossamer.h>
#include <stdio.h>
#include <stdlib.h>

enum { LENGTH = 1024, EPOCHS = 20 };

static void must(gsm_status status) {
  if (status == GSM_OK) return;
  fprintf(stderr, "status %d: %s\n", (int)status, gsm_last_error());
  exit(1);
}

int main(int count, char** arguments) {
  if (count != 3) return 2;
  FILE* file = fopen(arguments[2], "r");
  if (!file) return 2;
  gsm_tokenizer* tokenizer;
  must(gsm_tokenizer_open(arguments[1], &tokenizer));
  const gsm_trainer_options options = {.struct_size = sizeof options,
                                       .optimizer = "adamw",
                                       .init = arguments[1],
                                       .lora_rank = 8};
  gsm_trainer* trainer;
  must(gsm_trainer_new(NULL, 0, &options, &trainer));
  for (int epoch = 0; epoch < EPOCHS; ++epoch) {
    char line[8192];
    int lines = 0;
    double sum = 0;
    rewind(file);
    while (fgets(line, sizeof line, file)) {
      int32_t ids[LENGTH], labels[LENGTH];
      int64_t n = LENGTH;
      float loss;
      must(gsm_tokenizer_example(tokenizer, NULL, line, ids, labels, &n));
      must(gsm_trainer_gradient_ids(trainer, ids, labels, 1, n, &loss));
      must(gsm_trainer_step(trainer, 0.01));
      sum += loss;
      ++lines;
    }
    printf("epoch %d: loss %.3f\n", epoch + 1, sum / lines);
  }
  must(gsm_trainer_save_adapter(trainer, "adapter", NULL));
  // The folder of the adapter is opened as a model.
  gsm_language* language;
  gsm_language_info_t info = {.struct_size = sizeof info};
  must(gsm_language_open("adapter", NULL, &language));
  must(gsm_language_info(language, &info));
  printf("%lld parameters\n", (long long)info.parameters);
  fclose(file);
  return gsm_shutdown() == GSM_OK ? 0 : 1;
}
