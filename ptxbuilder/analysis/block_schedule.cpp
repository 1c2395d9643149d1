#include "ptxbuilder/analysis/block_schedule.h"

#include <algorithm>
#include <optional>
#include <string_view>

namespace ptxbuilder::analysis {
namespace {

void make_unique(std::vector<int>& numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
}

// Returns, for each register, whether it is a predicate that is always false because only "mov.pred %p1, 0"
// writes it.
std::vector<bool> false_predicates(const Code& code) {
  std::vector<bool> is_false(code.registers.size()), is_written(code.registers.size());
  for (const Operation& o : code.operations)
    for (const int r : o.writes) {
      const bool clears = o.is("mov") && o.has("pred") && o.guard == kNone && o.operands.size() == 2 &&
                          o.operands[1].kind == Value::Kind::integer && o.operands[1].value == 0;
      is_false[at(r)] = clears && (!is_written[at(r)] || is_false[at(r)]);
      is_written[at(r)] = true;
    }
  return is_false;
}

bool starts_product(const Operation& o, const std::vector<bool>& is_false) {
  const size_t scale_d = o.has("sp") ? 5 : 3;
  if (!o.is_wgmma() || o.operands.size() <= scale_d) return false;
  const Value& v = o.operands[scale_d];
  return v.kind == Value::Kind::reg ? is_false[at(v.number)] : v.kind == Value::Kind::integer && v.value == 0;
}

// Returns, for each register that only ever holds a copy of another register, that other register; otherwise
// kNone.
std::vector<int> copied_registers(const Code& code) {
  std::vector<int> writers(code.registers.size()), source(code.registers.size(), kNone);
  for (const Operation& o : code.operations)
    for (const int r : o.writes) ++writers[at(r)];
  for (const Operation& o : code.operations) {
    if (!o.is("mov") || o.guard != kNone || o.reads.size() != 1 || o.writes.size() != 1) continue;
    const int to = o.writes[0], from = o.reads[0];
    if (to != from && writers[at(to)] == 1 && writers[at(from)] == 1 &&
        code.registers[at(to)].type == code.registers[at(from)].type)
      source[at(to)] = from;
  }
  return source;
}

// A load or a store that may be reordered with other loads and stores.
struct PlainAccess {
  int operation = kNone;
  bool is_store = false;
  std::string_view space = {};  // "" for any space
  int base = kNone;             // register of the address, if the accessed bytes are known
  int64_t offset = 0, bytes = 0;

  bool conflicts(const PlainAccess& other) const {
    if (!is_store && !other.is_store) return false;
    if (space != other.space && !space.empty() && !other.space.empty()) return false;
    if (base == kNone || base != other.base) return true;
    return offset < other.offset + other.bytes && other.offset < offset + bytes;
  }
};

std::optional<PlainAccess> access_of(const Operation& o, int number) {
  PlainAccess a{number};
  if (o.is("ldmatrix")) {
    a.space = "shared";
    return a;
  }
  if (!o.is("ld", "ldu", "st") || o.has("volatile", "acquire", "release", "relaxed", "mmio"))
    return std::nullopt;
  a.is_store = o.is("st");
  for (const std::string_view space :
       {"global", "shared", "shared::cta", "shared::cluster", "local", "param", "const"})
    if (o.has(space)) a.space = space.substr(0, space.find(':'));
  const size_t address = a.is_store ? 0 : 1;
  if (o.operands.size() <= address) return a;
  const Value& v = o.operands[address];
  if (v.kind != Value::Kind::address || v.parts.size() != 1 || v.parts[0].kind != Value::Kind::reg) return a;
  int64_t bits = 0;
  for (const char c : o.words.back())
    if (c >= '0' && c <= '9') bits = 10 * bits + (c - '0');
  a.base = v.parts[0].number;
  a.offset = v.value;
  a.bytes = bits / 8 * (o.has("v8") ? 8 : o.has("v4") ? 4 : o.has("v2") ? 2 : 1);
  return a;
}

// Returns whether an instruction's results depend only on its operands.
bool is_computed(const Operation& o) {
  return o.targets.empty() && o.falls_through &&
         o.is("abs", "add", "addc", "and", "bfe", "bfi", "bfind", "bmsk", "brev", "clz", "cnot", "copysign",
              "cos", "cvt", "cvta", "div", "dp2a", "dp4a", "ex2", "fma", "fns", "getctarank", "isspacep",
              "lg2", "lop3", "mad", "mad24", "madc", "mapa", "max", "min", "mov", "mul", "mul24", "neg",
              "not", "or", "popc", "prmt", "rcp", "rem", "rsqrt", "sad", "selp", "set", "setp", "shf", "shl",
              "shr", "sin", "slct", "sqrt", "sub", "subc", "szext", "tanh", "testp", "xor");
}

// Computes the instructions that must precede each instruction of a block.
class Dependences {
 public:
  Dependences(const Code& code, const std::vector<RegisterEffect>& effects, const Block& block)
      : first_(block.first), nodes_(static_cast<size_t>(block.last - block.first)) {
    std::vector<int> writer(code.registers.size(), kNone);
    std::vector<std::vector<int>> readers(code.registers.size());
    int pinned = kNone;
    std::vector<PlainAccess> accesses;  // accesses since that instruction
    for (int n = block.first; n < block.last; ++n) {
      const Operation& o = code.operations[at(n)];
      for (const int r : effects[at(n)].needs) {
        if (const int m = writer[at(r)]; m != kNone) {
          add(n, m);
          node(n).depth = std::max(node(n).depth, node(m).depth + 1);
        }
        readers[at(r)].push_back(n);
      }
      // If the guard is false, the instruction does not run, and the registers retain the values of earlier
      // writers.
      for (const int r : o.writes) {
        add(n, writer[at(r)]);
        for (const int m : readers[at(r)]) add(n, m);
        writer[at(r)] = n;
        readers[at(r)].clear();
      }
      if (const std::optional<PlainAccess> a = access_of(o, n)) {
        add(n, pinned);
        for (const PlainAccess& other : accesses)
          if (a->conflicts(other)) add(n, other.operation);
        accesses.push_back(*a);
      } else if (!is_computed(o)) {
        add(n, pinned);
        for (const PlainAccess& other : accesses) add(n, other.operation);
        accesses.clear();
        pinned = n;
      }
    }
    const int last = block.last - 1;
    if (last >= block.first && !code.operations[at(last)].targets.empty())
      for (int n = block.first; n < last; ++n) add(last, n);
  }

