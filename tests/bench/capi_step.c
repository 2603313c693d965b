// Times training steps through the C API: gsm_trainer_gradient and gsm_trainer_step on one batch of
// bytes.
//   capi_step MODEL SIDE BATCH THREADS SECONDS
// Prints one JSON object as `gossamer bench step` does: medians of wall and CPU time of a step, and
// images a second.
#include "capi_times.h"

int main(int count, char** arguments) {
  enum { most = 100000 };
  static double wall[most], cpu[most];
  if (count != 6) return 2;
  const int side = atoi(arguments[2]), batch = atoi(arguments[3]);
  const gsm_trainer_options options = {
      .struct_size = sizeof options, .optimizer = "sgd", .weight_decay = 1e-4};
  gsm_trainer* trainer;
  must(gsm_set_threads(atoi(arguments[4])));
  must(gsm_trainer_new(arguments[1], 0, &options, &trainer));
  const size_t pixels = (size_t)batch * (size_t)side * (size_t)side * 3;
  uint8_t* images = malloc(pixels);
  int32_t* labels = malloc((size_t)batch * sizeof *labels);
  if (!images || !labels) return 1;
  for (size_t i = 0; i < pixels; ++i) images[i] = (uint8_t)(i * 2654435761u >> 24);
  for (int i = 0; i < batch; ++i) labels[i] = i % 10;
  int n = -3;  // the first steps are not counted
  double begin = 0;
  for (double end = 0; n < most && (n < 5 || ms_of(CLOCK_MONOTONIC) < end); ++n) {
    const double wall_before = ms_of(CLOCK_MONOTONIC), cpu_before = ms_of(CLOCK_PROCESS_CPUTIME_ID);
    if (n == 0) {
      begin = wall_before;
      end = begin + 1e3 * atof(arguments[5]);
    }
    float loss;
    must(gsm_trainer_gradient(trainer, images, labels, batch, side, side, &loss));
    must(gsm_trainer_step(trainer, 0.01));
    if (n < 0) continue;
    wall[n] = ms_of(CLOCK_MONOTONIC) - wall_before;
    cpu[n] = ms_of(CLOCK_PROCESS_CPUTIME_ID) - cpu_before;
  }
  const double images_per_s = 1e3 * batch * n / (ms_of(CLOCK_MONOTONIC) - begin);
  qsort(wall, (size_t)n, sizeof *wall, ascending);
  qsort(cpu, (size_t)n, sizeof *cpu, ascending);
  printf(
      "{\"ms_median\": %.4f, \"cpu_ms_median\": %.4f, \"steps\": %d, \"version\": \"%s\", "
      "\"images_per_s\": %.2f}\n",
      wall[n / 2], cpu[n / 2], n, gsm_version(), images_per_s);
  must(gsm_trainer_free(trainer));
  free(images);
  free(labels);
  return 0;
}
