// Gossamer for C: inference, training, and decentralized training of anybody's parameters. C99 and
// C++; this header needs nothing but the two beside it, which it includes: gossamer_networks.h for
// own networks, and gossamer_table.h, the table of all functions. Examples: apps/capi/*.md in the
// sources.
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
// of gsm_model_*, gsm_tensor_*, gsm_dataset_*, gsm_tokenizer_* and gsm_language_*, which may run
// side by side. on_fault and the log
// function are called by threads of the library: they return soon, and call nothing of this header.
// After fork() the child may use all but groups, loaders and what was made with them.
#ifndef GOSSAMER_H
#define GOSSAMER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GSM_API_VERSION 3

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
  GSM_ERROR_INTERNAL = 10,
  GSM_CANCELLED = 11  // by gsm_cancel_set
} gsm_status;

typedef struct gsm_model gsm_model;
typedef struct gsm_tensor gsm_tensor;
typedef struct gsm_trainer gsm_trainer;
typedef struct gsm_dataset gsm_dataset;
typedef struct gsm_loader gsm_loader;
typedef struct gsm_group gsm_group;
typedef struct gsm_gossip gsm_gossip;
typedef struct gsm_method gsm_method;
typedef struct gsm_bytes gsm_bytes;
typedef struct gsm_cancel gsm_cancel;
typedef struct gsm_tokenizer gsm_tokenizer;
typedef struct gsm_language gsm_language;
typedef struct gsm_generation gsm_generation;
typedef struct gsm_translator gsm_translator;
typedef struct gsm_module gsm_module;
typedef struct gsm_params gsm_params;
typedef struct gsm_optimizer gsm_optimizer;

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
// Since version 3: all that follows in this part.
// A way to end calls that last: those of the threads that use it give GSM_CANCELLED, within 0.2 s,
// while it is set. These are the calls that compute, load pictures, generate, or wait for workers;
// not those that change parameters, or read and write files.
// A gradient that was cancelled is gone, and so is a generation. Of a call that waits for workers
// nothing is known: what it works with is busy until its deadline, and then to be freed.
gsm_status gsm_cancel_new(gsm_cancel** cancel);
// For the calls of this thread from now on. NULL: none ends them, as at the start.
gsm_status gsm_cancel_use(gsm_cancel* cancel);
// on: 1: they end; 0: they may go on again. By any thread.
gsm_status gsm_cancel_set(gsm_cancel* cancel, int32_t on);
gsm_status gsm_cancel_free(gsm_cancel* cancel);
// Frees all handles that are left. GSM_ERROR_BUSY: calls go on, and nothing was freed.
gsm_status gsm_shutdown(void);
// What a call gave as bytes in memory. Good until they are freed.
gsm_status gsm_bytes_data(gsm_bytes* bytes, const void** data, size_t* size);
gsm_status gsm_bytes_free(gsm_bytes* bytes);

// ---- inference

