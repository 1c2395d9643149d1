// Reads the JSON files of `ptxb sim`, which describe the launches of a PTX file.
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
  bool scalar = false;                   // raw: whether the value is a number that rules may name
  std::string path = {};                 // its path in the launch file, for errors, such as "parameters[2]"
  std::vector<std::byte> value = {};     // raw: the bytes
  std::optional<size_t> buffer = {};     // empty for a null pointer
  uint64_t offset = 0;                   // offset into the buffer, in bytes
  runtime::TensorMapArguments map = {};  // tensor_map: the map without its address
  uint32_t at = 0;                       // offset in the enclosing struct, in bytes
  uint32_t bytes = 0;                    // structure: its size
  std::vector<LaunchParameter> members = {};

  size_t size() const;
};

// The initial or expected elements of a buffer.
struct Content {
  // The kinds of contents:
  // - normal: N(0, 1).
  // - iota: 0, 1, 2, ...
  // - same: all elements have one value.
  // - file: raw bytes, or a .npy file.
  // - buffer: the elements of another buffer.
  // - structure: scalars, pointers and tensor maps at their offsets, with zeros or a file between them.
  // - kept: a module's variable keeps its initial value.
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
  std::optional<uint64_t> seed = {};   // normal: the seed; if empty, the run's seed and the buffer's number
                                       // are used
  std::vector<std::byte> values = {};  // same: one element; values: all elements
  std::filesystem::path file = {};
  uint64_t skipped = 0;                              // file: size of the header
  size_t buffer = 0;                                 // buffer: number of the other buffer
  std::shared_ptr<const Formula> formula = nullptr;  // uses the contents that the buffers have before the
                                                     // launch
  std::vector<LaunchParameter> members = {};
};

struct LaunchBuffer {
  std::string name;
  DType dtype = DType::u8;
  std::vector<uint64_t> shape;  // in elements, innermost dimension first
  Content content;
  std::string symbol = {};  // name of the module's variable that serves as this buffer, or ""
  std::string path = {};    // its path in the launch file, for errors

  size_t count() const;
  size_t bytes() const { return count() * static_cast<size_t>(size_of(dtype)); }
};

// Describes the processing of a buffer after the launch. Printing, writing to a file and comparing can be
// combined.
struct LaunchOutput {
  size_t buffer = 0;
  std::string path = {};
  size_t print = 0;                  // number of elements to print
  std::filesystem::path write = {};  // path of the file to write, with raw bytes or as .npy
  std::optional<Content> equals = {};
  double tolerance = 0, relative = 0;  // |got - expected| <= tolerance + relative |expected|
};

// A fault that is known and accepted.
struct Waiver {
  runtime::Fault kind;
  uint32_t line = 0;      // line of the PTX
  std::string path = {};  // its path in the launch file, for errors
};

// One launch of a kernel.
struct KernelLaunch {
  std::string path = {};   // its path in the launch file, for errors, such as "launches[1]."; or ""
  std::string entry = {};  // name of the kernel; "" if the PTX has only one
  std::optional<runtime::Dim3> grid = {};                 // if empty, the sidecar's rule determines it
  std::optional<runtime::Dim3> block = {}, cluster = {};  // if empty, taken from the sidecar or the PTX
  std::optional<uint32_t> dynamic_shared_bytes = {};      // if empty, taken from the sidecar, or 0
  bool cooperative = false;                               // the sidecar may set this, too
  bool overlaps = false;  // a programmatic dependent launch, which may begin before the previous launch has
                          // ended
  std::vector<LaunchParameter> parameters = {};
};

struct LaunchFile {
  std::string name;                    // path of the launch file
  std::vector<KernelLaunch> launches;  // in order; at least one
  std::vector<LaunchBuffer> buffers;
  std::vector<LaunchOutput> outputs;
  std::vector<SharedObject> shared;  // shared-memory objects to be named in reports
  std::vector<Waiver> waivers;
};

// Parses the text of a launch file. Files that the text names are searched for in the folder of `name`; only
// the headers of .npy files are read here. Throws an Error such as "NAME: parameters[2].box[1]: 300 exceeds
// 256", or "NAME: line 3, column 5: ..." if the text is not JSON.
LaunchFile launch_from_json(const std::string& text, const std::filesystem::path& name);

// A description of the format, for `ptxb sim --help`.
extern const char* const launch_file_help;

}  // namespace ptxbuilder::command
