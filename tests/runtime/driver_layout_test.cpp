// Compares the runtime's own declarations of the CUDA driver API with the toolkit's cuda.h, if it is
// installed.
#include <cuda.h>
#include <doctest/doctest.h>

#include <string_view>
#include <type_traits>

#include "ptxbuilder/signature.h"
#include "runtime/device.h"
#include "runtime/driver.h"

namespace ptxbuilder::test::driver_layout_test {
using namespace runtime;

namespace {

template <class Ours, class Theirs>
constexpr bool same(Ours ours, Theirs theirs) {
  return sizeof(Ours) == sizeof(Theirs) && static_cast<long long>(ours) == static_cast<long long>(theirs);
}

static_assert(same(cu::Status::success, CUDA_SUCCESS));
static_assert(same(cu::Status::invalid_value, CUDA_ERROR_INVALID_VALUE));
static_assert(same(cu::Status::out_of_memory, CUDA_ERROR_OUT_OF_MEMORY));
static_assert(same(cu::Status::not_initialized, CUDA_ERROR_NOT_INITIALIZED));
static_assert(same(cu::Status::deinitialized, CUDA_ERROR_DEINITIALIZED));
static_assert(same(cu::Status::stub_library, CUDA_ERROR_STUB_LIBRARY));
static_assert(same(cu::Status::no_device, CUDA_ERROR_NO_DEVICE));
static_assert(same(cu::Status::invalid_image, CUDA_ERROR_INVALID_IMAGE));
static_assert(same(cu::Status::no_binary_for_gpu, CUDA_ERROR_NO_BINARY_FOR_GPU));
static_assert(same(cu::Status::ecc_uncorrectable, CUDA_ERROR_ECC_UNCORRECTABLE));
static_assert(same(cu::Status::invalid_ptx, CUDA_ERROR_INVALID_PTX));
static_assert(same(cu::Status::jit_compiler_not_found, CUDA_ERROR_JIT_COMPILER_NOT_FOUND));
static_assert(same(cu::Status::unsupported_ptx_version, CUDA_ERROR_UNSUPPORTED_PTX_VERSION));
static_assert(same(cu::Status::contained, CUDA_ERROR_CONTAINED));
static_assert(same(cu::Status::invalid_source, CUDA_ERROR_INVALID_SOURCE));
static_assert(same(cu::Status::not_found, CUDA_ERROR_NOT_FOUND));
static_assert(same(cu::Status::not_ready, CUDA_ERROR_NOT_READY));
static_assert(same(cu::Status::illegal_address, CUDA_ERROR_ILLEGAL_ADDRESS));
static_assert(same(cu::Status::launch_out_of_resources, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES));
static_assert(same(cu::Status::device_assert, CUDA_ERROR_ASSERT));
static_assert(same(cu::Status::hardware_stack_error, CUDA_ERROR_HARDWARE_STACK_ERROR));
static_assert(same(cu::Status::illegal_instruction, CUDA_ERROR_ILLEGAL_INSTRUCTION));
static_assert(same(cu::Status::misaligned_address, CUDA_ERROR_MISALIGNED_ADDRESS));
static_assert(same(cu::Status::invalid_address_space, CUDA_ERROR_INVALID_ADDRESS_SPACE));
static_assert(same(cu::Status::invalid_pc, CUDA_ERROR_INVALID_PC));
static_assert(same(cu::Status::launch_failed, CUDA_ERROR_LAUNCH_FAILED));
static_assert(same(cu::Status::not_supported, CUDA_ERROR_NOT_SUPPORTED));
static_assert(same(cu::Status::system_driver_mismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH));
static_assert(same(cu::Status::invalid_cluster_size, CUDA_ERROR_INVALID_CLUSTER_SIZE));
static_assert(same(cu::Status::unknown, CUDA_ERROR_UNKNOWN));

static_assert(same(cu::DeviceAttribute::multiprocessor_count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
static_assert(same(cu::DeviceAttribute::l2_cache_size, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE));
static_assert(same(cu::DeviceAttribute::compute_capability_major,
                   CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
static_assert(same(cu::DeviceAttribute::compute_capability_minor,
                   CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
static_assert(same(cu::DeviceAttribute::max_shared_memory_per_block_optin,
                   CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));

static_assert(same(cu::FunctionAttribute::max_threads_per_block, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
static_assert(same(cu::FunctionAttribute::shared_size_bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
static_assert(same(cu::FunctionAttribute::max_dynamic_shared_size_bytes,
                   CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES));
static_assert(same(cu::FunctionAttribute::required_cluster_width, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH));
static_assert(same(cu::FunctionAttribute::required_cluster_height,
                   CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT));
static_assert(same(cu::FunctionAttribute::required_cluster_depth, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH));
static_assert(same(cu::FunctionAttribute::non_portable_cluster_size_allowed,
                   CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED));

static_assert(same(cu::JitOption::info_log_buffer, CU_JIT_INFO_LOG_BUFFER));
static_assert(same(cu::JitOption::info_log_buffer_size_bytes, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES));
static_assert(same(cu::JitOption::error_log_buffer, CU_JIT_ERROR_LOG_BUFFER));
static_assert(same(cu::JitOption::error_log_buffer_size_bytes, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES));
static_assert(same(cu::JitOption::log_verbose, CU_JIT_LOG_VERBOSE));
static_assert(same(cu::JitInput::ptx, CU_JIT_INPUT_PTX));

static_assert(same(cu::TensorMapDataType::uint8, CU_TENSOR_MAP_DATA_TYPE_UINT8));
static_assert(same(cu::TensorMapDataType::uint16, CU_TENSOR_MAP_DATA_TYPE_UINT16));
static_assert(same(cu::TensorMapDataType::uint32, CU_TENSOR_MAP_DATA_TYPE_UINT32));
static_assert(same(cu::TensorMapDataType::int32, CU_TENSOR_MAP_DATA_TYPE_INT32));
static_assert(same(cu::TensorMapDataType::uint64, CU_TENSOR_MAP_DATA_TYPE_UINT64));
static_assert(same(cu::TensorMapDataType::int64, CU_TENSOR_MAP_DATA_TYPE_INT64));
static_assert(same(cu::TensorMapDataType::float16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16));
static_assert(same(cu::TensorMapDataType::float32, CU_TENSOR_MAP_DATA_TYPE_FLOAT32));
static_assert(same(cu::TensorMapDataType::float64, CU_TENSOR_MAP_DATA_TYPE_FLOAT64));
static_assert(same(cu::TensorMapDataType::bfloat16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16));
static_assert(same(cu::TensorMapDataType::tfloat32, CU_TENSOR_MAP_DATA_TYPE_TFLOAT32));

// The runtime passes the sidecar's enumerations to the driver unchanged.
template <class Ours, class Theirs>
constexpr bool same_value(Ours ours, Theirs theirs) {
  return static_cast<int>(ours) == static_cast<int>(theirs);
}
static_assert(same_value(Interleave::none, CU_TENSOR_MAP_INTERLEAVE_NONE));
static_assert(same_value(Interleave::b16, CU_TENSOR_MAP_INTERLEAVE_16B));
static_assert(same_value(Interleave::b32, CU_TENSOR_MAP_INTERLEAVE_32B));
static_assert(same_value(Swizzle::none, CU_TENSOR_MAP_SWIZZLE_NONE));
static_assert(same_value(Swizzle::b32, CU_TENSOR_MAP_SWIZZLE_32B));
static_assert(same_value(Swizzle::b64, CU_TENSOR_MAP_SWIZZLE_64B));
static_assert(same_value(Swizzle::b128, CU_TENSOR_MAP_SWIZZLE_128B));
static_assert(same_value(L2Promotion::none, CU_TENSOR_MAP_L2_PROMOTION_NONE));
static_assert(same_value(L2Promotion::b64, CU_TENSOR_MAP_L2_PROMOTION_L2_64B));
static_assert(same_value(L2Promotion::b128, CU_TENSOR_MAP_L2_PROMOTION_L2_128B));
static_assert(same_value(L2Promotion::b256, CU_TENSOR_MAP_L2_PROMOTION_L2_256B));
static_assert(same_value(OobFill::zero, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
static_assert(same_value(OobFill::nan, CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA));
static_assert(sizeof(TensorMap) == sizeof(CUtensorMap) && alignof(TensorMap) == 64);

static_assert(same(cu::LaunchAttributeId::cooperative, CU_LAUNCH_ATTRIBUTE_COOPERATIVE));
static_assert(same(cu::LaunchAttributeId::cluster_dimension, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION));
static_assert(same(cu::LaunchAttributeId::programmatic_stream_serialization,
                   CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION));
static_assert(same(cu::kStreamNonBlocking, CU_STREAM_NON_BLOCKING));
static_assert(same(cu::kEventDisableTiming, CU_EVENT_DISABLE_TIMING));
static_assert(same(cu::CaptureMode::global, CU_STREAM_CAPTURE_MODE_GLOBAL));
static_assert(same(cu::CaptureMode::thread_local_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
static_assert(same(cu::CaptureMode::relaxed, CU_STREAM_CAPTURE_MODE_RELAXED));
static_assert(same(cu::kEventDefault, CU_EVENT_DEFAULT));
static_assert(same(cu::DevicePtr{}, CUdeviceptr{}) && same(cu::Ordinal{}, CUdevice{}));

static_assert(sizeof(cu::LaunchAttributeValue) == sizeof(CUlaunchAttributeValue));
static_assert(alignof(cu::LaunchAttributeValue) == alignof(CUlaunchAttributeValue));
static_assert(offsetof(cu::LaunchAttributeValue, cluster_dim.y) ==
              offsetof(CUlaunchAttributeValue, clusterDim.y));
static_assert(offsetof(cu::LaunchAttributeValue, cluster_dim.z) ==
              offsetof(CUlaunchAttributeValue, clusterDim.z));
static_assert(sizeof(cu::LaunchAttribute) == sizeof(CUlaunchAttribute));
static_assert(offsetof(cu::LaunchAttribute, value) == offsetof(CUlaunchAttribute, value));
static_assert(sizeof(cu::KernelNode) == sizeof(CUDA_KERNEL_NODE_PARAMS));
static_assert(offsetof(cu::KernelNode, grid_x) == offsetof(CUDA_KERNEL_NODE_PARAMS, gridDimX));
static_assert(offsetof(cu::KernelNode, block_x) == offsetof(CUDA_KERNEL_NODE_PARAMS, blockDimX));
static_assert(offsetof(cu::KernelNode, shared_bytes) == offsetof(CUDA_KERNEL_NODE_PARAMS, sharedMemBytes));
static_assert(offsetof(cu::KernelNode, parameters) == offsetof(CUDA_KERNEL_NODE_PARAMS, kernelParams));
static_assert(offsetof(cu::KernelNode, kernel) == offsetof(CUDA_KERNEL_NODE_PARAMS, kern));
static_assert(same(cu::GraphNodeType::kernel, CU_GRAPH_NODE_TYPE_KERNEL));
static_assert(same(cu::GraphNodeType::copy, CU_GRAPH_NODE_TYPE_MEMCPY));
static_assert(same(cu::GraphNodeType::fill, CU_GRAPH_NODE_TYPE_MEMSET));
static_assert(same(cu::GraphNodeType::graph, CU_GRAPH_NODE_TYPE_GRAPH));
static_assert(sizeof(cu::LaunchConfig) == sizeof(CUlaunchConfig));
static_assert(offsetof(cu::LaunchConfig, grid_z) == offsetof(CUlaunchConfig, gridDimZ));
static_assert(offsetof(cu::LaunchConfig, block_x) == offsetof(CUlaunchConfig, blockDimX));
static_assert(offsetof(cu::LaunchConfig, block_z) == offsetof(CUlaunchConfig, blockDimZ));
static_assert(offsetof(cu::LaunchConfig, shared_bytes) == offsetof(CUlaunchConfig, sharedMemBytes));
static_assert(offsetof(cu::LaunchConfig, stream) == offsetof(CUlaunchConfig, hStream));
static_assert(offsetof(cu::LaunchConfig, attributes) == offsetof(CUlaunchConfig, attrs));
static_assert(offsetof(cu::LaunchConfig, attribute_count) == offsetof(CUlaunchConfig, numAttrs));

// Two calls pass arguments alike if they have the same number of arguments, with the same sizes, and pointers
// and floats at the same positions. Floats have separate registers.
template <class A, class B>
constexpr bool passed_alike =
    sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>&& std::is_floating_point_v<A> ==
                                  std::is_floating_point_v<B>;

template <class Ours, class Theirs>
constexpr bool agree = false;
template <class... Ours, class... Theirs>
requires(sizeof...(Ours) == sizeof...(Theirs)) constexpr bool agree<cu::Entry<Ours...>, CUresult(Theirs...)> =
    (passed_alike<Ours, Theirs> && ...);

}  // namespace

// cuda.h defines macros that rename calls to their current versions. These macros turn the names into
// strings, so that they can be compared with the runtime's names.
#define NAME_OF(call) NAME_OF_EXPANDED(call)
#define NAME_OF_EXPANDED(call) #call
#define CHECK_ENTRY(entry, call)                                     \
  static_assert(agree<decltype(cu::Driver::entry), decltype(call)>); \
  CHECK(std::string_view(driver.entry.name()) == NAME_OF(call))

TEST_CASE("every entry point has the name and arguments of cuda.h") {
  const cu::Driver driver(PTXBUILDER_MOCK_LIBCUDA);
  CHECK_ENTRY(init, cuInit);
  CHECK_ENTRY(driver_get_version, cuDriverGetVersion);
  CHECK_ENTRY(device_get_count, cuDeviceGetCount);
  CHECK_ENTRY(device_get, cuDeviceGet);
  CHECK_ENTRY(device_get_name, cuDeviceGetName);
  CHECK_ENTRY(device_get_attribute, cuDeviceGetAttribute);
  CHECK_ENTRY(device_total_mem, cuDeviceTotalMem);
  CHECK_ENTRY(device_primary_ctx_retain, cuDevicePrimaryCtxRetain);
  CHECK_ENTRY(device_primary_ctx_release, cuDevicePrimaryCtxRelease);
  CHECK_ENTRY(ctx_set_current, cuCtxSetCurrent);
  CHECK_ENTRY(ctx_get_current, cuCtxGetCurrent);
  CHECK_ENTRY(ctx_get_device, cuCtxGetDevice);
  CHECK_ENTRY(mem_get_info, cuMemGetInfo);
  CHECK_ENTRY(mem_alloc, cuMemAlloc);
  CHECK_ENTRY(mem_free, cuMemFree);
  CHECK_ENTRY(mem_host_alloc, cuMemHostAlloc);
  CHECK_ENTRY(mem_host_get_device_pointer, cuMemHostGetDevicePointer);
  CHECK_ENTRY(mem_free_host, cuMemFreeHost);
  CHECK_ENTRY(memcpy_htod_async, cuMemcpyHtoDAsync);
  CHECK_ENTRY(memcpy_dtoh_async, cuMemcpyDtoHAsync);
  CHECK_ENTRY(memset_d8_async, cuMemsetD8Async);
  CHECK_ENTRY(stream_create, cuStreamCreate);
  CHECK_ENTRY(stream_query, cuStreamQuery);
  CHECK_ENTRY(stream_synchronize, cuStreamSynchronize);
  CHECK_ENTRY(stream_wait_event, cuStreamWaitEvent);
  CHECK_ENTRY(stream_begin_capture, cuStreamBeginCapture);
  CHECK_ENTRY(stream_end_capture, cuStreamEndCapture);
  CHECK_ENTRY(thread_exchange_capture_mode, cuThreadExchangeStreamCaptureMode);
  CHECK_ENTRY(graph_instantiate, cuGraphInstantiateWithFlags);
  CHECK_ENTRY(graph_upload, cuGraphUpload);
  CHECK_ENTRY(graph_launch, cuGraphLaunch);
  CHECK_ENTRY(graph_exec_destroy, cuGraphExecDestroy);
  CHECK_ENTRY(graph_destroy, cuGraphDestroy);
  CHECK_ENTRY(stream_destroy, cuStreamDestroy);
  CHECK_ENTRY(event_create, cuEventCreate);
  CHECK_ENTRY(event_record, cuEventRecord);
  CHECK_ENTRY(event_query, cuEventQuery);
  CHECK_ENTRY(event_destroy, cuEventDestroy);
  CHECK_ENTRY(library_load_data, cuLibraryLoadData);
  CHECK_ENTRY(library_get_kernel, cuLibraryGetKernel);
  CHECK_ENTRY(kernel_get_function, cuKernelGetFunction);
  CHECK_ENTRY(kernel_get_attribute, cuKernelGetAttribute);
  CHECK_ENTRY(kernel_set_attribute, cuKernelSetAttribute);
#if CUDA_VERSION >= 12040
  CHECK_ENTRY(kernel_get_param_info, cuKernelGetParamInfo);
#endif
  CHECK_ENTRY(launch_kernel_ex, cuLaunchKernelEx);
  CHECK_ENTRY(occupancy_max_potential_cluster_size, cuOccupancyMaxPotentialClusterSize);
  CHECK_ENTRY(link_create, cuLinkCreate);
  CHECK_ENTRY(link_add_data, cuLinkAddData);
  CHECK_ENTRY(link_complete, cuLinkComplete);
  CHECK_ENTRY(link_destroy, cuLinkDestroy);
  CHECK_ENTRY(tensor_map_encode_tiled, cuTensorMapEncodeTiled);
  CHECK_ENTRY(tensor_map_encode_im2col, cuTensorMapEncodeIm2col);
  // The runtime calls the version of this function before CUDA 12.8, because older drivers have it too. Both
  // versions take the same arguments.
  static_assert(agree<decltype(cu::Driver::event_elapsed_time), decltype(cuEventElapsedTime)>);
}

}  // namespace ptxbuilder::test::driver_layout_test
