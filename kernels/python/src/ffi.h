/* The part of the C API of XLA's foreign function interface that the handlers use. It is the part of
 * xla/ffi/api/c_api.h that version 0.1 shares with all later versions. It declares version 0.1, because older
 * frameworks reject handlers that declare a newer version, and nothing newer is needed.
 * tests/python/layouts.c compares this file with the header. Functions return NULL or an error message. */
#ifndef PTXBUILDER_PYTHON_FFI_H
#define PTXBUILDER_PYTHON_FFI_H

#include "kernels/python/src/host.h"

typedef struct ffi_extension {
  size_t size;
  int type; /* 1: metadata */
  struct ffi_extension* next;
} ffi_extension;

#define FFI_BEGIN \
  size_t size;    \
  ffi_extension* extension

typedef struct ffi_metadata {
  size_t size;
  struct {
    FFI_BEGIN;
    int major, minor;
  } version;
  uint32_t traits;
} ffi_metadata;
typedef struct ffi_metadata_extension {
  ffi_extension base;
  ffi_metadata* metadata;
} ffi_metadata_extension;

typedef struct ffi_error_create {
  FFI_BEGIN;
  const char* message;
  int code;
} ffi_error_create;
typedef struct ffi_error_destroy {
  FFI_BEGIN;
  void* error;
} ffi_error_destroy;
typedef struct ffi_stream_get {
  FFI_BEGIN;
  void* context;
  void* stream; /* result: the stream */
} ffi_stream_get;

typedef struct ffi_api {
  FFI_BEGIN;
  struct {
    FFI_BEGIN;
    int major, minor;
  } version;
  const void* internal;
  void* (*error_create)(ffi_error_create*);
  void* error_message;
  void (*error_destroy)(ffi_error_destroy*);
  void* handler_register;
  void* (*stream_get)(ffi_stream_get*);
} ffi_api;

typedef struct ffi_buffer {
  FFI_BEGIN;
  int dtype;
  void* data;
  int64_t rank;
  int64_t* dims;
} ffi_buffer;
typedef struct ffi_buffers {
  FFI_BEGIN;
  int64_t count;
  int* types;
  ffi_buffer** all;
} ffi_buffers;
typedef struct ffi_text {
  const char* data;
  size_t size;
} ffi_text;
typedef struct ffi_array {
  int dtype;
  size_t size;
  void* data;
} ffi_array;
typedef struct ffi_attributes {
  FFI_BEGIN;
  int64_t count;
  int* types;
  ffi_text** names;
  void** all;
} ffi_attributes;
typedef struct ffi_call {
  FFI_BEGIN;
  const ffi_api* api;
  void* context;
  int stage; /* 3: execute */
  ffi_buffers arguments, results;
  ffi_attributes attributes;
} ffi_call;

enum { FFI_METADATA = 1, FFI_ARRAY = 1, FFI_STRING = 4, FFI_COMMAND_BUFFER = 1 };
enum { FFI_INVALID_ARGUMENT = 3, FFI_RESOURCE_EXHAUSTED = 8, FFI_INTERNAL = 13, FFI_EXECUTE = 3 };
enum { FFI_S64 = 5, FFI_F32 = 11 };

/* These functions read attributes by name. An attribute is text or an array of `size` elements. */
const char* ffi_text_of(const ffi_call* call, const char* name, const ffi_text** found);
const char* ffi_array_of(const ffi_call* call, const char* name, int dtype, const ffi_array** found);

ptxb_tensor ffi_tensor_of(const ffi_buffer* buffer);

/* The device and the stream on which a call runs. */
typedef struct ffi_target {
  int device; /* a GPU's number, or EMULATOR */
  void* stream;
} ffi_target;

/* These functions handle XLA's calls of a handler. If the handler must execute, they call `run` with the
 * stream that XLA passes, or with the emulator. If `may_be_captured` is true, `run` must launch the same
 * kernels whenever the addresses and attributes are the same, and must neither wait nor allocate. */
typedef const char* ffi_run(const ffi_call* call, const ffi_target* to);
void* ffi_on_cpu(const ffi_call* call, ffi_run* run);
void* ffi_on_cuda(const ffi_call* call, ffi_run* run, bool may_be_captured);

#endif
