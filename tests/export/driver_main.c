/* Calls the driver directly and is linked with libcuda: memory, streams and events around an exported
 * saxpy, and the error of a kernel that fails. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "saxpy.h"

static void must(int good, const char* what) {
  if (good) return;
  fprintf(stderr, "FAILED: %s\n", what);
  exit(1);
}

extern int cuInit(unsigned);
extern int cuDeviceGet(int*, int);
extern int cuCtxCreate_v2(void**, unsigned, int);
extern int cuCtxSynchronize(void);
extern int cuMemAlloc_v2(uint64_t*, size_t);
extern int cuMemFree_v2(uint64_t);
extern int cuMemAllocHost_v2(void**, size_t);
extern int cuMemFreeHost(void*);
extern int cuMemcpyHtoDAsync_v2(uint64_t, const void*, size_t, void*);
extern int cuMemcpyDtoHAsync_v2(void*, uint64_t, size_t, void*);
extern int cuMemcpyDtoD_v2(uint64_t, uint64_t, size_t);
extern int cuMemsetD8Async(uint64_t, unsigned char, size_t, void*);
extern int cuStreamCreate(void**, unsigned);
extern int cuStreamSynchronize(void*);
extern int cuEventCreate(void**, unsigned);
extern int cuEventRecord(void*, void*);
extern int cuEventElapsedTime(float*, void*, void*);
extern int cuGetErrorName(int, const char**);
extern int cuGetErrorString(int, const char**);
extern int cuModuleLoadData(void**, const void*);

#define OK(call) must(!(call), #call)

static void fails(int status, int wanted, const char* words) {
  const char *name, *text;
  OK(cuGetErrorName(status, &name) || cuGetErrorString(status, &text));
  if (status == wanted && strstr(text, words)) return;
  fprintf(stderr, "status %d, %s: %s\n", status, name, text);
  must(0, words);
}

int main(void) {
  enum { COUNT = 100 };
  uint64_t x, y;
  float* host;
  void *context, *stream, *event, *module;
  int device, i;
  OK(cuInit(0) || cuDeviceGet(&device, 0) || cuCtxCreate_v2(&context, 0, device));
  OK(cuStreamCreate(&stream, 1) || cuEventCreate(&event, 2));
  OK(cuMemAlloc_v2(&x, COUNT * sizeof *host) || cuMemAlloc_v2(&y, COUNT * sizeof *host));
  OK(cuMemAllocHost_v2((void**)&host, COUNT * sizeof *host));
  for (i = 0; i < COUNT; ++i) host[i] = (float)i;
  OK(cuMemsetD8Async(y, 0, COUNT * sizeof *host, stream));
  OK(cuMemcpyHtoDAsync_v2(x, host, COUNT * sizeof *host, stream));
  must(!saxpy_launch((float*)(uintptr_t)x, (float*)(uintptr_t)y, 3, COUNT, NULL, stream),
       saxpy_error()); /* 3 x */
  OK(cuMemcpyDtoD_v2(x, y, COUNT * sizeof *host));
  must(!saxpy_launch((float*)(uintptr_t)x, (float*)(uintptr_t)y, -2, COUNT, NULL, stream),
       saxpy_error()); /* -6 + 3 */
  OK(cuEventRecord(event, stream) || cuMemcpyDtoHAsync_v2(host, y, COUNT * sizeof *host, stream));
  OK(cuStreamSynchronize(stream));
  for (i = 0; i < COUNT; ++i) must(host[i] == -3.0f * (float)i, "an element is wrong");
  OK(cuMemFreeHost(host));

  fails(cuEventElapsedTime(NULL, event, event), 801, "only a GPU gives times");
  fails(cuModuleLoadData(&module, ".version 8.0\n.target sm_90a\nno PTX"), 218, "ptx 3:");
  fails(cuModuleLoadData(&module,
                         "\x7f"
                         "ELF, as a cubin begins"),
        209, "export the kernel with --with-ptx or --ptx");
  fails(saxpy_launch((float*)(uintptr_t)x, (float*)(uintptr_t)y, 1, COUNT + 1, NULL, stream), 719,
        "out of bounds");
  must(strstr(saxpy_error(), "CUDA_ERROR_LAUNCH_FAILED (719): ") && strstr(saxpy_error(), "out of bounds"),
       saxpy_error());
  fails(cuCtxSynchronize(), 719, "out of bounds"); /* as on a GPU, which is unusable after that */
  fails(cuMemFree_v2(x), 719, "out of bounds");
  puts("all calls are right");
  return 0;
}
