#include "runtime/cuda_program.h"

#include <fmt/format.h>

#include "runtime/cubin_check.h"
#include "runtime/launch_check.h"

namespace ptxbuilder::runtime {

using cu::FunctionAttribute;
using cu::Status;

CudaProgram::CudaProgram(CudaQueue& queue, const std::string& image, const Signature& signature)
    : queue_(queue), driver_(queue.driver()), signature_(signature), name_(queue.intern(signature.kernel)) {
  if (!runs_on(signature.target, queue.context().compute_capability()))
    throw Error(fmt::format("kernel '{}' is compiled for {}, but this GPU has compute capability {}",
                            signature.kernel, signature.target, queue.context().compute_capability()));
  const CudaContext::Scope scope(queue.context());
  const RelaxedCapture any_capture(driver_);
  load(image);
  check_parameters();
  check_threads();
  reserve_shared_memory();
  check_cluster();
}

void CudaProgram::load(const std::string& image) {
  const bool cubin = is_cubin(image);
  if (cubin) check_cubin(image, signature_.kernel);
  if (!cubin && image.find(".version") == std::string::npos)
    throw Error(fmt::format("the image of kernel '{}', {} B, is neither a cubin nor PTX text",
                            signature_.kernel, image.size()));
  // The log of a PTX compilation is never freed, because the library stays loaded, and the driver writes to
  // the log when it compiles the text, once for each context.
  auto log = std::make_unique<JitLog>();
  cu::Library library = nullptr;
  Status status = driver_.library_load_data.status(&library, image.c_str(), log->options(), log->values(),
                                                   log->count(), nullptr, nullptr, 0);
  if (status == Status::success) {
    status = driver_.library_get_kernel.status(&kernel_, library, signature_.kernel.c_str());
    if (status == Status::not_found)
      throw Error(fmt::format("the image has no kernel '{}': the sidecar belongs to another image",
                              signature_.kernel));
  }
  // Loads the kernel into the device's own context now instead of at the first launch.
  cu::Function loaded = nullptr;
  if (status == Status::success) status = driver_.kernel_get_function.status(&loaded, kernel_);
  if (!cubin) log_ = log->information();
  const std::string errors = log->errors();
  if (!cubin) (void)log.release();
  if (status == Status::success) return;
  throw Error(
      fmt::format("the driver rejected the {} of kernel '{}': {}{}{}", cubin ? "cubin" : "PTX",
                  signature_.kernel, driver_.loaded.describe(status), errors.empty() ? "" : "\n", errors),
      status == Status::out_of_memory ? Error::Kind::out_of_memory : Error::Kind::compile);
}

// Throws an Error if the sidecar's parameters do not match those of the image, provided that the driver
// reports them.
void CudaProgram::check_parameters() const {
  if (!driver_.kernel_get_param_info.available()) return;
  size_t offset = 0, size = 0;
  const std::vector<Parameter>& parameters = signature_.parameters;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (driver_.kernel_get_param_info.status(kernel_, i, &offset, &size) != Status::success)
      mismatch(fmt::format("the image takes {} parameters, but the sidecar has {}", i, parameters.size()));
    if (size != static_cast<size_t>(parameters[i].size_bytes()))
      mismatch(fmt::format("parameter {} '{}' is {} B in the image, but {} B in the sidecar", i,
                           parameters[i].name, size, parameters[i].size_bytes()));
  }
  if (driver_.kernel_get_param_info.status(kernel_, parameters.size(), &offset, &size) == Status::success)
    mismatch(fmt::format("the image takes more than the sidecar's {} parameters", parameters.size()));
}

void CudaProgram::check_threads() const {
  const int most = attribute(FunctionAttribute::max_threads_per_block);
  if (static_cast<int64_t>(signature_.threads) > most)
    throw Error(fmt::format("kernel '{}' has {} threads, but its registers and .maxntid allow {}",
                            signature_.kernel, signature_.threads, most));
}

// Dynamic shared memory above 48 KB must be requested explicitly (CUDA C++ Programming Guide, "Shared
// Memory", compute capability 9.0).
void CudaProgram::reserve_shared_memory() const {
  const uint64_t fixed = static_cast<uint64_t>(attribute(FunctionAttribute::shared_size_bytes));
  const auto limit = static_cast<uint64_t>(
      queue_.context().attribute(cu::DeviceAttribute::max_shared_memory_per_block_optin));
  if (fixed + signature_.dynamic_shared_bytes > limit)
    throw Error(
        fmt::format("kernel '{}' uses {} B of static and {} B of dynamic shared memory, {} B over this GPU's "
                    "{} B per CTA",
                    signature_.kernel, fixed, signature_.dynamic_shared_bytes,
                    fixed + signature_.dynamic_shared_bytes - limit, limit));
  driver_.kernel_set_attribute(FunctionAttribute::max_dynamic_shared_size_bytes,
                               static_cast<int>(signature_.dynamic_shared_bytes), kernel_,
                               queue_.context().ordinal());
}

void CudaProgram::check_cluster() const {
  const auto [x, y, z] = signature_.cluster;
  const std::array<int, 3> required = {attribute(FunctionAttribute::required_cluster_width),
                                       attribute(FunctionAttribute::required_cluster_height),
                                       attribute(FunctionAttribute::required_cluster_depth)};
  const std::array<int, 3> given = {static_cast<int>(x), static_cast<int>(y), static_cast<int>(z)};
  if (required[0] > 0 && required != given)
    mismatch(fmt::format("the cluster is {} in the image, but {} in the sidecar", fmt::join(required, " x "),
                         fmt::join(given, " x ")));
  const uint64_t ctas = uint64_t{x} * y * z;
  if (ctas <= 1) return;
  if (ctas > 8)
    driver_.kernel_set_attribute(FunctionAttribute::non_portable_cluster_size_allowed, 1, kernel_,
                                 queue_.context().ordinal());
  const auto block = signature_.block();
  const cu::LaunchConfig config = {
      x, y, z, block[0], block[1], block[2], signature_.dynamic_shared_bytes, nullptr, nullptr, 0};
  int most = 0;
  driver_.occupancy_max_potential_cluster_size(&most, function(), &config);
  if (ctas > static_cast<uint64_t>(most))
    throw Error(fmt::format(
        "kernel '{}' has clusters of {} x {} x {} = {} CTAs, but with {} threads and {} B of dynamic shared "
        "memory, this GPU can place at most {}",
        signature_.kernel, x, y, z, ctas, signature_.threads, signature_.dynamic_shared_bytes, most));
}

int CudaProgram::attribute(FunctionAttribute attribute) const {
  int value = 0;
  driver_.kernel_get_attribute(&value, attribute, kernel_, queue_.context().ordinal());
  return value;
}

void CudaProgram::mismatch(const std::string& what) const {
  throw Error(
      fmt::format("image and sidecar of kernel '{}' do not belong together: {}", signature_.kernel, what));
}

}  // namespace ptxbuilder::runtime
