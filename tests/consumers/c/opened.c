// Opens the library at run time, as a program does that also runs without it:  opened LIBRARY
#include <dlfcn.h>
#include <gossamer.h>
#include <stdio.h>

int main(int count, char** arguments) {
  if (count != 2) return 2;
  void* library = dlopen(arguments[1], RTLD_NOW);
  if (!library) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  const gsm_api* (*get_api)(uint32_t) = NULL;
  *(void**)&get_api = dlsym(library, "gsm_get_api");
  const gsm_api* api = get_api ? get_api(GSM_API_VERSION) : NULL;
  if (!api) {
    fprintf(stderr, "%s is older than this program\n", arguments[1]);
    return 1;
  }
  printf("Gossamer %s\n", api->version());
  gsm_model* model;
  if (api->model_open("nowhere.safetensors", &model)) printf("%s\n", api->last_error());
  return dlclose(library);
}
