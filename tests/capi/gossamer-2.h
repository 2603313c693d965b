// Gossamer for C: inference, training, and decentralized training of anybody's parameters. C99 and
// C++; this header needs nothing else. Examples: apps/capi/*.md in the sources.
//
// Calls return a status, and what they make through their last parameters, which are left alone if
// they fail. GSM_OK is 0; otherwise gsm_last_error() says in words what is wrong and what to do.
// Nothing prints, exits or throws, and handles that were freed, or are of another kind, are errors,
// not crashes. Structs begin with their size, so that they can grow; in options every 0 means the
// default, and NULL means all of them. Texts are UTF-8 and end in 0.
//
// What is freed lives until those that were made with it are freed too.
//
// Threads: any may call anything. Two calls at once on one handle are GSM_ERROR_BUSY, except those
// of gsm_model_*, gsm_tensor_* and gsm_dataset_*, which may run side by side. on_fault and the log
// function are called by threads of the library: they return soon, and call nothing of this header.
// After fork() the child may use all but groups, loaders and what was made with them.
#ifndef GOSSAMER_H
#define GOSSAMER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GSM_API_VERSION 2

typedef enum gsm_status {
  GSM_OK = 0,
  GSM_ERROR_ARGUMENT = 1,  // NULL, a size or an index that can't be, an option, a shape
  GSM_ERROR_HANDLE = 2,    // freed, of another kind, or never made
  GSM_ERROR_BUSY = 3,      // another thread uses this handle
  GSM_ERROR_CONFIG = 4,    // a name or an option that is unknown or doesn't go with others
  GSM_ERROR_FILE = 5,      // a file that can't be read, written or understood
  GSM_ERROR_DATA = 6,      // a picture or a data set
  GSM_ERROR_DEVICE = 7,    // the CPU or GPU, or its memory
  GSM_ERROR_WORKERS = 8,   // another worker is gone, late, or disagrees
  GSM_ERROR_MEMORY = 9,
  GSM_ERROR_INTERNAL = 10
} gsm_status;

typedef struct gsm_model gsm_model;
typedef struct gsm_tensor gsm_tensor;
typedef struct gsm_trainer gsm_trainer;
typedef struct gsm_dataset gsm_dataset;
typedef struct gsm_loader gsm_loader;
typedef struct gsm_group gsm_group;
typedef struct gsm_gossip gsm_gossip;
typedef struct gsm_method gsm_method;

// ---- base

// The version of the library: "0.1.0".
const char* gsm_version(void);
// Why the last call of this thread failed; "" if it did not. Good until the thread's next call.
const char* gsm_last_error(void);
// Called with a line of text where a program would print one, by any thread, not twice at once.
// NULL: with none, as at the start.
typedef void (*gsm_log_function)(const char* line, void* user);
gsm_status gsm_set_log(gsm_log_function log, void* user);
// CPU threads for the calls of this thread, itself included; 0: as many as the process may use.
gsm_status gsm_set_threads(int32_t threads);
// How many GPUs can be used.
gsm_status gsm_device_count(int32_t* count);

// ---- inference

// A model file of `gossamer train`, or torchvision's weights of a ResNet (safetensors, .pth).
gsm_status gsm_model_open(const char* path, gsm_model** model);
typedef struct gsm_model_info_t {
  size_t struct_size;  // set it to sizeof(gsm_model_info_t)
  int64_t parameters, classes;
  int32_t image_size, resize;  // a picture's shorter side becomes `resize`, then the centre is cut
  float mean[3], std[3];       // of the channels, red first, in 0 … 1
  char name[64];               // "resnet50"
} gsm_model_info_t;
gsm_status gsm_model_info(gsm_model* model, gsm_model_info_t* info);
// Good as long as the model.
gsm_status gsm_model_class_name(gsm_model* model, int64_t index, const char** name);
typedef struct gsm_class {
  int64_t index;
  float probability;
} gsm_class;
// The most likely classes of a JPEG, PNG, BMP or GIF, the first the most likely. count: there is
// room for so many; afterwards: so many were written. GSM_ERROR_DATA: the picture is missing or
// damaged.
gsm_status gsm_model_classify_file(gsm_model* model, const char* path, gsm_class* classes,
                                   int32_t* count);
