// A peer for bench_peer_test: it multiplies on the host, or misbehaves as its word says.
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <iostream>
#include <sstream>

#include "kernels/measure/problem.h"
#include "kernels/measure/random_matrix.h"

using namespace ptxbuilder;
using namespace ptxbuilder::bench;

namespace {

DType type_named(const std::string& word) {
  for (DType type :
       {DType::bf16, DType::f16, DType::tf32, DType::f32, DType::s8, DType::s32, DType::e4m3, DType::e5m2})
    if (name(type) == word) return type;
  std::cerr << "no type " << word << "\n";
  std::exit(9);
}

GemmProblem problem;
size_t sets = 0;

void read_problem(std::istringstream& words) {
  std::string a, b, d, layout;
  int64_t lda = 0, ldb = 0, ldd = 0;
  words >> problem.m >> problem.n >> problem.k >> a >> b >> d >> layout >> lda >> ldb >> ldd >> sets;
  problem.a = type_named(a);
  problem.b = type_named(b);
  problem.d = type_named(d);
  problem.set_layout(layout);
  if (!words || lda != problem.lda() || ldb != problem.ldb() || ldd != problem.ldd()) std::exit(8);
}

void multiply(size_t set, double error) {
  struct stat state = {};
  fstat(3, &state);
  const auto bytes = static_cast<size_t>(state.st_size);
  auto* file = static_cast<std::byte*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 3, 0));
  const GemmProblem& p = problem;
  const auto a_bytes = static_cast<size_t>(p.inputs()[0].bytes()),
             b_bytes = static_cast<size_t>(p.inputs()[1].bytes());
  std::byte *const a = file + set * (a_bytes + b_bytes), *const b = a + a_bytes,
                   *const d = file + sets * (a_bytes + b_bytes);
  if (bytes != sets * (a_bytes + b_bytes) + static_cast<size_t>(p.output().bytes())) std::exit(7);
  auto value = [](const std::byte* memory, DType type, int64_t i) {
    uint32_t bits = 0;
    std::memcpy(&bits, memory + i * size_of(type), static_cast<size_t>(size_of(type)));
    return decode(type, bits);
  };
  for (int64_t m = 0; m < p.m; ++m)
    for (int64_t n = 0; n < p.n; ++n) {
      double sum = error;
      for (int64_t k = 0; k < p.k; ++k)
        sum += value(a, p.a, p.a_k_major ? m * p.lda() + k : k * p.lda() + m) *
               value(b, p.b, p.b_k_major ? n * p.ldb() + k : k * p.ldb() + n);
      const uint64_t bits = encode(p.d, sum);
      std::memcpy(d + (m * p.ldd() + n) * size_of(p.d), &bits, static_cast<size_t>(size_of(p.d)));
    }
  munmap(file, bytes);
}

// Misbehaves where `word` is due: "dies:burst", "hangs:launch", "nonsense:problem", "refuses:problem".
bool misbehaves(const std::string& mode, const std::string& verb) {
  if (mode == "dies:" + verb) {
    std::cerr << "out of luck at " << verb << std::endl;
    std::exit(5);
  }
  if (mode == "hangs:" + verb) sleep(600);
  if (mode == "nonsense:" + verb) std::cout << "4711 and so on" << std::endl;
  if (mode == "refuses:" + verb) std::cout << "refused it takes no " << verb << std::endl;
  return mode.ends_with(":" + verb);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  int bursts = 0;
  if (!misbehaves(mode, "start")) std::cout << "peer 1 fake 0.1" << std::endl;
  for (std::string line, verb; std::getline(std::cin, line);) {
    std::istringstream words(line);
    words >> verb;
    if (verb == "burst" && ++bursts == 5 && misbehaves(mode, "fifth")) continue;
    if (misbehaves(mode, verb)) continue;
    size_t number = 0;
    if (verb == "problem") {
      read_problem(words);
      std::cout << "ready one thread of the host" << std::endl;
    } else if (verb == "launch" && words >> number) {
      multiply(number, mode == "wrong" ? 50 : 0);
      std::cout << "done" << std::endl;
    } else if (verb == "burst" && words >> number) {
      std::cout << "time " << (mode == "zero" ? "0" : "12.5") << std::endl;
    } else {
      std::cout << "refused '" << line << "' is not known" << std::endl;
    }
  }
}
