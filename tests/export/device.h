/* Device 0 and its memory, for C programs that launch exported kernels. */
#ifndef DEVICE_H
#define DEVICE_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(int good, const char* what) {
  if (good) return;
  fprintf(stderr, "FAILED: %s\n", what);
  exit(1);
}

/* Looks up a function of the driver. `call` points to a pointer to a function. */
static void find(const char* name, void* call) {
  void* symbol = dlsym(dlopen("libcuda.so.1", RTLD_NOW), name);
  must(symbol != NULL, name);
  memcpy(call, &symbol, sizeof symbol);
}

static void open_device(void) {
  int (*initialize)(unsigned);
  int (*create_context)(void**, unsigned, int);
  void* context;
  find("cuInit", &initialize);
  find("cuCtxCreate_v2", &create_context);
  must(!initialize(0) && !create_context(&context, 0, 0), "a context on device 0");
}

static void* upload(const void* data, size_t bytes) {
  int (*allocate)(uint64_t*, size_t);
  int (*copy)(uint64_t, const void*, size_t);
  uint64_t address = 0;
  find("cuMemAlloc_v2", &allocate);
  find("cuMemcpyHtoD_v2", &copy);
  must(!allocate(&address, bytes) && !copy(address, data, bytes), "upload");
  return (void*)(uintptr_t)address;
}

static void download(void* to, const void* from, size_t bytes) {
  int (*copy)(void*, uint64_t, size_t);
  find("cuMemcpyDtoH_v2", &copy);
  must(!copy(to, (uint64_t)(uintptr_t)from, bytes), "download");
}

/* Returns the name of the last kernel, or "a kernel" with NVIDIA's driver, which does not report it. */
static const char* last_kernel(void) {
  const char* (*name)(void);
  void* symbol = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "ptxbuilder_last_kernel");
  memcpy(&name, &symbol, sizeof symbol);
  return symbol ? name() : "a kernel";
}

/* Returns a random number, uniform in -1 to 1. */
static double fresh(void) { return 2.0 * rand() / RAND_MAX - 1; }

#endif
