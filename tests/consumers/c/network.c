// A network of one's own, with a loss of one's own, learns the product of two numbers on as many
// workers as a launcher starts (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT); alone without one.
// Worker 0 saves it. With a second argument the worker of that rank waits on the way until it is
// killed.
//   network FILE [RANK]
#include <gossamer.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BATCH = 32 };

static void must(gsm_status status) {
  if (status == GSM_OK) return;
  fprintf(stderr, "status %d: %s\n", (int)status, gsm_last_error());
  exit(1);
}

static void on_fault(const char* what, int32_t peer, void* user) {
  (void)user;
  fprintf(stderr, "worker %d: %s\n", (int)peer, what);
}

// uniform in -1 … 1
static float draw(uint32_t* state) {
  *state = *state * 1664525u + 1013904223u;
  return (float)(*state >> 8) / 8388608.0f - 1.0f;
}

// The mean of sqrt(1 + d^2) - 1, which outliers move less than squares.
static void robust_loss(gsm_tensor* y, gsm_tensor* wanted, gsm_tensor** loss) {
  gsm_tensor *d, *square, *sum, *root, *mean;
  must(gsm_sub(y, wanted, &d));
  must(gsm_square(d, &square));
  must(gsm_affine(square, 1, 1, &sum));  // 1 square + 1
  must(gsm_sqrt(sum, &root));
  must(gsm_mean(root, &mean));
  must(gsm_affine(mean, 1, -1, loss));
}

// The loss of the network for a batch of random numbers.
static gsm_tensor* loss_of(gsm_module* net, int training, uint32_t* random) {
  const int64_t x_shape[] = {BATCH, 2}, y_shape[] = {BATCH, 1};
  float x[2 * BATCH], y[BATCH];
  for (int i = 0; i < BATCH; ++i) {
    x[2 * i] = draw(random);
    x[2 * i + 1] = draw(random);
    y[i] = x[2 * i] * x[2 * i + 1];
  }
  gsm_tensor *inputs, *wanted, *outputs, *loss;
  must(gsm_tensor_copy(x, GSM_F32, x_shape, 2, &inputs));
  must(gsm_tensor_copy(y, GSM_F32, y_shape, 2, &wanted));
  must(gsm_module_forward(net, inputs, training, &outputs));
  robust_loss(outputs, wanted, &loss);
  return loss;
}

int main(int count, char** arguments) {
  if (count < 2) return 2;
  gsm_group* group;
  int32_t rank, size, done = 0;
  must(gsm_group_join_env(&group));
  must(gsm_group_rank(group, &rank, &size));
  const int32_t victim = count > 2 ? atoi(arguments[2]) : -1;

  gsm_module* net;
  gsm_params* params;
  gsm_optimizer* sgd;
  must(gsm_module_new("linear in=2 out=32; tanh; linear in=32 out=1", 1, &net));
  must(gsm_params_new(&params));
  must(gsm_params_add_module(params, NULL, net));
  must(gsm_optimizer_new(params, "sgd", "momentum=0.9", &sgd));

  gsm_method* training;
  const gsm_gossip_options options = {
      .struct_size = sizeof options, .total_steps = 2000.0 * size, .on_fault = on_fault};
  must(gsm_method_new_for(sgd, group, "a2cid2", "ring", &options, &training));
  fprintf(stderr, "worker %d begins\n", (int)rank);
  uint32_t random = 12345u + (uint32_t)rank;
  for (int step = 0; !done; ++step) {
    if (rank == victim && step == 500) pause();
    must(gsm_scope_begin());
    gsm_tensor* loss = loss_of(net, 1, &random);
    must(gsm_params_zero_grad(params));
    must(gsm_backward(loss));
    must(gsm_method_step(training, 0.05));
    must(gsm_scope_end());
    must(gsm_method_done(training, &done));
  }
  must(gsm_method_finish(training));

  float error;
  must(gsm_set_grad_enabled(0));
  random = 99;
  gsm_tensor* loss = loss_of(net, 0, &random);
  must(gsm_tensor_item(loss, &error));
  printf("worker %d of %d: error %.9f\n", (int)rank, (int)size, error);
  if (rank == 0) must(gsm_params_save(params, arguments[1]));
  must(gsm_method_free(training));
  must(gsm_optimizer_free(sgd));
  must(gsm_params_free(params));
  must(gsm_module_free(net));
  must(gsm_group_free(group));
  return 0;
}
