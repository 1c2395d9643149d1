/* The driver's functions, which recorded programs find with cuGetProcAddress(). */
#pragma once

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*Find)(const char*, void**, int, uint64_t, int*);
static Find find;

static void must(int good, const char* what) {
  if (good) return;
  fprintf(stderr, "FAILED: %s\n", what);
  exit(1);
}
static void* call(const char* name) {
  void* found = NULL;
  must(find(name, &found, 13000, 0, NULL) == 0 && found, name);
  return found;
}
#define CALL(name, ...) must(!((int (*)())call(#name))(__VA_ARGS__), #name)

/* Opens the driver and the first GPU, and returns the module of `ptx`. */
static void* opened(const char* ptx) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), *context, *module;
  int device;
  must(driver != NULL, "there is no driver");
  find = (Find)dlsym(driver, "cuGetProcAddress_v2");
  must(find != NULL, "cuGetProcAddress_v2");
  CALL(cuInit, 0);
  CALL(cuDeviceGet, &device, 0);
  CALL(cuDevicePrimaryCtxRetain, &context, device);
  CALL(cuCtxSetCurrent, context);
  CALL(cuModuleLoadData, &module, ptx);
  return module;
}
