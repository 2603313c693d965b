// Version, threads, devices, and the table of all functions.
#include "gossamer/apps/capi/cancel.h"
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

gsm_status gsm_shutdown(void) {
  return guarded([&] {
    check<BusyError>(waiting_calls() == 0, waiting_calls(),
                     " cancelled calls still wait for other workers, at most until their "
                     "deadlines");
    remove_all_objects();
  });
}

const gsm_api* gsm_get_api(uint32_t version) {
  static const gsm_api api{sizeof(gsm_api),
                           gsm_version,
                           gsm_last_error,
                           gsm_set_log,
                           gsm_set_threads,
                           gsm_device_count,
                           gsm_model_open,
                           gsm_model_info,
                           gsm_model_class_name,
                           gsm_model_classify_file,
                           gsm_model_classify_bytes,
                           gsm_model_forward_u8,
                           gsm_model_forward,
                           gsm_model_free,
                           gsm_tensor_from_blob,
                           gsm_tensor_data,
                           gsm_tensor_shape,
                           gsm_tensor_from_dlpack,
                           gsm_tensor_to_dlpack,
                           gsm_tensor_free,
                           gsm_model_forward_tensor,
                           gsm_trainer_new,
                           gsm_trainer_gradient,
                           gsm_trainer_forward,
                           gsm_trainer_backward,
                           gsm_trainer_step,
                           gsm_trainer_evaluate,
                           gsm_trainer_save,
                           gsm_trainer_load,
                           gsm_trainer_free,
                           gsm_dataset_open,
                           gsm_dataset_size,
                           gsm_dataset_class_name,
                           gsm_dataset_free,
                           gsm_loader_new,
                           gsm_loader_next,
                           gsm_loader_free,
                           gsm_group_join_env,
                           gsm_group_join,
                           gsm_group_local,
                           gsm_group_rank,
                           gsm_group_free,
                           gsm_gossip_new,
                           gsm_gossip_step,
                           gsm_gossip_done,
                           gsm_gossip_finish,
                           gsm_gossip_stats,
                           gsm_gossip_free,
                           gsm_method_new,
                           gsm_method_step,
                           gsm_method_done,
                           gsm_method_finish,
                           gsm_method_stats,
                           gsm_method_free,
                           gsm_group_join_with,
                           gsm_bytes_data,
                           gsm_bytes_free,
                           gsm_model_open_memory,
                           gsm_trainer_save_memory,
                           gsm_trainer_init_fit,
                           gsm_trainer_init_left,
                           gsm_trainer_gradient_ids,
                           gsm_trainer_evaluate_ids,
                           gsm_trainer_forward_ids,
                           gsm_trainer_gradient_pairs,
                           gsm_trainer_evaluate_average,
                           gsm_trainer_evaluate_average_ids,
                           gsm_trainer_steps,
                           gsm_schedule_rate,
                           gsm_trainer_parameter_count,
                           gsm_trainer_parameter_info,
                           gsm_trainer_parameter_find,
                           gsm_trainer_parameter_read,
                           gsm_trainer_parameter_write,
                           gsm_trainer_gradient_norm,
                           gsm_trainer_lock,
                           gsm_trainer_parameter_data,
                           gsm_trainer_unlock,
                           gsm_trainer_state_save,
                           gsm_trainer_state_memory,
                           gsm_trainer_state_load,
                           gsm_trainer_state_restore,
                           gsm_tokenizer_open,
                           gsm_tokenizer_size,
                           gsm_tokenizer_encode,
                           gsm_tokenizer_decode,
                           gsm_tokenizer_save,
                           gsm_tokenizer_free,
                           gsm_language_open,
                           gsm_language_info,
                           gsm_language_tokenizer,
                           gsm_language_perplexity,
                           gsm_language_free,
                           gsm_generation_new,
                           gsm_generation_next,
                           gsm_generation_free,
                           gsm_cancel_new,
                           gsm_cancel_use,
                           gsm_cancel_set,
                           gsm_cancel_free,
                           gsm_shutdown};
  return version >= 1 && version <= GSM_API_VERSION ? &api : nullptr;
}
