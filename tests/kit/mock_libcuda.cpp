#include "mock_libcuda.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <sstream>
#include <string>

using namespace ptxbuilder::runtime::cu;

namespace {

MockDriver mock;
thread_local Context current = nullptr;
thread_local CaptureMode capture_mode = CaptureMode::global;
constexpr auto kNoContext = static_cast<Status>(201);  // CUDA_ERROR_INVALID_CONTEXT

// Handles are small numbers that are never dereferenced.
template <class Handle>
Handle handle(uintptr_t number) {
  return reinterpret_cast<Handle>(number);
}

// Returns whether a call ends the current capture, because neither the capture nor the thread is relaxed.
bool ends_capture() {
  if (!mock.capturing || mock.capture_mode == CaptureMode::relaxed || capture_mode == CaptureMode::relaxed)
    return false;
  ++std::atomic_ref(mock.ended_captures);
  return true;
}
constexpr auto kCaptureUnsupported = static_cast<Status>(900);  // CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED

Status answer_query() {
  if (mock.not_ready_answers < 0) return Status::not_ready;
  if (mock.not_ready_answers > 0) {
    --mock.not_ready_answers;
    return Status::not_ready;
  }
  return mock.stream;
}

void write_log(const char* text, unsigned count, JitOption* options, void** values) {
  for (unsigned i = 0; i < count; ++i)
    if (options[i] == JitOption::error_log_buffer) std::strcpy(static_cast<char*>(values[i]), text);
}

// A loaded PTX kernel. Its handle is kFirstRead plus its index in a list.
struct ReadKernel {
  std::vector<size_t> parameter_sizes;
  int required_cluster[3] = {0, 0, 0};
};
constexpr uintptr_t kFirstRead = 16;
std::vector<ReadKernel> read_kernels;

ReadKernel read_ptx(const std::string& ptx) {
  ReadKernel kernel;
  const size_t entry = ptx.find(".entry"), body = ptx.find("\n{", entry);
  std::istringstream head(ptx.substr(entry, body - entry));
  for (std::string line; std::getline(head, line);) {
    const size_t bytes = line.find('[');
    if (line.find(".param") != std::string::npos)
      kernel.parameter_sizes.push_back(bytes != std::string::npos ? std::stoul(line.substr(bytes + 1))
                                       : line.find("64 ") != std::string::npos ? 8
                                                                               : 4);
    if (const size_t at = line.find(".reqnctapercluster"); at != std::string::npos)
      std::sscanf(line.c_str() + at, ".reqnctapercluster %d, %d, %d", &kernel.required_cluster[0],
                  &kernel.required_cluster[1], &kernel.required_cluster[2]);
  }
  return kernel;
}

// Returns the entry of a kernel or function. Returns null if it was not read from PTX, so that the test
// defines the kernel's properties.
template <class Handle>
const ReadKernel* read_kernel(Handle of) {
  const auto number = reinterpret_cast<uintptr_t>(of);
  return number >= kFirstRead ? &read_kernels.at(number - kFirstRead) : nullptr;
}
template <class Handle>
const std::vector<size_t>& sizes_of(Handle of) {
  const ReadKernel* read = read_kernel(of);
  return read ? read->parameter_sizes : mock.parameter_sizes;
}
template <class Handle>
const int* cluster_of(Handle of) {
  const ReadKernel* read = read_kernel(of);
  return read ? read->required_cluster : mock.required_cluster;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

MockDriver* mock_driver() { return &mock; }

Status cuGetErrorName(Status status, const char** text) {
  *text = status == Status::no_device         ? "CUDA_ERROR_NO_DEVICE"
          : status == Status::illegal_address ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                                              : "CUDA_ERROR_OF_MOCK";
  return Status::success;
}
Status cuGetErrorString(Status, const char** text) {
  *text = "text of the mock";
  return Status::success;
}

Status cuInit(unsigned) { return mock.init; }
Status cuDriverGetVersion(int* version) {
  *version = 12040;
  return Status::success;
}
Status cuDeviceGetCount(int* count) {
  *count = mock.device_count;
  return Status::success;
}
Status cuDeviceGet(Ordinal* ordinal, int i) {
  *ordinal = i;
  return Status::success;
}
Status cuDeviceGetName(char* name, int bytes, Ordinal) {
  std::strncpy(name, "Mock H100", static_cast<size_t>(bytes));
  return Status::success;
}
Status cuDeviceGetAttribute(int* value, DeviceAttribute attribute, Ordinal) {
  switch (attribute) {
    case DeviceAttribute::l2_cache_size:
      *value = 1 << 13;
      break;
    case DeviceAttribute::multiprocessor_count:
      *value = 132;
      break;
    case DeviceAttribute::compute_capability_major:
      *value = mock.major;
      break;
    case DeviceAttribute::compute_capability_minor:
      *value = mock.minor;
      break;
    case DeviceAttribute::max_shared_memory_per_block_optin:
      *value = 232448;
      break;
    default:
      return Status::invalid_value;
  }
  return Status::success;
}
Status cuDeviceTotalMem_v2(size_t* bytes, Ordinal) {
  *bytes = 1000;
  return Status::success;
}
Status cuDevicePrimaryCtxRetain(Context* context, Ordinal ordinal) {
  ++mock.context_retains;
  *context = handle<Context>(1 + static_cast<uintptr_t>(ordinal));
  return Status::success;
}
Status cuDevicePrimaryCtxRelease_v2(Ordinal) {
  ++mock.context_releases;
  return Status::success;
}
Status cuCtxSetCurrent(Context context) {
  ++std::atomic_ref(mock.context_changes);
  current = context;
  return Status::success;
}
Status cuCtxGetCurrent(Context* context) {
  ++std::atomic_ref(mock.context_questions);
  *context = current;
  return Status::success;
}
// The caller's contexts have the numbers 100, 101, ... for GPUs 0, 1, ...
Status cuCtxGetDevice(Ordinal* ordinal) {
  const auto number = reinterpret_cast<uintptr_t>(current);
  *ordinal = static_cast<Ordinal>(number >= 100 ? number - 100 : number - 1);
  return current ? Status::success : kNoContext;
}

Status cuStreamGetCtx(Stream, Context* context) {
  *context = mock.stream_context;
  return Status::success;
}

Status cuMemGetInfo_v2(size_t* free, size_t* total) {
  if (!current) return kNoContext;
  *free = 600;
  *total = 1000;
  return Status::success;
}
Status cuMemAlloc_v2(DevicePtr* address, size_t bytes) {
  if (!current) return kNoContext;
  if (ends_capture()) return kCaptureUnsupported;
  static auto& all =
      *new std::vector<void*>;  // keeps the memory of a lost context reachable for leak checkers
  if (mock.alloc != Status::success) return mock.alloc;
  ++mock.allocations;
  all.push_back(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  *address = reinterpret_cast<DevicePtr>(all.back());
  return Status::success;
}
Status cuMemFree_v2(DevicePtr address) {
  if (!current) return kNoContext;
  if (ends_capture()) return kCaptureUnsupported;
  --mock.allocations;
  std::free(reinterpret_cast<void*>(address));
  return Status::success;
}
Status cuMemcpyHtoDAsync_v2(DevicePtr to, const void* from, size_t bytes, Stream) {
  if (!current) return kNoContext;
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return Status::success;
}
Status cuMemcpyDtoHAsync_v2(void* to, DevicePtr from, size_t bytes, Stream) {
  if (!current) return kNoContext;
  std::memcpy(to, reinterpret_cast<void*>(from), bytes);
  return Status::success;
}
Status cuMemsetD8Async(DevicePtr to, unsigned char value, size_t bytes, Stream) {
  if (!current) return kNoContext;
  std::memset(reinterpret_cast<void*>(to), value, bytes);
  return Status::success;
}

Status cuStreamCreate(Stream* stream, unsigned) {
  if (!current) return kNoContext;
  if (ends_capture()) return kCaptureUnsupported;
  ++mock.streams;
  *stream = handle<Stream>(2);
  return Status::success;
}
Status cuStreamQuery(Stream) { return ends_capture() ? kCaptureUnsupported : answer_query(); }
Status cuStreamSynchronize(Stream) {
  ++mock.stream_synchronizes;
  return Status::success;
}
Status cuStreamWaitEvent(Stream, Event, unsigned) {
  if (!current) return kNoContext;
  return Status::success;
}
Status cuStreamBeginCapture_v2(Stream, CaptureMode mode) {
  mock.capturing = true;
  mock.capture_mode = mode;
  ++mock.captures;
  return Status::success;
}
Status cuThreadExchangeStreamCaptureMode(CaptureMode* mode) {
  std::swap(*mode, capture_mode);
  std::atomic_ref(mock.relaxed_threads) +=
      (capture_mode == CaptureMode::relaxed) - (*mode == CaptureMode::relaxed);
  return Status::success;
}
Status cuStreamIsCapturing(Stream, int* status) {
  *status = mock.capturing ? 1 : 0;
  return Status::success;
}
Status cuStreamEndCapture(Stream, Graph* graph) {
  mock.capturing = false;
  ++mock.captured_graphs;
  *graph = handle<Graph>(6);
  return Status::success;
}
Status cuGraphInstantiateWithFlags(GraphExec* exec, Graph, unsigned long long) {
  ++mock.graphs;
  *exec = handle<GraphExec>(7);
  return Status::success;
}
Status cuGraphUpload(GraphExec, Stream) { return Status::success; }
Status cuGraphLaunch(GraphExec, Stream stream) {
  if (!current) return kNoContext;
  mock.graph_launches.push_back(stream);
  return Status::success;
}
Status cuGraphExecDestroy(GraphExec) {
  --mock.graphs;
  return Status::success;
}
Status cuGraphDestroy(Graph) {
  --mock.captured_graphs;
  return Status::success;
}
Status cuStreamDestroy_v2(Stream) {
  --mock.streams;
  return Status::success;
}
Status cuEventCreate(Event* event, unsigned) {
  if (!current) return kNoContext;
  *event = handle<Event>(static_cast<uintptr_t>(++mock.events));
  return Status::success;
}
Status cuEventRecord(Event, Stream) {
  if (!current) return kNoContext;
  ++mock.records;
  return Status::success;
}
Status cuEventQuery(Event) { return answer_query(); }
Status cuEventElapsedTime(float* milliseconds, Event, Event) {
  *milliseconds = 0.25f;
  return Status::success;
}
Status cuEventDestroy_v2(Event) {
  --mock.events;
  return Status::success;
}

Status cuLibraryLoadData(Library* library, const void* image, JitOption* options, void** values,
                         unsigned count, int*, void**, unsigned) {
  if (ends_capture()) return kCaptureUnsupported;
  write_log(mock.jit_errors, count, options, values);
  if (mock.load != Status::success) return mock.load;
  ++mock.libraries;
  *library = handle<Library>(3);
  if (mock.reads_ptx) {
    *library = handle<Library>(kFirstRead + read_kernels.size());
    read_kernels.push_back(read_ptx(static_cast<const char*>(image)));
  }
  return Status::success;
}
Status cuLibraryGetKernel(Kernel* kernel, Library library, const char*) {
  const auto number = reinterpret_cast<uintptr_t>(library);
  *kernel = handle<Kernel>(number >= kFirstRead ? number : 4);
  return mock.get_function;
}
Status cuKernelGetFunction(Function* function, Kernel kernel) {
  if (!current) return kNoContext;
  *function = handle<Function>(reinterpret_cast<uintptr_t>(kernel));
  return Status::success;
}
Status cuKernelGetAttribute(int* value, FunctionAttribute attribute, Kernel kernel, Ordinal) {
  switch (attribute) {
    case FunctionAttribute::max_threads_per_block:
      *value = mock.max_threads;
      break;
    case FunctionAttribute::shared_size_bytes:
      *value = mock.static_shared;
      break;
    case FunctionAttribute::required_cluster_width:
      *value = cluster_of(kernel)[0];
      break;
    case FunctionAttribute::required_cluster_height:
      *value = cluster_of(kernel)[1];
      break;
    case FunctionAttribute::required_cluster_depth:
      *value = cluster_of(kernel)[2];
      break;
    default:
      return Status::invalid_value;
  }
  return Status::success;
}
Status cuKernelSetAttribute(FunctionAttribute attribute, int value, Kernel, Ordinal) {
  if (attribute == FunctionAttribute::max_dynamic_shared_size_bytes)
    mock.max_dynamic_shared = value;
  else if (attribute == FunctionAttribute::non_portable_cluster_size_allowed)
    mock.non_portable = value;
  else
    return Status::invalid_value;
  return Status::success;
}
Status cuKernelGetParamInfo(Kernel kernel, size_t i, size_t* offset, size_t* size) {
  const std::vector<size_t>& sizes = sizes_of(kernel);
  if (i >= sizes.size()) return Status::invalid_value;
  *offset = 0;
  *size = sizes[i];
  return Status::success;
}
Status cuLaunchKernelEx(const LaunchConfig* config, Function function, void** parameters, void**) {
  if (!current) return kNoContext;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (mock.launch != Status::success) return mock.launch;
  ++mock.launches;
  mock.launch_context = current;
  mock.config = *config;
  mock.attributes.assign(config->attributes, config->attributes + config->attribute_count);
  mock.parameters.clear();
  const std::vector<size_t>& sizes = sizes_of(function);
  for (size_t i = 0; i < sizes.size(); ++i) {
    uint64_t value = 0;
    std::memcpy(&value, parameters[i], std::min<size_t>(8, sizes[i]));
    mock.parameters.push_back(value);
  }
  if (mock.parameters.size() == 2 && mock.parameter_sizes[0] == 128) {
    static const uint64_t first = mock.parameters[0] - 128 * mock.parameters[1];
    const auto stream = reinterpret_cast<uintptr_t>(config->stream);
    mock.mixed_launches +=
        stream != mock.parameters[1] + 16 || mock.parameters[0] != first + 128 * (stream - 16);
  }
  return Status::success;
}
Status cuOccupancyMaxPotentialClusterSize(int* size, Function, const LaunchConfig*) {
  if (!current) return kNoContext;
  *size = mock.non_portable ? mock.max_cluster : std::min(mock.max_cluster, 8);
  return Status::success;
}

Status cuLinkCreate_v2(unsigned count, JitOption* options, void** values, LinkState* state) {
  write_log(mock.jit_errors, count, options, values);
  *state = handle<LinkState>(5);
  return Status::success;
}
Status cuLinkAddData_v2(LinkState, JitInput, void*, size_t, const char*, unsigned, JitOption*, void**) {
  return mock.load;
}
Status cuLinkComplete(LinkState, void** cubin, size_t* bytes) {
  static char text[] = "cubin of the mock";
  *cubin = text;
  *bytes = sizeof text - 1;
  return Status::success;
}
Status cuLinkDestroy(LinkState) { return Status::success; }

// The map's first bytes hold the tensor's address.
Status cuTensorMapEncodeTiled(void* map, TensorMapDataType, uint32_t rank, void* address, const uint64_t*,
                              const uint64_t*, const uint32_t* box, const uint32_t*, int, int, int, int) {
  if (!current) return kNoContext;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  ++mock.encodes;
  mock.box.assign(box, box + rank);
  std::memset(map, 0xff, 128);
  std::memcpy(map, &address, sizeof address);
  return mock.encode;
}
// The recorded box holds the channels, the pixels, and the first corners.
Status cuTensorMapEncodeIm2col(void* map, TensorMapDataType type, uint32_t, void* address,
                               const uint64_t* shape, const uint64_t* strides, const int* lower,
                               const int* upper, uint32_t channels, uint32_t pixels, const uint32_t* steps,
                               int interleave, int swizzle, int promotion, int fill) {
  const std::array box = {channels, pixels, static_cast<uint32_t>(lower[0]), static_cast<uint32_t>(upper[0]),
                          steps[1]};
  return cuTensorMapEncodeTiled(map, type, static_cast<uint32_t>(box.size()), address, shape, strides,
                                box.data(), steps, interleave, swizzle, promotion, fill);
}

}  // extern "C"
#pragma GCC visibility pop
