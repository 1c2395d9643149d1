// A compiled kernel on a device. It is launched with arguments that are checked against its sidecar.
#pragma once

#include <atomic>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ptxbuilder/launch_rule.h"
#include "runtime/argument.h"
#include "runtime/device.h"
#include "runtime/report.h"

namespace ptxbuilder::runtime {

// The options of a launch. Block, cluster and shared memory are properties of the kernel.
struct LaunchOptions {
  Dim3 grid = {0, 0, 0};  // number of CTAs; if not set, the kernel's own rule determines it (Kernel::grid)
  bool programmatic_dependent_launch = false;
  bool cooperative = false;  // see Launch; always true for a kernel whose signature requires it
  Stream stream = {};        // by default, the device's own stream
};

class LoadedKernel;

// Tensor maps in device memory, for a parameter of kind tensor_map_array in any kernel with the same recipe.
// The array and the memory of its tensors must outlive the launches that use the array.
class TensorMapArray {
 public:
  size_t size() const { return buffer_.bytes() / sizeof(TensorMap); }
  operator Argument() const;  // NOLINT: meant to be implicit, as an argument of a launch

 private:
  friend class LoadedKernel;
  TensorMapArray(Buffer buffer, TensorMapRecipe recipe)
      : buffer_(std::move(buffer)), recipe_(std::move(recipe)) {}

  Buffer buffer_;
  TensorMapRecipe recipe_;
};

// A launch whose arguments have been checked. It is used for further launches that differ only in addresses,
// scalar values and the stream. Such launches take only a fraction of the time on the host.
// LoadedKernel::prepare() creates it. It must not outlive its kernel, or be used after the kernel was moved.
// Any thread may launch it at any time.
class PreparedLaunch {
 public:
  // Queues one launch. `values` has one element for each parameter: the bits of a scalar, or the address of a
  // pointer or tensor. The memory at an address must be at least as large as that of the argument that was
  // checked. Throws an Error if the number of values is wrong, or if a tensor's address lacks the alignment
  // that its tensor map requires.
  void operator()(std::span<const uint64_t> values, Stream stream, Where where = Where::here()) const;

 private:
  friend class LoadedKernel;
  // `launch` has already been checked.
  PreparedLaunch(const LoadedKernel& kernel, const Launch& launch, std::span<const Argument> arguments,
                 std::optional<Address> report)
      : kernel_(&kernel),
        launch_(launch),
        arguments_(arguments.begin(), arguments.end()),
        report_(report),
        last_(std::make_unique<Last>(arguments, report)) {}

  // The values of the last launch. The next launch with the same addresses uses the same tensor maps. A
  // thread that finds this object in use encodes its own tensor maps.
  struct Last {
    struct Map {
      size_t parameter;
      std::optional<Address> address = {};  // address for which the map is encoded
      TensorMap encoded = {};
    };
    Last(std::span<const Argument> arguments, std::optional<Address> report);

    std::atomic_flag taken = ATOMIC_FLAG_INIT;
    std::vector<uint64_t> values;  // one for each of the author's parameters
    std::vector<Map> maps;
    Address report;                     // the kernel's last parameter, if it reports
    std::vector<const void*> pointers;  // pointers to these values, one for each parameter
  };

  const LoadedKernel* kernel_;
  Launch launch_;
  std::vector<Argument> arguments_;
  std::optional<Address> report_;
  std::unique_ptr<Last> last_;
};

// A kernel on a device. It must not outlive the device. Any thread may launch it at any time.
class LoadedKernel {
 public:
  // `image` is a cubin or PTX text. Throws an Error if the signature does not belong to a kernel in the
  // image, or if the device rejects the image.
  LoadedKernel(Device& device, const std::string& image, Signature signature, Where where = Where::here());

  // Reads NAME.json and the image with the same name: NAME.ptx if the device needs PTX; otherwise NAME.cubin
  // or, if that does not exist, NAME.ptx. `path` is NAME, or one of these files; the path of an image selects
  // that image. If the image contains several kernels, `kernel` selects one of them, whose sidecar is
  // NAME.KERNEL.json.
  static LoadedKernel from_file(Device& device, const std::string& path, const std::string& kernel = "",
                                Where where = Where::here());

