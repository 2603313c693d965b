// All functions of the C API as a table, for programs that open the library at run time. Included
// by gossamer.h.
// Threads: as each function in gossamer.h.
#ifndef GOSSAMER_TABLE_H
#define GOSSAMER_TABLE_H

#include "gossamer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gsm_api {
  size_t struct_size;
  const char* (*version)(void);
  const char* (*last_error)(void);
  gsm_status (*set_log)(gsm_log_function, void*);
  gsm_status (*set_threads)(int32_t);
  gsm_status (*device_count)(int32_t*);
  gsm_status (*model_open)(const char*, gsm_model**);
  gsm_status (*model_info)(gsm_model*, gsm_model_info_t*);
  gsm_status (*model_class_name)(gsm_model*, int64_t, const char**);
  gsm_status (*model_classify_file)(gsm_model*, const char*, gsm_class*, int32_t*);
  gsm_status (*model_classify_bytes)(gsm_model*, const void*, size_t, gsm_class*, int32_t*);
  gsm_status (*model_forward_u8)(gsm_model*, const uint8_t*, int64_t, int64_t, int64_t, float*);
  gsm_status (*model_forward)(gsm_model*, const float*, int64_t, int64_t, int64_t, float*);
  gsm_status (*model_free)(gsm_model*);
  gsm_status (*tensor_from_blob)(void*, gsm_dtype, const int64_t*, int32_t, void (*)(void*), void*,
                                 gsm_tensor**);
  gsm_status (*tensor_data)(gsm_tensor*, void**);
  gsm_status (*tensor_shape)(gsm_tensor*, int64_t*, int32_t*, gsm_dtype*);
  gsm_status (*tensor_from_dlpack)(struct DLManagedTensor*, gsm_tensor**);
  gsm_status (*tensor_to_dlpack)(gsm_tensor*, struct DLManagedTensor**);
  gsm_status (*tensor_free)(gsm_tensor*);
  gsm_status (*model_forward_tensor)(gsm_model*, gsm_tensor*, gsm_tensor**);
  gsm_status (*trainer_new)(const char*, int64_t, const gsm_trainer_options*, gsm_trainer**);
  gsm_status (*trainer_gradient)(gsm_trainer*, const uint8_t*, const int32_t*, int64_t, int64_t,
                                 int64_t, float*);
  gsm_status (*trainer_forward)(gsm_trainer*, const float*, int64_t, int64_t, int64_t, float*);
  gsm_status (*trainer_backward)(gsm_trainer*, const float*);
  gsm_status (*trainer_step)(gsm_trainer*, double);
  gsm_status (*trainer_evaluate)(gsm_trainer*, const uint8_t*, const int32_t*, int64_t, int64_t,
                                 int64_t, int64_t*, float*);
  gsm_status (*trainer_save)(gsm_trainer*, const char*, const char* const*);
  gsm_status (*trainer_load)(gsm_trainer*, const char*);
  gsm_status (*trainer_free)(gsm_trainer*);
  gsm_status (*dataset_open)(const char* const*, int32_t, gsm_dataset**);
  gsm_status (*dataset_size)(gsm_dataset*, int64_t*, int64_t*);
  gsm_status (*dataset_class_name)(gsm_dataset*, int64_t, const char**);
  gsm_status (*dataset_free)(gsm_dataset*);
  gsm_status (*loader_new)(gsm_dataset*, const gsm_loader_options*, gsm_loader**);
  gsm_status (*loader_next)(gsm_loader*, uint8_t*, int32_t*, int64_t*);
  gsm_status (*loader_free)(gsm_loader*);
  gsm_status (*group_join_env)(gsm_group**);
  gsm_status (*group_join)(int32_t, int32_t, const char*, int32_t, const char*, gsm_group**);
  gsm_status (*group_local)(int32_t, gsm_group**);
  gsm_status (*group_rank)(gsm_group*, int32_t*, int32_t*);
  gsm_status (*group_free)(gsm_group*);
  gsm_status (*gossip_new)(gsm_group*, float*, int64_t, const char*, const char*,
                           const gsm_gossip_options*, gsm_gossip**);
  gsm_status (*gossip_step)(gsm_gossip*, const float*);
  gsm_status (*gossip_done)(gsm_gossip*, int32_t*);
  gsm_status (*gossip_finish)(gsm_gossip*);
  gsm_status (*gossip_stats)(gsm_gossip*, gsm_gossip_stats_t*);
  gsm_status (*gossip_free)(gsm_gossip*);
  gsm_status (*method_new)(gsm_trainer*, gsm_group*, const char*, const char*,
                           const gsm_gossip_options*, gsm_method**);
  gsm_status (*method_step)(gsm_method*, double);
  gsm_status (*method_done)(gsm_method*, int32_t*);
  gsm_status (*method_finish)(gsm_method*);
  gsm_status (*method_stats)(gsm_method*, gsm_gossip_stats_t*);
  gsm_status (*method_free)(gsm_method*);
  gsm_status (*group_join_with)(const gsm_join_options*, gsm_group**);  // since version 2
  // since version 3
  gsm_status (*bytes_data)(gsm_bytes*, const void**, size_t*);
  gsm_status (*bytes_free)(gsm_bytes*);
  gsm_status (*model_open_memory)(const void*, size_t, gsm_model**);
  gsm_status (*trainer_save_memory)(gsm_trainer*, const char* const*, gsm_bytes**);
  gsm_status (*trainer_init_fit)(gsm_trainer*, int64_t*, int64_t*);
  gsm_status (*trainer_init_left)(gsm_trainer*, int64_t, const char**);
  gsm_status (*trainer_gradient_ids)(gsm_trainer*, const int32_t*, const int32_t*, int64_t, int64_t,
                                     float*);
  gsm_status (*trainer_evaluate_ids)(gsm_trainer*, const int32_t*, const int32_t*, int64_t, int64_t,
                                     float*);
  gsm_status (*trainer_forward_ids)(gsm_trainer*, const int32_t*, int64_t, int64_t, float*);
  gsm_status (*trainer_gradient_pairs)(gsm_trainer*, const int32_t*, const int32_t*, const int32_t*,
                                       const int32_t*, int64_t, int64_t, int64_t, float*);
  gsm_status (*trainer_evaluate_average)(gsm_trainer*, const uint8_t*, const int32_t*, int64_t,
                                         int64_t, int64_t, int64_t*, float*);
  gsm_status (*trainer_evaluate_average_ids)(gsm_trainer*, const int32_t*, const int32_t*, int64_t,
                                             int64_t, float*);
  gsm_status (*trainer_steps)(gsm_trainer*, int64_t*);
  gsm_status (*schedule_rate)(const gsm_schedule*, double, double*);
  gsm_status (*trainer_parameter_count)(gsm_trainer*, int64_t*);
  gsm_status (*trainer_parameter_info)(gsm_trainer*, int64_t, gsm_parameter_info_t*);
  gsm_status (*trainer_parameter_find)(gsm_trainer*, const char*, int64_t*);
  gsm_status (*trainer_parameter_read)(gsm_trainer*, int64_t, gsm_part, float*, int64_t);
  gsm_status (*trainer_parameter_write)(gsm_trainer*, int64_t, gsm_part, const float*, int64_t);
  gsm_status (*trainer_gradient_norm)(gsm_trainer*, double*);
  gsm_status (*trainer_lock)(gsm_trainer*);
  gsm_status (*trainer_parameter_data)(gsm_trainer*, int64_t, gsm_part, float**);
  gsm_status (*trainer_unlock)(gsm_trainer*);
  gsm_status (*trainer_state_save)(gsm_trainer*, const char*);
  gsm_status (*trainer_state_memory)(gsm_trainer*, gsm_bytes**);
  gsm_status (*trainer_state_load)(gsm_trainer*, const char*);
  gsm_status (*trainer_state_restore)(gsm_trainer*, const void*, size_t);
  gsm_status (*tokenizer_open)(const char*, gsm_tokenizer**);
  gsm_status (*tokenizer_size)(gsm_tokenizer*, int64_t*, int32_t*);
  gsm_status (*tokenizer_encode)(gsm_tokenizer*, const char*, size_t, int32_t, int32_t*, int64_t*);
  gsm_status (*tokenizer_decode)(gsm_tokenizer*, const int32_t*, int64_t, char*, size_t*);
  gsm_status (*tokenizer_save)(gsm_tokenizer*, const char*);
  gsm_status (*tokenizer_free)(gsm_tokenizer*);
  gsm_status (*language_open)(const char*, const gsm_language_options*, gsm_language**);
  gsm_status (*language_info)(gsm_language*, gsm_language_info_t*);
  gsm_status (*language_tokenizer)(gsm_language*, gsm_tokenizer**);
  gsm_status (*language_perplexity)(gsm_language*, const int32_t*, int64_t, int64_t, double*,
                                    double*);
  gsm_status (*language_free)(gsm_language*);
  gsm_status (*generation_new)(gsm_language*, const int32_t*, int64_t,
                               const gsm_generation_options*, gsm_generation**);
  gsm_status (*generation_next)(gsm_generation*, int32_t*, int32_t*);
  gsm_status (*generation_free)(gsm_generation*);
  gsm_status (*cancel_new)(gsm_cancel**);
  gsm_status (*cancel_use)(gsm_cancel*);
  gsm_status (*cancel_set)(gsm_cancel*, int32_t);
  gsm_status (*cancel_free)(gsm_cancel*);
  gsm_status (*shutdown)(void);
  gsm_status (*tensor_full)(float, gsm_dtype, const int64_t*, int32_t, gsm_tensor**);
  gsm_status (*tensor_copy)(const void*, gsm_dtype, const int64_t*, int32_t, gsm_tensor**);
  gsm_status (*tensor_uniform)(float, float, uint64_t, const int64_t*, int32_t, gsm_tensor**);
  gsm_status (*tensor_normal)(float, float, uint64_t, const int64_t*, int32_t, gsm_tensor**);
  gsm_status (*tensor_item)(gsm_tensor*, float*);
  gsm_status (*tensor_read)(gsm_tensor*, void*, size_t);
  gsm_status (*tensor_write)(gsm_tensor*, const void*, size_t);
  gsm_status (*reshape)(gsm_tensor*, const int64_t*, int32_t, gsm_tensor**);
  gsm_status (*detach)(gsm_tensor*, gsm_tensor**);
  gsm_status (*scope_begin)(void);
  gsm_status (*scope_end)(void);
  gsm_status (*tensor_keep)(gsm_tensor*);
  gsm_status (*tensor_require_grad)(gsm_tensor*);
  gsm_status (*backward)(gsm_tensor*);
  gsm_status (*tensor_grad)(gsm_tensor*, gsm_tensor**);
  gsm_status (*tensor_zero_grad)(gsm_tensor*);
  gsm_status (*set_grad_enabled)(int32_t);
  gsm_status (*add)(gsm_tensor*, gsm_tensor*, gsm_tensor**);
  gsm_status (*sub)(gsm_tensor*, gsm_tensor*, gsm_tensor**);
  gsm_status (*mul)(gsm_tensor*, gsm_tensor*, gsm_tensor**);
  gsm_status (*div)(gsm_tensor*, gsm_tensor*, gsm_tensor**);
  gsm_status (*affine)(gsm_tensor*, float, float, gsm_tensor**);
  gsm_status (*neg)(gsm_tensor*, gsm_tensor**);
  gsm_status (*relu)(gsm_tensor*, gsm_tensor**);
  gsm_status (*sigmoid)(gsm_tensor*, gsm_tensor**);
  gsm_status (*tanh)(gsm_tensor*, gsm_tensor**);
  gsm_status (*gelu)(gsm_tensor*, gsm_tensor**);
  gsm_status (*gelu_tanh)(gsm_tensor*, gsm_tensor**);
  gsm_status (*exp)(gsm_tensor*, gsm_tensor**);
  gsm_status (*log)(gsm_tensor*, gsm_tensor**);
  gsm_status (*sqrt)(gsm_tensor*, gsm_tensor**);
  gsm_status (*square)(gsm_tensor*, gsm_tensor**);
  gsm_status (*abs)(gsm_tensor*, gsm_tensor**);
  gsm_status (*cast)(gsm_tensor*, gsm_dtype, gsm_tensor**);
  gsm_status (*sum)(gsm_tensor*, gsm_tensor**);
  gsm_status (*mean)(gsm_tensor*, gsm_tensor**);
  gsm_status (*sum_along)(gsm_tensor*, int32_t, gsm_tensor**);
  gsm_status (*mean_along)(gsm_tensor*, int32_t, gsm_tensor**);
  gsm_status (*transpose)(gsm_tensor*, int32_t, int32_t, gsm_tensor**);
  gsm_status (*concat)(gsm_tensor* const*, int32_t, int32_t, gsm_tensor**);
  gsm_status (*slice)(gsm_tensor*, int32_t, int64_t, int64_t, gsm_tensor**);
  gsm_status (*softmax)(gsm_tensor*, gsm_tensor**);
  gsm_status (*log_softmax)(gsm_tensor*, gsm_tensor**);
  gsm_status (*cross_entropy)(gsm_tensor*, gsm_tensor*, float, gsm_tensor**);
  gsm_status (*mse)(gsm_tensor*, gsm_tensor*, gsm_tensor**);
  gsm_status (*matmul)(gsm_tensor*, gsm_tensor*, gsm_tensor**);
  gsm_status (*linear)(gsm_tensor*, gsm_tensor*, gsm_tensor*, gsm_tensor**);
  gsm_status (*conv2d)(gsm_tensor*, gsm_tensor*, int32_t, int32_t, int32_t, int32_t, gsm_tensor**);
  gsm_status (*max_pool2d)(gsm_tensor*, int32_t, int32_t, int32_t, gsm_tensor**);
  gsm_status (*avg_pool2d)(gsm_tensor*, int32_t, int32_t, int32_t, gsm_tensor**);
  gsm_status (*global_avg_pool)(gsm_tensor*, gsm_tensor**);
  gsm_status (*batch_norm)(gsm_tensor*, gsm_tensor*, gsm_tensor*, gsm_tensor*, gsm_tensor*, int32_t,
                           float, float, gsm_tensor**);
  gsm_status (*layer_norm)(gsm_tensor*, gsm_tensor*, gsm_tensor*, float, gsm_tensor**);
  gsm_status (*embedding)(gsm_tensor*, gsm_tensor*, gsm_tensor**);
  gsm_status (*attention)(gsm_tensor*, int32_t, int32_t, gsm_tensor*, gsm_tensor**);
  gsm_status (*cross_attention)(gsm_tensor*, gsm_tensor*, int32_t, gsm_tensor*, gsm_tensor**);
  gsm_status (*dropout)(gsm_tensor*, float, uint64_t, uint64_t, gsm_tensor**);
  gsm_status (*module_new)(const char*, uint64_t, gsm_module**);
  gsm_status (*module_forward)(gsm_module*, gsm_tensor*, int32_t, gsm_tensor**);
  gsm_status (*module_freeze)(gsm_module*, const char*);
  gsm_status (*module_free)(gsm_module*);
  gsm_status (*params_new)(gsm_params**);
  gsm_status (*params_add)(gsm_params*, const char*, gsm_tensor*);
  gsm_status (*params_add_module)(gsm_params*, const char*, gsm_module*);
  gsm_status (*params_count)(gsm_params*, int64_t*, int64_t*);
  gsm_status (*params_name)(gsm_params*, int64_t, const char**);
  gsm_status (*params_tensor)(gsm_params*, int64_t, gsm_tensor**);
  gsm_status (*params_zero_grad)(gsm_params*);
  gsm_status (*params_clip_grad)(gsm_params*, double, double*);
  gsm_status (*params_save)(gsm_params*, const char*);
  gsm_status (*params_load)(gsm_params*, const char*);
  gsm_status (*params_free)(gsm_params*);
  gsm_status (*optimizer_new)(gsm_params*, const char*, const char*, gsm_optimizer**);
  gsm_status (*optimizer_step)(gsm_optimizer*, double);
  gsm_status (*optimizer_free)(gsm_optimizer*);
  gsm_status (*method_new_for)(gsm_optimizer*, gsm_group*, const char*, const char*,
                               const gsm_gossip_options*, gsm_method**);
  gsm_status (*gossip_state_memory)(gsm_gossip*, gsm_bytes**);
  gsm_status (*optimizer_groups)(gsm_optimizer*, const char*, const char*);
  gsm_status (*optimizer_state_save)(gsm_optimizer*, const char*);
  gsm_status (*optimizer_state_memory)(gsm_optimizer*, gsm_bytes**);
  gsm_status (*optimizer_state_load)(gsm_optimizer*, const char*);
  gsm_status (*optimizer_state_restore)(gsm_optimizer*, const void*, size_t);
  gsm_status (*trainer_save_onnx)(gsm_trainer*, const char*, const char* const*,
                                  const gsm_onnx_options*);
  gsm_status (*trainer_save_onnx_memory)(gsm_trainer*, const char* const*, const gsm_onnx_options*,
                                         gsm_bytes**);
  gsm_status (*model_open_with)(const gsm_model_options*, gsm_model**);
  gsm_status (*tokenizer_chat)(gsm_tokenizer*, const char*, const gsm_message*, int32_t, int32_t,
                               int32_t*, int64_t*, int32_t*);
  gsm_status (*tokenizer_example)(gsm_tokenizer*, const char*, const char*, int32_t*, int32_t*,
                                  int64_t*);
  gsm_status (*language_export)(gsm_language*, const char*, const gsm_export_options*);
  gsm_status (*trainer_save_adapter)(gsm_trainer*, const char*, const char*);
  gsm_status (*translator_open)(const char*, const gsm_translator_options*, gsm_translator**);
  gsm_status (*translate)(gsm_translator*, const char* const*, int32_t, gsm_bytes**);
  gsm_status (*translator_free)(gsm_translator*);
} gsm_api;
// The functions of that version of this header and of older ones. It only grows at its end. NULL:
// the library is older.
const gsm_api* gsm_get_api(uint32_t version);

#ifdef __cplusplus
}
#endif
#endif
