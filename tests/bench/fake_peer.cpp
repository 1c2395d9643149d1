// A peer for bench_peer_test. It computes on the host, or misbehaves in the way that its argument specifies.
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <iostream>
#include <sstream>

#include "kernels/measure/workload.h"
#include "tests/bench/host_attention.h"

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

// The last requested problem of its kind.
Problem problem;
size_t sets = 0;

void read_product(std::istringstream& words) {
  GemmProblem p;
  std::string a, b, d, layout;
  int64_t lda = 0, ldb = 0, ldd = 0;
  words >> p.m >> p.n >> p.k >> a >> b >> d >> layout >> lda >> ldb >> ldd >> sets;
  p.a = type_named(a);
  p.b = type_named(b);
  p.d = type_named(d);
  p.set_layout(layout);
  if (!words || lda != p.lda() || ldb != p.ldb() || ldd != p.ldd()) std::exit(8);
  problem = p;
}

void read_attention(std::istringstream& words) {
  AttentionProblem p;
  std::string type, mask, lengths;
  words >> type >> p.batches >> p.queries >> p.keys >> p.heads >> p.key_heads >> p.depth >> p.value_depth >>
      mask >> p.left >> p.right >> lengths >> sets;
  p.type = type_named(type);
  p.causal = mask == "causal";
  if (!words || (mask != "causal" && mask != "all")) std::exit(8);
  std::istringstream each(lengths);
  std::vector<int64_t> parts;
  for (std::string part; lengths != "-" && std::getline(each, part, ',');) parts.push_back(std::stoll(part));
  const int64_t batches = p.batches, longest = p.queries;
  if (!parts.empty()) p.pack(parts);
  if (p.batches != batches || p.queries != longest) std::exit(8);
  problem = p;
}

void multiply(const GemmProblem& p, const std::byte* a, const std::byte* b, std::byte* d, double error) {
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
}

void launch(size_t set, double error) {
  struct stat state = {};
  fstat(3, &state);
  const auto bytes = static_cast<size_t>(state.st_size);
  auto* file = static_cast<std::byte*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 3, 0));
  std::vector<std::byte*> at;  // the inputs of the set
  std::byte* end = file;
  for (size_t i = 0; i < sets; ++i)
    for (const Matrix& input : inputs(problem)) {
      if (i == set) at.push_back(end);
      end += input.bytes();
    }
  if (file + bytes != end + output(problem).bytes()) std::exit(7);
  if (const auto* p = std::get_if<GemmProblem>(&problem))
    multiply(*p, at[0], at[1], end, error);
  else
    test::attend_on_host(std::get<AttentionProblem>(problem), at[0], at[1], at[2], end, error);
  munmap(file, bytes);
}

// Misbehaves at the request `verb` if `mode` specifies this. Examples of modes are "dies:burst",
// "hangs:launch", "nonsense:problem" and "refuses:problem".
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
    if (verb == "problem" || verb == "attention") {
      verb == "problem" ? read_product(words) : read_attention(words);
      std::cout << "ready one thread of the host" << std::endl;
    } else if (verb == "launch" && words >> number) {
      launch(number, mode == "wrong" ? 50 : 0);
      std::cout << "done" << std::endl;
    } else if (verb == "burst" && words >> number) {
      std::cout << "time " << (mode == "zero" ? "0" : "12.5") << std::endl;
    } else {
      std::cout << "refused '" << line << "' is not known" << std::endl;
    }
  }
}