// A model file of `gossamer train`, or torchvision's weights of a ResNet (safetensors, .pth).
gsm_status gsm_model_open(const char* path, gsm_model** model);
// The bytes of such a file, which are not needed afterwards.
gsm_status gsm_model_open_memory(const void* bytes, size_t size, gsm_model** model);
// Either of these, with all that may be said. Since version 3.
typedef struct gsm_model_options {
  size_t struct_size;  // set it to sizeof(gsm_model_options)
  const char* path;    // of the file; or its bytes:
  const void* bytes;
  size_t size;
  const char* device;  // cpu, cuda:0 …; NULL: cpu
  const char* type;    // in which it computes: f32, bf16; NULL: f32
} gsm_model_options;
gsm_status gsm_model_open_with(const gsm_model_options* options, gsm_model** model);
typedef struct gsm_model_info_t {
  size_t struct_size;  // set it to sizeof(gsm_model_info_t)
  int64_t parameters, classes;
  int32_t image_size, resize;  // a picture's shorter side becomes `resize`, then the centre is cut
  float mean[3], std[3];       // of the first three channels, red first, in 0 … 1
  char name[64];               // "resnet50"
  int64_t channels;            // since version 3: of the images
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
// images [n, height, width, channels], of 3 channels red first: bytes, which are normalized, or
// floats, which are already, and finite. logits: room for n times the number of classes.
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
  const char* optimizer;  // sgd, adam, adamw, muon, muon-rms; NULL: sgd
  double momentum;        // of sgd; 0: 0.9; below 0: none
  double weight_decay;
  uint64_t seed;  // of the first weights, and of what dropout draws
  // Since version 3. Lists: patterns of names as `gossamer config` explains them for model.freeze;
  // semicolons stand between the parts of rates, decays and init_rename.
  const char* device;         // cpu, cuda:0 …; NULL: cpu
  const char* type;           // in which layers compute: f32, bf16; NULL: f32
  const char* model_options;  // of the model's family, as "layers=4 width=128 dropout=0.1"
  // Weights to begin with, from a file (or a folder as gsm_model_open takes it) or from its bytes:
  // what fits this model is loaded, the rest is drawn from the seed; see gsm_trainer_init_left.
  const char* init;
  const void* init_bytes;
  size_t init_size;
  const char* init_key;        // of a .pth with several state dicts: the one to take
  const char* init_rename;     // "linear=fc; backbone=": layers of the file that have other names
  int32_t new_head;            // not 0: the last layer of these weights is not taken
  int32_t channels;            // of the images, up to 64; 0: 3
  int32_t image_size, resize;  // of pictures that the saved model classifies; 0: as usual
  // of each channel, in 0 … 1; NULL: as usual for the model, whose images have 3
  const float *mean, *std;
  const char* freeze;  // these parameters stay as they are: "conv1, layer1", "all but fc"
  const char* rates;   // factors of the learning rate: "fc=10; layer3, layer4=2"
  const char* decays;  // weight decay of these in place of weight_decay: "wte=0; h.*.mlp=0.01"
  double beta1, beta2, epsilon;  // of adam; 0: 0.9, 0.999, 1e-8
  int64_t period;                // of accum-adam, accum-adamw; 0: 4
  double label_smoothing;        // below 1
  double clip_norm;              // the longest gradient; 0: any
  double ema;                    // decay of the moving average of the model, below 1; 0: none
  int32_t nesterov;              // not 0: sgd with Nesterov's momentum
  int32_t accumulate;            // batches of a gradient, the mean of theirs; 0: 1
  // Not 0: of the initial weights, a model of LLaMA's kind, only an adapter of this rank is trained
  // (LoRA). gsm_trainer_save writes the model with it
  int64_t lora_rank;
  double lora_alpha;         // what the adapter adds is multiplied by it / lora_rank; 0: 16
  const char* lora_targets;  // layers that get one; NULL: "q_proj, v_proj"
} gsm_trainer_options;
// model: resnet50, resnet18-cifar, gpt2, transformer … (`gossamer config` lists them), or
// NULL: that of the initial weights. classes, or ids of the vocabulary; 0: as many as the model
// usually has, or as those weights have.
gsm_status gsm_trainer_new(const char* model, int64_t classes, const gsm_trainer_options* options,
                           gsm_trainer** trainer);
// The gradient of the mean cross entropy: images as gsm_model_forward_u8 takes them, labels [n].
// With accumulate a gradient is whole after as many calls, and only then is a step possible.
gsm_status gsm_trainer_gradient(gsm_trainer* trainer, const uint8_t* images, const int32_t* labels,
                                int64_t n, int64_t height, int64_t width, float* loss);
// The same with a loss of your own: forward gives the outputs for floats as gsm_model_forward takes
// them, and backward takes the gradient of the loss by these outputs, [n, classes]. They are those
// of training: batch norms use the batch, and dropout drops. To predict, open what
// gsm_trainer_save_memory gives by gsm_model_open_memory.
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
// A safetensors file that gsm_model_open or gsm_language_open opens: the weights, without the
// optimizer. names: of the classes, none empty; NULL: their numbers.
gsm_status gsm_trainer_save(gsm_trainer* trainer, const char* path, const char* const* names);
// Weights of this model with as many classes. The optimizer begins anew, and a gradient or outputs
// from before are gone.
gsm_status gsm_trainer_load(gsm_trainer* trainer, const char* path);
gsm_status gsm_trainer_free(gsm_trainer* trainer);

