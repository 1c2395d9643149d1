// Describes how to launch a compiled kernel: the contents of NAME.json, the sidecar next to NAME.cubin.
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

// The enumerations of cuTensorMapEncodeTiled (CUDA driver API, "Tensor Map Object Management"), with the same
// values.
enum class Interleave : uint8_t { none, b16, b32 };
enum class Swizzle : uint8_t { none, b32, b64, b128 };
enum class L2Promotion : uint8_t { none, b64, b128, b256 };
enum class OobFill : uint8_t { zero, nan };
// The types whose NaN TMA can fill in (CUDA driver API, CUtensorMapFloatOOBfill): floats, except those of 8
// bits, which are copied as bytes.
constexpr bool tma_fills_nan(DType type) { return is_float(type) && !is_fp8(type); }

std::string_view name(Interleave);   // "none", "16", "32"
std::string_view name(Swizzle);      // "none", "32", "64", "128"
std::string_view name(L2Promotion);  // "none", "64", "128", "256"
std::string_view name(OobFill);      // "zero", "nan"

// Returns the extent in bytes of a swizzle's pattern, which limits the inner extent of a box: 32, 64 or 128;
// 0 without swizzle.
constexpr int span_bytes(Swizzle swizzle) {
  return swizzle == Swizzle::none ? 0 : 16 << static_cast<int>(swizzle);
}

// The encoding of a tensor parameter: all arguments of cuTensorMapEncodeTiled except the tensor's address,
// shape and strides.
struct TensorMapRecipe {
  DType dtype = DType::f32;
  std::vector<uint32_t> box;              // elements, innermost first; its size is the rank, 1 to 5
  std::vector<uint32_t> element_strides;  // innermost first; as long as box
  Interleave interleave = Interleave::none;
  Swizzle swizzle = Swizzle::none;
  L2Promotion l2_promotion = L2Promotion::b256;  // 1 to 2 % faster if memory is the limit, and never slower
  OobFill oob_fill = OobFill::zero;
  // In im2col mode, the number of pixels that a copy transfers, each of box[0] channels; the box is 1 along
  // the other dimensions (cuTensorMapEncodeIm2col); 0 if copies take boxes.
  uint32_t pixels = 0;

  int rank() const { return static_cast<int>(box.size()); }
  bool operator==(const TensorMapRecipe&) const = default;
};

// One kernel parameter, in order.
struct Parameter {
  // A tensor_map_array is a pointer to an array of tensor maps in global memory, which all have the same
  // recipe.
  enum class Kind : uint8_t { scalar, pointer, tensor_map, structure, tensor_map_array };

  std::string name = {};
  Kind kind = Kind::scalar;
  DType dtype = DType::u32;         // of the scalar, of the elements pointed to, or of the tensors
  TensorMapRecipe tensor_map = {};  // if has_recipe()
  std::vector<Parameter> fields =
      {};                    // kind structure only, laid out as C does: scalars and pointers, in order
  std::string meaning = {};  // one line for whoever launches the kernel; may be empty

  bool has_recipe() const { return kind == Kind::tensor_map || kind == Kind::tensor_map_array; }
  bool is_address() const { return kind == Kind::pointer || kind == Kind::tensor_map_array; }
  // The size in the kernel's parameter space: 1 to 8 bytes, 128 for a tensor map, and sizeof for a struct.
  int size_bytes() const;
  int alignment() const;
  std::vector<int> field_offsets() const;  // bytes from the struct's start
  bool operator==(const Parameter&) const = default;
};

// An object somewhere in dynamic shared memory, for reports: tiles, barriers.
struct SharedObject {
  std::string name;     // "sA", "full", "tile 0 (bf16 128x64)"
  uint32_t offset = 0;  // bytes from the start of dynamic shared memory
  uint32_t bytes = 0;   // of one stage
  uint32_t stages = 1;  // one after the other

  bool operator==(const SharedObject&) const = default;
};

// Everything that a host needs to know to launch a kernel; the sidecar stores it as JSON.
struct Signature {
  std::string kernel;                     // the .entry name
  std::string target = "sm_90a";          // ptxas -arch
  int ptx_version = 80;                   // ten times .version
  uint32_t threads = 128;                 // per CTA
  uint32_t threads_y = 1, threads_z = 1;  // the threads along y and z; the rest are along x
  std::array<uint32_t, 3> cluster = {1, 1, 1};
  uint32_t static_shared_bytes = 0;
  uint32_t dynamic_shared_bytes = 0;  // to be passed at launch
  std::vector<Parameter> parameters;
  std::vector<SharedObject> shared =
      {};  // by offset; some may share a place; may be empty, for example for handwritten PTX

  // These let others launch the kernel, and are all optional. The CTAs along x, y and z as rules over the
  // arguments (launch_rule.h); without them each launch states its grid.
  std::optional<std::array<std::string, 3>> grid = {};
  // The values that the kernel was generated with, by name: {"bm", "128"}.
  std::vector<std::pair<std::string, std::string>> configuration = {};
  // The kernel executes griddepcontrol.wait before it first reads or writes memory, so that it may be
  // launched before the previous launch has finished.
  bool overlaps = false;
  // The kernel's CTAs wait for each other, so all of them must run at once: it is launched cooperatively.
  bool cooperative = false;
  // The kernel records a profile in the buffer that its last parameter points to (runtime/profile.h).
  std::optional<ProfileFormat> profile = {};
  // The kernel reports waits that do not end, failed checks and prints to host memory: its last parameter,
  // which runtime::LoadedKernel passes, not the caller.
  std::optional<ReportFormat> report = {};

  // Results of ptxas; absent if the kernel was not assembled.
  std::optional<uint32_t> registers, spill_bytes, stack_bytes;

  // The threads of a CTA along x, y and z.
  std::array<uint32_t, 3> block() const { return {threads / (threads_y * threads_z), threads_y, threads_z}; }

  bool operator==(const Signature&) const = default;
};

// Returns the text of NAME.json, indented: from_json(to_json(s)) == s.
std::string to_json(const Signature& signature);

// Throws Error that names the member, what was found and what is expected, if the text is not such a sidecar.
Signature signature_from_json(const std::string& text, const std::string& file_name);

}  // namespace ptxbuilder
