// Times how soon a training step of the C API ends that another thread cancels.
//   capi_cancel MODEL SIDE BATCH THREADS TIMES
// Prints one JSON object: median and largest time from gsm_cancel_set to the end of the call.
#include <pthread.h>

#include "capi_times.h"

static gsm_cancel* cancel;
static gsm_trainer* trainer;
static uint8_t* images;
static int32_t* labels;
static int side, batch, threads;
static double ended;

// Trains until it is cancelled.
static void* train(void* nothing) {
  must(gsm_set_threads(threads));
  must(gsm_cancel_use(cancel));
  float loss;
  for (;;) {
    const gsm_status status =
        gsm_trainer_gradient(trainer, images, labels, batch, side, side, &loss);
    if (status == GSM_CANCELLED) break;
    must(status);
  }
  ended = now_ms();
  return nothing;
}

int main(int count, char** arguments) {
  enum { most = 1000 };
  static double times[most];
  if (count != 6) return 2;
  side = atoi(arguments[2]);
  batch = atoi(arguments[3]);
  threads = atoi(arguments[4]);
  const int n = atoi(arguments[5]);
  if (n < 1 || n > most) return 2;
  must(gsm_cancel_new(&cancel));
  must(gsm_trainer_new(arguments[1], 0, NULL, &trainer));
  images = calloc((size_t)batch * (size_t)side * (size_t)side, 3);
  labels = calloc((size_t)batch, sizeof *labels);
  if (!images || !labels) return 1;
  for (int i = 0; i < n; ++i) {
    pthread_t thread;
    must(gsm_cancel_set(cancel, 0));
    if (pthread_create(&thread, NULL, train, NULL)) return 1;
    // at another moment of a step each time
    const struct timespec pause = {.tv_sec = 0, .tv_nsec = 200000000L + 13000000L * (i % 50)};
    nanosleep(&pause, NULL);
    const double set = now_ms();
    must(gsm_cancel_set(cancel, 1));
    if (pthread_join(thread, NULL)) return 1;
    times[i] = ended - set;
  }
  qsort(times, (size_t)n, sizeof *times, ascending);
  printf("{\"ms_median\": %.3f, \"ms_largest\": %.3f, \"times\": %d, \"version\": \"%s\"}\n",
         times[n / 2], times[n - 1], n, gsm_version());
  must(gsm_trainer_free(trainer));
  must(gsm_cancel_free(cancel));
  free(images);
  free(labels);
  return 0;
}
