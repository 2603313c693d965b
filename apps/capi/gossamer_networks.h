// Own networks: tensors, ops with gradients, and the tape that finds the gradients of a loss.
// Included by gossamer.h, which says how all calls behave. Examples: apps/capi/networks.md.
//
// An op reads its tensors, and makes a new one through its last parameter. If one of them requires
// a gradient, the op is recorded on the tape of the new one, which gsm_backward walks. Each call
// that gives a tensor gives a handle to be freed, by gsm_tensor_free or by gsm_scope_end; a tape
// keeps what it needs of freed tensors.
//
// Shapes are written [rows, columns]: the last index is the fastest. Numbers are GSM_F32, or of the
// other two floating types, and labels and ids GSM_I32. Tensors may hold any numbers, NaN too.
//
// Threads: any may compute with the same tensors at once, and threads with networks of their own do
// not meet. Gradients of one tensor, a module and a set of parameters are for one thread at a time:
// a call that comes meanwhile is GSM_ERROR_BUSY. A scope and gsm_set_grad_enabled are a thread's
// own.
#ifndef GOSSAMER_NETWORKS_H
#define GOSSAMER_NETWORKS_H

#include "gossamer.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- tensors

// All numbers are `value`.
gsm_status gsm_tensor_full(float value, gsm_dtype type, const int64_t* shape, int32_t rank,
                           gsm_tensor** tensor);
// Copies the numbers; gsm_tensor_from_blob lends them.
gsm_status gsm_tensor_copy(const void* data, gsm_dtype type, const int64_t* shape, int32_t rank,
                           gsm_tensor** tensor);
// f32, drawn uniformly from [low, high), or from the normal distribution; a seed always gives the
// same numbers.
gsm_status gsm_tensor_uniform(float low, float high, uint64_t seed, const int64_t* shape,
                              int32_t rank, gsm_tensor** tensor);
gsm_status gsm_tensor_normal(float mean, float deviation, uint64_t seed, const int64_t* shape,
                             int32_t rank, gsm_tensor** tensor);
// The only number of a tensor, as a float.
gsm_status gsm_tensor_item(gsm_tensor* tensor, float* value);
// Copies all numbers out, or in. bytes: of all numbers, not more and not less. A tape that was
// recorded before a write, and needs the old numbers, would see the new ones.
gsm_status gsm_tensor_read(gsm_tensor* tensor, void* data, size_t bytes);
gsm_status gsm_tensor_write(gsm_tensor* tensor, const void* data, size_t bytes);
// The same numbers in another shape, of which one extent may be -1: what is left.
gsm_status gsm_reshape(gsm_tensor* x, const int64_t* shape, int32_t rank, gsm_tensor** y);
// The same numbers outside the tape.
gsm_status gsm_detach(gsm_tensor* x, gsm_tensor** y);

// From gsm_scope_begin on, the handles of tensors that this thread makes are noted, and
// gsm_scope_end frees those that are still there: the temporary tensors of a step need no calls of
// their own. Scopes may lie in each other. gsm_tensor_keep takes a tensor out of its scope.
gsm_status gsm_scope_begin(void);
gsm_status gsm_scope_end(void);
gsm_status gsm_tensor_keep(gsm_tensor* tensor);

// ---- the tape

// Gradients of this tensor are wanted: it is a parameter. Not for results of ops.
gsm_status gsm_tensor_require_grad(gsm_tensor* tensor);
// Finds the gradients of the loss, which has one number, by all tensors that require one, and adds
// them to those from before. A tape is walked once: then it is gone. GSM_CANCELLED: so are the
// gradients of all tensors that it would have reached.
gsm_status gsm_backward(gsm_tensor* loss);
// A copy of the gradient, of the shape and type of the tensor. GSM_ERROR_CONFIG: none has come
// since the last gsm_tensor_zero_grad.
gsm_status gsm_tensor_grad(gsm_tensor* tensor, gsm_tensor** gradient);
// The next gradient replaces this tensor's, instead of being added.
gsm_status gsm_tensor_zero_grad(gsm_tensor* tensor);
// 0: from now on this thread records no ops, as in evaluation. 1: it does, as at the start.
gsm_status gsm_set_grad_enabled(int32_t enabled);

