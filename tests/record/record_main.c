/* Finds all driver functions with cuGetProcAddress(), like CUDA's runtime, and launches a kernel whose
 * struct points to an array of pointers. The struct's bytes are passed packed, through "extra". */
#include "driver_calls.h"

static const char ptx[] =
    ".version 8.6\n.target sm_90a\n.address_size 64\n.global .align 4 .u32 scale;\n"
    ".visible .entry add(.param .align 8 .b8 s[24]) {\n.reg .b32 %r<8>; .reg .b64 %rd<8>;\n"
    "ld.param.u64 %rd0, [s]; ld.param.u64 %rd1, [s+8]; ld.param.u32 %r0, [s+16];\n"
    "mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4;\n"
    "ld.global.u64 %rd3, [%rd0]; ld.global.u64 %rd4, [%rd0+8];\n"
    "add.u64 %rd3, %rd3, %rd2; add.u64 %rd4, %rd4, %rd2; add.u64 %rd1, %rd1, %rd2;\n"
    "ld.global.u32 %r2, [%rd3]; ld.global.u32 %r3, [%rd4];\n"
    "add.u32 %r2, %r2, %r3; add.u32 %r2, %r2, %r0; st.global.u32 [%rd1], %r2;\nret;\n}\n"
    ".visible .entry nothing() { ret; }\n";

int main(void) {
  enum { COUNT = 32 };
  void *module = opened(ptx), *add, *nothing;
  uint64_t data[2], list, out;
  uint32_t host[COUNT];
  struct {
    uint64_t list, out;
    uint32_t plus, pad;
  } s;
  size_t bytes = sizeof s;
  void* extra[] = {(void*)1, &s, (void*)2, &bytes, NULL};
  int i;
  CALL(cuModuleGetFunction, &add, module, "add");
  CALL(cuModuleGetFunction, &nothing, module, "nothing");
  for (i = 0; i < COUNT; ++i) host[i] = 3 * i;
  for (i = 0; i < 2; ++i) {
    CALL(cuMemAlloc, &data[i], sizeof host);
    CALL(cuMemcpyHtoD, data[i], host, sizeof host);
  }
  CALL(cuMemAlloc, &list, sizeof data);
  CALL(cuMemcpyHtoD, list, data, sizeof data);
  CALL(cuMemAlloc, &out, 1024);
  CALL(cuMemsetD8Async, out, 0, (size_t)1024, NULL);
  memset(&s, 0, sizeof s);
  s.list = list, s.out = out + 512, s.plus = 5;
  CALL(cuLaunchKernel, nothing, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
  CALL(cuLaunchKernel, add, 1, 1, 1, COUNT, 1, 1, 0, NULL, NULL, extra);
  CALL(cuMemcpyDtoH, host, out + 512, sizeof host);
  for (i = 0; i < COUNT; ++i) must(host[i] == (uint32_t)(6 * i + 5), "an element is wrong");
  printf("all are right\n");
  return 0;
}
