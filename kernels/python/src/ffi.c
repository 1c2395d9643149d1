#include "kernels/python/src/ffi.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

/* ---- The attributes of a call ---- */

static const char* find(const ffi_call* call, const char* name, int type, const void** found) {
  for (int64_t i = 0; i < call->attributes.count; ++i) {
    const ffi_text* is = call->attributes.names[i];
    if (is->size != strlen(name) || memcmp(is->data, name, is->size)) continue;
    if (call->attributes.types[i] != type) return host_words("attribute '%s' has a wrong type", name);
    *found = call->attributes.all[i];
    return NULL;
  }
  return host_words("there is no attribute '%s'", name);
}

const char* ffi_text_of(const ffi_call* call, const char* name, const ffi_text** found) {
  return find(call, name, FFI_STRING, (const void**)found);
}

const char* ffi_array_of(const ffi_call* call, const char* name, int dtype, const ffi_array** found) {
  const char* error = find(call, name, FFI_ARRAY, (const void**)found);
  if (!error && (*found)->dtype != dtype)
    return host_words("attribute '%s' has elements of a wrong type", name);
  return error;
}

static ptxb_dtype dtype_of(int xla) {
  static const ptxb_dtype all[] = {
      [1] = {PTXB_UINT, 8, 1},     [2] = {PTXB_INT, 8, 1},     [3] = {PTXB_INT, 16, 1},
      [4] = {PTXB_INT, 32, 1},     [5] = {PTXB_INT, 64, 1},    [6] = {PTXB_UINT, 8, 1},
      [7] = {PTXB_UINT, 16, 1},    [8] = {PTXB_UINT, 32, 1},   [9] = {PTXB_UINT, 64, 1},
      [10] = {PTXB_FLOAT, 16, 1},  [11] = {PTXB_FLOAT, 32, 1}, [12] = {PTXB_FLOAT, 64, 1},
      [16] = {PTXB_BFLOAT, 16, 1}, [19] = {PTXB_E5M2, 8, 1},   [20] = {PTXB_E4M3, 8, 1}};
  const ptxb_dtype none = {0};
  return xla > 0 && xla < (int)(sizeof all / sizeof *all) ? all[xla] : none; /* the library rejects a type of
                                                                                0 bits */
}

ptxb_tensor ffi_tensor_of(const ffi_buffer* buffer) {
  ptxb_tensor t = {0};
  t.data = buffer->data;
  t.ndim = (int32_t)buffer->rank;
  t.dtype = dtype_of(buffer->dtype);
  t.shape = buffer->dims;
  return t;
}

/* ---- The device of a call ---- */

static void* failed(const ffi_call* call, const char* error) {
  if (!error) return NULL;
  const int status = host_status(error);
  ffi_error_create create = {sizeof create, NULL, error,
                             status == PTXB_INVALID_ARGUMENT ? FFI_INVALID_ARGUMENT
                             : status == PTXB_OUT_OF_MEMORY  ? FFI_RESOURCE_EXHAUSTED
                                                             : FFI_INTERNAL};
  return call->api->error_create(&create);
}

/* Finds the driver function that returns the current GPU. XLA has made the context of the call's GPU
 * current. */
static int (*current_device)(int*);
static void find_driver(void) {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver) *(void**)&current_device = dlsym(driver, "cuCtxGetDevice");
}

static void* target_of(const ffi_call* call, ffi_target* to) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, find_driver);
  ffi_stream_get get = {sizeof get, NULL, call->context, NULL};
  void* error = call->api->stream_get(&get);
  if (error) return error;
  to->stream = get.stream;
  if (!current_device || current_device(&to->device))
    return failed(call, "no CUDA context is current in the thread in which XLA calls");
  return NULL;
}

/* If this call is the metadata query that XLA makes before any other call, answers it and returns true. */
static bool tells_metadata(const ffi_call* call, bool is_captured) {
  const ffi_extension* extension = call->extension;
  if (!extension || extension->type != FFI_METADATA) return false;
  ffi_metadata* metadata = ((const ffi_metadata_extension*)extension)->metadata;
  metadata->version.major = 0, metadata->version.minor = 1;
  metadata->traits = is_captured ? FFI_COMMAND_BUFFER : 0;
  return true;
}

void* ffi_on_cpu(const ffi_call* call, ffi_run* run) {
  if (tells_metadata(call, false) || call->stage != FFI_EXECUTE) return NULL;
  const ffi_target to = {EMULATOR, NULL};
  return failed(call, run(call, &to));
}

void* ffi_on_cuda(const ffi_call* call, ffi_run* run, bool may_be_captured) {
  if (tells_metadata(call, may_be_captured) || call->stage != FFI_EXECUTE) return NULL;
  ffi_target to;
  void* error = target_of(call, &to);
  return error ? error : failed(call, run(call, &to));
}
