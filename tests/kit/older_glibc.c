// If this library is preloaded, glibc has no _dl_find_object(), as before 2.35. Programs then find the
// unwinder's tables through runtime/glibc.
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

void* dlsym(void* handle, const char* name) {
  static void* (*glibcs)(void*, const char*);
  if (!glibcs) {
    void* function = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    memcpy(&glibcs, &function, sizeof glibcs);
  }
  return strcmp(name, "_dl_find_object") == 0 ? NULL : glibcs(handle, name);
}
