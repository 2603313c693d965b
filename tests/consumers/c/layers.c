// Two networks of one's own, alone: a convolutional one with a residual, from text, tells how
// stripes run; and attention with parameters that belong to no layers learns to look back.
//   layers
#include <gossamer.h>
#include <stdio.h>
#include <stdlib.h>

enum { PICTURES = 16, SIDE = 6, TEXTS = 16, TOKENS = 8, IDS = 5, WIDTH = 16 };

static void must(gsm_status status) {
  if (status == GSM_OK) return;
  fprintf(stderr, "status %d: %s\n", (int)status, gsm_last_error());
  exit(1);
}

static float train_stripes(void) {
  static float pixels[PICTURES * SIDE * SIDE];
  int32_t labels[PICTURES];
  for (int i = 0; i < PICTURES; ++i) {
    labels[i] = i % 2;
    for (int at = 0; at < SIDE * SIDE; ++at)
      pixels[i * SIDE * SIDE + at] = (float)(((i % 2 ? at / SIDE : at % SIDE) + i / 2) % 2);
  }
  const int64_t shape[] = {PICTURES, SIDE, SIDE, 1}, rows[] = {PICTURES};
  gsm_tensor *images, *wanted;
  must(gsm_tensor_copy(pixels, GSM_F32, shape, 4, &images));
  must(gsm_tensor_copy(labels, GSM_I32, rows, 1, &wanted));

  const char* const layers =
      "stem: conv in=1 out=8 padding=1; batch_norm width=8; relu\n"
      "residual { conv in=8 out=8 padding=1; batch_norm width=8 }\n"
      "relu; global_avg_pool\n"
      "head: linear in=8 out=2";
  gsm_module* net;
  must(gsm_module_new(layers, 1, &net));
  gsm_params* params;
  gsm_optimizer* adam;
  must(gsm_params_new(&params));
  must(gsm_params_add_module(params, "net", net));
  must(gsm_optimizer_new(params, "adamw", "beta2=0.99 weight_decay=0.01", &adam));

  int64_t parameters, numbers;
  must(gsm_params_count(params, &parameters, &numbers));
  for (int64_t i = 0; i < parameters; ++i) {
    const char* name;
    gsm_tensor* parameter;
    int64_t extents[6];
    int32_t rank;
    gsm_dtype type;
    must(gsm_params_name(params, i, &name));
    must(gsm_params_tensor(params, i, &parameter));
    must(gsm_tensor_shape(parameter, extents, &rank, &type));
    printf("%s: %d dimensions, the first %d\n", name, (int)rank, (int)extents[0]);
    must(gsm_tensor_free(parameter));
  }

  float loss = 0;
  for (int step = 0; step < 60; ++step) {
    must(gsm_scope_begin());
    gsm_tensor *logits, *mean;
    must(gsm_module_forward(net, images, 1, &logits));
    must(gsm_cross_entropy(logits, wanted, 0, &mean));
    must(gsm_params_zero_grad(params));
    must(gsm_backward(mean));
    must(gsm_params_clip_grad(params, 1.0, NULL));
    must(gsm_optimizer_step(adam, 0.01));
    must(gsm_tensor_item(mean, &loss));
    must(gsm_scope_end());
  }
  must(gsm_optimizer_free(adam));
  must(gsm_params_free(params));
  must(gsm_module_free(net));
  must(gsm_tensor_free(images));
  must(gsm_tensor_free(wanted));
  return loss;
}

static gsm_tensor* weight(gsm_params* params, const char* name, int64_t rows, uint64_t seed) {
  const int64_t shape[] = {rows, WIDTH};
  gsm_tensor* w;
  must(gsm_tensor_normal(0, 0.25f, seed, shape, 2, &w));
  must(gsm_params_add(params, name, w));
  return w;
}

static float train_attention(void) {
  int32_t ids[TEXTS * TOKENS], labels[TEXTS * TOKENS], places[TOKENS];
  uint32_t random = 1;
  for (int i = 0; i < TEXTS * TOKENS; ++i) {
    random = random * 1664525u + 1013904223u;
    ids[i] = (int32_t)(random >> 16) % IDS;
    labels[i] = i % TOKENS == 0 ? 0 : ids[i - 1];
  }
  for (int i = 0; i < TOKENS; ++i) places[i] = i;
  const int64_t texts[] = {TEXTS, TOKENS}, row[] = {TEXTS * TOKENS}, length[] = {TOKENS};
  gsm_tensor *tokens, *wanted, *order;
  must(gsm_tensor_copy(ids, GSM_I32, texts, 2, &tokens));
  must(gsm_tensor_copy(labels, GSM_I32, row, 1, &wanted));
  must(gsm_tensor_copy(places, GSM_I32, length, 1, &order));

  gsm_params* params;
  gsm_optimizer* adam;
  must(gsm_params_new(&params));
  gsm_tensor* table = weight(params, "table", IDS, 1);
  gsm_tensor* positions = weight(params, "positions", TOKENS, 2);
  gsm_tensor* qkv = weight(params, "qkv", 3 * WIDTH, 3);
  gsm_tensor* head = weight(params, "head", IDS, 4);
  must(gsm_optimizer_new(params, "adam", NULL, &adam));

  float loss = 0;
  for (int step = 0; step < 200; ++step) {
    must(gsm_scope_begin());
    gsm_tensor *x, *at, *placed, *three, *seen, *logits, *flat, *mean;
    must(gsm_embedding(tokens, table, &x));
    must(gsm_embedding(order, positions, &at));
    must(gsm_add(x, at, &placed));
    must(gsm_linear(placed, qkv, NULL, &three));
    must(gsm_attention(three, 2, 1, NULL, &seen));
    must(gsm_linear(seen, head, NULL, &logits));
    const int64_t rows[] = {-1, IDS};
    must(gsm_reshape(logits, rows, 2, &flat));
    must(gsm_cross_entropy(flat, wanted, 0, &mean));
    must(gsm_params_zero_grad(params));
    must(gsm_backward(mean));
    must(gsm_optimizer_step(adam, 0.02));
    must(gsm_tensor_item(mean, &loss));
    must(gsm_scope_end());
  }
  must(gsm_optimizer_free(adam));
  must(gsm_params_free(params));
  gsm_tensor* const all[] = {tokens, wanted, order, table, positions, qkv, head};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i) must(gsm_tensor_free(all[i]));
  return loss;
}

int main(void) {
  printf("stripes: loss %.4f\n", train_stripes());
  printf("attention: loss %.4f\n", train_attention());
  return 0;
}
