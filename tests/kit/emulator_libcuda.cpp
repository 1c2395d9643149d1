// A libcuda.so.1 that runs PTX text on the emulator, as far as exported kernels and their tests call it. A
// launch is done when it returns.
#include <cstring>
#include <memory>
#include <mutex>

#include "runtime/driver.h"
#include "runtime/emulator/emulator.h"
#include "runtime/emulator/entry.h"

using namespace ptxbuilder;
using namespace ptxbuilder::runtime;
using namespace ptxbuilder::runtime::cu;

namespace {

struct Loaded {
  std::string ptx;
  runtime::Entry entry;
};

std::recursive_mutex mutex;
std::string report, last_kernel;

Emulator& device() {
  static Emulator& opened = *open_emulator().release();  // serves to the end of the process
  return opened;
}

Status guarded(const auto& body) {
  const std::lock_guard lock(mutex);
  try {
    body();
    return Status::success;
  } catch (const Error& e) {
    report = e.what();
    return Status::launch_failed;
  }
}

DType dtype_of(TensorMapDataType type) {
  for (int i = 0; i <= static_cast<int>(DType::f64); ++i)
    if (data_type(static_cast<DType>(i)) == type) return static_cast<DType>(i);
  throw Error("the tensor map's type is none");
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

const char* emulator_last_kernel() { return last_kernel.c_str(); }

Status cuInit(unsigned) { return Status::success; }
// What the emulator has said, which a name has room for.
Status cuGetErrorName(Status, const char** text) {
  *text = report.c_str();
  return Status::success;
}
Status cuCtxGetCurrent(Context* context) {
  *context = reinterpret_cast<Context>(1);
  return Status::success;
}
Status cuCtxSetCurrent(Context) { return Status::success; }
Status cuCtxGetDevice(Ordinal* ordinal) {
  *ordinal = 0;
  return Status::success;
}
Status cuStreamGetCtx(cu::Stream, Context* context) { return cuCtxGetCurrent(context); }
Status cuDevicePrimaryCtxRetain(Context* context, Ordinal) { return cuCtxGetCurrent(context); }
Status cuDeviceGetAttribute(int* value, DeviceAttribute attribute, Ordinal) {
  *value = attribute == DeviceAttribute::compute_capability_major   ? 9
           : attribute == DeviceAttribute::compute_capability_minor ? 0
                                                                    : device().properties().multiprocessors;
  return Status::success;
}

Status cuMemAlloc_v2(DevicePtr* address, size_t bytes) {
  return guarded([&] { *address = device().allocate(bytes); });
}
Status cuMemcpyHtoD_v2(DevicePtr to, const void* from, size_t bytes) {
  return guarded([&] { device().copy_in(to, from, bytes); });
}
Status cuMemcpyDtoH_v2(void* to, DevicePtr from, size_t bytes) {
  return guarded([&] { device().copy_out(to, from, bytes); });
}

Status cuLibraryLoadData(Library* library, const void* image, JitOption*, void**, unsigned, int*, void**,
                         unsigned) {
  *library = reinterpret_cast<Library>(new std::string(static_cast<const char*>(image)));
  return Status::success;
}
Status cuLibraryGetKernel(cu::Kernel* kernel, Library library, const char* name) {
  return guarded([&] {
    const auto& ptx = *reinterpret_cast<const std::string*>(library);
    for (const runtime::Entry& entry : entries(ptx))
      if (entry.name == name) {
        *kernel = reinterpret_cast<cu::Kernel>(new Loaded{ptx, entry});
        return;
      }
    throw Error("the PTX has no such kernel");
  });
}
Status cuThreadExchangeStreamCaptureMode(CaptureMode* mode) {
  static thread_local CaptureMode own = CaptureMode::global;
  std::swap(*mode, own);
  return Status::success;
}
Status cuKernelSetAttribute(FunctionAttribute, int, cu::Kernel, Ordinal) { return Status::success; }

Status cuTensorMapEncodeTiled(void* map, TensorMapDataType type, uint32_t rank, void* address,
                              const uint64_t* shape, const uint64_t* strides, const uint32_t* box,
                              const uint32_t* element_strides, int interleave, int swizzle, int promotion,
                              int fill) {
  return guarded([&] {
    TensorMapArguments a;
    a.recipe = {.dtype = dtype_of(type),
                .box = {box, box + rank},
                .element_strides = {element_strides, element_strides + rank},
                .interleave = static_cast<Interleave>(interleave),
                .swizzle = static_cast<Swizzle>(swizzle),
                .l2_promotion = static_cast<L2Promotion>(promotion),
                .oob_fill = static_cast<OobFill>(fill)};
    a.address = reinterpret_cast<Address>(address);
    a.shape.assign(shape, shape + rank);
    a.strides.assign(strides, strides + rank - 1);
    const TensorMap encoded = device().encode(a);
    std::memcpy(map, encoded.bytes.data(), encoded.bytes.size());
  });
}

Status cuLaunchKernelEx(const LaunchConfig* config, Function function, void** parameters, void**) {
  return guarded([&] {
    const auto& [ptx, entry] = *reinterpret_cast<const Loaded*>(function);
    runtime::Launch launch;
    launch.grid = {config->grid_x, config->grid_y, config->grid_z};
    launch.block = {config->block_x, config->block_y, config->block_z};
    launch.dynamic_shared_bytes = config->shared_bytes;
    for (unsigned i = 0; i < config->attribute_count; ++i)
      if (config->attributes[i].id == LaunchAttributeId::cluster_dimension) {
        const auto& cluster = config->attributes[i].value.cluster_dim;
        launch.cluster = {cluster.x, cluster.y, cluster.z};
      }
    Signature signature;
    signature.kernel = entry.name;
    signature.threads = config->block_x * config->block_y * config->block_z;
    signature.threads_y = config->block_y, signature.threads_z = config->block_z;
    signature.cluster = {launch.cluster.x, launch.cluster.y, launch.cluster.z};
    signature.dynamic_shared_bytes = config->shared_bytes;
    const std::unique_ptr<Program> program = device().load(ptx, signature);
    device().launch(*program, launch, {parameters, entry.parameters.size()});
    device().synchronize(std::chrono::seconds(120));
    last_kernel = entry.name;
  });
}

}  // extern "C"
#pragma GCC visibility pop
