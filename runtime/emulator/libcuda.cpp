// An implementation of libcuda.so.1 on the emulator, for programs that launch exported kernels on a machine
// without a GPU. It provides the parts of the driver that such programs call, including memory, streams,
// events and graphs. Queued work is done before the call returns. As on a GPU, calls fail once a kernel has
// failed.
#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "runtime/driver.h"
#include "runtime/emulator/emulator.h"
#include "runtime/emulator/entry.h"
#include "runtime/emulator/libcuda_graphs.h"

using namespace ptxbuilder;
using namespace ptxbuilder::runtime;
using namespace ptxbuilder::runtime::cu;

namespace {

struct PtxKernel {
  const std::string& ptx;
  const runtime::Entry& entry;
  std::map<std::vector<uint32_t>, std::unique_ptr<Program>> programs = {};  // indexed by launch shape
};

struct PtxModule {
  std::string ptx;
  std::vector<runtime::Entry> entries;
  std::map<std::string, PtxKernel> functions = {};
};

// These objects exist until the process ends, because the driver's threads may still call functions then.
std::recursive_mutex& mutex = *new std::recursive_mutex;
std::string &last_kernel = *new std::string, &fatal_report = *new std::string;
Status fatal = Status::success;
thread_local std::string report;  // report of the thread's last call that failed

Emulator& device() {
  static Emulator& opened = *open_emulator().release();
  return opened;
}

Status failed(Status status, std::string words) {
  report = std::move(words);
  return status;
}

// Runs `body` unless a kernel has failed before, and returns its status. Returns `refused` for errors without
// a status of their own.
template <class Body>
Status guarded(Body&& body, Status refused = Status::invalid_value) {
  const std::lock_guard lock(mutex);
  if (fatal != Status::success) return failed(fatal, fatal_report);
  try {
    body();
    return Status::success;
  } catch (const EmulatorError& e) {
    fatal_report = e.what();
    return failed(fatal = Status::launch_failed, fatal_report);
  } catch (const Error& e) {
    return failed(e.kind() == Error::Kind::out_of_memory ? Status::out_of_memory : refused, e.what());
  } catch (const std::bad_alloc&) {
    return failed(Status::out_of_memory, "out of memory");
  } catch (const std::exception& e) {
    return failed(refused, e.what());
  }
}
Status settled() {
  return guarded([] {});
}
template <class T>
Status give(T* to, T value) {
  return guarded([&] { *to = value; });
}

DType dtype_of(TensorMapDataType type) {
  for (int i = 0; i <= static_cast<int>(DType::f64); ++i)
    if (data_type(static_cast<DType>(i)) == type) return static_cast<DType>(i);
  throw Error(fmt::format("the tensor map has type {}, which does not exist", static_cast<int>(type)));
}

TensorMapRecipe recipe_of(TensorMapDataType type, uint32_t rank, const uint32_t* element_strides,
                          int interleave, int swizzle, int promotion, int fill) {
  return {.dtype = dtype_of(type),
          .box = {},
          .element_strides = {element_strides, element_strides + rank},
          .interleave = static_cast<Interleave>(interleave),
          .swizzle = static_cast<Swizzle>(swizzle),
          .l2_promotion = static_cast<L2Promotion>(promotion),
          .oob_fill = static_cast<OobFill>(fill)};
}

Status load(PtxModule** module, const void* image) {
  constexpr std::string_view elf =
      "\x7f"
      "ELF";
  if (std::memcmp(image, elf.data(), elf.size()) == 0)
    return failed(
        Status::no_binary_for_gpu,
        "the emulator runs PTX text, but this is a cubin: export the kernel with --with-ptx or --ptx");
  return guarded(
      [&] {
        std::string ptx = static_cast<const char*>(image);
        std::vector<runtime::Entry> all = entries(ptx);
        *module = new PtxModule{std::move(ptx), std::move(all)};
      },
      Status::invalid_ptx);
}
Status find(PtxKernel** function, PtxModule* module, const char* name) {
  return guarded(
      [&] {
        for (const runtime::Entry& entry : module->entries)
          if (entry.name == name) {
            *function = &module->functions.try_emplace(name, module->ptx, entry).first->second;
            return;
          }
        throw Error(fmt::format("the module has no kernel '{}'", name));
      },
      Status::not_found);
}

runtime::Launch launch_of(const LaunchConfig& config, const runtime::Entry& entry) {
  runtime::Launch launch;
  launch.grid = {config.grid_x, config.grid_y, config.grid_z};
  launch.block = {config.block_x, config.block_y, config.block_z};
  if (entry.cluster) launch.cluster = *entry.cluster;
  launch.dynamic_shared_bytes = config.shared_bytes;
  for (unsigned i = 0; i < config.attribute_count; ++i) {
    const auto& [id, pad, value] = config.attributes[i];
    if (id == LaunchAttributeId::cluster_dimension)
      launch.cluster = {value.cluster_dim.x, value.cluster_dim.y, value.cluster_dim.z};
    if (id == LaunchAttributeId::cooperative) launch.cooperative = value.cooperative != 0;
    if (id == LaunchAttributeId::programmatic_stream_serialization)
      launch.programmatic_dependent_launch = value.programmatic_stream_serialization_allowed != 0;
  }
  return launch;
}

// Returns a pointer to each parameter. "extra" contains the bytes of the parameters one after the other.
std::vector<void*> unpacked(const runtime::Entry& entry, void** extra) {
  constexpr auto pointer_follows = uintptr_t{1};
  std::vector<void*> parameters;
  for (void** e = extra; e && *e; e += 2) {
    if (reinterpret_cast<uintptr_t>(*e) != pointer_follows) continue;
    uint64_t offset = 0;
    for (const EntryParameter& p : entry.parameters) {
      offset = (offset + p.align - 1) / p.align * p.align;
      parameters.push_back(static_cast<std::byte*>(e[1]) + offset);
      offset += p.bytes;
    }
  }
  return parameters;
}

Status run(PtxKernel& f, const LaunchConfig& config, void** parameters, void** extra) {
  return guarded([&] {
    std::vector<void*> of_extra;
    if (!parameters && !(of_extra = unpacked(f.entry, extra)).empty()) parameters = of_extra.data();
    const runtime::Launch launch = launch_of(config, f.entry);
    const auto& [grid, block, cluster, shared, overlaps, cooperative, stream, checked] = launch;
    auto& program =
        f.programs[{block.x, block.y, block.z, cluster.x, cluster.y, cluster.z, shared, cooperative}];
    if (!program) {
      Signature signature;
      signature.kernel = f.entry.name;
      signature.threads = block.x * block.y * block.z;
      signature.threads_y = block.y, signature.threads_z = block.z;
      signature.cluster = {cluster.x, cluster.y, cluster.z};
      signature.dynamic_shared_bytes = shared;
      signature.cooperative = cooperative;
      program = device().load(f.ptx, signature);
    }
    if (!parameters && !f.entry.parameters.empty()) throw Error("the launch has no list of parameters");
    device().launch(*program, launch, {parameters, f.entry.parameters.size()});
    device().synchronize(std::chrono::hours(24));
    last_kernel = f.entry.name;
  });
}

// The graph that receives operations that are queued on a stream during its capture.
GraphHandle* captured = nullptr;
cu::Stream captured_stream = nullptr;
bool is_captured(cu::Stream stream) { return captured && stream == captured_stream; }

KeptLaunch kept(PtxKernel& f, const LaunchConfig& config, void** parameters, void** extra) {
  KeptLaunch launch{&f, config, {config.attributes, config.attributes + config.attribute_count}, {}};
  std::vector<void*> of_extra;
  if (!parameters && !(of_extra = unpacked(f.entry, extra)).empty()) parameters = of_extra.data();
  for (size_t i = 0; i < f.entry.parameters.size(); ++i) {
    const auto* bytes = static_cast<const std::byte*>(parameters[i]);
    launch.parameters.emplace_back(bytes, bytes + f.entry.parameters[i].bytes);
  }
  return launch;
}
KeptLaunch kept(const KernelNode& n) {
  auto* function = n.function ? static_cast<void*>(n.function) : n.kernel;
  return kept(
      *static_cast<PtxKernel*>(function),
      {n.grid_x, n.grid_y, n.grid_z, n.block_x, n.block_y, n.block_z, n.shared_bytes, nullptr, nullptr, 0},
      n.parameters, n.extra);
}
Status run(KeptLaunch& launch) {
  LaunchConfig config = launch.config;
  config.attributes = launch.attributes.data();
  return run(*static_cast<PtxKernel*>(launch.function), config, launch.pointers().data(), nullptr);
}

Status launched(PtxKernel& f, const LaunchConfig& config, void** parameters, void** extra) {
  if (!is_captured(config.stream)) return run(f, config, parameters, extra);
  return guarded([&] {
    captured->capture({GraphNodeType::kernel, {}, kept(f, config, parameters, extra), {}});
  });
}
// Runs the operation, or adds it to the graph if the stream is captured.
Status queued(cu::Stream stream, GraphNodeType type, std::function<Status()> operation) {
  if (!is_captured(stream)) return operation();
  return guarded([&] { captured->capture({type, std::move(operation), {}, {}}); });
}

// Returns a handle of an object without state. One object represents all of them.
template <class Handle>
Handle handle() {
  return reinterpret_cast<Handle>(16);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

// Returns the name of the kernel that was launched last, which identifies the kernel of an export.
const char* ptxbuilder_last_kernel() { return last_kernel.c_str(); }

// A name without a version refers to the newest version.
Status cuGetProcAddress_v2(const char* symbol, void** address, int, uint64_t, int* found) {
  return guarded(
      [&] {
        Dl_info own;
        void* self = dladdr(reinterpret_cast<void*>(&settled), &own)  // finds this library
                         ? dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD)
                         : nullptr;
        *address = nullptr;
        for (const char* version : {"_v2", "", "WithFlags"})
          if (!*address && self) *address = dlsym(self, (std::string(symbol) + version).c_str());
        constexpr int not_found = 1;
        if (found) *found = *address ? 0 : not_found;
        if (!*address) throw Error(fmt::format("the emulator's driver has no {}", symbol));
      },
      Status::not_found);
}

Status cuInit(unsigned) { return settled(); }
Status cuDriverGetVersion(int* version) { return give(version, 13000); }
Status cuGetErrorName(Status status, const char** text) {
  *text = status == Status::success             ? "CUDA_SUCCESS"
          : status == Status::invalid_value     ? "CUDA_ERROR_INVALID_VALUE"
          : status == Status::out_of_memory     ? "CUDA_ERROR_OUT_OF_MEMORY"
          : status == Status::no_binary_for_gpu ? "CUDA_ERROR_NO_BINARY_FOR_GPU"
          : status == Status::invalid_ptx       ? "CUDA_ERROR_INVALID_PTX"
          : status == Status::not_found         ? "CUDA_ERROR_NOT_FOUND"
          : status == Status::launch_failed     ? "CUDA_ERROR_LAUNCH_FAILED"
          : status == Status::not_supported     ? "CUDA_ERROR_NOT_SUPPORTED"
                                                : "this error is from another driver";
  return Status::success;
}
// Returns the emulator's report of the thread's last call that failed.
Status cuGetErrorString(Status status, const char** text) {
  *text = status == Status::success ? "no error" : report.c_str();
  return Status::success;
}

Status cuDeviceGetCount(int* count) { return give(count, 1); }
Status cuDeviceGet(Ordinal* ordinal, int i) {
  return i == 0 ? give(ordinal, 0) : failed(Status::invalid_value, "the emulator has only device 0");
}
Status cuDeviceGetName(char* name, int bytes, Ordinal) {
  return guarded(
      [&] { std::snprintf(name, static_cast<size_t>(bytes), "%s", device().properties().name.c_str()); });
}
Status cuDeviceTotalMem_v2(size_t* bytes, Ordinal) { return give(bytes, device().properties().memory_bytes); }
Status cuDeviceGetAttribute(int* value, DeviceAttribute attribute, Ordinal) {
  const DeviceProperties p = device().properties();
  switch (attribute) {
    case DeviceAttribute::multiprocessor_count:
      return give(value, p.multiprocessors);
    case DeviceAttribute::compute_capability_major:
      return give(value, p.compute_capability / 10);
    case DeviceAttribute::compute_capability_minor:
      return give(value, p.compute_capability % 10);
    case DeviceAttribute::max_shared_memory_per_block_optin:
      return give(value, static_cast<int>(p.shared_bytes_per_cta));
    default:
      return failed(Status::invalid_value, fmt::format("the emulator does not know the device attribute {}",
                                                       static_cast<int>(attribute)));
  }
}

// There is one context, which is always current.
Status cuCtxGetCurrent(Context* context) { return give(context, handle<Context>()); }
Status cuDevicePrimaryCtxRetain(Context* context, Ordinal) { return cuCtxGetCurrent(context); }
Status cuCtxCreate_v2(Context* context, unsigned, Ordinal) { return cuCtxGetCurrent(context); }
Status cuCtxCreate_v4(Context* context, void*, unsigned, Ordinal) { return cuCtxGetCurrent(context); }
Status cuCtxPopCurrent_v2(Context* context) { return context ? cuCtxGetCurrent(context) : settled(); }
Status cuStreamGetCtx(cu::Stream, Context* context) { return cuCtxGetCurrent(context); }
Status cuCtxGetDevice(Ordinal* ordinal) { return give(ordinal, 0); }
Status cuCtxSetCurrent(Context) { return settled(); }
Status cuCtxPushCurrent_v2(Context) { return settled(); }
Status cuCtxDestroy_v2(Context) { return settled(); }
Status cuDevicePrimaryCtxRelease_v2(Ordinal) { return settled(); }
Status cuCtxSynchronize() { return settled(); }

Status cuMemAlloc_v2(DevicePtr* address, size_t bytes) {
  return guarded([&] { *address = device().allocate(bytes); });
}
Status cuMemFree_v2(DevicePtr address) {
  return guarded([&] { device().release(address); });
}
Status cuMemAllocHost_v2(void** memory, size_t bytes) {
  return guarded([&] {
    *memory = std::malloc(bytes);
    if (!*memory) throw std::bad_alloc();
  });
}
Status cuMemHostAlloc(void** memory, size_t bytes, unsigned) { return cuMemAllocHost_v2(memory, bytes); }
Status cuMemFreeHost(void* memory) {
  std::free(memory);
  return settled();
}
Status cuMemcpyHtoD_v2(DevicePtr to, const void* from, size_t bytes) {
  return guarded([&] { device().copy_in(to, from, bytes); });
}
Status cuMemcpyDtoH_v2(void* to, DevicePtr from, size_t bytes) {
  return guarded([&] { device().copy_out(to, from, bytes); });
}
Status cuMemcpyDtoD_v2(DevicePtr to, DevicePtr from, size_t bytes) {
  return guarded([&] {
    std::vector<std::byte> between(bytes);
    device().copy_out(between.data(), from, bytes);
    device().copy_in(to, between.data(), bytes);
  });
}
Status cuMemcpyHtoDAsync_v2(DevicePtr to, const void* from, size_t bytes, cu::Stream stream) {
  return queued(stream, GraphNodeType::copy, [=] { return cuMemcpyHtoD_v2(to, from, bytes); });
}
Status cuMemcpyDtoHAsync_v2(void* to, DevicePtr from, size_t bytes, cu::Stream stream) {
  return queued(stream, GraphNodeType::copy, [=] { return cuMemcpyDtoH_v2(to, from, bytes); });
}
Status cuMemcpyDtoDAsync_v2(DevicePtr to, DevicePtr from, size_t bytes, cu::Stream stream) {
  return queued(stream, GraphNodeType::copy, [=] { return cuMemcpyDtoD_v2(to, from, bytes); });
}
Status cuMemsetD8_v2(DevicePtr to, unsigned char value, size_t bytes) {
  return guarded([&] { device().fill(to, value, bytes); });
}
Status cuMemsetD8Async(DevicePtr to, unsigned char value, size_t bytes, cu::Stream stream) {
  return queued(stream, GraphNodeType::fill, [=] { return cuMemsetD8_v2(to, value, bytes); });
}

Status cuStreamCreate(cu::Stream* stream, unsigned) { return give(stream, handle<cu::Stream>()); }
Status cuStreamDestroy_v2(cu::Stream) { return settled(); }
Status cuStreamSynchronize(cu::Stream) { return settled(); }
Status cuStreamQuery(cu::Stream) { return settled(); }
Status cuStreamWaitEvent(cu::Stream, cu::Event, unsigned) { return settled(); }
Status cuStreamIsCapturing(cu::Stream stream, int* capturing) {
  return give(capturing, is_captured(stream) ? 1 : 0);
}
Status cuStreamBeginCapture_v2(cu::Stream stream, CaptureMode) {
  return guarded([&] {
    if (captured)
      throw Error("the emulator's driver can only have one capture at a time, and one is under way");
    captured = new GraphHandle;
    captured_stream = stream;
  });
}
Status cuStreamEndCapture(cu::Stream stream, cu::Graph* graph) {
  return guarded([&] {
    if (!is_captured(stream)) throw Error("this stream is not being captured");
    *graph = std::exchange(captured, nullptr);
  });
}

Status cuGraphCreate(cu::Graph* graph, unsigned) {
  return guarded([&] { *graph = new GraphHandle; });
}
Status cuGraphDestroy(cu::Graph graph) {
  return guarded([&] { delete graph; });
}
Status cuGraphClone(cu::Graph* copy, cu::Graph graph) {
  return guarded([&] { *copy = graph->copy().release(); });
}
Status cuGraphAddKernelNode_v2(GraphNode* node, cu::Graph graph, const GraphNode* behind, size_t count,
                               const KernelNode* parameters) {
  return guarded([&] {
    *node = &graph->add({GraphNodeType::kernel, {}, kept(*parameters), {behind, behind + count}});
  });
}
Status cuGraphGetNodes(cu::Graph graph, GraphNode* nodes, size_t* count) {
  return guarded([&] {
    for (size_t i = 0; nodes && i < std::min(*count, graph->nodes.size()); ++i)
      nodes[i] = graph->nodes[i].get();
    *count = graph->nodes.size();
  });
}
Status cuGraphGetEdges_v2(cu::Graph graph, GraphNode* from, GraphNode* to, void* data, size_t* count) {
  return guarded([&] {
    constexpr size_t bytes_of_data = 8;
    size_t found = 0;
    for (const auto& node : graph->nodes)
      for (GraphNode ahead : node->behind) {
        if (from && found < *count) {
          from[found] = ahead, to[found] = node.get();
          if (data) std::memset(static_cast<std::byte*>(data) + bytes_of_data * found, 0, bytes_of_data);
        }
        ++found;
      }
    *count = found;
  });
}
Status cuGraphNodeGetType(GraphNode node, GraphNodeType* type) { return give(type, node->type); }
Status cuGraphKernelNodeGetParams_v2(GraphNode node, KernelNode* parameters) {
  return guarded([&] {
    const LaunchConfig& c = node->launch.config;
    node->told = node->launch.pointers();
    *parameters = {static_cast<Function>(node->launch.function),
                   c.grid_x,
                   c.grid_y,
                   c.grid_z,
                   c.block_x,
                   c.block_y,
                   c.block_z,
                   c.shared_bytes,
                   node->told.data(),
                   nullptr,
                   nullptr,
                   nullptr};
  });
}
Status cuGraphKernelNodeSetParams_v2(GraphNode node, const KernelNode* parameters) {
  return guarded([&] {
    auto attributes = std::move(node->launch.attributes);
    node->launch = kept(*parameters);
    node->launch.attributes = std::move(attributes);
    node->launch.config.attribute_count = static_cast<unsigned>(node->launch.attributes.size());
  });
}
Status cuGraphKernelNodeGetAttribute(GraphNode node, LaunchAttributeId id, LaunchAttributeValue* value) {
  return guarded([&] {
    *value = {};
    for (const LaunchAttribute& a : node->launch.attributes)
      if (a.id == id) *value = a.value;
  });
}
Status cuGraphNodeFindInClone(GraphNode* node, GraphNode original, cu::Graph copy) {
  return guarded([&] {
    if (!(*node = copy->copy_of(original))) throw Error("the graph has no copy of this node");
  });
}
Status cuGraphDestroyNode(GraphNode node) {
  return guarded([&] { node->graph->remove(node); });
}
Status cuGraphInstantiateWithFlags(GraphExec* exec, cu::Graph graph, unsigned long long) {
  return guarded([&] { *exec = new GraphExecHandle{graph->copy()}; });
}
Status cuGraphExecKernelNodeSetParams_v2(GraphExec exec, GraphNode node, const KernelNode* parameters) {
  GraphNode own = nullptr;
  const Status status = cuGraphNodeFindInClone(&own, node, exec->graph.get());
  return status == Status::success ? cuGraphKernelNodeSetParams_v2(own, parameters) : status;
}
Status cuGraphExecDestroy(GraphExec exec) {
  return guarded([&] { delete exec; });
}
Status cuGraphUpload(GraphExec, cu::Stream) { return settled(); }
Status cuGraphLaunch(GraphExec exec, cu::Stream) {
  for (const auto& node : exec->graph->nodes)
    if (const Status status = node->type == GraphNodeType::kernel ? run(node->launch) : node->operation();
        status != Status::success)
      return status;
  return settled();
}
Status cuThreadExchangeStreamCaptureMode(CaptureMode* mode) {
  static thread_local CaptureMode own = CaptureMode::global;
  std::swap(*mode, own);
  return settled();
}
Status cuEventCreate(cu::Event* event, unsigned) { return give(event, handle<cu::Event>()); }
Status cuEventDestroy_v2(cu::Event) { return settled(); }
Status cuEventRecord(cu::Event, cu::Stream) { return settled(); }
Status cuEventSynchronize(cu::Event) { return settled(); }
Status cuEventQuery(cu::Event) { return settled(); }
Status cuEventElapsedTime(float*, cu::Event, cu::Event) {
  return failed(Status::not_supported, "the emulator has no clock worth reading: only a GPU gives times");
}

Status cuLibraryLoadData(PtxModule** module, const void* image, JitOption*, void**, unsigned, int*, void**,
                         unsigned) {
  return load(module, image);
}
Status cuModuleLoadData(PtxModule** module, const void* image) { return load(module, image); }
Status cuLibraryGetKernel(PtxKernel** function, PtxModule* module, const char* name) {
  return find(function, module, name);
}
Status cuModuleGetFunction(PtxKernel** function, PtxModule* module, const char* name) {
  return find(function, module, name);
}
Status cuKernelGetFunction(PtxKernel** function, PtxKernel* kernel) { return give(function, kernel); }
Status cuLibraryUnload(PtxModule*) { return settled(); }
Status cuModuleUnload(PtxModule*) { return settled(); }
Status cuKernelSetAttribute(FunctionAttribute, int, PtxKernel*, Ordinal) { return settled(); }
Status cuFuncSetAttribute(PtxKernel*, FunctionAttribute, int) { return settled(); }

Status cuTensorMapEncodeTiled(void* map, TensorMapDataType type, uint32_t rank, void* address,
                              const uint64_t* shape, const uint64_t* strides, const uint32_t* box,
                              const uint32_t* element_strides, int interleave, int swizzle, int promotion,
                              int fill) {
  return guarded([&] {
    TensorMapRecipe recipe = recipe_of(type, rank, element_strides, interleave, swizzle, promotion, fill);
    recipe.box.assign(box, box + rank);
    // The driver accepts rows that overlap, too.
    const TensorMap encoded = device().encode({recipe,
                                               reinterpret_cast<Address>(address),
                                               {shape, rank},
                                               {strides, rank - size_t{1}},
                                               nullptr,
                                               true});
    std::memcpy(map, encoded.bytes.data(), encoded.bytes.size());
  });
}
Status cuTensorMapEncodeIm2col(void* map, TensorMapDataType type, uint32_t rank, void* address,
                               const uint64_t* shape, const uint64_t* strides, const int* lower,
                               const int* upper, uint32_t channels, uint32_t pixels,
                               const uint32_t* element_strides, int interleave, int swizzle, int promotion,
                               int fill) {
  return guarded([&] {
    TensorMapRecipe recipe = recipe_of(type, rank, element_strides, interleave, swizzle, promotion, fill);
    recipe.box.assign(rank, 1);
    recipe.box[0] = channels;
    recipe.pixels = pixels;
    const size_t inner = rank < 3 ? 0 : rank - size_t{2};
    const Im2col walk{{lower, lower + inner}, {upper, upper + inner}};
    const TensorMap encoded = device().encode(
        {recipe, reinterpret_cast<Address>(address), {shape, rank}, {strides, rank - size_t{1}}, &walk});
    std::memcpy(map, encoded.bytes.data(), encoded.bytes.size());
  });
}

Status cuLaunchKernelEx(const LaunchConfig* config, PtxKernel* function, void** parameters, void** extra) {
  return launched(*function, *config, parameters, extra);
}
Status cuLaunchKernel(PtxKernel* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                      unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                      cu::Stream stream, void** parameters, void** extra) {
  return launched(*function,
                  {grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, nullptr, 0},
                  parameters, extra);
}

}  // extern "C"
#pragma GCC visibility pop
