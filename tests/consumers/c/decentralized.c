// A training of one's own becomes decentralized: a line is fitted to noisy points by plain SGD, on
// as many workers as a launcher starts (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT). With an
// argument the worker of that rank waits on the way until it is killed.
//   decentralized [RANK]
#include <gossamer.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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

int main(int count, char** arguments) {
  gsm_group* group;
  gsm_gossip* gossip;
  int32_t rank, size, done = 0;
  float x[2] = {0, 0};  // slope and offset
  must(gsm_group_join_env(&group));
  must(gsm_group_rank(group, &rank, &size));
  const int32_t victim = count > 1 ? atoi(arguments[1]) : -1;
  const gsm_gossip_options options = {
      .struct_size = sizeof options, .total_steps = 10000.0 * size, .on_fault = on_fault};
  must(gsm_gossip_new(group, x, 2, "a2cid2", "ring", &options, &gossip));
  fprintf(stderr, "worker %d begins\n", (int)rank);
  uint32_t random = 12345u + (uint32_t)rank;
  for (int step = 0; !done; ++step) {
    if (rank == victim && step == 5000) pause();
    const float at = draw(&random), y = 3.0f * at - 1.0f + 0.1f * draw(&random);
    const float error = x[0] * at + x[1] - y;
    const float update[2] = {0.05f * error * at, 0.05f * error};
    must(gsm_gossip_step(gossip, update));
    must(gsm_gossip_done(gossip, &done));
  }
  must(gsm_gossip_finish(gossip));
  printf("worker %d of %d: y = %.3f x %+.3f\n", (int)rank, (int)size, x[0], x[1]);
  must(gsm_gossip_free(gossip));
  must(gsm_group_free(group));
  return 0;
}
