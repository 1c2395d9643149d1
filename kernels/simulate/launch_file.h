// A launch that is described in JSON, with which `ptxb sim` runs a PTX file.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/simulate/formula.h"
#include "runtime/emulator/emulator.h"

namespace ptxbuilder::command {

// A parameter of the kernel, or a member of a struct in a parameter or a buffer.
struct LaunchParameter {
  enum class Kind : uint8_t { raw, pointer, tensor_map, structure };

  Kind kind = Kind::raw;
  bool scalar = false;                   // raw: a number that rules may name
  std::string path = {};                 // its path in the file, for errors: "parameters[2]"
  std::vector<std::byte> value = {};     // raw: the bytes
  std::optional<size_t> buffer = {};     // a null pointer has no buffer
  uint64_t offset = 0;                   // offset into the buffer, in bytes
  runtime::TensorMapArguments map = {};  // without its address
  uint32_t at = 0;                       // offset in the enclosing struct, in bytes
  uint32_t bytes = 0;                    // size of a struct
  std::vector<LaunchParameter> members = {};

  size_t size() const;
};

// The initial or expected elements of a buffer.
struct Content {
  // The kinds of contents:
  // - normal: N(0, 1).
  // - iota: 0, 1, 2, ...
  // - same: one value everywhere.
  // - file: raw bytes, or a .npy file.
  // - buffer: the elements of another buffer.
  // - structure: scalars, pointers and tensor maps at their offsets, with zeros or a file between them.
  // - kept: the module's own value of its variable.
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
  std::optional<uint64_t> seed = {};   // normal: the seed; if empty, the run's seed with the buffer's number
  std::vector<std::byte> values = {};  // same: one element; values: all elements
  std::filesystem::path file = {};
  uint64_t skipped = 0;                              // size of the file's header
  size_t buffer = 0;                                 // number of the other buffer
  std::shared_ptr<const Formula> formula = nullptr;  // refers to the buffers' contents before the launch
  std::vector<LaunchParameter> members = {};
};

struct LaunchBuffer {
  std::string name;
  DType dtype = DType::u8;
  std::vector<uint64_t> shape;  // elements, innermost first
  Content content;
  std::string symbol = {};  // the module's variable that is the buffer, if there is one
  std::string path = {};    // its path in the file, for errors

  size_t count() const;
  size_t bytes() const { return count() * static_cast<size_t>(size_of(dtype)); }
};

// The things that are done with a buffer after the launch, in any combination.
struct LaunchOutput {
  size_t buffer = 0;
  std::string path = {};
  size_t print = 0;                  // number of elements to print
  std::filesystem::path write = {};  // file for raw bytes, or a .npy file
  std::optional<Content> equals = {};
  double tolerance = 0, relative = 0;  // |got - expected| <= tolerance + relative |expected|
};

// A finding that is known and accepted.
struct Waiver {
  runtime::Fault kind;
  uint32_t line = 0;      // line of the PTX
  std::string path = {};  // its path in the file, for errors
};

// One launch of a kernel.
struct KernelLaunch {
  std::string path = {};                   // its path in the file, for errors: "launches[1].", or ""
  std::string entry = {};                  // name of the kernel; "" for the only one
  std::optional<runtime::Dim3> grid = {};  // if empty, the value of the sidecar's rule
  std::optional<runtime::Dim3> block = {}, cluster = {};  // if empty, the value of the sidecar, or of the PTX
  std::optional<uint32_t> dynamic_shared_bytes = {};      // if empty, the value of the sidecar, or 0
  bool cooperative = false;                               // may also be set in the sidecar
  bool overlaps = false;  // a programmatic dependent launch, which may begin before the previous one has
                          // ended
  std::vector<LaunchParameter> parameters = {};
};

struct LaunchFile {
  std::string name;                    // name of the file
  std::vector<KernelLaunch> launches;  // in order; at least one
  std::vector<LaunchBuffer> buffers;
  std::vector<LaunchOutput> outputs;
  std::vector<SharedObject> shared;  // names for reports
  std::vector<Waiver> waivers;
};

// Reads a launch file. Throws Error such as "NAME: parameters[2].box[1]: 300 exceeds 256", or "NAME: line 3,
// column 5: ..." if the text is not JSON. Files that it names are searched for in its folder. Only the text
// and the headers of .npy files are read.
LaunchFile launch_from_json(const std::string& text, const std::filesystem::path& name);

// The form of the file, in words, for `ptxb sim --help`.
extern const char* const launch_file_help;

}  // namespace ptxbuilder::command
