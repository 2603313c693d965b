// What the programs that time the C API share.
#pragma once

#include <gossamer.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline void must(gsm_status status) {
  if (status == GSM_OK) return;
  fprintf(stderr, "%s\n", gsm_last_error());
  exit(1);
}

static inline double ms_of(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}
static inline double now_ms(void) { return ms_of(CLOCK_MONOTONIC); }

// for qsort of doubles
static inline int ascending(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}
