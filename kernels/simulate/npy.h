// Reads and writes the headers of .npy files, NumPy's format for an array (NEP 1).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ptxbuilder/dtype.h"

namespace ptxbuilder::command {

struct NpyHeader {
  std::string type;             // NumPy's name of the type, such as "<f4"
  std::vector<uint64_t> shape;  // innermost dimension first, unlike NumPy
  uint64_t bytes = 0;           // size of the header, which precedes the elements
};

// Reads the header of a file. If the file does not have this format, or its elements are in Fortran order,
// throws an Error that begins with the path.
NpyHeader npy_header(const std::filesystem::path& path);

// Returns NumPy's name of a type. NumPy has no names for bf16 and similar types; for these, the result is the
// name of an integer type with the same number of bits.
std::string npy_type(DType type);

// Returns whether a NumPy array of type `type` can hold elements of type `of`. Raw bytes of the same size are
// also accepted, because ml_dtypes saves bfloat16 in this form.
bool npy_holds(const std::string& type, DType of);

// Returns the bytes of the header for an array.
std::string npy_header_text(DType type, const std::vector<uint64_t>& shape);

}  // namespace ptxbuilder::command
