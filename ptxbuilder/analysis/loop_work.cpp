#include "ptxbuilder/analysis/loop_work.h"

#include <algorithm>
#include <charconv>
#include <map>

namespace ptxbuilder::analysis {
namespace {

// Rates of an H100's SM per clock: bytes of shared memory and of L2, and results of the special function
// unit. The rate of L2 is one SM's share of the measured rate at which all SMs together read L2 at 1980 MHz.
constexpr double kSharedBytes = 128, kL2Bytes = 46.4, kSpecial = 16;

// The shape and type of a matrix instruction, such as m64n256k16 of bf16.
struct Product {
  double m = 0, n = 0, k = 0;
  std::string type;
  int bits = 0;  // number of bits of an element of A or B
  bool is_wgmma = false, a_in_shared = false;
  double stored = 1;  // the fraction of k that is stored in A and multiplied; 0.5 if A is sparse

  double flops() const { return 2 * m * n * k; }
};

int bits_of(std::string_view type) {
  if (type == "f16" || type == "bf16") return 16;
  if (type == "tf32") return 32;
  if (type == "f64") return 64;
  if (type == "e4m3" || type == "e5m2" || type == "s8" || type == "u8") return 8;
  if (type == "s4" || type == "u4") return 4;
  if (type == "b1") return 1;
  return 0;
}

std::optional<Product> product_of(const Operation& o) {
  Product p;
  p.is_wgmma = o.is_wgmma();
  if (!p.is_wgmma && !(o.is("mma") && o.has("sync"))) return std::nullopt;
  for (const std::string_view word : o.words) {
    const size_t n = word.find('n'), k = word.find('k');
    if (p.m == 0 && word.starts_with('m') && n < k && k != std::string_view::npos) {
      const char* text = word.data();
      std::from_chars(text + 1, text + n, p.m);
      std::from_chars(text + n + 1, text + k, p.n);
      std::from_chars(text + k + 1, text + word.size(), p.k);
    }
    // The last types are the types of the operands, except that for mma, the type of C follows them.
    if (bits_of(word) > 0 && (p.is_wgmma || p.bits == 0 || bits_of(word) < p.bits)) {
      p.type = word;
      p.bits = bits_of(word);
    }
  }
  if (p.m == 0 || p.bits == 0) return std::nullopt;
  if (o.has("sp") || o.has("sp::ordered_metadata")) p.stored = 0.5;
  p.a_in_shared = p.is_wgmma && o.operands[1].kind != Value::Kind::vector;
  return p;
}

// Returns whether the special function unit (MUFU) executes an instruction.
bool is_special(const Operation& o) {
  return o.is("ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos", "tanh");
}

}  // namespace

double flops_of_a_clock(const std::string& type) {
  const int bits = bits_of(type);
  if (bits == 0) return 256;
  return bits == 64 ? 256 : 4096.0 * 16 / std::max(bits, 8);
}

std::string product_type(const KernelAnalysis& kernel) {
  std::map<std::string, double> flops;
  for (const Operation& o : kernel.code.operations)
    if (const auto p = product_of(o)) flops[p->type] += p->flops();
  const auto most = std::max_element(flops.begin(), flops.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == flops.end() ? "" : most->first;
}

std::vector<LoopWork> loop_work(const KernelAnalysis& kernel) {
  const Portrait& portrait = kernel.portrait;
  std::vector<LoopWork> all;
  for (size_t l = 0; l < portrait.loops.size(); ++l) {
    const Mainloop& loop = portrait.loops[l];
    if (loop.loop == kNone) continue;
    LoopWork work{.loop = static_cast<int>(l),
                  .role = loop.role == kNone ? "all warps" : portrait.roles[at(loop.role)].name,
                  .first_line = loop.first_line,
                  .last_line = loop.last_line};
    const double warps = loop.role == kNone ? std::max<double>(1, static_cast<double>(portrait.threads) / 32)
                                            : static_cast<double>(portrait.roles[at(loop.role)].warps.size());
    const Loop& blocks = kernel.graph.loops[at(loop.loop)];
    auto is_inside = [&](int operation) { return blocks.contains(kernel.graph.block_of[at(operation)]); };
    for (const int b : blocks.blocks)
      for (int n = kernel.graph.blocks[at(b)].first; n < kernel.graph.blocks[at(b)].last; ++n) {
        const Operation& o = kernel.code.operations[at(n)];
        if (is_special(o)) work.special += 32 * warps;
        const auto p = product_of(o);
        if (!p) continue;
        const double times = p->is_wgmma ? warps / 4 : warps;
        work.flops += times * p->flops();
        work.tensor_clocks += times * p->stored * p->flops() / flops_of_a_clock(p->type);
        if (p->is_wgmma)
          work.read_bytes += times * (p->n + (p->a_in_shared ? p->stored * p->m : 0)) * p->k * p->bits / 8;
      }
    int waits = 0;
    for (const BarrierArray& barrier : portrait.barriers)
      for (const BarrierUse& use : barrier.uses) {
        if (!is_inside(use.operation)) continue;
        if (use.kind == BarrierUse::Kind::expects && use.amount.is_constant())
          work.arriving_bytes += static_cast<double>(use.amount.constant);
        if (use.kind == BarrierUse::Kind::waits && barrier.name != "other") ++waits;
      }
    work.stages = std::max(1, waits);
    if (!work.empty()) all.push_back(std::move(work));
  }
  return all;
}

std::vector<std::pair<std::string, double>> stage_clocks(const std::vector<LoopWork>& loops) {
  double tensor = 0, read = 0, arriving = 0, special = 0;
  for (const LoopWork& work : loops) {
    tensor += work.tensor_clocks / work.stages;
    read += work.read_bytes / work.stages;
    arriving += work.arriving_bytes / work.stages;
    special += work.special / work.stages;
  }
  if (tensor == 0) return {};
  std::vector<std::pair<std::string, double>> clocks = {
      {"tensor cores", tensor},
      {"shared memory", (read + arriving) / kSharedBytes},
      {"L2, for data that no cluster shares", arriving / kL2Bytes},
      {"special function unit", special / kSpecial}};
  std::stable_sort(clocks.begin(), clocks.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return clocks;
}

}  // namespace ptxbuilder::analysis