// ---- ops with gradients (core/ops.h has the formulas)

// Element by element. b has the shape of a, or its last dimensions (a bias), or one element.
gsm_status gsm_add(gsm_tensor* a, gsm_tensor* b, gsm_tensor** y);
gsm_status gsm_sub(gsm_tensor* a, gsm_tensor* b, gsm_tensor** y);
gsm_status gsm_mul(gsm_tensor* a, gsm_tensor* b, gsm_tensor** y);
gsm_status gsm_div(gsm_tensor* a, gsm_tensor* b, gsm_tensor** y);
// factor x + offset
gsm_status gsm_affine(gsm_tensor* x, float factor, float offset, gsm_tensor** y);
gsm_status gsm_neg(gsm_tensor* x, gsm_tensor** y);
gsm_status gsm_relu(gsm_tensor* x, gsm_tensor** y);
gsm_status gsm_sigmoid(gsm_tensor* x, gsm_tensor** y);
gsm_status gsm_tanh(gsm_tensor* x, gsm_tensor** y);
gsm_status gsm_gelu(gsm_tensor* x, gsm_tensor** y);
gsm_status gsm_gelu_tanh(gsm_tensor* x, gsm_tensor** y);
gsm_status gsm_exp(gsm_tensor* x, gsm_tensor** y);
gsm_status gsm_log(gsm_tensor* x, gsm_tensor** y);
gsm_status gsm_sqrt(gsm_tensor* x, gsm_tensor** y);
gsm_status gsm_square(gsm_tensor* x, gsm_tensor** y);
gsm_status gsm_abs(gsm_tensor* x, gsm_tensor** y);
// To f32, bf16 or f16.
gsm_status gsm_cast(gsm_tensor* x, gsm_dtype type, gsm_tensor** y);
// Of all numbers: one number, f32.
gsm_status gsm_sum(gsm_tensor* x, gsm_tensor** y);
gsm_status gsm_mean(gsm_tensor* x, gsm_tensor** y);
// Along one dimension, which y has no more: f32. Dimensions below 0 count from the last, -1.
gsm_status gsm_sum_along(gsm_tensor* x, int32_t dimension, gsm_tensor** y);
gsm_status gsm_mean_along(gsm_tensor* x, int32_t dimension, gsm_tensor** y);
// Two dimensions change places.
gsm_status gsm_transpose(gsm_tensor* x, int32_t a, int32_t b, gsm_tensor** y);
// n tensors behind each other along one dimension; and its extents begin to end - 1.
gsm_status gsm_concat(gsm_tensor* const* parts, int32_t n, int32_t dimension, gsm_tensor** y);
gsm_status gsm_slice(gsm_tensor* x, int32_t dimension, int64_t begin, int64_t end, gsm_tensor** y);
// Over the last dimension.
gsm_status gsm_softmax(gsm_tensor* x, gsm_tensor** y);
gsm_status gsm_log_softmax(gsm_tensor* x, gsm_tensor** y);
// The mean over the rows of -log softmax(logits)[label]: logits [n, classes], labels i32 [n], each
// below classes. label_smoothing 0: none; else below 1, the part that all classes share.
gsm_status gsm_cross_entropy(gsm_tensor* logits, gsm_tensor* labels, float label_smoothing,
                             gsm_tensor** loss);
// The mean of (a - b)^2; a and b have one shape.
gsm_status gsm_mse(gsm_tensor* a, gsm_tensor* b, gsm_tensor** loss);
// [m, k] times [k, n]: [m, n]
gsm_status gsm_matmul(gsm_tensor* a, gsm_tensor* b, gsm_tensor** y);
// x w' + bias: x [..., in], w [out, in], bias [out] or NULL: [..., out]
gsm_status gsm_linear(gsm_tensor* x, gsm_tensor* w, gsm_tensor* bias, gsm_tensor** y);
// x [n, height, width, in], w [out, rows, columns, in / groups]: [n, height', width', out]
gsm_status gsm_conv2d(gsm_tensor* x, gsm_tensor* w, int32_t stride, int32_t padding,
                      int32_t dilation, int32_t groups, gsm_tensor** y);
