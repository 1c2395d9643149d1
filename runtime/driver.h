// The CUDA driver's entry points. They are looked up in libcuda at run time, so that CUDA is not needed to
// build and link the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ptxbuilder/dtype.h"
#include "ptxbuilder/error.h"

// The types and values of the CUDA driver API that are used here. They have the names in the manual without
// the CU_ prefixes. tests/runtime/driver_layout_test.cpp compares all of them with cuda.h.
namespace ptxbuilder::runtime::cu {

enum class Status : int {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  not_initialized = 3,
  deinitialized = 4,
  stub_library = 34,
  no_device = 100,
  invalid_image = 200,
  no_binary_for_gpu = 209,
  ecc_uncorrectable = 214,
  invalid_ptx = 218,
  jit_compiler_not_found = 221,
  unsupported_ptx_version = 222,
  contained = 226,
  invalid_source = 300,
  not_found = 500,
  not_ready = 600,
  illegal_address = 700,
  launch_out_of_resources = 701,
  peer_access_already_enabled = 704,
  device_assert = 710,
  hardware_stack_error = 714,
  illegal_instruction = 715,
  misaligned_address = 716,
  invalid_address_space = 717,
  invalid_pc = 718,
  launch_failed = 719,
  not_supported = 801,
  system_driver_mismatch = 803,
  invalid_cluster_size = 912,
  unknown = 999,
};

using DevicePtr = uint64_t;
using Ordinal = int;  // CUdevice
using Context = struct ContextHandle*;
using Library = struct LibraryHandle*;
using Kernel = struct KernelHandle*;
using Function = struct FunctionHandle*;
using Stream = struct StreamHandle*;
using Event = struct EventHandle*;
using Graph = struct GraphHandle*;
using GraphExec = struct GraphExecHandle*;
using GraphNode = struct GraphNodeHandle*;
using LinkState = struct LinkHandle*;

enum class DeviceAttribute : int {
  multiprocessor_count = 16,
  l2_cache_size = 38,
  compute_capability_major = 75,
  compute_capability_minor = 76,
  max_shared_memory_per_block_optin = 97,
};

enum class FunctionAttribute : int {
  max_threads_per_block = 0,
  shared_size_bytes = 1,
  max_dynamic_shared_size_bytes = 8,
  required_cluster_width = 11,
  required_cluster_height = 12,
  required_cluster_depth = 13,
  non_portable_cluster_size_allowed = 14,
};

enum class JitOption : int {
  info_log_buffer = 3,
  info_log_buffer_size_bytes = 4,
  error_log_buffer = 5,
  error_log_buffer_size_bytes = 6,
  log_verbose = 12,
};

enum class JitInput : int { ptx = 1 };

enum class TensorMapDataType : int {
  uint8 = 0,
  uint16 = 1,
  uint32 = 2,
  int32 = 3,
  uint64 = 4,
  int64 = 5,
  float16 = 6,
  float32 = 7,
  float64 = 8,
  bfloat16 = 9,
  tfloat32 = 11,
};

enum class LaunchAttributeId : int {
  cooperative = 2,
  cluster_dimension = 4,
  programmatic_stream_serialization = 6
};

union alignas(8) LaunchAttributeValue {
  char pad[64];
  int cooperative;
  struct {
    unsigned x, y, z;
  } cluster_dim;
  int programmatic_stream_serialization_allowed;
};

struct LaunchAttribute {
  LaunchAttributeId id;
  char pad[4];
  LaunchAttributeValue value;
};

struct LaunchConfig {
  unsigned grid_x, grid_y, grid_z;
  unsigned block_x, block_y, block_z;
  unsigned shared_bytes;  // dynamic shared memory
  Stream stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};

// CUDA_KERNEL_NODE_PARAMS_v2, a launch in a graph. Either `function` or `kernel` may be null.
struct KernelNode {
  Function function;
  unsigned grid_x, grid_y, grid_z;
  unsigned block_x, block_y, block_z;
  unsigned shared_bytes;
  void** parameters;
  void** extra;
  Kernel kernel;
  Context context;
};
enum class GraphNodeType : int { kernel = 0, copy = 1, fill = 2, graph = 4 };

constexpr unsigned kHostAllocPortable = 1, kHostAllocDeviceMap = 2;
constexpr unsigned kStreamNonBlocking = 1;
constexpr unsigned kEventDefault = 0, kEventDisableTiming = 2;
enum class CaptureMode : int { global = 0, thread_local_ = 1, relaxed = 2 };

// Returns the element type of a tensor map for elements of `type`. 8-bit floats are copied as bytes.
TensorMapDataType data_type(DType type);

// An open shared library, such as libcuda. It stays open until the process ends, because the driver's threads
// outlive every object here.
class SharedLibrary {
 public:
  // Throws an Error that contains the loader's reason if there is no such library.
  explicit SharedLibrary(const std::string& path);

