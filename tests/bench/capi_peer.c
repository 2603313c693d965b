// Times the C API on images [N, 224, 224, 3] of zeros and ones.
//   capi_peer MODEL BATCH THREADS SECONDS
// Prints one JSON object: ms_median of at least five calls, cpu_ms_median of the process's CPU
// time, and the version.
#include "capi_times.h"

int main(int count, char** arguments) {
  enum { most = 100000 };
  static double times[most], cpu[most];
  if (count != 5) return 2;
  const int batch = atoi(arguments[2]);
  const double end = 1e3 * atof(arguments[4]);
  gsm_model* model;
  gsm_model_info_t info = {.struct_size = sizeof info};
  must(gsm_set_threads(atoi(arguments[3])));
  must(gsm_model_open(arguments[1], &model));
  must(gsm_model_info(model, &info));
  const size_t pixels = (size_t)batch * 224 * 224 * 3;
  float* images = malloc(pixels * sizeof *images);
  float* logits = malloc((size_t)batch * (size_t)info.classes * sizeof *logits);
  if (!images || !logits) return 1;
  for (size_t i = 0; i < pixels; ++i) images[i] = (float)(i * 2654435761u >> 16 & 1);
  for (int i = 0; i < 2; ++i) must(gsm_model_forward(model, images, batch, 224, 224, logits));
  int n = 0;
  const double begin = now_ms();
  for (double last = begin; n < most && (last < begin + end || n < 5); ++n) {
    const double cpu_before = ms_of(CLOCK_PROCESS_CPUTIME_ID);
    must(gsm_model_forward(model, images, batch, 224, 224, logits));
    const double now = now_ms();
    times[n] = now - last;
    cpu[n] = ms_of(CLOCK_PROCESS_CPUTIME_ID) - cpu_before;
    last = now;
  }
  const double images_per_s = 1e3 * batch * n / (now_ms() - begin);
  qsort(times, (size_t)n, sizeof *times, ascending);
  qsort(cpu, (size_t)n, sizeof *cpu, ascending);
  printf(
      "{\"ms_median\": %.4f, \"cpu_ms_median\": %.4f, \"kernels\": \"C API\", \"version\": \"%s\", "
      "\"images_per_s\": %.2f}\n",
      times[n / 2], cpu[n / 2], gsm_version(), images_per_s);
  must(gsm_model_free(model));
  free(images);
  free(logits);
  return 0;
}
