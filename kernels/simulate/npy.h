// numpy's file format for one array (NEP 1).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ptxbuilder/dtype.h"

namespace ptxbuilder::command {

struct NpyHeader {
  std::string type;             // numpy's, such as "<f4"
  std::vector<uint64_t> shape;  // innermost first, the reverse of numpy's order
  uint64_t bytes = 0;           // of the header, which the elements follow
};

// Throws Error that begins with the path if it is not such a file, or if its elements are in Fortran order.
NpyHeader npy_header(const std::filesystem::path& path);

// Returns numpy's name of a type. numpy has none for bf16 and the like: those are integers with the same
// number of bits.
std::string npy_type(DType type);

// Returns whether an array of numpy's type has elements of this type: raw bytes of the same size count too,
// since this is how ml_dtypes' bfloat16 is saved.
bool npy_holds(const std::string& type, DType of);

// Returns the header, which precedes the elements.
std::string npy_header_text(DType type, const std::vector<uint64_t>& shape);

}  // namespace ptxbuilder::command