  void* find(const char* symbol) const;    // null if the library does not have the symbol
  void* symbol(const char* symbol) const;  // throws an Error that names the required CUDA version
  [[noreturn]] void fail(std::string_view call, Status status) const;
  std::string describe(
      Status status) const;  // for example "CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device is detected"
  std::string explain(Status status) const;  // describes the status, with advice if there is any

 private:
  std::string path_;
  void* handle_ = nullptr;
};

// An entry point. A call throws an Error for every status except success.
template <class... Args>
class Entry {
 public:
  enum class Need : uint8_t { required, optional };

  Entry(const SharedLibrary& library, const char* name, Need need = Need::required)
      : library_(&library),
        name_(name),
        function_(
            reinterpret_cast<Pointer>(need == Need::required ? library.symbol(name) : library.find(name))) {}

  void operator()(Args... args) const {
    if (Status result = function_(args...); result != Status::success) library_->fail(name_, result);
  }
  // Calls the entry point without throwing, for callers that examine the status themselves.
  [[nodiscard]] Status status(Args... args) const { return function_(args...); }

  bool available() const { return function_ != nullptr; }
  const char* name() const { return name_; }

 private:
  using Pointer = Status (*)(Args...);

  const SharedLibrary* library_;
  const char* name_;
  Pointer function_;
};

// All entry points that are used. If the driver has several versions of a call, the name includes the
// version's suffix, which cuda.h appends through a macro.
struct Driver {
  explicit Driver(const std::string& path = "libcuda.so.1") : loaded(path) {}
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  SharedLibrary loaded;

  Entry<unsigned> init{loaded, "cuInit"};
  Entry<int*> driver_get_version{loaded, "cuDriverGetVersion"};
  Entry<int*> device_get_count{loaded, "cuDeviceGetCount"};
  Entry<Ordinal*, int> device_get{loaded, "cuDeviceGet"};
  Entry<char*, int, Ordinal> device_get_name{loaded, "cuDeviceGetName"};
  Entry<int*, DeviceAttribute, Ordinal> device_get_attribute{loaded, "cuDeviceGetAttribute"};
  Entry<size_t*, Ordinal> device_total_mem{loaded, "cuDeviceTotalMem_v2"};
  Entry<Context*, Ordinal> device_primary_ctx_retain{loaded, "cuDevicePrimaryCtxRetain"};
  Entry<Ordinal> device_primary_ctx_release{loaded, "cuDevicePrimaryCtxRelease_v2"};
  Entry<Context> ctx_set_current{loaded, "cuCtxSetCurrent"};
  Entry<Context*> ctx_get_current{loaded, "cuCtxGetCurrent"};
  Entry<Ordinal*> ctx_get_device{loaded, "cuCtxGetDevice"};
  // Required only by kernels that access other GPUs.
  Entry<Context, unsigned /*0*/> ctx_enable_peer_access{loaded, "cuCtxEnablePeerAccess",
                                                        Entry<Context, unsigned>::Need::optional};

  Entry<size_t*, size_t*> mem_get_info{loaded, "cuMemGetInfo_v2"};
  Entry<DevicePtr*, size_t> mem_alloc{loaded, "cuMemAlloc_v2"};
  Entry<DevicePtr> mem_free{loaded, "cuMemFree_v2"};
  // The next three entries are required only by kernels that report.
  Entry<void**, size_t, unsigned> mem_host_alloc{loaded, "cuMemHostAlloc",
                                                 Entry<void**, size_t, unsigned>::Need::optional};
  Entry<DevicePtr*, void*, unsigned /*0*/> mem_host_get_device_pointer{
      loaded, "cuMemHostGetDevicePointer_v2", Entry<DevicePtr*, void*, unsigned>::Need::optional};
  Entry<void*> mem_free_host{loaded, "cuMemFreeHost", Entry<void*>::Need::optional};
  Entry<DevicePtr, const void*, size_t, Stream> memcpy_htod_async{loaded, "cuMemcpyHtoDAsync_v2"};
  Entry<void*, DevicePtr, size_t, Stream> memcpy_dtoh_async{loaded, "cuMemcpyDtoHAsync_v2"};
  Entry<DevicePtr, unsigned char, size_t, Stream> memset_d8_async{loaded, "cuMemsetD8Async"};

