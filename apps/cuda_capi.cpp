// The library for C in libgossamer-cuda.so.0: see cuda_module.h.
#include "gossamer/apps/capi/gossamer.h"

extern "C" const gsm_api* gossamer_cuda_api(uint32_t version) { return gsm_get_api(version); }
