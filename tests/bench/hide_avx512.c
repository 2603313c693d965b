/* A library for LD_PRELOAD: the program sees a CPU without AVX-512, so that a machine with it also
   measures how a program does on one that has AVX2 only. Linux, x86-64, and a CPU on which cpuid
   can be made to fault.

       gcc -O1 -shared -fPIC -o hide_avx512.so hide_avx512.c */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <cpuid.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

static int set_cpuid(int allowed) { return (int)syscall(SYS_arch_prctl, ARCH_SET_CPUID, allowed); }

static void on_fault(int number, siginfo_t* info, void* context) {
  greg_t* r = ((ucontext_t*)context)->uc_mcontext.gregs;
  const unsigned char* at = (const unsigned char*)r[REG_RIP];
  const unsigned leaf = (unsigned)r[REG_RAX], part = (unsigned)r[REG_RCX];
  unsigned a, b, c, d;
  (void)info;
  if (at[0] != 0x0f || at[1] != 0xa2) { /* a fault of the program's own */
    signal(number, SIG_DFL);
    return;
  }
  set_cpuid(1);
  __cpuid_count(leaf, part, a, b, c, d);
  set_cpuid(0);
  if (leaf == 7 && part == 0) { /* the bits of every AVX-512 and AMX extension */
    b &= ~(1u << 16 | 1u << 17 | 1u << 21 | 1u << 26 | 1u << 27 | 1u << 28 | 1u << 30 | 1u << 31);
    c &= ~(1u << 1 | 1u << 6 | 1u << 11 | 1u << 12 | 1u << 14);
    d &= ~(1u << 2 | 1u << 3 | 1u << 8 | 1u << 22 | 1u << 23 | 1u << 24 | 1u << 25);
  }
  if (leaf == 7 && part == 1) a &= ~(1u << 4 | 1u << 5); /* AVX-VNNI, AVX512-BF16 */
  if (leaf == 13 && part == 0) a &= ~0xe0u;              /* the registers that are saved */
  r[REG_RAX] = a;
  r[REG_RBX] = b;
  r[REG_RCX] = c;
  r[REG_RDX] = d;
  r[REG_RIP] += 2;
}

__attribute__((constructor)) static void begin(void) {
  struct sigaction action = {0};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &action, NULL);
  if (set_cpuid(0) != 0) {
    static const char text[] = "hide_avx512: cpuid cannot be made to fault on this machine\n";
    if (write(2, text, sizeof text - 1) < 0) _exit(2);
    _exit(1);
  }
}
