#include "runtime/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace ptxbuilder::runtime::cu {
namespace {

// Returns advice to the user about a status, or "" if there is none.
const char* advice(Status status) {
  switch (status) {
    case Status::no_device:
      return "the driver is installed but sees no GPU: look at nvidia-smi and CUDA_VISIBLE_DEVICES";
    case Status::not_initialized:
      return "this process is a fork of one that used CUDA, which CUDA does not allow: fork first, or start "
             "a new process";
    case Status::deinitialized:
      return "the process is ending, and CUDA has already ended";
    case Status::stub_library:
      return "the libcuda that was found is the toolkit's stub: put the driver's folder before it";
    case Status::system_driver_mismatch:
      return "libcuda and the kernel's nvidia module differ: reboot or reinstall";
    case Status::no_binary_for_gpu:
      return "the cubin is for another architecture: compile it for this GPU";
    case Status::unsupported_ptx_version:
      return "the PTX .version is newer than this driver: lower it or update";
    case Status::jit_compiler_not_found:
      return "libnvidia-ptxjitcompiler.so.1 is missing: load a cubin instead of PTX";
    case Status::illegal_address:
      return "a kernel touched memory outside its buffers: run under compute-sanitizer";
    case Status::misaligned_address:
      return "a kernel used an address that its instruction does not allow";
    case Status::illegal_instruction:
      return "a kernel broke an instruction's rule (for TMA and wgmma: a bad descriptor)";
    case Status::launch_failed:
      return "a kernel trapped or broke a hardware rule: run under compute-sanitizer";
    case Status::launch_out_of_resources:
      return "registers x threads do not fit: use fewer threads, or ptxas --maxrregcount";
    case Status::invalid_cluster_size:
      return "this GPU cannot place a cluster of this size";
    default:
      return "";
  }
}

}  // namespace

TensorMapDataType data_type(DType type) {
  using enum TensorMapDataType;
  switch (type) {
    case DType::u8:
    case DType::s8:
    case DType::e4m3:
    case DType::e5m2:
      return uint8;
    case DType::u16:
    case DType::s16:
      return uint16;
    case DType::u32:
      return uint32;
    case DType::s32:
      return int32;
    case DType::u64:
      return uint64;
    case DType::s64:
      return int64;
    case DType::f16:
      return float16;
    case DType::bf16:
      return bfloat16;
    case DType::tf32:
      return tfloat32;
    case DType::f32:
      return float32;
    case DType::f64:
      return float64;
  }
  throw Error("data_type: not a DType");
}

SharedLibrary::SharedLibrary(const std::string& path)
    : path_(path), handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (!handle_) {
    const char* reason = dlerror();
    throw Error(
        fmt::format("{} not found: no NVIDIA driver on this machine ({})", path, reason ? reason : "unknown"),
        Error::Kind::device);
  }
}

void* SharedLibrary::find(const char* symbol) const { return dlsym(handle_, symbol); }

void* SharedLibrary::symbol(const char* symbol) const {
  if (void* address = find(symbol)) return address;
  throw Error(fmt::format("{} has no {}: the driver is older than CUDA 12.0, update it", path_, symbol),
              Error::Kind::device);
}

std::string SharedLibrary::describe(Status status) const {
  using Describe = Status (*)(Status, const char**);
  auto look_up = [&](const char* entry) {
    auto function = reinterpret_cast<Describe>(find(entry));
    const char* text = nullptr;
    bool known = function && function(status, &text) == Status::success && text;
    return std::string(known ? text : "unknown status");
  };
  return fmt::format("{} ({}): {}", look_up("cuGetErrorName"), static_cast<int>(status),
                     look_up("cuGetErrorString"));
}

std::string SharedLibrary::explain(Status status) const {
  const char* hint = advice(status);
  return describe(status) + (*hint ? "; " : "") + hint;
}

void SharedLibrary::fail(std::string_view call, Status status) const {
  throw Error(fmt::format("{} failed: {}", call, explain(status)),
              status == Status::out_of_memory ? Error::Kind::out_of_memory : Error::Kind::device);
}

}  // namespace ptxbuilder::runtime::cu
