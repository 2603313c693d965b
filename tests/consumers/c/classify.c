// Says what is on a picture:  classify MODEL PICTURE
#include <gossamer.h>
#include <stdio.h>

static int failed(void) {
  fprintf(stderr, "%s\n", gsm_last_error());
  return 1;
}

int main(int count, char** arguments) {
  gsm_model* model;
  gsm_class classes[3];
  int32_t n = 3;
  if (count != 3) return 2;
  if (gsm_model_open(arguments[1], &model)) return failed();
  if (gsm_model_classify_file(model, arguments[2], classes, &n)) return failed();
  for (int32_t i = 0; i < n; ++i) {
    const char* name;
    if (gsm_model_class_name(model, classes[i].index, &name)) return failed();
    printf("%5.1f %%  %s\n", 100 * classes[i].probability, name);
  }
  return gsm_model_free(model) ? failed() : 0;
}
