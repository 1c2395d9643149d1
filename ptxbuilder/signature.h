// Describes how to launch a compiled kernel: the contents of NAME.json, the sidecar of NAME.cubin.
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
// Returns whether TMA can fill in NaN for the type (CUDA driver API, CUtensorMapFloatOOBfill). 8-bit floats
// are excluded, since they are copied as bytes.
constexpr bool tma_fills_nan(DType type) { return is_float(type) && !is_fp8(type); }

std::string_view name(Interleave);   // "none", "16", "32"
std::string_view name(Swizzle);      // "none", "32", "64", "128"
std::string_view name(L2Promotion);  // "none", "64", "128", "256"
std::string_view name(OobFill);      // "zero", "nan"

// Returns the extent of a swizzle's pattern in bytes, which limits the inner extent of a box: 32, 64 or 128;
// or 0 without a swizzle.
constexpr int span_bytes(Swizzle swizzle) {
  return swizzle == Swizzle::none ? 0 : 16 << static_cast<int>(swizzle);
}

// The encoding of a tensor parameter: all arguments of cuTensorMapEncodeTiled except the tensor's address,
// shape and strides.
struct TensorMapRecipe {
  DType dtype = DType::f32;
  std::vector<uint32_t> box;              // in elements, innermost first; the size is the rank, 1 to 5
  std::vector<uint32_t> element_strides;  // innermost first; same size as box
  Interleave interleave = Interleave::none;
  Swizzle swizzle = Swizzle::none;
  L2Promotion l2_promotion = L2Promotion::b256;  // 1 to 2 % faster if memory is the bottleneck, and never
                                                 // slower
  OobFill oob_fill = OobFill::zero;
  // In im2col mode (cuTensorMapEncodeIm2col), the number of pixels that a copy transfers, each with box[0]
  // channels; the box is then 1 along the other dimensions. Otherwise 0.
  uint32_t pixels = 0;

  int rank() const { return static_cast<int>(box.size()); }
  bool operator==(const TensorMapRecipe&) const = default;
};

// A kernel parameter.
struct Parameter {
  // A tensor_map_array is a pointer to an array of tensor maps in global memory, all with the same recipe.
  enum class Kind : uint8_t { scalar, pointer, tensor_map, structure, tensor_map_array };

  std::string name = {};
  Kind kind = Kind::scalar;
  DType dtype = DType::u32;            // type of the scalar, of the elements pointed to, or of the tensors
  TensorMapRecipe tensor_map = {};     // if has_recipe()
  std::vector<Parameter> fields = {};  // for a structure: scalars and pointers in order, laid out as in C
  std::string meaning = {};            // one line for the caller who launches the kernel; may be empty

  bool has_recipe() const { return kind == Kind::tensor_map || kind == Kind::tensor_map_array; }
  bool is_address() const { return kind == Kind::pointer || kind == Kind::tensor_map_array; }
  // Returns the size in the kernel's parameter space: 1 to 8 bytes, 128 for a tensor map, or sizeof for a
  // struct.
  int size_bytes() const;
  int alignment() const;
  std::vector<int> field_offsets() const;  // in bytes from the struct's start
  bool operator==(const Parameter&) const = default;
};

// An object in dynamic shared memory, such as a tile or barriers; reports name it.
struct SharedObject {
  std::string name;     // "sA", "full", "tile 0 (bf16 128x64)"
  uint32_t offset = 0;  // bytes from the start of dynamic shared memory
  uint32_t bytes = 0;   // size of one stage
  uint32_t stages = 1;  // number of consecutive stages

  bool operator==(const SharedObject&) const = default;
};

// Everything that a host needs to know to launch a kernel; the sidecar stores it as JSON.
struct Signature {
  std::string kernel;                     // the .entry name
  std::string target = "sm_90a";          // ptxas -arch
  int ptx_version = 80;                   // ten times .version
  uint32_t threads = 128;                 // per CTA
  uint32_t threads_y = 1, threads_z = 1;  // the remaining threads are along x
  std::array<uint32_t, 3> cluster = {1, 1, 1};
  uint32_t static_shared_bytes = 0;
  uint32_t dynamic_shared_bytes = 0;  // the launch must pass it
  std::vector<Parameter> parameters;
  std::vector<SharedObject> shared =
      {};  // sorted by offset; some may share memory; may be empty, for example for handwritten PTX

  // The following members let others launch the kernel, and are all optional. `grid` holds the number of CTAs
  // along x, y and z as rules over the arguments (launch_rule.h); without it, each launch states its grid.
  std::optional<std::array<std::string, 3>> grid = {};
  // The options with which the kernel was generated, by name: {"bm", "128"}.
  std::vector<std::pair<std::string, std::string>> configuration = {};
  // The kernel executes griddepcontrol.wait before it first reads or writes memory, so that it may be
  // launched before the previous launch has finished.
  bool overlaps = false;
  // The kernel's CTAs wait for each other, so all of them must run at once, and the kernel is launched
  // cooperatively.
  bool cooperative = false;
  // The kernel records a profile in the buffer that its last parameter points to (runtime/profile.h).
  std::optional<ProfileFormat> profile = {};
  // The kernel reports waits that do not end, failed checks and prints to host memory. Its last parameter
  // points to that memory; runtime::LoadedKernel passes it, not the caller.
  std::optional<ReportFormat> report = {};

  // Reported by ptxas; absent if the kernel was not assembled.
  std::optional<uint32_t> registers, spill_bytes, stack_bytes;

  // Returns the threads of a CTA along x, y and z.
  std::array<uint32_t, 3> block() const { return {threads / (threads_y * threads_z), threads_y, threads_z}; }

  bool operator==(const Signature&) const = default;
};

// Returns the text of NAME.json, indented. from_json(to_json(s)) equals s.
std::string to_json(const Signature& signature);

// Throws Error if the text is not such a sidecar; it names the member, what was found and what is expected.
Signature signature_from_json(const std::string& text, const std::string& file_name);

}  // namespace ptxbuilder