// Over squares of kernel x kernel pixels of [n, height, width, channels]. The border counts as
// nothing for max, and as zeros for avg.
gsm_status gsm_max_pool2d(gsm_tensor* x, int32_t kernel, int32_t stride, int32_t padding,
                          gsm_tensor** y);
gsm_status gsm_avg_pool2d(gsm_tensor* x, int32_t kernel, int32_t stride, int32_t padding,
                          gsm_tensor** y);
// The mean over all pixels: [n, channels]
gsm_status gsm_global_avg_pool(gsm_tensor* x, gsm_tensor** y);
// scale (x - mean) / sqrt(variance + eps) + shift for each channel of x [..., channels]; the four
// others f32 [channels]. training not 0: with the mean and variance of this batch, of which the
// share `momentum` goes into the running ones; both may be NULL then. 0: with the running ones.
gsm_status gsm_batch_norm(gsm_tensor* x, gsm_tensor* scale, gsm_tensor* shift,
                          gsm_tensor* running_mean, gsm_tensor* running_variance, int32_t training,
                          float momentum, float eps, gsm_tensor** y);
// The same for each row of x [..., width]. scale, shift f32 [width]; shift may be NULL.
gsm_status gsm_layer_norm(gsm_tensor* x, gsm_tensor* scale, gsm_tensor* shift, float eps,
                          gsm_tensor** y);
// Rows of a table [rows, width]: ids i32 [...], each below rows: [..., width]
gsm_status gsm_embedding(gsm_tensor* ids, gsm_tensor* table, gsm_tensor** y);
// softmax(q k' / sqrt(width / heads)) v for each head: qkv [batch, tokens, 3 width], whose rows are
// q, k and v side by side: [batch, tokens, width]. causal not 0: a token sees none that come after
// it. lengths: i32 [batch], how many of the tokens are there; NULL: all.
gsm_status gsm_attention(gsm_tensor* qkv, int32_t heads, int32_t causal, gsm_tensor* lengths,
                         gsm_tensor** y);
// Queries of their own: q [batch, tokens, width], kv [batch, keys, 2 width]
gsm_status gsm_cross_attention(gsm_tensor* q, gsm_tensor* kv, int32_t heads, gsm_tensor* lengths,
                               gsm_tensor** y);
// Each number is 0 with probability p, in [0, 1), else divided by 1 - p. (seed, call) always draws
// the same ones: give each call another number.
gsm_status gsm_dropout(gsm_tensor* x, float p, uint64_t seed, uint64_t call, gsm_tensor** y);

// ---- layers

// A network from text: layers one after the other, each on a line or before a semicolon, with its
// settings as NAME=VALUE. Those that have no default must be given:
//   linear in out bias=true                     positions length width deviation=0.02
//   conv in out kernel=3 stride=1 padding=0     attention width heads=1 causal=false bias=true
//        dilation=1 groups=1 bias=false                   dropout=0
//   batch_norm width eps=1e-5 momentum=0.1      dropout p=0.5
//   layer_norm width eps=1e-5 bias=true         max_pool, avg_pool kernel=2 stride=2 padding=0
//   embedding rows width deviation=1            residual { layers } { layers of the shortcut }
//   relu, gelu, gelu_tanh, tanh, sigmoid, global_avg_pool, flatten
// A word with a colon before a layer names it ("head: linear in=8 out=2"); else its name is its
// place, 0, 1 … The seed gives the first values. GSM_ERROR_CONFIG names the line that is wrong.
gsm_status gsm_module_new(const char* layers, uint64_t seed, gsm_module** module);
// training not 0: dropout drops, and batch norms use the batch.
gsm_status gsm_module_forward(gsm_module* module, gsm_tensor* x, int32_t training, gsm_tensor** y);
// These parameters stay as they are: names or layers between commas, * for any characters, or
// "all but head". Before the layers join a set of parameters.
gsm_status gsm_module_freeze(gsm_module* module, const char* patterns);
gsm_status gsm_module_free(gsm_module* module);

// ---- parameters: what an optimizer changes, a method exchanges, and a file holds

