// numpy's file format for one array (NEP 1).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ptxbuilder/dtype.h"

namespace ptxbuilder::command {

struct NpyHeader {
  std::string type;             // numpy's, as "<f4"
  std::vector<uint64_t> shape;  // innermost first, which is numpy's order reversed
  uint64_t bytes = 0;           // of the header, after which the elements come
};

// Throws Error that begins with the path for what is no such file, or has its elements in Fortran's order.
NpyHeader npy_header(const std::filesystem::path& path);

// numpy's name of a type. It has none for bf16 and the like: those are integers of as many bits.
std::string npy_type(DType type);

// This says whether an array of numpy's type holds elements of this one: also raw bytes of as many, which is
// how ml_dtypes' bfloat16 is saved.
bool npy_holds(const std::string& type, DType of);

// This is what precedes the elements.
std::string npy_header_text(DType type, const std::vector<uint64_t>& shape);

}  // namespace ptxbuilder::command
