// Fine-tunes a network on pictures of other classes than it knows, stops in the middle, and goes on
// from a copy of its state in memory:
//   finetune MODEL PICTURES RESULT
#include <gossamer.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 32, BATCH = 16, STEPS = 60 };

static void must(gsm_status status) {
  if (status == GSM_OK) return;
  fprintf(stderr, "status %d: %s\n", (int)status, gsm_last_error());
  exit(1);
}

static gsm_trainer* new_trainer(const char* model, int64_t classes) {
  const gsm_trainer_options options = {.struct_size = sizeof options,
                                       .optimizer = "sgd",
                                       .weight_decay = 5e-4,
                                       .init = model,
                                       .new_head = 1,
                                       .freeze = "conv1, bn1",
                                       .rates = "fc=10; layer1=0.5",
                                       .decays = "fc=0",
                                       .clip_norm = 5,
                                       .ema = 0.98};
  gsm_trainer* trainer;
  must(gsm_trainer_new(NULL, classes, &options, &trainer));
  return trainer;
}

static void list_what_did_not_fit(gsm_trainer* trainer) {
  int64_t loaded, left;
  must(gsm_trainer_init_fit(trainer, &loaded, &left));
  printf("%d tensors fit\n", (int)loaded);
  for (int64_t i = 0; i < left; ++i) {
    const char* what;
    must(gsm_trainer_init_left(trainer, i, &what));
    printf("not loaded: %s\n", what);
  }
}

static void train(gsm_trainer* trainer, gsm_loader* loader, int64_t until) {
  static uint8_t images[BATCH * SIDE * SIDE * 3];
  static int32_t labels[BATCH];
  const gsm_schedule schedule = {
      .struct_size = sizeof schedule, .kind = "cosine", .rate = 0.02, .total = STEPS, .warmup = 5};
  int64_t n, steps;
  while (must(gsm_trainer_steps(trainer, &steps)), steps < until) {
    float loss;
    double rate;
    must(gsm_loader_next(loader, images, labels, &n));
    if (n == 0) continue;
    must(gsm_trainer_gradient(trainer, images, labels, n, SIDE, SIDE, &loss));
    must(gsm_schedule_rate(&schedule, (double)steps, &rate));
    must(gsm_trainer_step(trainer, rate));
    if (steps % 20 == 0) printf("step %d: loss %.3f\n", (int)steps, loss);
  }
}

// The length of the last layer's weights.
static void show_head(gsm_trainer* trainer) {
  int64_t index;
  gsm_parameter_info_t info = {.struct_size = sizeof info};
  must(gsm_trainer_parameter_find(trainer, "fc.weight", &index));
  must(gsm_trainer_parameter_info(trainer, index, &info));
  float* weights = malloc((size_t)info.numbers * sizeof *weights);
  must(gsm_trainer_parameter_read(trainer, index, GSM_AVERAGE, weights, info.numbers));
  double sum = 0;
  for (int64_t i = 0; i < info.numbers; ++i) sum += weights[i] * weights[i];
  printf("%s: %d x %d, squared length %.3f\n", info.name, (int)info.shape[0], (int)info.shape[1],
         sum);
  free(weights);
}

int main(int count, char** arguments) {
  if (count != 4) return 2;
  const char* const path[] = {arguments[2]};
  gsm_dataset* set;
  int64_t size, classes;
  must(gsm_dataset_open(path, 1, &set));
  must(gsm_dataset_size(set, &size, &classes));
  const gsm_loader_options options = {
      .struct_size = sizeof options, .batch = BATCH, .size = SIDE, .augment = "pad-crop-flip"};
  gsm_loader* loader;
  must(gsm_loader_new(set, &options, &loader));

  gsm_trainer* trainer = new_trainer(arguments[1], classes);
  list_what_did_not_fit(trainer);
  train(trainer, loader, STEPS / 2);
  gsm_bytes* state;
  const void* bytes;
  size_t length;
  must(gsm_trainer_state_memory(trainer, &state));
  must(gsm_trainer_free(trainer));

  trainer = new_trainer(arguments[1], classes);
  must(gsm_bytes_data(state, &bytes, &length));
  must(gsm_trainer_state_restore(trainer, bytes, length));
  must(gsm_bytes_free(state));
  train(trainer, loader, STEPS);
  show_head(trainer);
  must(gsm_trainer_save(trainer, arguments[3], NULL));
  return gsm_shutdown() == GSM_OK ? 0 : 1;
}
