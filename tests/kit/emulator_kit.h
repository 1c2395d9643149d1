// Declares helpers that the emulator's tests share: a class that runs one kernel on one device, and host
// references.
#pragma once

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "ptxbuilder/ptx/ptx.h"
#include "runtime/emulator/emulator.h"
#include "runtime/emulator/machine/numeric.h"

namespace ptxbuilder::runtime {

inline std::string test_file(const std::string& name) {
  std::ifstream in(PTXBUILDER_TEST_DIR "/" + name);
  std::stringstream text;
  text << in.rdbuf();
  if (text.str().empty()) throw Error("cannot read " + name);
  return text.str();
}

// Returns the signature of the .entry `name` in PTX, or of the first .entry, with its requirements for a
// launch. The PTX determines the parameters.
inline Signature signature_of(const std::string& text, uint32_t threads, const std::string& name = {}) {
  ptx_text::Module module = ptx_text::parse(text);
  Signature s;
  s.threads = threads;
  for (const ptx_text::Statement& statement : module.statements)
    if (statement.kind == ptx_text::Statement::Kind::function && statement.function[0].entry &&
        (name.empty() || statement.function[0].name == name)) {
      const ptx_text::Function& f = statement.function[0];
      s.kernel = f.name;
      for (const ptx_text::Directive& d : f.directives)
        if (d.tokens[0] == ".reqnctapercluster")
          for (size_t i = 0; i < 3; ++i)
            s.cluster[i] =
                2 * i + 1 < d.tokens.size() ? static_cast<uint32_t>(std::stoul(d.tokens[2 * i + 1])) : 1;
      break;
    }
  return s;
}

// A kernel, its device and its buffers.
class Bench {
 public:
  explicit Bench(const std::string& text, uint32_t threads, const EmulatorOptions& options = {},
                 const std::string& kernel = {})
      : device_(open_emulator(options)), signature_(signature_of(text, threads, kernel)), text_(text) {}

  Emulator& device() { return *device_; }
  Signature& signature() { return signature_; }  // may be changed until the first run

  template <class T>
  Address upload(const std::vector<T>& values) {
    Address at = device_->allocate(values.size() * sizeof(T));
    device_->copy_in(at, values.data(), values.size() * sizeof(T));
    return at;
  }
  template <class T>
  std::vector<T> download(Address from, size_t count) {
    std::vector<T> values(count);
    device_->copy_out(values.data(), from, count * sizeof(T));
    return values;
  }

  // Returns a tensor map of a row-major [rows, columns], with boxes of [box_rows, box_columns].
  TensorMap map_2d(Address at, DType type, uint64_t rows, uint64_t columns, uint32_t box_rows,
                   uint32_t box_columns, Swizzle swizzle) {
    TensorMapArguments a;
    a.recipe.dtype = type;
    a.recipe.box = {box_columns, box_rows};
    a.recipe.element_strides = {1, 1};
    a.recipe.swizzle = swizzle;
    a.address = at;
    a.shape = {columns, rows};
    a.strides = {columns * static_cast<uint64_t>(size_of(type))};
    return device_->encode(a);
  }

  template <class... P>
  void run(Dim3 grid, uint32_t dynamic_shared, const P&... parameters) {
    run_for(std::chrono::seconds(60), grid, dynamic_shared, parameters...);
  }
  template <class... P>
  void run_for(std::chrono::milliseconds limit, Dim3 grid, uint32_t dynamic_shared, const P&... parameters) {
    if (!program_ || signature_.dynamic_shared_bytes != dynamic_shared) {
      signature_.dynamic_shared_bytes = dynamic_shared;
      program_ = device_->load(text_, signature_);
    }
    const void* list[] = {static_cast<const void*>(&parameters)..., nullptr};
    Launch launch;
    launch.grid = grid;
    launch.block = {signature_.threads, 1, 1};
    launch.cluster = {signature_.cluster[0], signature_.cluster[1], signature_.cluster[2]};
    launch.dynamic_shared_bytes = dynamic_shared;
    device_->launch(*program_, launch, {list, sizeof...(P)});
    device_->synchronize(limit);
  }

 private:
  std::unique_ptr<Emulator> device_;
  Signature signature_;
  std::string text_;
  std::unique_ptr<Program> program_;
};

inline std::vector<uint16_t> random_bf16(size_t count, uint32_t seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<uint16_t> values(count);
  for (uint16_t& v : values) v = emulator::to_bf16(normal(engine));
  return values;
}

// Returns the largest error of d[m, n] = sum over k of a[m, k] b[n, k], relative to the allowed error. The
// allowed error is half a unit in the last place of bf16 for the store, plus a share of the sum of magnitudes
// for adding in f32.
inline double gemm_error(const std::vector<uint16_t>& a, const std::vector<uint16_t>& b,
                         const std::vector<uint16_t>& d, size_t m, size_t n, size_t k) {
  using emulator::from_bf16;
  double worst = 0;
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j) {
      double sum = 0, magnitude = 0;
      for (size_t x = 0; x < k; ++x) {
        double p =
            static_cast<double>(from_bf16(a[i * k + x])) * static_cast<double>(from_bf16(b[j * k + x]));
        sum += p;
        magnitude += std::fabs(p);
      }
      // Each of the k additions may lose 2^-24 of a partial sum. The sum of magnitudes is a bound for partial
      // sums.
      double allowed = std::fabs(sum) * 0x1p-8 + magnitude * static_cast<double>(k) * 0x1p-24 + 1e-30;
      double error = std::fabs(static_cast<double>(from_bf16(d[i * n + j])) - sum) / allowed;
      worst = std::isnan(error) ? 1e9 : std::max(worst, error);
    }
  return worst;
}

// Runs one of the reference GEMMs (128 x 256 x 64 tiles, bf16) and returns its largest error.
inline double run_gemm(const std::string& text, uint32_t m, uint32_t n, uint32_t k, uint32_t ctas,
                       const EmulatorOptions& options = {}, EmulatorStatistics* statistics = nullptr) {
  Bench bench(text, 384, options);
  auto a = random_bf16(size_t{m} * k, 1), b = random_bf16(size_t{n} * k, 2);
  std::vector<uint16_t> d(size_t{m} * n, 0x7fc0);
  Address da = bench.upload(a), db = bench.upload(b), dd = bench.upload(d);
  TensorMap ma = bench.map_2d(da, DType::bf16, m, k, 128, 64, Swizzle::b128),
            mb = bench.map_2d(db, DType::bf16, n, k, 256, 64, Swizzle::b128),
            md = bench.map_2d(dd, DType::bf16, m, n, 64, 64, Swizzle::b128);
  bench.run({ctas, 1, 1}, 229440, ma, mb, md, m / 128, n / 256, k / 64);
  if (statistics) *statistics = bench.device().statistics();
  return gemm_error(a, b, bench.download<uint16_t>(dd, d.size()), m, n, k);
}

// Returns the fault that ends a run, with its report in `what`, or nothing if the run succeeds.
template <class F>
std::optional<Fault> fault_of(F run, std::string* what = nullptr) {
  try {
    run();
  } catch (const EmulatorError& e) {
    if (what) *what = e.what();
    return e.fault();
  }
  if (what) *what = "no fault";
  return std::nullopt;
}

}  // namespace ptxbuilder::runtime