// Since version 3: all that follows in this part.
// The bytes of the file that gsm_trainer_save writes.
gsm_status gsm_trainer_save_memory(gsm_trainer* trainer, const char* const* names,
                                   gsm_bytes** bytes);
typedef struct gsm_onnx_options {
  size_t struct_size;  // set it to sizeof(gsm_onnx_options)
  // What the graph takes, [N, channels, size, size], of 3 channels red first. "normalized": f32, as
  // gsm_trainer_forward; "unit": f32, 0 to 1; "bytes": u8. The graph normalizes the last two
  // itself. NULL: normalized
  const char* input;
  int32_t keep_batch_norm;  // not 0: as nodes; 0: folded into the convolutions before them
} gsm_onnx_options;
// A ResNet for onnxruntime and others: an ONNX file, opset 13, with a graph from "images" to
// "logits" [N, classes]. Its metadata have the names of the classes and how pictures are prepared.
gsm_status gsm_trainer_save_onnx(gsm_trainer* trainer, const char* path, const char* const* names,
                                 const gsm_onnx_options* options);
gsm_status gsm_trainer_save_onnx_memory(gsm_trainer* trainer, const char* const* names,
                                        const gsm_onnx_options* options, gsm_bytes** bytes);
// The adapter alone, as Hugging Face's PEFT has it: a folder that gsm_language_open opens. base:
// the folder or file of the initial weights, from there or from here; NULL:
// gsm_trainer_options.init.
gsm_status gsm_trainer_save_adapter(gsm_trainer* trainer, const char* folder, const char* base);
// How many tensors of the initial weights were loaded, and how many stood in the file or the model
// and did not fit.
gsm_status gsm_trainer_init_fit(gsm_trainer* trainer, int64_t* loaded, int64_t* left);
// Which, and why: "fc.weight is f32[1000, 512], wanted f32[10, 512]"; a new head is among them.
// Good as long as the trainer.
gsm_status gsm_trainer_init_left(gsm_trainer* trainer, int64_t index, const char** what);
// Language models: ids and labels [n, length]; a label -1 counts for nothing. labels NULL: each
// id's label is the id behind it. loss: the mean over the labels.
gsm_status gsm_trainer_gradient_ids(gsm_trainer* trainer, const int32_t* ids, const int32_t* labels,
                                    int64_t n, int64_t length, float* loss);
gsm_status gsm_trainer_evaluate_ids(gsm_trainer* trainer, const int32_t* ids, const int32_t* labels,
                                    int64_t n, int64_t length, float* loss);
// Before gsm_trainer_backward, with a loss of your own: logits has room for n * length * ids of the
// vocabulary.
gsm_status gsm_trainer_forward_ids(gsm_trainer* trainer, const int32_t* ids, int64_t n,
                                   int64_t length, float* logits);
// Translations: source [n, source_length] with lengths [n], inputs and labels [n, length]; inputs
// begin with the begin mark, and a label -1 counts for nothing.
gsm_status gsm_trainer_gradient_pairs(gsm_trainer* trainer, const int32_t* source,
                                      const int32_t* lengths, const int32_t* inputs,
                                      const int32_t* labels, int64_t n, int64_t source_length,
                                      int64_t length, float* loss);
// As gsm_trainer_evaluate, with the moving average in the model's place. Exchanges wait meanwhile.
gsm_status gsm_trainer_evaluate_average(gsm_trainer* trainer, const uint8_t* images,
                                        const int32_t* labels, int64_t n, int64_t height,
                                        int64_t width, int64_t* correct, float* loss);
gsm_status gsm_trainer_evaluate_average_ids(gsm_trainer* trainer, const int32_t* ids,
                                            const int32_t* labels, int64_t n, int64_t length,
                                            float* loss);
// Steps so far, also of a method.
gsm_status gsm_trainer_steps(gsm_trainer* trainer, int64_t* steps);

