// Declares helpers that the tests of copies share: a device, data, and a function that copies from shared
// memory.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "options.h"
#include "ptxbuilder/compile/compile.h"
#include "ptxbuilder/tile/cooperative_copy.h"
#include "runtime/loaded_kernel.h"
#include "runtime/open_device.h"

namespace ptxbuilder::test {

struct Running {
  std::unique_ptr<runtime::Device> device = runtime::open_device(device_name);

  Compiled compile(Kernel kernel) const {
    CompilerOptions options;
    options.cache = false;
    options.assemble = false;  // the driver's compiler accepts PTX too
    return Compiler(options).compile(std::move(kernel));
  }
};

// Compiles a kernel, launches it once, waits, and returns the PTX.
inline std::string launch(const Running& running, Kernel kernel, runtime::Dim3 grid,
                          const std::vector<runtime::Argument>& arguments) {
  Compiled compiled = running.compile(std::move(kernel));
  runtime::LoadedKernel loaded(*running.device, compiled.ptx, compiled.signature);
  loaded.launch({.grid = grid}, arguments);
  running.device->synchronize();
  return compiled.ptx;
}

// Returns different elements of a type, as far as possible: all bytes for 8-bit types, and small integers for
// other types.
inline std::vector<std::byte> numbered(DType type, size_t count) {
  std::vector<std::byte> bytes(count * static_cast<size_t>(size_of(type)));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>((i * 2654435761u) >> 13);
  return bytes;
}

inline std::vector<std::byte> rows_of(const std::vector<std::byte>& matrix, int64_t pitch, int64_t row,
                                      int64_t col, int64_t rows, int64_t cols, int bytes) {
  std::vector<std::byte> part;
  for (int64_t i = row; i < row + rows; ++i) {
    auto first = matrix.begin() + (i * pitch + col) * bytes;
    part.insert(part.end(), first, first + cols * bytes);
  }
  return part;
}

// Stores the tile in shared memory, which has the layout `memory`, to `out` in vectors of 16 bytes.
inline void write_out(gmem out, smem tile, DType type, int64_t rows, int64_t cols,
                      const ComposedLayout& memory) {
  const int64_t elements = 16 / size_of(type);
  TiledCopy copy(CopyAtom::vector(16), type, threads_along_rows(rows, cols, 128, elements), memory);
  GlobalTile to{out, static_cast<uint32_t>(cols)};
  store(copy, to, tid_x(), load(copy, tile, tid_x()));
}

}  // namespace ptxbuilder::test
