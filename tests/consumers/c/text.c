// Fine-tunes a GPT-2 on a text and lets it go on with a prompt, for at most 10 seconds:
//   text FOLDER TEXT PROMPT
#include <gossamer.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCH = 4, LENGTH = 32, STEPS = 30 };

static void must(gsm_status status) {
  if (status == GSM_OK) return;
  fprintf(stderr, "status %d: %s\n", (int)status, gsm_last_error());
  exit(1);
}

static char* read_text(const char* path, size_t* size) {
  FILE* file = fopen(path, "rb");
  if (!file) exit(2);
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  char* text = malloc(*size + 1);
  if (fread(text, 1, *size, file) != *size) exit(2);
  fclose(file);
  return text;
}

static int32_t* encode(gsm_tokenizer* tokenizer, const char* text, size_t size, int64_t* n) {
  *n = 0;
  must(gsm_tokenizer_encode(tokenizer, text, size, 0, NULL, n));
  int32_t* ids = malloc((size_t)*n * sizeof *ids);
  must(gsm_tokenizer_encode(tokenizer, text, size, 0, ids, n));
  return ids;
}

static void train(const char* folder, const int32_t* ids, int64_t n, const char* result) {
  const gsm_trainer_options options = {
      .struct_size = sizeof options, .optimizer = "adamw", .init = folder, .weight_decay = 0.1};
  gsm_trainer* trainer;
  must(gsm_trainer_new(NULL, 0, &options, &trainer));
  for (int step = 0; step < STEPS; ++step) {
    int32_t inputs[BATCH * LENGTH], labels[BATCH * LENGTH];
    for (int row = 0; row < BATCH; ++row) {
      const int64_t at = rand() % (n - LENGTH);
      memcpy(inputs + row * LENGTH, ids + at, LENGTH * sizeof *ids);
      memcpy(labels + row * LENGTH, ids + at + 1, LENGTH * sizeof *ids);
    }
    float loss;
    must(gsm_trainer_gradient_ids(trainer, inputs, labels, BATCH, LENGTH, &loss));
    must(gsm_trainer_step(trainer, 0.001));
    if (step % 10 == 0) printf("step %d: loss %.3f\n", step, loss);
  }
  must(gsm_trainer_save(trainer, result, NULL));
  must(gsm_trainer_free(trainer));
}

static void* stop_after_10_s(void* cancel) {
  const struct timespec time = {10, 0};
  nanosleep(&time, NULL);
  gsm_cancel_set(cancel, 1);
  return NULL;
}

static void generate(gsm_language* language, gsm_tokenizer* tokenizer, const int32_t* ids,
                     int64_t n) {
  const gsm_generation_options options = {.struct_size = sizeof options,
                                          .temperature = 0.8,
                                          .top_k = 40,
                                          .top_p = 0.95,
                                          .seed = 1,
                                          .tokens = 50};
  gsm_generation* generation;
  must(gsm_generation_new(language, ids, n, &options, &generation));
  int32_t id, done;
  gsm_status status;
  while (!(status = gsm_generation_next(generation, &id, &done)) && !done) {
    char text[256];
    size_t size = sizeof text;
    must(gsm_tokenizer_decode(tokenizer, &id, 1, text, &size));
    fwrite(text, 1, size, stdout);
    fflush(stdout);
  }
  printf(status == GSM_CANCELLED ? " (cancelled)\n" : "\n");
  must(gsm_generation_free(generation));
}

int main(int count, char** arguments) {
  if (count != 4) return 2;
  gsm_tokenizer* tokenizer;
  gsm_language* language;
  must(gsm_tokenizer_open(arguments[1], &tokenizer));
  size_t size;
  char* text = read_text(arguments[2], &size);
  int64_t n, asked;
  int32_t* ids = encode(tokenizer, text, size, &n);
  int32_t* prompt = encode(tokenizer, arguments[3], strlen(arguments[3]), &asked);
  train(arguments[1], ids, n, "finetuned.safetensors");

  must(gsm_language_open("finetuned.safetensors", NULL, &language));
  double loss, perplexity;
  must(gsm_language_perplexity(language, ids, n, 0, &loss, &perplexity));
  printf("perplexity %.2f\n", perplexity);

  gsm_cancel* cancel;
  pthread_t clock;
  must(gsm_cancel_new(&cancel));
  must(gsm_cancel_use(cancel));
  pthread_create(&clock, NULL, stop_after_10_s, cancel);
  pthread_detach(clock);
  generate(language, tokenizer, prompt, asked);
  free(prompt);
  free(ids);
  free(text);
  return gsm_shutdown() == GSM_OK ? 0 : 1;
}
