// The file format of NumPy for one array (NEP 1).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ptxbuilder/dtype.h"

namespace ptxbuilder::command {

struct NpyHeader {
  std::string type;             // NumPy's name of the type, such as "<f4"
  std::vector<uint64_t> shape;  // innermost first, the reverse of NumPy's order
  uint64_t bytes = 0;           // size of the header; the elements follow it
};

// Reads a header. Throws Error that begins with the path if the file does not have this format, or if its
// elements are in Fortran order.
NpyHeader npy_header(const std::filesystem::path& path);

// Returns NumPy's name of a type. NumPy has no names for bf16 and similar types; they are integers with the
// same number of bits.
std::string npy_type(DType type);

// Returns whether an array of NumPy's type `type` can hold elements of type `of`. Raw bytes of the same size
// are accepted too, since this is how ml_dtypes saves bfloat16.
bool npy_holds(const std::string& type, DType of);

// Returns the header, which precedes the elements.
std::string npy_header_text(DType type, const std::vector<uint64_t>& shape);

}  // namespace ptxbuilder::command
