// Declares _dl_find_object(), which libgcc's unwinder calls, for glibc before 2.35.
#pragma once

struct dl_find_object;

#ifdef __cplusplus
extern "C" {
#endif
// glibc's own function, which does not acquire locks. NULL if glibc does not have it, or if this library's
// constructors have not run yet.
extern int (*ptxbuilder_glibc_find_object)(void* address, struct dl_find_object* found)
    __attribute__((visibility("hidden")));
// Finds the object that is loaded at the address. Returns 0 on success. Returns -1 if there is no such
// object, or if it has no unwind table.
int _dl_find_object(void* address, struct dl_find_object* found);
#ifdef __cplusplus
}
#endif
