// Version, threads, devices, and the table of all functions.
#include "gossamer/apps/capi/objects.h"
#include "gossamer/core/cores.h"
#include "gossamer/core/cuda.h"
#include "gossamer/core/parallel.h"

using namespace gossamer;
using namespace gossamer::capi;

const char* gsm_version(void) { return GOSSAMER_VERSION; }

gsm_status gsm_set_threads(int32_t threads) {
  return guarded([&] {
    check<ArgumentError>(threads >= 0 && threads <= 1024, "gsm_set_threads: ", threads,
                         " threads; wanted 0 to 1024");
    set_compute_threads(threads ? threads : usable_cores().count);
  });
}

gsm_status gsm_device_count(int32_t* count) {
  return guarded([&] {
    check_given("count", count);
    *count = cuda::device_count();
  });
}

const gsm_api* gsm_get_api(uint32_t version) {
  static const gsm_api api{sizeof(gsm_api),          gsm_version,
                           gsm_last_error,           gsm_set_log,
                           gsm_set_threads,          gsm_device_count,
                           gsm_model_open,           gsm_model_info,
                           gsm_model_class_name,     gsm_model_classify_file,
                           gsm_model_classify_bytes, gsm_model_forward_u8,
                           gsm_model_forward,        gsm_model_free,
                           gsm_tensor_from_blob,     gsm_tensor_data,
                           gsm_tensor_shape,         gsm_tensor_from_dlpack,
                           gsm_tensor_to_dlpack,     gsm_tensor_free,
                           gsm_model_forward_tensor, gsm_trainer_new,
                           gsm_trainer_gradient,     gsm_trainer_forward,
                           gsm_trainer_backward,     gsm_trainer_step,
                           gsm_trainer_evaluate,     gsm_trainer_save,
                           gsm_trainer_load,         gsm_trainer_free,
                           gsm_dataset_open,         gsm_dataset_size,
                           gsm_dataset_class_name,   gsm_dataset_free,
                           gsm_loader_new,           gsm_loader_next,
                           gsm_loader_free,          gsm_group_join_env,
                           gsm_group_join,           gsm_group_local,
                           gsm_group_rank,           gsm_group_free,
                           gsm_gossip_new,           gsm_gossip_step,
                           gsm_gossip_done,          gsm_gossip_finish,
                           gsm_gossip_stats,         gsm_gossip_free,
                           gsm_method_new,           gsm_method_step,
                           gsm_method_done,          gsm_method_finish,
                           gsm_method_stats,         gsm_method_free,
                           gsm_group_join_with};
  return version >= 1 && version <= GSM_API_VERSION ? &api : nullptr;
}
