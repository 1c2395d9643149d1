// Implements libptxb_record.so, which intercepts a program's calls to libcuda and passes them on. A program
// may find the driver's functions through the linker, dlsym() or cuGetProcAddress().
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "runtime/record/graphs.h"
#include "runtime/record/recorder.h"

using namespace ptxbuilder;
using namespace ptxbuilder::runtime;
using namespace ptxbuilder::runtime::cu;
using record::Handle;
using record::Recorder;

namespace {

using Dlsym = void* (*)(void*, const char*) noexcept;

Dlsym real_dlsym() {
  static const auto found = [] {
    for (const char* version : {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"})
      if (void* symbol = dlvsym(RTLD_NEXT, "dlsym", version)) return reinterpret_cast<Dlsym>(symbol);
    return Dlsym{};
  }();
  return found;
}

// Returns the driver's own function, or null if the driver does not have it.
void* driver_symbol(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return library ? real_dlsym()(library, name) : nullptr;
}

template <class F>
F driver_call(const char* name) {
  return reinterpret_cast<F>(driver_symbol(name));
}

// These objects exist until the process ends, because its threads may call the driver until then.
std::recursive_mutex& mutex() {
  static auto& made = *new std::recursive_mutex;
  return made;
}

bool is_in_use = false;

Recorder& recorder() {
  is_in_use = true;
  static Recorder& made = *new Recorder(
      record::Wanted::from_environment(),
      {.synchronize = driver_call<Status (*)()>("cuCtxSynchronize"),
       .copy_out = driver_call<Status (*)(void*, DevicePtr, size_t)>("cuMemcpyDtoH_v2"),
       .address_range = driver_call<Status (*)(DevicePtr*, size_t*, DevicePtr)>("cuMemGetAddressRange_v2"),
       .is_capturing = driver_call<Status (*)(cu::Stream, int*)>("cuStreamIsCapturing"),
       .module_global =
           driver_call<Status (*)(DevicePtr*, size_t*, Handle, const char*)>("cuModuleGetGlobal_v2"),
       .library_global =
           driver_call<Status (*)(DevicePtr*, size_t*, Handle, const char*)>("cuLibraryGetGlobal"),
       .function_name = driver_call<Status (*)(const char**, Handle)>("cuFuncGetName"),
       .function_module = driver_call<Status (*)(Handle*, Handle)>("cuFuncGetModule"),
       .library_module = driver_call<Status (*)(Handle*, Handle)>("cuLibraryGetModule")});
  return made;
}

record::Graphs& graphs() {
  static auto& made = *new record::Graphs(
      recorder(),
      {.clone = driver_call<Status (*)(cu::Graph*, cu::Graph)>("cuGraphClone"),
       .destroy = driver_call<Status (*)(cu::Graph)>("cuGraphDestroy"),
       .nodes = driver_call<Status (*)(cu::Graph, GraphNode*, size_t*)>("cuGraphGetNodes"),
       .edges =
           driver_call<Status (*)(cu::Graph, GraphNode*, GraphNode*, void*, size_t*)>("cuGraphGetEdges_v2"),
       .type = driver_call<Status (*)(GraphNode, GraphNodeType*)>("cuGraphNodeGetType"),
       .kernel = driver_call<Status (*)(GraphNode, KernelNode*)>("cuGraphKernelNodeGetParams_v2"),
       .set_kernel = driver_call<Status (*)(GraphNode, const KernelNode*)>("cuGraphKernelNodeSetParams_v2"),
       .attribute = driver_call<Status (*)(GraphNode, LaunchAttributeId, LaunchAttributeValue*)>(
           "cuGraphKernelNodeGetAttribute"),
       .find = driver_call<Status (*)(GraphNode*, GraphNode, cu::Graph)>("cuGraphNodeFindInClone"),
       .destroy_node = driver_call<Status (*)(GraphNode)>("cuGraphDestroyNode"),
       .instantiate =
           driver_call<Status (*)(GraphExec*, cu::Graph, unsigned long long)>("cuGraphInstantiateWithFlags"),
       .destroy_exec = driver_call<Status (*)(GraphExec)>("cuGraphExecDestroy")});
  return made;
}

// Calls the driver, and calls `tell` with the recorder if the driver call succeeded.
template <class Tell, class... P, class... A>
Status passed_on(const char* name, Tell tell, Status (*)(P...), A... arguments) {
  const auto call = driver_call<Status (*)(P...)>(name);
  if (!call) return Status::not_supported;
  const Status status = call(arguments...);
  if (status == Status::success) {
    const std::lock_guard lock(mutex());
    tell(recorder());
  }
  return status;
}

// Performs a launch, and records the memory before and after it. Other launches wait in the meantime.
template <class Call>
Status launched(Handle function, const record::LaunchShape& shape, void** parameters, void** extra,
                Call call) {
  const std::lock_guard lock(mutex());
  const auto launch = recorder().begin(function, shape, parameters, record::packed(parameters, extra));
  const Status status = call();
  if (launch) recorder().end(*launch);
  return status;
}

record::LaunchShape shape_of(const LaunchConfig& c) {
  record::LaunchShape shape{
      {c.grid_x, c.grid_y, c.grid_z}, {c.block_x, c.block_y, c.block_z}, {}, c.shared_bytes, false, c.stream};
  for (unsigned i = 0; i < c.attribute_count; ++i) {
    const auto& [id, pad, value] = c.attributes[i];
    if (id == LaunchAttributeId::cluster_dimension)
      shape.cluster = {value.cluster_dim.x, value.cluster_dim.y, value.cluster_dim.z};
    if (id == LaunchAttributeId::cooperative) shape.cooperative = value.cooperative != 0;
  }
  return shape;
}

DType dtype_of(TensorMapDataType type) {
  for (int i = 0; i <= static_cast<int>(DType::f64); ++i)
    if (data_type(static_cast<DType>(i)) == type) return static_cast<DType>(i);
  return DType::u8;
}

record::RecordedMap described(TensorMapDataType type, uint32_t rank, void* address, const uint64_t* shape,
                              const uint64_t* strides, const uint32_t* element_strides, int interleave,
                              int swizzle, int promotion, int fill) {
  record::RecordedMap map;
  TensorMapRecipe& r = map.arguments.recipe;
  r.dtype = dtype_of(type);
  r.element_strides.assign(element_strides, element_strides + rank);
  r.interleave = static_cast<Interleave>(interleave);
  r.swizzle = static_cast<Swizzle>(swizzle);
  r.l2_promotion = static_cast<L2Promotion>(promotion);
  r.oob_fill = static_cast<OobFill>(fill);
  map.arguments.address = reinterpret_cast<Address>(address);
  map.arguments.shape.assign(shape, shape + rank);
  map.arguments.strides.assign(strides, strides + rank - 1);
  return map;
}

std::string file_at(const char* path) {
  std::string text;
  if (FILE* file = std::fopen(path, "rb")) {
    char part[4096];
    for (size_t n; (n = std::fread(part, 1, sizeof part, file)) > 0;) text.append(part, n);
    std::fclose(file);
  }
  return text;
}

// Returns the PTX that each linker has received.
std::map<Handle, std::string>& links() {
  static auto& made = *new std::map<Handle, std::string>;
  return made;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

#define PASS(function, tell, ...) \
  passed_on(                      \
      #function, [&](Recorder& r) { tell; }, &function, __VA_ARGS__)

Status cuModuleLoadData(Handle* module, const void* image) {
  return PASS(cuModuleLoadData, r.loaded(*module, record::image_at(image), false), module, image);
}
Status cuModuleLoadDataEx(Handle* module, const void* image, unsigned count, JitOption* options,
                          void** values) {
  return PASS(cuModuleLoadDataEx, r.loaded(*module, record::image_at(image), false), module, image, count,
              options, values);
}
Status cuModuleLoadFatBinary(Handle* module, const void* image) {
  return PASS(cuModuleLoadFatBinary, r.loaded(*module, record::image_at(image), false), module, image);
}
Status cuModuleLoad(Handle* module, const char* path) {
  return PASS(cuModuleLoad, r.loaded(*module, record::Image::of(file_at(path)), false), module, path);
}
Status cuLibraryLoadData(Handle* library, const void* image, JitOption* options, void** values,
                         unsigned count, int* library_options, void** library_values,
                         unsigned library_count) {
  return PASS(cuLibraryLoadData, r.loaded(*library, record::image_at(image), true), library, image, options,
              values, count, library_options, library_values, library_count);
}
Status cuLibraryLoadFromFile(Handle* library, const char* path, JitOption* options, void** values,
                             unsigned count, int* library_options, void** library_values,
                             unsigned library_count) {
  return PASS(cuLibraryLoadFromFile, r.loaded(*library, record::Image::of(file_at(path)), true), library,
              path, options, values, count, library_options, library_values, library_count);
}
Status cuLibraryGetModule(Handle* module, Handle library) {
  return PASS(cuLibraryGetModule, r.module_of(library, *module), module, library);
}
Status cuModuleGetFunction(Handle* function, Handle module, const char* name) {
  return PASS(cuModuleGetFunction, r.found(module, *function, name), function, module, name);
}
Status cuLibraryGetKernel(Handle* kernel, Handle library, const char* name) {
  return PASS(cuLibraryGetKernel, r.found(library, *kernel, name), kernel, library, name);
}
Status cuKernelGetFunction(Handle* function, Handle kernel) {
  return PASS(cuKernelGetFunction, r.is_function_of(kernel, *function), function, kernel);
}
Status cuLinkAddData_v2(Handle state, int type, void* data, size_t bytes, const char* name, unsigned count,
                        JitOption* options, void** values) {
  const std::string text(static_cast<const char*>(data), bytes);
  return PASS(cuLinkAddData_v2, (void)r;
              if (type == static_cast<int>(JitInput::ptx)) links()[state] = text.c_str(), state, type, data,
              bytes, name, count, options, values);
}
Status cuLinkComplete(Handle state, void** cubin, size_t* bytes) {
  return PASS(cuLinkComplete, r.linked(std::string(record::image_at(*cubin).bytes), links()[state]), state,
              cubin, bytes);
}

Status cuMemAlloc_v2(DevicePtr* address, size_t bytes) {
  return PASS(cuMemAlloc_v2, r.allocated(*address, bytes), address, bytes);
}
Status cuMemAllocManaged(DevicePtr* address, size_t bytes, unsigned flags) {
  return PASS(cuMemAllocManaged, r.allocated(*address, bytes), address, bytes, flags);
}
Status cuMemAllocPitch_v2(DevicePtr* address, size_t* pitch, size_t width, size_t height, unsigned element) {
  return PASS(cuMemAllocPitch_v2, r.allocated(*address, *pitch * height), address, pitch, width, height,
              element);
}
Status cuMemAllocAsync(DevicePtr* address, size_t bytes, cu::Stream stream) {
  return PASS(cuMemAllocAsync, r.allocated(*address, bytes), address, bytes, stream);
}
Status cuMemAllocFromPoolAsync(DevicePtr* address, size_t bytes, Handle pool, cu::Stream stream) {
  return PASS(cuMemAllocFromPoolAsync, r.allocated(*address, bytes), address, bytes, pool, stream);
}
Status cuMemFree_v2(DevicePtr address) { return PASS(cuMemFree_v2, r.released(address), address); }
Status cuMemFreeAsync(DevicePtr address, cu::Stream stream) {
  return PASS(cuMemFreeAsync, r.released(address), address, stream);
}
Status cuMemMap(DevicePtr address, size_t bytes, size_t offset, unsigned long long memory,
                unsigned long long flags) {
  return PASS(cuMemMap, r.allocated(address, bytes), address, bytes, offset, memory, flags);
}
Status cuMemUnmap(DevicePtr address, size_t bytes) {
  return PASS(cuMemUnmap, r.released(address), address, bytes);
}

Status cuTensorMapEncodeTiled(void* map, TensorMapDataType type, uint32_t rank, void* address,
                              const uint64_t* shape, const uint64_t* strides, const uint32_t* box,
                              const uint32_t* element_strides, int interleave, int swizzle, int promotion,
                              int fill) {
  auto tell = [&](Recorder& r) {
    record::RecordedMap m =
        described(type, rank, address, shape, strides, element_strides, interleave, swizzle, promotion, fill);
    m.arguments.recipe.box.assign(box, box + rank);
    r.encoded(map, std::move(m));
  };
  return passed_on("cuTensorMapEncodeTiled", tell, &cuTensorMapEncodeTiled, map, type, rank, address, shape,
                   strides, box, element_strides, interleave, swizzle, promotion, fill);
}
Status cuTensorMapEncodeIm2col(void* map, TensorMapDataType type, uint32_t rank, void* address,
                               const uint64_t* shape, const uint64_t* strides, const int* lower,
                               const int* upper, uint32_t channels, uint32_t pixels,
                               const uint32_t* element_strides, int interleave, int swizzle, int promotion,
                               int fill) {
  auto tell = [&](Recorder& r) {
    record::RecordedMap m =
        described(type, rank, address, shape, strides, element_strides, interleave, swizzle, promotion, fill);
    m.arguments.recipe.box.assign(rank, 1);
    m.arguments.recipe.box[0] = channels;
    m.arguments.recipe.pixels = pixels;
    m.arguments.im2col = Im2col{{lower, lower + rank - 2}, {upper, upper + rank - 2}};
    r.encoded(map, std::move(m));
  };
  return passed_on("cuTensorMapEncodeIm2col", tell, &cuTensorMapEncodeIm2col, map, type, rank, address, shape,
                   strides, lower, upper, channels, pixels, element_strides, interleave, swizzle, promotion,
                   fill);
}

// Defines launch calls. The variants for a thread's default stream have different names.
#define LAUNCHES(suffix)                                                                                   \
  Status cuLaunchKernel##suffix(Handle f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, \
                                unsigned bz, unsigned shared, cu::Stream stream, void** p, void** extra) { \
    const auto call = driver_call<decltype(&cuLaunchKernel##suffix)>("cuLaunchKernel" #suffix);            \
    return launched(f, {{gx, gy, gz}, {bx, by, bz}, {}, shared, false, stream}, p, extra,                  \
                    [&] { return call(f, gx, gy, gz, bx, by, bz, shared, stream, p, extra); });            \
  }                                                                                                        \
  Status cuLaunchKernelEx##suffix(const LaunchConfig* config, Handle f, void** p, void** extra) {          \
    const auto call = driver_call<decltype(&cuLaunchKernelEx##suffix)>("cuLaunchKernelEx" #suffix);        \
    return launched(f, shape_of(*config), p, extra, [&] { return call(config, f, p, extra); });            \
  }                                                                                                        \
  Status cuLaunchCooperativeKernel##suffix(Handle f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,   \
                                           unsigned by, unsigned bz, unsigned shared, cu::Stream stream,   \
                                           void** p) {                                                     \
    const auto call =                                                                                      \
        driver_call<decltype(&cuLaunchCooperativeKernel##suffix)>("cuLaunchCooperativeKernel" #suffix);    \
    return launched(f, {{gx, gy, gz}, {bx, by, bz}, {}, shared, true, stream}, p, nullptr,                 \
                    [&] { return call(f, gx, gy, gz, bx, by, bz, shared, stream, p); });                   \
  }
LAUNCHES()
LAUNCHES(_ptsz)

Status cuGraphInstantiateWithFlags(GraphExec* exec, cu::Graph graph, unsigned long long flags) {
  return PASS(cuGraphInstantiateWithFlags, (void)r; graphs().instantiated(*exec, graph), exec, graph, flags);
}
Status cuGraphInstantiateWithParams(GraphExec* exec, cu::Graph graph, void* parameters) {
  return PASS(cuGraphInstantiateWithParams, (void)r;
              graphs().instantiated(*exec, graph), exec, graph, parameters);
}
Status cuGraphInstantiateWithParams_ptsz(GraphExec* exec, cu::Graph graph, void* parameters) {
  return PASS(cuGraphInstantiateWithParams_ptsz, (void)r;
              graphs().instantiated(*exec, graph), exec, graph, parameters);
}
Status cuGraphExecUpdate_v2(GraphExec exec, cu::Graph graph, void* result) {
  return PASS(cuGraphExecUpdate_v2, (void)r; graphs().instantiated(exec, graph), exec, graph, result);
}
Status cuGraphExecKernelNodeSetParams_v2(GraphExec exec, GraphNode node, const KernelNode* parameters) {
  return PASS(cuGraphExecKernelNodeSetParams_v2, (void)r;
              graphs().kernel_set(exec, node, parameters), exec, node, parameters);
}
Status cuGraphExecDestroy(GraphExec exec) {
  return PASS(cuGraphExecDestroy, (void)r; graphs().destroyed(exec), exec);
}
// The effects of other changes to an instantiated graph are not tracked.
Status cuGraphExecMemcpyNodeSetParams(GraphExec exec, GraphNode node, const void* parameters,
                                      Context context) {
  return PASS(cuGraphExecMemcpyNodeSetParams, (void)r;
              graphs().changed(exec), exec, node, parameters, context);
}
Status cuGraphExecMemsetNodeSetParams(GraphExec exec, GraphNode node, const void* parameters,
                                      Context context) {
  return PASS(cuGraphExecMemsetNodeSetParams, (void)r;
              graphs().changed(exec), exec, node, parameters, context);
}
Status cuGraphExecHostNodeSetParams(GraphExec exec, GraphNode node, const void* parameters) {
  return PASS(cuGraphExecHostNodeSetParams, (void)r; graphs().changed(exec), exec, node, parameters);
}
Status cuGraphExecChildGraphNodeSetParams(GraphExec exec, GraphNode node, cu::Graph child) {
  return PASS(cuGraphExecChildGraphNodeSetParams, (void)r; graphs().changed(exec), exec, node, child);
}
Status cuGraphExecNodeSetParams(GraphExec exec, GraphNode node, void* parameters) {
  return PASS(cuGraphExecNodeSetParams, (void)r; graphs().changed(exec), exec, node, parameters);
}
Status cuGraphNodeSetEnabled(GraphExec exec, GraphNode node, unsigned is_enabled) {
  return PASS(cuGraphNodeSetEnabled, (void)r; graphs().changed(exec), exec, node, is_enabled);
}
#define GRAPH_LAUNCHES(suffix)                                                                \
  Status cuGraphLaunch##suffix(GraphExec exec, cu::Stream stream) {                           \
    const auto call = driver_call<decltype(&cuGraphLaunch##suffix)>("cuGraphLaunch" #suffix); \
    const std::lock_guard lock(mutex());                                                      \
    return graphs().launch(exec, stream, call);                                               \
  }
GRAPH_LAUNCHES()
GRAPH_LAUNCHES(_ptsz)

Status cuGetProcAddress(const char* symbol, void** function, int version, uint64_t flags);
Status cuGetProcAddress_v2(const char* symbol, void** function, int version, uint64_t flags, int* found);
}  // extern "C"

namespace {

struct Own {
  const char* name;
  void* function;
};
#define OWN(function) \
  { #function, reinterpret_cast < void*>(&(function)) }
constexpr size_t own_count = 45;
const Own* own_calls() {
  static const Own all[] = {OWN(cuModuleLoadData),
                            OWN(cuModuleLoadDataEx),
                            OWN(cuModuleLoadFatBinary),
                            OWN(cuModuleLoad),
                            OWN(cuLibraryLoadData),
                            OWN(cuLibraryLoadFromFile),
                            OWN(cuLibraryGetModule),
                            OWN(cuModuleGetFunction),
                            OWN(cuLibraryGetKernel),
                            OWN(cuKernelGetFunction),
                            OWN(cuLinkAddData_v2),
                            OWN(cuLinkComplete),
                            OWN(cuMemAlloc_v2),
                            OWN(cuMemAllocManaged),
                            OWN(cuMemAllocPitch_v2),
                            OWN(cuMemAllocAsync),
                            OWN(cuMemAllocFromPoolAsync),
                            OWN(cuMemFree_v2),
                            OWN(cuMemFreeAsync),
                            OWN(cuMemMap),
                            OWN(cuMemUnmap),
                            OWN(cuTensorMapEncodeTiled),
                            OWN(cuTensorMapEncodeIm2col),
                            OWN(cuLaunchKernel),
                            OWN(cuLaunchKernelEx),
                            OWN(cuLaunchCooperativeKernel),
                            OWN(cuLaunchKernel_ptsz),
                            OWN(cuLaunchKernelEx_ptsz),
                            OWN(cuLaunchCooperativeKernel_ptsz),
                            OWN(cuGraphInstantiateWithFlags),
                            OWN(cuGraphInstantiateWithParams),
                            OWN(cuGraphInstantiateWithParams_ptsz),
                            OWN(cuGraphExecUpdate_v2),
                            OWN(cuGraphExecKernelNodeSetParams_v2),
                            OWN(cuGraphExecDestroy),
                            OWN(cuGraphExecMemcpyNodeSetParams),
                            OWN(cuGraphExecMemsetNodeSetParams),
                            OWN(cuGraphExecHostNodeSetParams),
                            OWN(cuGraphExecChildGraphNodeSetParams),
                            OWN(cuGraphExecNodeSetParams),
                            OWN(cuGraphNodeSetEnabled),
                            OWN(cuGraphLaunch),
                            OWN(cuGraphLaunch_ptsz),
                            OWN(cuGetProcAddress),
                            OWN(cuGetProcAddress_v2)};
  static_assert(std::size(all) == own_count);
  return all;
}

void* own_call(std::string_view name) {
  if (!name.starts_with("cu")) return nullptr;
  for (size_t i = 0; i < own_count; ++i)
    if (name == own_calls()[i].name) return own_calls()[i].function;
  return nullptr;
}

// Replaces the function that cuGetProcAddress() has found for a name without a version.
void replace(const char* symbol, void** function, int version, uint64_t flags) {
  if (!function || !*function) return;
  constexpr uint64_t per_thread_stream = 2;
  const std::string name = symbol;
  // Before CUDA 12, these names without a version referred to other functions.
  const bool is_old = (name == "cuGetProcAddress" || name.starts_with("cuGraph")) && version < 12000;
  for (const char* suffix : {"_ptsz", "_v2", "", "WithFlags"}) {
    const bool is_of_thread = std::strcmp(suffix, "_ptsz") == 0;
    if (is_of_thread ? !(flags & per_thread_stream) : is_old && *suffix) continue;
    if (void* own = own_call(name + suffix)) {
      *function = own;
      return;
    }
  }
}

// Prints a summary. The program that was named always prints it, even if it has not called the driver. Its
// child processes print it only if they have called the driver.
[[gnu::destructor]] void tell_summary() {
  const std::lock_guard lock(mutex());
  const char* named = std::getenv("PTXB_RECORD_PROCESS");
  if (is_in_use)
    std::fputs(recorder().summary().c_str(), stderr);
  else if (named && std::atoi(named) == getpid())
    std::fputs("ptxb record: the program has not made any calls of the CUDA driver that are recorded\n",
               stderr);
}

}  // namespace

extern "C" {

Status cuGetProcAddress(const char* symbol, void** function, int version, uint64_t flags) {
  const Status status =
      driver_call<decltype(&cuGetProcAddress)>("cuGetProcAddress")(symbol, function, version, flags);
  if (status == Status::success) replace(symbol, function, version, flags);
  return status;
}
Status cuGetProcAddress_v2(const char* symbol, void** function, int version, uint64_t flags, int* found) {
  const Status status = driver_call<decltype(&cuGetProcAddress_v2)>("cuGetProcAddress_v2")(
      symbol, function, version, flags, found);
  if (status == Status::success) replace(symbol, function, version, flags);
  return status;
}

// The last call is a tail call, so that RTLD_NEXT refers to the library of dlsym()'s caller.
void* dlsym(void* handle, const char* name) noexcept {
  if (void* own = own_call(name); own && real_dlsym()(handle, name)) return own;
  return real_dlsym()(handle, name);
}

}  // extern "C"
#pragma GCC visibility pop
