// Opens the library, computes by several threads and closes it, again and again: its threads may
// sleep meanwhile.  reopened LIBRARY
#include <dlfcn.h>
#include <gossamer.h>
#include <stdio.h>
#include <time.h>

static int use(const char* path) {
  static uint8_t images[8 * 32 * 32 * 3];
  const int32_t labels[8] = {0};
  const gsm_api* (*get_api)(uint32_t) = NULL;
  gsm_trainer* trainer;
  float loss;
  void* library = dlopen(path, RTLD_NOW);
  if (!library) return 1;
  *(void**)&get_api = dlsym(library, "gsm_get_api");
  const gsm_api* api = get_api(GSM_API_VERSION);
  if (api->set_threads(3) || api->trainer_new("resnet8-cifar", 2, NULL, &trainer) ||
      api->trainer_gradient(trainer, images, labels, 8, 32, 32, &loss) ||
      api->trainer_free(trainer)) {
    fprintf(stderr, "%s\n", api->last_error());
    return 1;
  }
  return dlclose(library);
}

int main(int count, char** arguments) {
  const struct timespec meanwhile = {0, 10000000};
  for (int i = 0; i < 3; ++i) {
    if (count != 2 || use(arguments[1])) return 1;
    nanosleep(&meanwhile, NULL);
  }
  puts("opened and closed 3 times");
  return 0;
}