gsm_status gsm_params_new(gsm_params** params);
// A tensor of type f32 as a parameter, which requires a gradient from now on. The set takes its
// numbers into a block of its own; the handle remains good, but memory that gsm_tensor_data gave
// does not.
gsm_status gsm_params_add(gsm_params* params, const char* name, gsm_tensor* tensor);
// The parameters of layers, as prefix.NAME, or as NAME if prefix is NULL. A tensor or a module
// belongs to one set. GSM_ERROR_CONFIG: a call below has laid the set into its block before.
gsm_status gsm_params_add_module(gsm_params* params, const char* prefix, gsm_module* module);
// How many parameters there are, and how many numbers in all of them.
gsm_status gsm_params_count(gsm_params* params, int64_t* parameters, int64_t* numbers);
// In the order in which they were added. Good as long as the set.
gsm_status gsm_params_name(gsm_params* params, int64_t index, const char** name);
// The parameter itself, as a handle to be freed: gsm_tensor_shape, gsm_tensor_read,
// gsm_tensor_write and gsm_tensor_grad tell and change all that there is. While a method exchanges
// the parameters, a write is GSM_ERROR_CONFIG.
gsm_status gsm_params_tensor(gsm_params* params, int64_t index, gsm_tensor** tensor);
// The next gradients replace those of before.
gsm_status gsm_params_zero_grad(gsm_params* params);
// Scales the gradient of all parameters together so that its norm is at most `most`. norm: what it
// was; may be NULL.
gsm_status gsm_params_clip_grad(gsm_params* params, double most, double* norm);
// A safetensors file with the parameters and the running statistics, as PyTorch lays them out
// (parameters with four dimensions as weights of convolutions). The file that is loaded must have
// the same names and shapes; else GSM_ERROR_FILE lists what does not fit, and nothing changes.
gsm_status gsm_params_save(gsm_params* params, const char* path);
gsm_status gsm_params_load(gsm_params* params, const char* path);
gsm_status gsm_params_free(gsm_params* params);

// name: sgd, adam, adamw, accum-adam, accum-adamw, muon, muon-rms. settings: as "momentum=0.9
// weight_decay=1e-4 nesterov=true", for Adam "beta1=0.9 beta2=0.999 epsilon=1e-8
// weight_decay=0.01", for accum-* also "period=4", for muon* also "muon_momentum=0.95"; NULL: the
// defaults. Weight decay spares parameters with fewer than two dimensions.
gsm_status gsm_optimizer_new(gsm_params* params, const char* name, const char* settings,
                             gsm_optimizer** optimizer);
// Factors of the learning rate, and weight decays in place of the settings', by patterns of names:
// rates "head=10; body.*=0.5", decays "table=0"; NULL: none. They replace those of an earlier call.
// Since version 3.
gsm_status gsm_optimizer_groups(gsm_optimizer* optimizer, const char* rates, const char* decays);
// A parameter that no gradient has reached has the gradient 0. GSM_ERROR_ARGUMENT: a gradient is
// not finite; then nothing has changed. Gradients stay until gsm_params_zero_grad.
gsm_status gsm_optimizer_step(gsm_optimizer* optimizer, double learning_rate);
// All that it takes to go on bit for bit: the parameters with their statistics, the optimizer, what
// dropout will draw, and of a method that goes on what it keeps, as the states of a trainer. A
// state that does not fit changes nothing. Since version 3.
gsm_status gsm_optimizer_state_save(gsm_optimizer* optimizer, const char* path);
gsm_status gsm_optimizer_state_memory(gsm_optimizer* optimizer, gsm_bytes** bytes);
gsm_status gsm_optimizer_state_load(gsm_optimizer* optimizer, const char* path);
gsm_status gsm_optimizer_state_restore(gsm_optimizer* optimizer, const void* bytes, size_t size);
gsm_status gsm_optimizer_free(gsm_optimizer* optimizer);
// As gsm_method_new for a trainer: gsm_method_step takes the place of gsm_optimizer_step, and the
// other calls of gsm_method_* are the same. All workers have parameters of the same names and
// shapes. Each draws masks of dropout of its own.
gsm_status gsm_method_new_for(gsm_optimizer* optimizer, gsm_group* group, const char* method,
                              const char* graph, const gsm_gossip_options* options,
                              gsm_method** made);

#ifdef __cplusplus
}
#endif
#endif
