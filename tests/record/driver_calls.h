/* The driver's functions, which programs that are recorded find by cuGetProcAddress(). */
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
