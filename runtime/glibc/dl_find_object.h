// _dl_find_object() of libgcc's unwinder, for glibc before 2.35.
#pragma once

struct dl_find_object;

#ifdef __cplusplus
extern "C" {
#endif
// glibc's own function, which needs no lock; NULL where it has none, and until this library's constructors
// run.
extern int (*ptxbuilder_glibc_find_object)(void* address, struct dl_find_object* found)
    __attribute__((visibility("hidden")));
// 0, and what is loaded at the address; -1 where that is nothing, or has no table for the unwinder.
int _dl_find_object(void* address, struct dl_find_object* found);
#ifdef __cplusplus
}
#endif