  const Signature& signature() const { return signature_; }

  // Sets the function that receives each line that the kernel prints. By default, lines are written to
  // standard output (see print() in ptxbuilder/tile/check.h). Does nothing if the kernel does not print.
  void on_print(std::function<void(const std::string&)> print);

  // Returns the log of the driver's compiler for PTX text, or an empty string for a cubin.
  std::string log() const { return program_->log(); }

  // Encodes the tensor maps and queues one launch. Throws an Error that names the parameter if the arguments
  // do not match the parameters in number, kind, type, rank or (if specified) name. Does the same if a tensor
  // violates a rule of its tensor map or extends beyond its memory. Also throws an Error if the grid is
  // missing and the kernel has no rule for it, if the rule yields no grid, or if the grid is not a multiple
  // of the cluster.
  void launch(const LaunchOptions& options, std::span<const Argument> arguments, Where where = Where::here());
  void launch(const LaunchOptions& options, std::initializer_list<Argument> arguments,
              Where where = Where::here()) {
    launch(options, std::span(arguments.begin(), arguments.size()), where);
  }

  // Encodes a tensor map with the parameter's recipe for each of `tensors`, which must be results of
  // tensor(). Throws an Error that names the parameter, the tensor and the rule if a tensor violates a rule
  // of the map or extends beyond its memory. Also throws an Error if no parameter with that name takes a
  // tensor map array.
  TensorMapArray tensor_maps(std::string_view parameter, std::span<const Argument> tensors,
                             Where where = Where::here()) const;
  TensorMapArray tensor_maps(std::string_view parameter, std::initializer_list<Argument> tensors,
                             Where where = Where::here()) const {
    return tensor_maps(parameter, std::span(tensors.begin(), tensors.size()), where);
  }

  // Checks arguments and grid like launch(), but only once for many launches. Throws the same errors. Also
  // throws an Error if a parameter is a struct, or if the grid is not specified, because a kernel's rule may
  // yield different grids for different scalars.
  PreparedLaunch prepare(const LaunchOptions& options, std::span<const Argument> arguments,
                         Where where = Where::here()) const;

  // Returns the grid that the kernel's rule yields for these arguments. Throws an Error if the kernel has no
  // rule, or if the rule yields no grid.
  Dim3 grid(std::span<const Argument> arguments, Where where = Where::here()) const;

 private:
  friend class PreparedLaunch;
  class Values;

  void launch_prepared(const PreparedLaunch& prepared, std::span<const uint64_t> values, Stream stream) const;
  void encode(PreparedLaunch::Last::Map& map, const Argument& tensor, Address address) const;
  std::span<const Parameter> authors_parameters() const;
  void check_count(size_t given) const;
  void check_type(size_t i, const Argument& argument) const;
  const void* value(size_t i, const Argument& argument, std::byte* bytes) const;
  void lay_out(size_t i, const Argument& structure, std::byte* bytes) const;
  TensorMapView map(size_t i, const Argument& tensor) const;
  TensorMapView checked_map(size_t i, const Argument& tensor) const;
  Launch launch_of(const LaunchOptions& options, Dim3 grid) const;
  [[noreturn]] void refuse(size_t i, const std::string& what) const;

  Device* device_;
  Signature signature_;
  std::unique_ptr<Program> program_;
  // Offsets, indexed by parameter. offsets_ are those of tensor maps and structs in the bytes of a launch,
  // and field_offsets_ are those of fields in their struct.
  std::vector<size_t> offsets_;
  std::vector<std::vector<int>> field_offsets_;
  size_t bytes_ = 0;
  std::optional<GridRule> grid_;
  std::shared_ptr<KernelReport> report_;  // null unless the kernel reports
  int multiprocessors_ = 0;               // number of multiprocessors, if there is a rule
};

}  // namespace ptxbuilder::runtime
