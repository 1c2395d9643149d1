/* Checks that the extension's own declarations of XLA's and DLPack's interfaces have the layouts of the
 * headers. Compiled with -DXLA, -DDLPACK or both, this file prints nothing. See layouts_test.py. */
#include <stddef.h>

#include "kernels/python/src/exchange.h"
#include "kernels/python/src/ffi.h"

#define SAME_SIZE(ours, theirs) _Static_assert(sizeof(ours) == sizeof(theirs), "the size of " #theirs)
#define SAME(ours, field, theirs, their_field)                                       \
  _Static_assert(offsetof(ours, field) == offsetof(theirs, their_field) &&           \
                     sizeof(((ours*)0)->field) == sizeof(((theirs*)0)->their_field), \
                 #theirs "." #their_field)

#ifdef XLA
#include "xla/ffi/api/c_api.h"

SAME_SIZE(ffi_extension, XLA_FFI_Extension_Base);
SAME(ffi_extension, type, XLA_FFI_Extension_Base, type);
SAME(ffi_metadata, version.major, XLA_FFI_Metadata, api_version.major_version);
SAME(ffi_metadata, version.minor, XLA_FFI_Metadata, api_version.minor_version);
SAME(ffi_metadata, traits, XLA_FFI_Metadata, traits);
SAME(ffi_metadata_extension, metadata, XLA_FFI_Metadata_Extension, metadata);
SAME_SIZE(ffi_error_create, XLA_FFI_Error_Create_Args);
SAME(ffi_error_create, message, XLA_FFI_Error_Create_Args, message);
SAME(ffi_error_create, code, XLA_FFI_Error_Create_Args, errc);
SAME_SIZE(ffi_stream_get, XLA_FFI_Stream_Get_Args);
SAME(ffi_stream_get, context, XLA_FFI_Stream_Get_Args, ctx);
SAME(ffi_stream_get, stream, XLA_FFI_Stream_Get_Args, stream);
SAME(ffi_api, error_create, XLA_FFI_Api, XLA_FFI_Error_Create);
SAME(ffi_api, stream_get, XLA_FFI_Api, XLA_FFI_Stream_Get);
SAME_SIZE(ffi_buffer, XLA_FFI_Buffer);
SAME(ffi_buffer, dtype, XLA_FFI_Buffer, dtype);
SAME(ffi_buffer, data, XLA_FFI_Buffer, data);
SAME(ffi_buffer, rank, XLA_FFI_Buffer, rank);
SAME(ffi_buffer, dims, XLA_FFI_Buffer, dims);
SAME_SIZE(ffi_buffers, XLA_FFI_Args);
SAME_SIZE(ffi_buffers, XLA_FFI_Rets);
SAME(ffi_buffers, count, XLA_FFI_Args, size);
SAME(ffi_buffers, all, XLA_FFI_Args, args);
SAME(ffi_buffers, all, XLA_FFI_Rets, rets);
SAME_SIZE(ffi_text, XLA_FFI_ByteSpan);
SAME(ffi_text, size, XLA_FFI_ByteSpan, len);
SAME_SIZE(ffi_array, XLA_FFI_Array);
SAME(ffi_array, size, XLA_FFI_Array, size);
SAME(ffi_array, data, XLA_FFI_Array, data);
SAME_SIZE(ffi_attributes, XLA_FFI_Attrs);
SAME(ffi_attributes, types, XLA_FFI_Attrs, types);
SAME(ffi_attributes, names, XLA_FFI_Attrs, names);
SAME(ffi_attributes, all, XLA_FFI_Attrs, attrs);
SAME(ffi_call, api, XLA_FFI_CallFrame, api);
SAME(ffi_call, context, XLA_FFI_CallFrame, ctx);
SAME(ffi_call, stage, XLA_FFI_CallFrame, stage);
SAME(ffi_call, arguments, XLA_FFI_CallFrame, args);
SAME(ffi_call, results, XLA_FFI_CallFrame, rets);
SAME(ffi_call, attributes, XLA_FFI_CallFrame, attrs);

_Static_assert(FFI_METADATA == XLA_FFI_Extension_Metadata && FFI_EXECUTE == XLA_FFI_ExecutionStage_EXECUTE &&
                   FFI_ARRAY == XLA_FFI_AttrType_ARRAY && FFI_STRING == XLA_FFI_AttrType_STRING &&
                   FFI_COMMAND_BUFFER == XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE &&
                   FFI_INVALID_ARGUMENT == XLA_FFI_Error_Code_INVALID_ARGUMENT,
               "kinds");
_Static_assert(FFI_S64 == XLA_FFI_DataType_S64 && FFI_F32 == XLA_FFI_DataType_F32 &&
                   XLA_FFI_DataType_PRED == 1 && XLA_FFI_DataType_S8 == 2 && XLA_FFI_DataType_U8 == 6 &&
                   XLA_FFI_DataType_U64 == 9 && XLA_FFI_DataType_F16 == 10 && XLA_FFI_DataType_F64 == 12 &&
                   XLA_FFI_DataType_BF16 == 16 && XLA_FFI_DataType_F8E5M2 == 19 &&
                   XLA_FFI_DataType_F8E4M3FN == 20,
               "types, as ffi.c has them");
#endif

#ifdef DLPACK
#include "dlpack.h"

SAME_SIZE(ptxb_tensor, DLTensor);
SAME(ptxb_tensor, device.type, DLTensor, device.device_type);
SAME(ptxb_tensor, device.id, DLTensor, device.device_id);
SAME(ptxb_tensor, ndim, DLTensor, ndim);
SAME(ptxb_tensor, dtype.code, DLTensor, dtype.code);
SAME(ptxb_tensor, dtype.bits, DLTensor, dtype.bits);
SAME(ptxb_tensor, dtype.lanes, DLTensor, dtype.lanes);
SAME(ptxb_tensor, shape, DLTensor, shape);
SAME(ptxb_tensor, strides, DLTensor, strides);
SAME(ptxb_tensor, byte_offset, DLTensor, byte_offset);
SAME_SIZE(managed_tensor, DLManagedTensorVersioned);
SAME(managed_tensor, deleter, DLManagedTensorVersioned, deleter);
SAME(managed_tensor, tensor, DLManagedTensorVersioned, dl_tensor);
SAME(exchange_api, version, DLPackExchangeAPI, header.version);
SAME(exchange_api, older, DLPackExchangeAPI, header.prev_api);
SAME(exchange_api, allocate, DLPackExchangeAPI, managed_tensor_allocator);
SAME(exchange_api, managed_of, DLPackExchangeAPI, managed_tensor_from_py_object_no_sync);
SAME(exchange_api, object_of, DLPackExchangeAPI, managed_tensor_to_py_object_no_sync);
SAME(exchange_api, tensor_of, DLPackExchangeAPI, dltensor_from_py_object_no_sync);
SAME(exchange_api, current_stream, DLPackExchangeAPI, current_work_stream);

_Static_assert((int)ON_CPU == kDLCPU && (int)ON_CUDA == kDLCUDA && (int)ON_PINNED == kDLCUDAHost &&
                   (int)ON_MANAGED == kDLCUDAManaged,
               "devices");
_Static_assert((int)PTXB_INT == kDLInt && (int)PTXB_UINT == kDLUInt && (int)PTXB_FLOAT == kDLFloat &&
                   (int)PTXB_BFLOAT == kDLBfloat && (int)PTXB_E4M3 == kDLFloat8_e4m3fn &&
                   (int)PTXB_E5M2 == kDLFloat8_e5m2,
               "types");
#endif
