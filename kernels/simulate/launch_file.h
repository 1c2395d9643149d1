// A launch described in JSON: what `ptxb sim` runs a PTX file with.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/simulate/formula.h"
#include "runtime/emulator/emulator.h"

namespace ptxbuilder::command {

// One parameter of the kernel, or one member of a struct in one or in a buffer.
struct LaunchParameter {
  enum class Kind : uint8_t { raw, pointer, tensor_map, structure };

  Kind kind = Kind::raw;
  bool scalar = false;                   // of raw: a number that rules may name
  std::string path = {};                 // in the file, for errors: "parameters[2]"
  std::vector<std::byte> value = {};     // of raw
  std::optional<size_t> buffer = {};     // a pointer has none: null
  uint64_t offset = 0;                   // bytes into the buffer
  runtime::TensorMapArguments map = {};  // without its address
  uint32_t at = 0;                       // bytes from the start of the struct around it
  uint32_t bytes = 0;                    // of a struct
  std::vector<LaunchParameter> members = {};

  size_t size() const;
};

// The elements of a buffer, at first or as expected.
struct Content {
  // normal: N(0, 1). iota: 0, 1, 2, ... same: one value everywhere. file: raw bytes, or a .npy. buffer:
  // another's. structure: scalars, pointers and tensor maps at their places, zeros or a file between. kept:
  // what the module says of its variable.
  enum class Kind : uint8_t {
    zeros,
    poison,
    iota,
    normal,
    same,
    values,
    file,
    buffer,
    formula,
    structure,
    kept
  };

  Kind kind = Kind::zeros;
  std::optional<uint64_t> seed = {};   // of normal; else the run's, and the buffer's number
  std::vector<std::byte> values = {};  // one element of same, all of values
  std::filesystem::path file = {};
  uint64_t skipped = 0;                              // bytes of the file's header
  size_t buffer = 0;                                 // its number
  std::shared_ptr<const Formula> formula = nullptr;  // over what the buffers hold before the launch
  std::vector<LaunchParameter> members = {};
};

struct LaunchBuffer {
  std::string name;
  DType dtype = DType::u8;
  std::vector<uint64_t> shape;  // elements, innermost first
  Content content;
  std::string symbol = {};  // the module's variable that it is in, if any
  std::string path = {};    // in the file, for errors

  size_t count() const;
  size_t bytes() const { return count() * static_cast<size_t>(size_of(dtype)); }
};

// This says what is done with a buffer after the launch: any of these.
struct LaunchOutput {
  size_t buffer = 0;
  std::string path = {};
  size_t print = 0;                  // elements
  std::filesystem::path write = {};  // raw bytes, or a .npy
  std::optional<Content> equals = {};
  double tolerance = 0, relative = 0;  // |got - expected| <= tolerance + relative |expected|
};

// A finding that is known and accepted.
struct Waiver {
  runtime::Fault kind;
  uint32_t line = 0;      // of the PTX
  std::string path = {};  // in the file, for errors
};

// One launch of a kernel.
struct KernelLaunch {
  std::string path = {};                   // in the file, for errors: "launches[1].", or nothing
  std::string entry = {};                  // "" for the only one
  std::optional<runtime::Dim3> grid = {};  // else what a sidecar's rule says
  std::optional<runtime::Dim3> block = {}, cluster = {};  // else what a sidecar says, or the PTX requires
  std::optional<uint32_t> dynamic_shared_bytes = {};      // else what a sidecar says, or 0
  bool cooperative = false;                               // or as a sidecar says
  bool overlaps = false;  // it may begin before the launch ahead has ended: a programmatic dependent launch
  std::vector<LaunchParameter> parameters = {};
};

struct LaunchFile {
  std::string name;                    // of the file
  std::vector<KernelLaunch> launches;  // in order; at least one
  std::vector<LaunchBuffer> buffers;
  std::vector<LaunchOutput> outputs;
  std::vector<SharedObject> shared;  // for reports
  std::vector<Waiver> waivers;
};

// Throws Error "NAME: parameters[2].box[1]: 300 exceeds 256", or "NAME: line 3, column 5: ..." where it is no
// JSON. Files that it names are looked for next to it. Nothing is read but the text, and the headers of .npy
// files.
LaunchFile launch_from_json(const std::string& text, const std::filesystem::path& name);

// The form of the file, in words, for `ptxb sim --help`.
extern const char* const launch_file_help;

}  // namespace ptxbuilder::command
