// Declares helpers that the tests of register tiles share. They run a kernel of 128 threads, with some input
// buffers and an output buffer, on the device that --device selects.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <random>

#include "options.h"
#include "ptxbuilder/compile/compile.h"
#include "ptxbuilder/dtype.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/barrier.h"
#include "ptxbuilder/tile/tma.h"
#include "runtime/emulator/emulator.h"
#include "runtime/loaded_kernel.h"
#include "runtime/open_device.h"

namespace ptxbuilder::test {

// A rows x cols matrix, which is passed as a tensor map if the kernel's parameter is one.
struct Matrix {
  DType dtype;
  TileExtent extent;
  std::vector<double> values;
  bool tensor = false;

  size_t count() const { return static_cast<size_t>(extent.rows) * static_cast<size_t>(extent.cols); }
  std::vector<std::byte> bytes() const {
    size_t size = static_cast<size_t>(size_of(dtype));
    std::vector<std::byte> encoded(values.size() * size);
    for (size_t i = 0; i < values.size(); ++i) write_element(&encoded[i * size], dtype, values[i]);
    return encoded;
  }
};

inline double rounded(DType dtype, double value) {
  std::byte bytes[8];
  write_element(bytes, dtype, value);
  return read_element(bytes, dtype);
}

// `--seed=N` repeats the random numbers of an earlier run. Each run prints its seed.
inline const uint64_t& matrix_seed = option("seed", uint64_t{std::random_device()()});

// Returns random numbers from `least` to `greatest` that the type represents.
inline Matrix random_matrix(DType dtype, TileExtent extent, double least, double greatest) {
  static std::mt19937_64 engine = [] {
    MESSAGE("--seed=" << matrix_seed);
    return std::mt19937_64(matrix_seed);
  }();
  Matrix m{dtype, extent, {}};
  std::uniform_real_distribution<double> draw(least, greatest);
  for (size_t i = 0; i < m.count(); ++i) {
    double value = draw(engine);
    m.values.push_back(rounded(dtype, is_integer(dtype) ? std::floor(value) : value));
  }
  return m;
}

// Launches one CTA, or `ctas` CTAs, on poisoned memory, and returns the elements of `out`. The parameters are
// the inputs and `out`. On the emulator, `seed` chooses the schedule.
inline std::vector<double> result_of(Kernel k, const std::vector<Matrix>& inputs, const Matrix& out,
                                     uint64_t seed = 0, uint32_t ctas = 1) {
  static std::unique_ptr<runtime::Device> device = runtime::open_device(device_name);
  if (auto* emulator = dynamic_cast<runtime::Emulator*>(device.get())) emulator->seed(seed);
  CompilerOptions options;
  options.cache = false;
  options.assemble = !device->wants_ptx();
  Compiled compiled = Compiler(options).compile(std::move(k));
  runtime::LoadedKernel kernel(*device, options.assemble ? compiled.cubin : compiled.ptx, compiled.signature);
  std::vector<runtime::Buffer> buffers;
  for (const Matrix& m : inputs) buffers.push_back(runtime::Buffer::of(*device, m.bytes()));
  size_t size = static_cast<size_t>(size_of(out.dtype));
  buffers.emplace_back(*device, out.count() * size);
  buffers.back().fill(0xff);
  std::vector<runtime::Argument> arguments;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const Matrix& m = i < inputs.size() ? inputs[i] : out;
    arguments.push_back(m.tensor ? runtime::tensor(buffers[i], m.dtype,
                                                   {static_cast<uint64_t>(m.extent.cols),
                                                    static_cast<uint64_t>(m.extent.rows)})
                                 : runtime::pointer(buffers[i], m.dtype));
  }
  kernel.launch({.grid = {ctas}}, arguments);
  device->synchronize();
  std::vector<std::byte> bytes = buffers.back().copy_out<std::byte>();
  std::vector<double> values;
  for (size_t i = 0; i < out.count(); ++i) values.push_back(read_element(&bytes[i * size], out.dtype));
  return values;
}

// Calls f<T>() for each type of a list.
template <class... T, class F>
void for_types(F f) {
  (f.template operator()<T>(), ...);
}

// Checks that all elements are equal, and reports the number of wrong elements and the first of them. NaN
// equals NaN.
inline void check_equal(const std::vector<double>& got, const std::vector<double>& expected,
                        const std::string& what, double relative = 0, double absolute = 0) {
  REQUIRE(got.size() == expected.size());
  size_t wrong = 0;
  std::string first;
  for (size_t i = 0; i < got.size(); ++i) {
    double g = got[i], e = expected[i];
    bool equal =
        (std::isnan(g) && std::isnan(e)) || g == e || std::abs(g - e) <= relative * std::abs(e) + absolute;
    if (!equal && wrong++ == 0) first = fmt::format("element {}: {} for {}", i, g, e);
  }
  CHECK_MESSAGE(wrong == 0, what << ": " << wrong << " of " << got.size() << " wrong, " << first);
}

}  // namespace ptxbuilder::test
