/* DLPack's C exchange interface (version 1.3). With it, C code can access tensors without calling Python: the
 * attribute `__dlpack_c_exchange_api__` of a tensor's type is a capsule, "dlpack_exchange_api". A DLTensor is
 * declared as ptxb_tensor. */
#ifndef PTXBUILDER_PYTHON_EXCHANGE_H
#define PTXBUILDER_PYTHON_EXCHANGE_H

#include "kernels/c/ptxb.h"

typedef struct exchange_version {
  uint32_t major, minor;
} exchange_version;

typedef struct managed_tensor { /* DLManagedTensorVersioned */
  exchange_version version;
  void* context;
  void (*deleter)(struct managed_tensor* self);
  uint64_t flags;
  ptxb_tensor tensor;
} managed_tensor;

typedef struct exchange_api { /* DLPackExchangeAPI */
  exchange_version version;
  struct exchange_api* older;
  /* Allocates an uninitialized tensor like `prototype`, in the framework's own memory, on its current
   * stream. */
  int (*allocate)(ptxb_tensor* prototype, managed_tensor** out, void* context,
                  void (*set_error)(void* context, const char* kind, const char* message));
  int (*managed_of)(void* object, managed_tensor** out);
  int (*object_of)(managed_tensor* tensor, void** out); /* takes ownership of the tensor */
  int (*tensor_of)(void* object, ptxb_tensor* out);     /* the result is borrowed, and valid until Python code
                                                           runs again; the function may be NULL */
  int (*current_stream)(int32_t device_type, int32_t device_id, void** out);
} exchange_api;

#endif