// A learning rate for every moment of a training, as `gossamer config` explains it for optim.*.
typedef struct gsm_schedule {
  size_t struct_size;  // set it to sizeof(gsm_schedule)
  const char* kind;    // constant, step, cosine, linear, one-cycle, wsd, inverse-sqrt; NULL: cosine
  double rate;         // after the warm-up
  double total;        // length of the training, in steps, samples or whatever you count
  double warmup, warmup_from;  // length of the linear rise, and the rate where it begins
  double end;                  // cosine, linear, one-cycle, wsd: the rate at the end
  const double* milestones;    // step: parts of the total, ascending
  int32_t n_milestones;
  double gamma;  // step: factor at each milestone; 0: 0.1
  double decay;  // wsd: the fall at the end, as a part of the total; 0: 0.1
} gsm_schedule;
gsm_status gsm_schedule_rate(const gsm_schedule* schedule, double seen, double* rate);

// ---- parameters of a trainer

typedef enum gsm_parameter_kind {
  GSM_TRAINED = 0,
  GSM_FROZEN = 1,
  GSM_STATISTIC = 2  // a running mean or variance
} gsm_parameter_kind;
#ifdef __cplusplus
typedef enum gsm_part : int32_t {
#else
typedef enum gsm_part {
#endif
  GSM_VALUE = 0,
  GSM_GRADIENT = 1,  // of what is trained, when a gradient is whole
  GSM_AVERAGE = 2    // the moving average; to read, of what is frozen: its value
} gsm_part;
typedef struct gsm_parameter_info_t {
  size_t struct_size;  // set it to sizeof(gsm_parameter_info_t)
  const char* name;    // torchvision's or Hugging Face's; good as long as the trainer
  int64_t shape[6];    // of a convolution [out, height, width, in], of a linear layer [out, in]
  int32_t rank;
  gsm_parameter_kind kind;
  int64_t numbers;  // the product of the shape
} gsm_parameter_info_t;
gsm_status gsm_trainer_parameter_count(gsm_trainer* trainer, int64_t* count);
gsm_status gsm_trainer_parameter_info(gsm_trainer* trainer, int64_t index,
                                      gsm_parameter_info_t* info);
gsm_status gsm_trainer_parameter_find(gsm_trainer* trainer, const char* name, int64_t* index);
// n: numbers of the parameter, or GSM_ERROR_ARGUMENT. A method's exchanges wait for a read; a write
// of values or averages is for when none goes on. Numbers that are not finite are refused.
gsm_status gsm_trainer_parameter_read(gsm_trainer* trainer, int64_t index, gsm_part part, float* to,
                                      int64_t n);
gsm_status gsm_trainer_parameter_write(gsm_trainer* trainer, int64_t index, gsm_part part,
                                       const float* from, int64_t n);
// The length of the gradient, before clip_norm.
gsm_status gsm_trainer_gradient_norm(gsm_trainer* trainer, double* norm);
// Between these two calls pointers to the numbers themselves, on the CPU, are good, and exchanges
// wait: be quick, for neighbours give an exchange up after a while. All other calls that use the
// trainer, or the method, are GSM_ERROR_BUSY meanwhile.
gsm_status gsm_trainer_lock(gsm_trainer* trainer);
gsm_status gsm_trainer_parameter_data(gsm_trainer* trainer, int64_t index, gsm_part part,
                                      float** data);
gsm_status gsm_trainer_unlock(gsm_trainer* trainer);

// ---- the state of a trainer: all that it takes to go on bit for bit on a CPU. It is model,
// optimizer, moving average, steps, what dropout will draw, and of a method that goes on what it
// keeps: another one goes on with it by gsm_gossip_options.resume. Workers that step together save
// after the same step.

gsm_status gsm_trainer_state_save(gsm_trainer* trainer, const char* path);
gsm_status gsm_trainer_state_memory(gsm_trainer* trainer, gsm_bytes** bytes);
// Into a trainer that was made with the same options. One that does not fit changes nothing.
gsm_status gsm_trainer_state_load(gsm_trainer* trainer, const char* path);
gsm_status gsm_trainer_state_restore(gsm_trainer* trainer, const void* bytes, size_t size);

// ---- language models, since version 3

// A tokenizer: a folder with tokenizer.json, vocab.json and merges.txt, encoder.json and vocab.bpe,
// tokenizer.model, or characters.json; or a .model or .tiktoken file.
gsm_status gsm_tokenizer_open(const char* path, gsm_tokenizer** tokenizer);
// How many ids there are, and which one ends a document; -1: none does.
gsm_status gsm_tokenizer_size(gsm_tokenizer* tokenizer, int64_t* ids, int32_t* end);
// The ids of a text of so many bytes. marks: not 0: names of marks in it, as <|endoftext|>, are the
// marks. n: there is room for so many ids; afterwards: so many there are. ids NULL: only that.
gsm_status gsm_tokenizer_encode(gsm_tokenizer* tokenizer, const char* text, size_t size,
                                int32_t marks, int32_t* ids, int64_t* n);
// The text of ids, without a 0 behind it, and size as n above. A few ids may end inside of a
// character.
gsm_status gsm_tokenizer_decode(gsm_tokenizer* tokenizer, const int32_t* ids, int64_t n, char* text,
                                size_t* size);
// Writes its files into a folder that exists.
gsm_status gsm_tokenizer_save(gsm_tokenizer* tokenizer, const char* folder);
gsm_status gsm_tokenizer_free(gsm_tokenizer* tokenizer);

// A conversation as ids, for gsm_generation_new: as a chat template writes it. chat: the name of
// one (GSM_ERROR_CONFIG lists them); NULL: that of the tokenizer. answer: not 0: what stands in
// front of the next answer follows. ids and n as above. end: the id that ends an answer, for
// gsm_generation_options.stop, or -1; NULL: not wanted.
typedef struct gsm_message {
  const char* role;  // system, user or assistant, nothing else
  const char* content;
} gsm_message;
gsm_status gsm_tokenizer_chat(gsm_tokenizer* tokenizer, const char* chat,
                              const gsm_message* messages, int32_t count, int32_t answer,
                              int32_t* ids, int64_t* n, int32_t* end);
// What a model is given and learns to answer, as ids and labels for gsm_trainer_gradient_ids. json:
// {"prompt": "…", "completion": "…"}, or {"messages": [{"role": "user", "content": "…"}, …]} in a
// chat template, of which what the assistant says is learnt. A label is the id that follows, or -1,
// which counts for nothing: fill shorter rows of a batch with any id and such labels. labels: room
// for as many as ids. GSM_ERROR_DATA: there is nothing to learn.
gsm_status gsm_tokenizer_example(gsm_tokenizer* tokenizer, const char* chat, const char* json,
                                 int32_t* ids, int32_t* labels, int64_t* n);

typedef struct gsm_language_options {
  size_t struct_size;  // set it to sizeof(gsm_language_options)
  const char* device;  // cpu, cuda:0 …; NULL: cpu
  const char* type;    // in which it computes: f32, bf16; NULL: f32
  int64_t heads;       // of a file that does not say it, without config.json; 0: width / 64
} gsm_language_options;
// A GPT-2 or a model of LLaMA's kind: a folder of Hugging Face or of `gossamer train`, or a file of
// gsm_trainer_save.
gsm_status gsm_language_open(const char* path, const gsm_language_options* options,
                             gsm_language** language);
typedef struct gsm_language_info_t {
  size_t struct_size;  // set it to sizeof(gsm_language_info_t)
  int64_t parameters, vocabulary;
  int64_t positions;  // ids that it sees at once
  int64_t layers, width, heads;
  int32_t has_tokenizer;  // beside the model
} gsm_language_info_t;
gsm_status gsm_language_info(gsm_language* language, gsm_language_info_t* info);
// The tokenizer beside the model, to be freed as any.
gsm_status gsm_language_tokenizer(gsm_language* language, gsm_tokenizer** tokenizer);
// The mean loss of all ids but the first, in nats, and its exponential. The text is cut into
// windows of so many ids; 0: as many as the model sees.
gsm_status gsm_language_perplexity(gsm_language* language, const int32_t* ids, int64_t n,
                                   int64_t length, double* loss, double* perplexity);
typedef struct gsm_export_options {
  size_t struct_size;   // set it to sizeof(gsm_export_options)
  const char* to;       // huggingface: a folder; gguf, onnx: a file; NULL: huggingface
  const char* dtype;    // f32, bf16, f16, of a GGUF file q8_0, too; of ONNX f32 only; NULL: f32
  int64_t shard_bytes;  // of a folder: files of weights have so many at most; 0: there is one file
} gsm_export_options;
// The model and its tokenizer for other programs, read anew from where it was opened. path: a
// folder that is new or empty, or a file.
gsm_status gsm_language_export(gsm_language* language, const char* path,
                               const gsm_export_options* options);
gsm_status gsm_language_free(gsm_language* language);

typedef struct gsm_generation_options {
  size_t struct_size;  // set it to sizeof(gsm_generation_options)
  double temperature;  // 0: 1; below 0: always the likeliest id
  int64_t top_k;       // only the k likeliest ids; 0: all
  double top_p;        // only the likeliest that make up this probability; 0: all
  uint64_t seed;
  int64_t tokens;       // ends after so many ids; 0: never
  const int32_t* stop;  // ends before one of these ids
  int32_t n_stop;
  int32_t ignore_end;  // not 0: the tokenizer's end mark is an id as others
} gsm_generation_options;
// Goes on with a text. When all positions of the model are taken, it goes on from the later half.
gsm_status gsm_generation_new(gsm_language* language, const int32_t* ids, int64_t n,
                              const gsm_generation_options* options, gsm_generation** generation);
// The next id. done: 1: there is none any more, and id is -1.
gsm_status gsm_generation_next(gsm_generation* generation, int32_t* id, int32_t* done);
gsm_status gsm_generation_free(gsm_generation* generation);

typedef struct gsm_translator_options {
  size_t struct_size;     // set it to sizeof(gsm_translator_options)
  const char* device;     // cpu, cuda:0 …; NULL: cpu
  const char* type;       // in which it computes: f32, bf16; NULL: f32
  int32_t beam;           // hypotheses of a sentence, up to 1024; 0: 1
  double length_penalty;  // the larger, the longer are translations; 0: 0.6; below 0: none
  int64_t extra;          // ids that a translation may have more than its sentence; 0: 50
} gsm_translator_options;
// A model that translates: the folder of a run of `gossamer train`, or a file of gsm_trainer_save
// with its tokenizer beside it.
gsm_status gsm_translator_open(const char* path, const gsm_translator_options* options,
                               gsm_translator** translator);
// The translation of each of n sentences; translations: room for n, each to be freed. They are
// computed together, so give many. GSM_ERROR_DATA names one that has more ids than the model reads.
gsm_status gsm_translate(gsm_translator* translator, const char* const* sentences, int32_t n,
                         gsm_bytes** translations);
gsm_status gsm_translator_free(gsm_translator* translator);

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
// token, a secret of at least 128 bits, as `openssl rand -hex 16` prints.
gsm_status gsm_group_join(int32_t rank, int32_t size, const char* host, int32_t port,
                          const char* token, gsm_group** group);
// Either of these, with all that may be said; NULL: as gsm_group_join_env.
typedef struct gsm_join_options {
  size_t struct_size;  // set it to sizeof(gsm_join_options)
  int32_t rank, size;
  const char* host;  // NULL: these four come from the launcher
  int32_t port;
  // As above. NULL: of token_file, or the launcher's; else, if host is of the loopback, a secret of
  // this user is used, which the library keeps in XDG_RUNTIME_DIR or /tmp
  const char* token;
  // of this machine, "eth0" or "10.0.0.2"; NULL: it is found. Not used if host is of the loopback
  const char* network;
  double join_timeout_s;        // until all have met; 0: 60
  double collective_timeout_s;  // for what all do together, as gsm_gossip_new; 0: 30
  double dead_after_s;          // who is silent for so long is given up; 0: 2
  // not 0: this worker was killed and is started again, while the others go on without it. It takes
  // over the parameters of another one. With a2cid2, adpsgd and async-tracking; worker 0 must live.
  int32_t restarted;
  const char* token_file;  // its first word is the token; nobody else may read it (mode 600)
  // not 0: without a token the workers do without a secret: whoever reaches a port can join
  int32_t open;
  // TLS 1.3 between the workers: "on", "off", or "auto": on, unless all are on one machine. NULL:
  // auto. All give the same
  const char* tls;
  // Since version 3. For how many workers there is room, those that join later included; 0: size.
  // The graph is over all of these places. With a2cid2, adpsgd, diloco and noloco
  int32_t places;
  // Not NULL: this worker joins a group that has begun, in a free place, and takes over the
  // parameters of another worker. "host:port" of one of its workers, or of several, with commas. Of
  // the fields above token, token_file, network, open, tls and the time-outs count
  const char* join;
} gsm_join_options;
gsm_status gsm_group_join_with(const gsm_join_options* options, gsm_group** group);
// n workers in this process, one for each thread; groups: room for n.
gsm_status gsm_group_local(int32_t n, gsm_group** groups);
// This worker's rank, 0 to size - 1, and the number of workers at the start. Who joined later has a
// rank from size on.
gsm_status gsm_group_rank(gsm_group* group, int32_t* rank, int32_t* size);
gsm_status gsm_group_free(gsm_group* group);

// ---- bring your own parameters: any program's training becomes decentralized

typedef struct gsm_gossip_options {
  size_t struct_size;  // set it to sizeof(gsm_gossip_options)
  double total_steps;  // of all workers together; after that gsm_gossip_done says so; 0: never
  double rate;         // exchanges per worker and step, up to 1000; 0: 1
  uint64_t seed;
  // local-sgd: steps between two averages; diloco, noloco and sparse-loco: between two outer steps,
  // which are large, so give 8 or more; 0: 1
  int32_t period;
  int32_t min_workers;        // fewer alive: an error; 0: 1
  double exchange_timeout_s;  // the longest; 0: 20
  const char* record;         // a folder where the order of all events is written; NULL: not
  const char* replay;         // a folder whose events a run repeats bit for bit; NULL: not
  // "dead", "left", "joined", "exchange failed", "exchange refused" (its model was too far off to
  // be true), "quarantined" (several refused its models, and the others go on without it) or "left
  // out" (its values were not finite, so a sum of all was made without them), and of whom; from a
  // thread of the library
  void (*on_fault)(const char* what, int32_t peer, void* user);
  void* user;
  double finish_timeout_s;  // the longest that gsm_gossip_finish waits for who still trains; 0: 600
  // Settings of the method by name, of which the fields above are the first: "outer_rate=0.5
  // fragments=4"; a list is 1,2. `gossamer config` shows them: its train.outer_rate is outer_rate
  // here. NULL: their defaults
  const char* settings;
  // Since version 3. Not 0: the training goes on where the state was saved that the trainer, or the
  // optimizer of own networks, has got by …_state_load or …_state_restore; all workers have theirs,
  // of one method with the same settings. That begins no new average of all models
  int32_t resume;
  // The same for gsm_gossip_new: the bytes that gsm_gossip_state_memory has given. x becomes what
  // it was
  const void* state;
  size_t state_size;
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
// until gsm_gossip_free. method: a2cid2, adpsgd, async-tracking, allreduce, dpsgd, sgp, local-sgd
// …; graph: ring, complete, exponential …, and for methods whose workers step together (all but the
// first three) also one-peer-exp, ring-matching …. A group serves one training: another one needs
// another group. A call that is refused before anything is sent, as for an unknown name, does not
// use it up.
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
// Since version 3. All that it takes to go on after the last step: see gsm_gossip_options.state.
gsm_status gsm_gossip_state_memory(gsm_gossip* gossip, gsm_bytes** bytes);
gsm_status gsm_gossip_free(gsm_gossip* gossip);

// The same for a trainer's model, instead of gsm_trainer_step.
gsm_status gsm_method_new(gsm_trainer* trainer, gsm_group* group, const char* method,
                          const char* graph, const gsm_gossip_options* options, gsm_method** made);
gsm_status gsm_method_step(gsm_method* method, double learning_rate);
gsm_status gsm_method_done(gsm_method* method, int32_t* done);
gsm_status gsm_method_finish(gsm_method* method);
gsm_status gsm_method_stats(gsm_method* method, gsm_gossip_stats_t* stats);
gsm_status gsm_method_free(gsm_method* method);

#ifdef __cplusplus
}
#endif

#include "gossamer_networks.h"
#include "gossamer_table.h"

#endif