  // Returns the length of the longest chain of dependent instructions that ends in instruction n.
  int depth(int n) const { return nodes_[at(n - first_)].depth; }
  // Returns the instructions that no other instruction must follow.
  std::vector<int> last() const {
    std::vector<int> all;
    for (size_t i = 0; i < nodes_.size(); ++i)
      if (nodes_[i].behind == 0) all.push_back(first_ + static_cast<int>(i));
    return all;
  }
  // Removes an instruction. Adds to `ready` the instructions that no remaining instruction must follow.
  void take(int n, std::vector<int>& ready) {
    for (const int m : node(n).ahead)
      if (--node(m).behind == 0) ready.push_back(m);
  }

 private:
  struct Node {
    std::vector<int> ahead = {};
    int behind = 0, depth = 0;
  };
  Node& node(int n) { return nodes_[at(n - first_)]; }
  // Requires instruction m to precede instruction n.
  void add(int n, int m) {
    if (m == kNone || m == n) return;
    node(n).ahead.push_back(m);
    ++node(m).behind;
  }

  int first_;
  std::vector<Node> nodes_;
};

}  // namespace

std::vector<RegisterEffect> register_effects(const Code& code) {
  const std::vector<bool> is_false = false_predicates(code);
  const std::vector<int> source = copied_registers(code);
  std::vector<RegisterEffect> all;
  for (const Operation& o : code.operations) {
    RegisterEffect e;
    const bool is_copy = o.writes.size() == 1 && source[at(o.writes[0])] != kNone;
    if (!is_copy) {
      const bool starts = starts_product(o, is_false);
      for (int r : o.reads) {
        if (starts && std::find(o.writes.begin(), o.writes.end(), r) != o.writes.end()) continue;
        // Registers with a single writer that copy each other in a cycle are never set, so the number of
        // steps is bounded.
        for (size_t steps = 0; source[at(r)] != kNone && steps < source.size(); ++steps) r = source[at(r)];
        e.needs.push_back(r);
      }
      if (o.guard == kNone)
        e.makes = o.writes;
      else
        e.needs.push_back(o.guard);
      make_unique(e.needs);
    }
    all.push_back(std::move(e));
  }
  return all;
}

void schedule_from_end(const Code& code, const std::vector<RegisterEffect>& effects, const Block& block,
                       const std::function<int(int)>& gain, const std::function<void(int)>& step) {
  Dependences dependences(code, effects, block);
  std::vector<int> ready = dependences.last();
  while (!ready.empty()) {
    size_t best = 0;
    int most = 0;
    // If several instructions have equal gain, the one with the shortest chain of dependent instructions is
    // chosen, so that long chains are earlier in the block.
    for (size_t i = 0; i < ready.size(); ++i) {
      const int g = gain(ready[i]), depth = dependences.depth(ready[i]);
      const int best_depth = dependences.depth(ready[best]);
      if (i > 0 && g <= most &&
          (g < most || depth > best_depth || (depth == best_depth && ready[i] < ready[best])))
        continue;
      most = g;
      best = i;
    }
    const int n = ready[best];
    ready[best] = ready.back();
    ready.pop_back();
    step(n);
    dependences.take(n, ready);
  }
}

}  // namespace ptxbuilder::analysis