  Entry<Stream*, unsigned> stream_create{loaded, "cuStreamCreate"};
  Entry<Stream> stream_query{loaded, "cuStreamQuery"};
  Entry<Stream> stream_synchronize{loaded, "cuStreamSynchronize"};
  Entry<Stream> stream_destroy{loaded, "cuStreamDestroy_v2"};
  Entry<Event*, unsigned> event_create{loaded, "cuEventCreate"};
  Entry<Event, Stream> event_record{loaded, "cuEventRecord"};
  Entry<Stream, Event, unsigned> stream_wait_event{loaded, "cuStreamWaitEvent"};
  Entry<Stream, CaptureMode> stream_begin_capture{loaded, "cuStreamBeginCapture_v2"};
  Entry<Stream, int* /*CUstreamCaptureStatus: 0 if nothing is captured*/> stream_is_capturing{
      loaded, "cuStreamIsCapturing"};
  Entry<Stream, Graph*> stream_end_capture{loaded, "cuStreamEndCapture"};
  Entry<CaptureMode* /*in: the new mode, out: the previous mode*/> thread_exchange_capture_mode{
      loaded, "cuThreadExchangeStreamCaptureMode"};
  Entry<GraphExec*, Graph, unsigned long long /*flags*/> graph_instantiate{loaded,
                                                                           "cuGraphInstantiateWithFlags"};
  Entry<GraphExec, Stream> graph_upload{loaded, "cuGraphUpload"};
  Entry<GraphExec, Stream> graph_launch{loaded, "cuGraphLaunch"};
  Entry<GraphExec> graph_exec_destroy{loaded, "cuGraphExecDestroy"};
  Entry<Graph> graph_destroy{loaded, "cuGraphDestroy"};
  Entry<Event> event_query{loaded, "cuEventQuery"};
  Entry<float*, Event, Event> event_elapsed_time{loaded, "cuEventElapsedTime"};
  Entry<Event> event_destroy{loaded, "cuEventDestroy_v2"};

  // Kernels of a library have no context of their own. The driver loads them into the context in which they
  // are launched.
  Entry<Library*, const void*, JitOption*, void**, unsigned, int* /*library options*/, void**, unsigned>
      library_load_data{loaded, "cuLibraryLoadData"};
  Entry<Kernel*, Library, const char*> library_get_kernel{loaded, "cuLibraryGetKernel"};
  Entry<Function*, Kernel> kernel_get_function{loaded, "cuKernelGetFunction"};
  Entry<int*, FunctionAttribute, Kernel, Ordinal> kernel_get_attribute{loaded, "cuKernelGetAttribute"};
  Entry<FunctionAttribute, int, Kernel, Ordinal> kernel_set_attribute{loaded, "cuKernelSetAttribute"};
  // CUDA 12.4 added this entry.
  Entry<Kernel, size_t, size_t*, size_t*> kernel_get_param_info{
      loaded, "cuKernelGetParamInfo", Entry<Kernel, size_t, size_t*, size_t*>::Need::optional};
  Entry<const LaunchConfig*, Function, void**, void**> launch_kernel_ex{loaded, "cuLaunchKernelEx"};
  Entry<int*, Function, const LaunchConfig*> occupancy_max_potential_cluster_size{
      loaded, "cuOccupancyMaxPotentialClusterSize"};

  Entry<unsigned, JitOption*, void**, LinkState*> link_create{loaded, "cuLinkCreate_v2"};
  Entry<LinkState, JitInput, void*, size_t, const char*, unsigned, JitOption*, void**> link_add_data{
      loaded, "cuLinkAddData_v2"};
  Entry<LinkState, void**, size_t*> link_complete{loaded, "cuLinkComplete"};
  Entry<LinkState> link_destroy{loaded, "cuLinkDestroy"};

  Entry<void*, TensorMapDataType, uint32_t, void*, const uint64_t*, const uint64_t*, const uint32_t*,
        const uint32_t*, int /*interleave*/, int /*swizzle*/, int /*L2 promotion*/,
        int /*out-of-bounds fill*/>
      tensor_map_encode_tiled{loaded, "cuTensorMapEncodeTiled"};
  Entry<void*, TensorMapDataType, uint32_t, void*, const uint64_t*, const uint64_t*, const int* /*lower*/,
        const int* /*upper*/, uint32_t /*channels*/, uint32_t /*pixels*/, const uint32_t*, int, int, int, int>
      tensor_map_encode_im2col{loaded, "cuTensorMapEncodeIm2col"};
};

}  // namespace ptxbuilder::runtime::cu
