// A compiled kernel on a device, launched with arguments that are checked against its sidecar.
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

// The options of a launch; block, cluster and shared memory belong to the kernel.
struct LaunchOptions {
  Dim3 grid = {0, 0, 0};  // CTAs; if not set, the kernel's rule determines them (Kernel::grid)
  bool programmatic_dependent_launch = false;
  bool cooperative = false;  // see Launch; a kernel whose signature requires it is always launched so
  Stream stream = {};        // the device's own unless set
};

class LoadedKernel;

// Tensor maps in device memory, for a parameter of the kind tensor_map_array, of any kernel with the same
// recipe. The array and the memory of its tensors must outlive the launches that take the array.
class TensorMapArray {
 public:
  size_t size() const { return buffer_.bytes() / sizeof(TensorMap); }
  operator Argument() const;  // NOLINT: an argument of a launch

 private:
  friend class LoadedKernel;
  TensorMapArray(Buffer buffer, TensorMapRecipe recipe)
      : buffer_(std::move(buffer)), recipe_(std::move(recipe)) {}

  Buffer buffer_;
  TensorMapRecipe recipe_;
};

// A launch whose arguments were checked, for further launches that differ from it only in addresses, scalar
// values and the stream, and need a fraction of the host's time. LoadedKernel::prepare() makes it; it must
// not outlive its kernel, or be used after the kernel moves. Any thread may launch it at any time.
class PreparedLaunch {
 public:
  // Queues one launch. `values` are a scalar's bits, or the address of a pointer or tensor, by parameter; the
  // memory at an address must be as large as that of the checked argument. Throws Error when there is not one
  // value for each parameter, and when the address of a tensor does not have the alignment that its tensor
  // map needs.
  void operator()(std::span<const uint64_t> values, Stream stream, Where where = Where::here()) const;

 private:
  friend class LoadedKernel;
  // `launch` has been checked.
  PreparedLaunch(const LoadedKernel& kernel, const Launch& launch, std::span<const Argument> arguments,
                 std::optional<Address> report)
      : kernel_(&kernel),
        launch_(launch),
        arguments_(arguments.begin(), arguments.end()),
        report_(report),
        last_(std::make_unique<Last>(arguments, report)) {}

  // The values of the last launch. The next launch with the same addresses uses the same tensor maps. A
  // thread that finds this object in use makes its own.
  struct Last {
    struct Map {
      size_t parameter;
      std::optional<Address> address = {};  // the addresses for which the map is encoded
      TensorMap encoded = {};
    };
    Last(std::span<const Argument> arguments, std::optional<Address> report);

    std::atomic_flag taken = ATOMIC_FLAG_INIT;
    std::vector<uint64_t> values;  // by the author's parameters
    std::vector<Map> maps;
    Address report;                     // the kernel's last parameter, if it reports
    std::vector<const void*> pointers;  // to the values above, by parameter
  };

  const LoadedKernel* kernel_;
  Launch launch_;
  std::vector<Argument> arguments_;
  std::optional<Address> report_;
  std::unique_ptr<Last> last_;
};

// A loaded kernel must not outlive its device. Any number of threads may launch it at any time.
class LoadedKernel {
 public:
  // `image` is a cubin or PTX text. Throws Error when the signature does not belong to a kernel, or when the
  // device rejects the image.
  LoadedKernel(Device& device, const std::string& image, Signature signature, Where where = Where::here());

  // Reads NAME.json and the image next to it: NAME.ptx if the device needs PTX, otherwise NAME.cubin or, if
  // that does not exist, NAME.ptx. `path` is NAME, or one of these files; the path of an image selects that
  // image. If the image has several kernels, `kernel` chooses one, whose sidecar is NAME.KERNEL.json.
  static LoadedKernel from_file(Device& device, const std::string& path, const std::string& kernel = "",
                                Where where = Where::here());

  const Signature& signature() const { return signature_; }

  // Sets the function that receives each line that the kernel prints. Without it, lines go to standard
  // output; see print() of ptxbuilder/tile/check.h. Does nothing if the kernel does not print.
  void on_print(std::function<void(const std::string&)> print);

  // The log of the driver's compiler for PTX text; empty for a cubin.
  std::string log() const { return program_->log(); }

  // Queues one launch, for which tensor maps are encoded. Throws Error that names the parameter when the
  // arguments do not match the parameters in number, kind, type, rank or (if given) name, and when a tensor
  // breaks a rule of its tensor map or leaves its memory. Throws Error also when the grid is missing and the
  // kernel has no rule for it, when the rule yields none, or when the grid is not a multiple of the cluster.
  void launch(const LaunchOptions& options, std::span<const Argument> arguments, Where where = Where::here());
  void launch(const LaunchOptions& options, std::initializer_list<Argument> arguments,
              Where where = Where::here()) {
    launch(options, std::span(arguments.begin(), arguments.size()), where);
  }

  // Encodes a tensor map for each of `tensors`, which tensor() made, with the parameter's recipe. Throws
  // Error that names the parameter, the tensor and the rule when one breaks a rule of the map or leaves its
  // memory, and when no parameter of that name takes a tensor map array.
  TensorMapArray tensor_maps(std::string_view parameter, std::span<const Argument> tensors,
                             Where where = Where::here()) const;
  TensorMapArray tensor_maps(std::string_view parameter, std::initializer_list<Argument> tensors,
                             Where where = Where::here()) const {
    return tensor_maps(parameter, std::span(tensors.begin(), tensors.size()), where);
  }

  // Checks arguments and grid like launch(), but once for many launches. Throws Error like launch(), and also
  // when a parameter is a struct or the grid is not given, since a kernel's rule may yield other grids for
  // other scalars.
  PreparedLaunch prepare(const LaunchOptions& options, std::span<const Argument> arguments,
                         Where where = Where::here()) const;

  // Returns the grid that the kernel's own rule yields for arguments of launch(). Throws Error when
  // the kernel has no rule, and when the rule yields no grid.
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
  // Offsets by parameter: of tensor maps and structs in the bytes of a launch, and of fields in their
  // struct.
  std::vector<size_t> offsets_;
  std::vector<std::vector<int>> field_offsets_;
  size_t bytes_ = 0;
  std::optional<GridRule> grid_;
  std::shared_ptr<KernelReport> report_;  // of a kernel that reports
  int multiprocessors_ = 0;               // of the device, if there is a rule
};

}  // namespace ptxbuilder::runtime
