/* A plugin of qemu-user: how many instructions a program ran, and in which functions, for any CPU
   that QEMU imitates. Several threads count roughly: additions of two at once may be lost.

       gcc -O1 -shared -fPIC -o qemu_instructions.so qemu_instructions.c
       qemu-aarch64 -plugin ./qemu_instructions.so -d plugin -D COUNTS PROGRAM ARGUMENT…

   COUNTS gets a line for each function, "instructions name", and the sum as "total". Code of shared
   libraries and code that is made at run time is called "other". */
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VISIBLE __attribute__((visibility("default")))

/* What is used of QEMU's interface of plugins, version 1 (since QEMU 4.2); Debian has no header. */
typedef uint64_t plugin_id;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum { PLUGIN_ADD = 0 };
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, void (*)(plugin_id, struct qemu_plugin_tb*));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb*, int operation, void* counter,
                                              uint64_t increment);
void qemu_plugin_register_atexit_cb(plugin_id, void (*)(plugin_id, void*), void*);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb*);
struct qemu_plugin_insn* qemu_plugin_tb_get_insn(const struct qemu_plugin_tb*, size_t);
const char* qemu_plugin_insn_symbol(const struct qemu_plugin_insn*);
void qemu_plugin_outs(const char*);

VISIBLE int qemu_plugin_version = 1;

struct function {
  char* name;
  uint64_t instructions;
  struct function* next;
};
enum { BUCKETS = 4096 };
static struct function* buckets[BUCKETS];

/* Blocks are translated one at a time: QEMU holds a lock. */
static struct function* function_of(const char* name) {
  unsigned hash = 5381;
  for (const char* c = name; *c; ++c) hash = hash * 33 + (unsigned char)*c;
  struct function** at = &buckets[hash % BUCKETS];
  for (struct function* f = *at; f; f = f->next)
    if (strcmp(f->name, name) == 0) return f;
  struct function* f = calloc(1, sizeof *f);
  char* copy = strdup(name);
  if (!f || !copy) abort();
  f->name = copy;
  f->next = *at;
  return *at = f;
}

static void on_block(plugin_id id, struct qemu_plugin_tb* block) {
  (void)id;
  const char* name = qemu_plugin_insn_symbol(qemu_plugin_tb_get_insn(block, 0));
  qemu_plugin_register_vcpu_tb_exec_inline(
      block, PLUGIN_ADD, &function_of(name && *name ? name : "other")->instructions,
      qemu_plugin_tb_n_insns(block));
}

static void line(uint64_t instructions, const char* name) {
  char text[4096];
  snprintf(text, sizeof text, "%" PRIu64 " %s\n", instructions, name);
  qemu_plugin_outs(text);
}

static void at_exit(plugin_id id, void* data) {
  (void)id;
  (void)data;
  uint64_t total = 0;
  for (size_t i = 0; i < BUCKETS; ++i)
    for (const struct function* f = buckets[i]; f; f = f->next) {
      total += f->instructions;
      line(f->instructions, f->name);
    }
  line(total, "total");
}

VISIBLE int qemu_plugin_install(plugin_id id, const void* info, int count, char** arguments) {
  (void)info;
  (void)count;
  (void)arguments;
  qemu_plugin_register_vcpu_tb_trans_cb(id, on_block);
  qemu_plugin_register_atexit_cb(id, at_exit, NULL);
  return 0;
}