gsm_status gsm_model_classify_bytes(gsm_model* model, const void* bytes, size_t size,
                                    gsm_class* classes, int32_t* count);
// images [n, height, width, 3], red first: bytes, which are normalized, or floats, which are
// already, and finite. logits: room for n times the number of classes.
gsm_status gsm_model_forward_u8(gsm_model* model, const uint8_t* images, int64_t n, int64_t height,
                                int64_t width, float* logits);
gsm_status gsm_model_forward(gsm_model* model, const float* images, int64_t n, int64_t height,
                             int64_t width, float* logits);
gsm_status gsm_model_free(gsm_model* model);

// ---- tensors: dense memory of the CPU, the last index fastest, at most 6 dimensions

#ifdef __cplusplus
typedef enum gsm_dtype : int32_t {  // so that any number may be asked about
#else
typedef enum gsm_dtype {
#endif
  GSM_F32 = 0,
  GSM_BF16 = 1,
  GSM_F16 = 2,
  GSM_U8 = 3,
  GSM_I32 = 4,
  GSM_I64 = 5
} gsm_dtype;
// Lends memory, at a multiple of the size of the type; deleter(user), which may be NULL, is called
// when nobody needs it any more.
gsm_status gsm_tensor_from_blob(void* data, gsm_dtype type, const int64_t* shape, int32_t rank,
                                void (*deleter)(void* user), void* user, gsm_tensor** tensor);
// Good as long as the tensor.
gsm_status gsm_tensor_data(gsm_tensor* tensor, void** data);
gsm_status gsm_tensor_shape(gsm_tensor* tensor, int64_t shape[6], int32_t* rank, gsm_dtype* type);
// DLPack, as NumPy, PyTorch, JAX … have it. What comes in belongs to the tensor from then on,
// unless this fails; who gets one out calls its deleter.
struct DLManagedTensor;
gsm_status gsm_tensor_from_dlpack(struct DLManagedTensor* managed, gsm_tensor** tensor);
gsm_status gsm_tensor_to_dlpack(gsm_tensor* tensor, struct DLManagedTensor** managed);
gsm_status gsm_tensor_free(gsm_tensor* tensor);
// images [n, height, width, 3]: u8, which is normalized, or f32, which is already. logits: f32 [n,
// classes].
gsm_status gsm_model_forward_tensor(gsm_model* model, gsm_tensor* images, gsm_tensor** logits);

// ---- training a model of Gossamer's

typedef struct gsm_trainer_options {
  size_t struct_size;     // set it to sizeof(gsm_trainer_options)
  const char* optimizer;  // sgd, adam, adamw; NULL: sgd
  double momentum;        // of sgd; 0: 0.9; below 0: none
  double weight_decay;
  uint64_t seed;  // of the first weights
} gsm_trainer_options;
// model: resnet50, resnet18-cifar, …; classes 0: as many as it usually has.
gsm_status gsm_trainer_new(const char* model, int64_t classes, const gsm_trainer_options* options,
                           gsm_trainer** trainer);
// The gradient of the mean cross entropy: images as gsm_model_forward_u8 takes them, labels [n].
gsm_status gsm_trainer_gradient(gsm_trainer* trainer, const uint8_t* images, const int32_t* labels,
                                int64_t n, int64_t height, int64_t width, float* loss);
// The same with a loss of your own: forward gives the outputs for floats as gsm_model_forward takes
// them, and backward takes the gradient of the loss by these outputs, [n, classes].
// GSM_ERROR_ARGUMENT names the first number that is not finite; then nothing has changed.
gsm_status gsm_trainer_forward(gsm_trainer* trainer, const float* images, int64_t n, int64_t height,
                               int64_t width, float* logits);
gsm_status gsm_trainer_backward(gsm_trainer* trainer, const float* gradient);
// The optimizer's step with that gradient. One that is not finite is GSM_ERROR_ARGUMENT, and leaves
// the model as it was.
gsm_status gsm_trainer_step(gsm_trainer* trainer, double learning_rate);
// How many of the images are classified right, and the mean loss.
gsm_status gsm_trainer_evaluate(gsm_trainer* trainer, const uint8_t* images, const int32_t* labels,
                                int64_t n, int64_t height, int64_t width, int64_t* correct,
                                float* loss);
// A file that gsm_model_open opens: the weights, without the optimizer. names: of the classes, none
// empty; NULL: their numbers.
gsm_status gsm_trainer_save(gsm_trainer* trainer, const char* path, const char* const* names);
// Weights of this model with as many classes. The optimizer begins anew, and a gradient or outputs
// from before are gone.
gsm_status gsm_trainer_load(gsm_trainer* trainer, const char* path);
gsm_status gsm_trainer_free(gsm_trainer* trainer);

// ---- data

// Folders of classes, tars, packed shards, CIFAR … (data/formats/README.md); n paths are one set.
gsm_status gsm_dataset_open(const char* const* paths, int32_t n, gsm_dataset** dataset);
gsm_status gsm_dataset_size(gsm_dataset* dataset, int64_t* images, int64_t* classes);
// Good as long as the data set.
gsm_status gsm_dataset_class_name(gsm_dataset* dataset, int64_t index, const char** name);
gsm_status gsm_dataset_free(gsm_dataset* dataset);
typedef struct gsm_loader_options {
  size_t struct_size;   // set it to sizeof(gsm_loader_options)
  int64_t batch;        // 0: 128
  int32_t size;         // side of the images; 0: 32
  int32_t threads;      // 0: 1
  int32_t rank, world;  // this worker, of so many; 0, 0: alone
  int32_t in_order;     // not 0: for evaluation; the last batch of an epoch may be smaller
  uint64_t seed;        // of order and crops
  const char* augment;  // as the crop of data.augment, but for auto; NULL: none
} gsm_loader_options;
gsm_status gsm_loader_new(gsm_dataset* dataset, const gsm_loader_options* options,
                          gsm_loader** loader);
// images: room for batch * size * size * 3; labels: room for batch. n: how many came; 0: an epoch
// has ended, and the next call begins another. A damaged picture is told to the log function; it is
// left out of an epoch in order, and replaced by another one of a shuffled epoch. GSM_ERROR_DATA:
// too many in a row.
gsm_status gsm_loader_next(gsm_loader* loader, uint8_t* images, int32_t* labels, int64_t* n);
gsm_status gsm_loader_free(gsm_loader* loader);

// ---- workers

// This process as one of the workers that a launcher has started: gossamer's, torchrun, srun,
// mpirun, by their variables; alone otherwise. Waits at most 60 s for the others.
gsm_status gsm_group_join_env(gsm_group** group);
// The same without a launcher: rank 0 to size - 1; worker 0 listens at host:port. All give the same
// token, a secret of their own.
gsm_status gsm_group_join(int32_t rank, int32_t size, const char* host, int32_t port,
                          const char* token, gsm_group** group);
// Either of these, with all that may be said; NULL: as gsm_group_join_env.
typedef struct gsm_join_options {
  size_t struct_size;  // set it to sizeof(gsm_join_options)
  int32_t rank, size;
  const char* host;  // NULL: these five come from the launcher
  int32_t port;
  const char* token;
  // of this machine, "eth0" or "10.0.0.2"; NULL: it is found. Not used if host is of the loopback
  const char* network;
  double join_timeout_s;        // until all have met; 0: 60
  double collective_timeout_s;  // for what all do together, as gsm_gossip_new; 0: 30
  double dead_after_s;          // who is silent for so long is given up; 0: 2
  // not 0: this worker was killed and is started again, while the others go on without it. It takes
  // over the parameters of another one. With a2cid2 and adpsgd; worker 0 must live.
  int32_t restarted;
} gsm_join_options;
gsm_status gsm_group_join_with(const gsm_join_options* options, gsm_group** group);
// n workers in this process, one for each thread; groups: room for n.
gsm_status gsm_group_local(int32_t n, gsm_group** groups);
// This worker's rank, 0 to size - 1, and the number of workers at the start.
gsm_status gsm_group_rank(gsm_group* group, int32_t* rank, int32_t* size);
gsm_status gsm_group_free(gsm_group* group);

// ---- bring your own parameters: any program's training becomes decentralized

typedef struct gsm_gossip_options {
  size_t struct_size;  // set it to sizeof(gsm_gossip_options)
  double total_steps;  // of all workers together; after that gsm_gossip_done says so; 0: never
  double rate;         // exchanges per worker and step, up to 1000; 0: 1
  uint64_t seed;
  int32_t period;             // local-sgd: steps between two averages; 0: 1
  int32_t min_workers;        // fewer alive: an error; 0: 1
  double exchange_timeout_s;  // the longest; 0: 20
  const char* record;         // a folder where the order of all events is written; NULL: not
  const char* replay;         // a folder whose events a run repeats bit for bit; NULL: not
  // "dead", "left", "joined" or "exchange failed", and of whom; from a thread of the library
  void (*on_fault)(const char* what, int32_t peer, void* user);
  void* user;
  double finish_timeout_s;  // the longest that gsm_gossip_finish waits for who still trains; 0: 600
  // Settings of the method by name, of which the fields above are the first: "outer_rate=0.5
  // fragments=4"; a list is 1,2. `gossamer config` shows them: its train.outer_rate is outer_rate
  // here. NULL: their defaults
  const char* settings;
} gsm_gossip_options;
typedef struct gsm_gossip_stats_t {
  size_t struct_size;         // set it to sizeof(gsm_gossip_stats_t)
  int64_t steps;              // of this worker: calls of a step that gave GSM_OK
  int64_t exchanges, failed;  // of this worker: exchanges that came through, that failed
  double consensus_distance;  // how far the workers are apart, an estimate
  double steps_of_all;        // an estimate
  int32_t alive;
} gsm_gossip_stats_t;
// x: this worker's n parameters, each below 2^100 in magnitude. They become the mean of all
// workers' and are changed by no other call than gsm_gossip_step and gsm_gossip_finish; keep them
// until gsm_gossip_free. method: a2cid2, adpsgd, allreduce, dpsgd, sgp, local-sgd …; graph: ring,
// complete, exponential …, and for methods whose workers step together (all but the first two) also
// one-peer-exp, ring-matching …. A group serves one training: another one needs another group. A
// call that is refused before anything is sent, as for an unknown name, does not use it up.
gsm_status gsm_gossip_new(gsm_group* group, float* x, int64_t n, const char* method,
                          const char* graph, const gsm_gossip_options* options,
                          gsm_gossip** gossip);
// update [n]: what this worker's optimizer subtracts, computed at x. Afterwards x is where the next
// one is to be computed. Exchanges go on beside your computation. GSM_ERROR_ARGUMENT names the
// first number that is NaN, or 2^100 or more in magnitude; then nothing was sent, x is as it was,
// and the training may go on with another update.
gsm_status gsm_gossip_step(gsm_gossip* gossip, const float* update);
// done: 1 from the end of training on (total_steps are done, or gsm_gossip_finish was), else 0.
gsm_status gsm_gossip_done(gsm_gossip* gossip, int32_t* done);
// Waits until all living workers are here; x becomes the mean of their parameters. To be called
// once, at the end. Who still trains after finish_timeout_s is named by GSM_ERROR_WORKERS; then x
// is this worker's own.
gsm_status gsm_gossip_finish(gsm_gossip* gossip);
gsm_status gsm_gossip_stats(gsm_gossip* gossip, gsm_gossip_stats_t* stats);
gsm_status gsm_gossip_free(gsm_gossip* gossip);

// The same for a trainer's model, instead of gsm_trainer_step.
gsm_status gsm_method_new(gsm_trainer* trainer, gsm_group* group, const char* method,
                          const char* graph, const gsm_gossip_options* options, gsm_method** made);
gsm_status gsm_method_step(gsm_method* method, double learning_rate);
gsm_status gsm_method_done(gsm_method* method, int32_t* done);
gsm_status gsm_method_finish(gsm_method* method);
gsm_status gsm_method_stats(gsm_method* method, gsm_gossip_stats_t* stats);
gsm_status gsm_method_free(gsm_method* method);

// ---- all functions as a table, for programs that open the library at run time

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
} gsm_api;
// The functions of that version of this header and of older ones. It only grows at its end. NULL:
// the library is older.
const gsm_api* gsm_get_api(uint32_t version);

#ifdef __cplusplus
}
#endif
#endif
