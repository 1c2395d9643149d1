// Describes how to launch a compiled kernel. NAME.json, the sidecar of NAME.cubin, contains this description.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ptxbuilder/dtype.h"
#include "ptxbuilder/profile_format.h"
#include "ptxbuilder/report_format.h"

namespace ptxbuilder {

// The enumerations of cuTensorMapEncodeTiled, with the same values (CUDA driver API, "Tensor Map Object
// Management").
enum class Interleave : uint8_t { none, b16, b32 };
enum class Swizzle : uint8_t { none, b32, b64, b128 };
enum class L2Promotion : uint8_t { none, b64, b128, b256 };
enum class OobFill : uint8_t { zero, nan };
// Returns whether TMA can fill elements of the type with NaN (CUDA driver API, CUtensorMapFloatOOBfill).
// 8-bit floats are excluded, because TMA copies them as bytes.
constexpr bool tma_fills_nan(DType type) { return is_float(type) && !is_fp8(type); }

std::string_view name(Interleave);   // "none", "16", "32"
std::string_view name(Swizzle);      // "none", "32", "64", "128"
std::string_view name(L2Promotion);  // "none", "64", "128", "256"
std::string_view name(OobFill);      // "zero", "nan"

// Returns the span of a swizzle's pattern, which limits the inner extent of a box: 32, 64 or 128 bytes, or 0
// for Swizzle::none.
constexpr int span_bytes(Swizzle swizzle) {
  return swizzle == Swizzle::none ? 0 : 16 << static_cast<int>(swizzle);
}

// The encoding of a tensor map: all arguments of cuTensorMapEncodeTiled except the tensor's address, shape
// and strides.
struct TensorMapRecipe {
  DType dtype = DType::f32;
  std::vector<uint32_t> box;              // 1 to 5 extents in elements, innermost first
  std::vector<uint32_t> element_strides;  // innermost first; one stride for each extent of `box`
  Interleave interleave = Interleave::none;
  Swizzle swizzle = Swizzle::none;
  L2Promotion l2_promotion = L2Promotion::b256;  // this default makes kernels 1 to 2 % faster if memory is
                                                 // the bottleneck, and never slower
  OobFill oob_fill = OobFill::zero;
  // The number of pixels that a copy transfers in im2col mode (cuTensorMapEncodeIm2col), each with box[0]
  // channels; the other extents of `box` are then 1. In tiled mode, `pixels` is 0.
  uint32_t pixels = 0;

  int rank() const { return static_cast<int>(box.size()); }
  bool operator==(const TensorMapRecipe&) const = default;
};

// A kernel parameter.
struct Parameter {
  // The kinds of parameters. A tensor_map_array is a pointer to an array of tensor maps in global memory, all
  // with the same recipe.
  enum class Kind : uint8_t { scalar, pointer, tensor_map, structure, tensor_map_array };

  std::string name = {};
  Kind kind = Kind::scalar;
  DType dtype = DType::u32;            // type of a scalar, of a pointer's elements, or of a tensor's elements
  TensorMapRecipe tensor_map = {};     // valid if has_recipe()
  std::vector<Parameter> fields = {};  // scalars and pointers of a structure, in order, laid out as in C
  std::string meaning = {};            // one-line description for callers that launch the kernel

  bool has_recipe() const { return kind == Kind::tensor_map || kind == Kind::tensor_map_array; }
  bool is_address() const { return kind == Kind::pointer || kind == Kind::tensor_map_array; }
  // Returns the parameter's size in the kernel's parameter space: 1 to 8 bytes for a scalar or pointer, 128
  // bytes for a tensor map, or the struct's sizeof.
  int size_bytes() const;
  int alignment() const;
  std::vector<int> field_offsets() const;  // offsets in bytes from the struct's start
  bool operator==(const Parameter&) const = default;
};

// An object in dynamic shared memory, such as a tile or an array of barriers. Reports use the object's name.
struct SharedObject {
  std::string name;     // such as "sA", "full" or "tile 0 (bf16 128x64)"
  uint32_t offset = 0;  // in bytes, from the start of dynamic shared memory
  uint32_t bytes = 0;   // size of one stage
  uint32_t stages = 1;  // number of consecutive stages

  bool operator==(const SharedObject&) const = default;
};

// The data that a host needs to launch a kernel. The sidecar stores a Signature as JSON.
struct Signature {
  std::string kernel;                     // name of the .entry
  std::string target = "sm_90a";          // value of ptxas -arch
  int ptx_version = 80;                   // the number in .version, times ten
  uint32_t threads = 128;                 // number of threads of a CTA
  uint32_t threads_y = 1, threads_z = 1;  // the remaining threads are along x
  std::array<uint32_t, 3> cluster = {1, 1, 1};
  uint32_t static_shared_bytes = 0;
  uint32_t dynamic_shared_bytes = 0;  // each launch must pass this number
  std::vector<Parameter> parameters;
  std::vector<SharedObject> shared =
      {};  // objects, sorted by offset; objects may share memory; empty for handwritten PTX, for example

  // The following members help callers to launch the kernel, and are all optional. `grid` holds rules that
  // compute the number of CTAs along x, y and z from the arguments (launch_rule.h). If it is empty, each
  // launch must specify its grid.
  std::optional<std::array<std::string, 3>> grid = {};
  // The names and values of the options that were used to generate the kernel, such as {"bm", "128"}.
  std::vector<std::pair<std::string, std::string>> configuration = {};
  // If true, the kernel executes griddepcontrol.wait before it first reads or writes memory, so it may be
  // launched before the previous launch has finished.
  bool overlaps = false;
  // If true, the kernel's CTAs wait for each other, so all of them must run at once, and the kernel is
  // launched cooperatively.
  bool cooperative = false;
  // Set if the kernel records a profile in the buffer to which its last parameter points (runtime/profile.h).
  std::optional<ProfileFormat> profile = {};
  // Set if the kernel writes reports to host memory: waits that do not end, failed checks, and printed
  // values. The kernel's last parameter points to this memory. The parameter is passed by
  // runtime::LoadedKernel, not by the caller.
  std::optional<ReportFormat> report = {};

  // Numbers that ptxas has reported; empty if the kernel was not assembled.
  std::optional<uint32_t> registers, spill_bytes, stack_bytes;

  // Returns the number of threads of a CTA along x, y and z.
  std::array<uint32_t, 3> block() const { return {threads / (threads_y * threads_z), threads_y, threads_z}; }

  bool operator==(const Signature&) const = default;
};

// Returns the indented text of NAME.json. signature_from_json() converts this text back to an equal
// Signature.
std::string to_json(const Signature& signature);

// Parses the text of a sidecar, and returns its signature. If the text is not a valid sidecar, the function
// throws an Error that names the member, the actual value and the expected value.
Signature signature_from_json(const std::string& text, const std::string& file_name);

}  // namespace ptxbuilder
