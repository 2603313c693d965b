// Trains a small network on a folder of classes and saves it for classify.c:
//   training PICTURES VALIDATION MODEL
#include <gossamer.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 32, BATCH = 16, EPOCHS = 6 };

static void must(gsm_status status) {
  if (status == GSM_OK) return;
  fprintf(stderr, "status %d: %s\n", (int)status, gsm_last_error());
  exit(1);
}

static gsm_loader* loader_of(gsm_dataset* set, int in_order) {
  const gsm_loader_options options = {.struct_size = sizeof options,
                                      .batch = BATCH,
                                      .size = SIDE,
                                      .in_order = in_order,
                                      .augment = in_order ? "none" : "pad-crop-flip"};
  gsm_loader* loader;
  must(gsm_loader_new(set, &options, &loader));
  return loader;
}

int main(int count, char** arguments) {
  if (count != 4) return 2;
  static uint8_t images[BATCH * SIDE * SIDE * 3];
  static int32_t labels[BATCH];
  const char* const train_path[] = {arguments[1]};
  const char* const val_path[] = {arguments[2]};
  gsm_dataset *train, *val;
  int64_t size, classes, n;
  must(gsm_dataset_open(train_path, 1, &train));
  must(gsm_dataset_open(val_path, 1, &val));
  must(gsm_dataset_size(train, &size, &classes));
  gsm_trainer* trainer;
  must(gsm_trainer_new("resnet8-cifar", classes, NULL, &trainer));

  gsm_loader* loader = loader_of(train, 0);
  for (int epoch = 0; epoch < EPOCHS;) {
    float loss;
    must(gsm_loader_next(loader, images, labels, &n));
    if (n == 0) {
      ++epoch;
      continue;
    }
    must(gsm_trainer_gradient(trainer, images, labels, n, SIDE, SIDE, &loss));
    must(gsm_trainer_step(trainer, 0.05));
  }
  must(gsm_loader_free(loader));

  int64_t right = 0, seen = 0;
  loader = loader_of(val, 1);
  while (must(gsm_loader_next(loader, images, labels, &n)), n) {
    int64_t correct;
    float loss;
    must(gsm_trainer_evaluate(trainer, images, labels, n, SIDE, SIDE, &correct, &loss));
    right += correct;
    seen += n;
  }
  must(gsm_loader_free(loader));
  printf("%d of %d right\n", (int)right, (int)seen);

  const char** names = malloc((size_t)classes * sizeof *names);
  for (int64_t i = 0; i < classes; ++i) must(gsm_dataset_class_name(train, i, &names[i]));
  must(gsm_trainer_save(trainer, arguments[3], names));
  free(names);
  must(gsm_trainer_free(trainer));
  must(gsm_dataset_free(val));
  must(gsm_dataset_free(train));
  return 0;
}
