// Finds the unwind table for the code at an address. glibc 2.35 and newer have a function for this. With an
// older glibc, all loaded objects are searched.
#include "runtime/glibc/dl_find_object.h"

#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <string.h>

#if __GLIBC_PREREQ(2, 35)  // unwinders built for earlier versions do not call this function

int (*ptxbuilder_glibc_find_object)(void* address, struct dl_find_object* found);

// The function is looked up once, at startup, because dlsym() acquires locks and memory, which must not
// happen while an exception is handled.
__attribute__((constructor)) static void find_glibcs(void) {
  void* function = dlsym(RTLD_DEFAULT, "_dl_find_object");
  memcpy(&ptxbuilder_glibc_find_object, &function, sizeof function);
}

struct Search {
  uintptr_t address;
  struct dl_find_object* found;
};

static int is_it(struct dl_phdr_info* info, size_t size, void* data) {
  (void)size;
  const struct Search* search = data;
  uintptr_t start = UINTPTR_MAX, end = 0;
  void* table = NULL;
  int has_address = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)* header = &info->dlpi_phdr[i];
    const uintptr_t first = info->dlpi_addr + header->p_vaddr, last = first + header->p_memsz;
    if (header->p_type == PT_GNU_EH_FRAME) table = (void*)first;
    if (header->p_type != PT_LOAD) continue;
    if (first < start) start = first;
    if (last > end) end = last;
    if (first <= search->address && search->address < last) has_address = 1;
  }
  if (!has_address) return 0;
  if (!table) return -1;
  memset(search->found, 0, sizeof *search->found);
  search->found->dlfo_map_start = (void*)start;
  search->found->dlfo_map_end = (void*)end;
  search->found->dlfo_eh_frame = table;
  return 1;
}

__attribute__((visibility("hidden"))) int _dl_find_object(void* address, struct dl_find_object* found) {
  if (ptxbuilder_glibc_find_object) return ptxbuilder_glibc_find_object(address, found);
  struct Search search = {(uintptr_t)address, found};
  return dl_iterate_phdr(is_it, &search) == 1 ? 0 : -1;
}

#endif
