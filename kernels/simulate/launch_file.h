// A launch described in JSON, with which `ptxb sim` runs a PTX file.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/simulate/formula.h"
#include "runtime/emulator/emulator.h"

namespace ptxbuilder::command {

// One parameter of the kernel, or one member of a struct in a parameter or in a buffer.
struct LaunchParameter {
  enum class Kind : uint8_t { raw, pointer, tensor_map, structure };

  Kind kind = Kind::raw;
  bool scalar = false;                   // of raw: a number that rules may name
  std::string path = {};                 // in the file, for errors: "parameters[2]"
  std::vector<std::byte> value = {};     // of raw
  std::optional<size_t> buffer = {};     // a pointer has none: null
  uint64_t offset = 0;                   // bytes into the buffer
  runtime::TensorMapArguments map = {};  // without its address
  uint32_t at = 0;                       // bytes from the start of the enclosing struct
  uint32_t bytes = 0;                    // of a struct
  std::vector<LaunchParameter> members = {};

  size_t size() const;
};

// The initial or expected elements of a buffer.
struct Content {
  // normal: N(0, 1). iota: 0, 1, 2, ... same: one value everywhere. file: raw bytes, or a .npy. buffer: those
  // of another buffer. structure: scalars, pointers and tensor maps at their places, with zeros or a file
  // between them. kept: the module's own value of its variable.
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
  std::shared_ptr<const Formula> formula = nullptr;  // in terms of the buffers' contents before the launch
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

// After the launch, any of these is done with a buffer.
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
  std::optional<runtime::Dim3> grid = {};  // else the value of a sidecar's rule
  std::optional<runtime::Dim3> block = {}, cluster = {};  // else the value of a sidecar, or of the PTX
  std::optional<uint32_t> dynamic_shared_bytes = {};      // else the value of a sidecar, or 0
  bool cooperative = false;                               // or according to a sidecar
  bool overlaps = false;  // a programmatic dependent launch, before the previous one has ended
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

// Throws Error "NAME: parameters[2].box[1]: 300 exceeds 256", or "NAME: line 3, column 5: ..." if it is not
// JSON. Files that it names are searched for next to it. Only the text and the headers of .npy files are
// read.
LaunchFile launch_from_json(const std::string& text, const std::filesystem::path& name);

// Returns the form of the file, in words, for `ptxb sim --help`.
extern const char* const launch_file_help;

}  // namespace ptxbuilder::command
