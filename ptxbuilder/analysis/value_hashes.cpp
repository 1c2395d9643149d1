// Computes hashes for comparing values of two kernels, and prints values as text.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ptxbuilder/analysis/values.h"

namespace ptxbuilder::analysis {
uint64_t mixed(uint64_t hash, uint64_t value) {
  hash += value + 0x9e3779b97f4a7c15;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111eb;
  return hash ^ (hash >> 31);
}

uint64_t hash_of(std::string_view text) {
  uint64_t hash = text.size();
  for (char c : text) hash = mixed(hash, static_cast<unsigned char>(c));
  return hash;
}

uint64_t Values::name_hash_of(const Atom& a) {
  return mixed(static_cast<uint64_t>(a.kind), analysis::hash_of(a.name));
}

uint64_t Values::hash_of(const Atom& a) const {
  uint64_t hash = a.name_hash;
  if (a.object != kNone) return mixed(hash, objects_[at(a.object)]);
  if (a.kind == Atom::Kind::meet) {
    uint64_t any_order = 0;  // a sum, because the order of predecessors depends on the layout
    for (const Sum& input : a.inputs) any_order += mixed(0, this->hash(input));
    return mixed(hash, any_order);
  }
  for (const Sum& input : a.inputs) hash = mixed(hash, this->hash(input));
  if (a.kind == Atom::Kind::counter || a.kind == Atom::Kind::stage)
    hash = mixed(hash, graph_.loops[at(graph_.blocks[at(a.block)].loop)].depth);
  return hash;
}

// Atoms form a graph with cycles. In each round, the hash of each atom is combined with the hashes of its
// inputs. Each round thus propagates differences by one level, from inputs to the atoms that depend on them.
void Values::find_hashes() {
  constexpr int kRounds = 12;
  for (Atom& a : atoms_) a.name_hash = name_hash_of(a);
  for (int round = 0; round < kRounds; ++round) {
    std::vector<uint64_t> hashes;
    hashes.reserve(atoms_.size());
    for (const Atom& a : atoms_) hashes.push_back(hash_of(a));
    for (size_t i = 0; i < atoms_.size(); ++i) atoms_[i].hash = hashes[i];
  }
  has_hashes_ = true;
}

uint64_t Values::hash(const Sum& sum) const {
  uint64_t terms = 0;  // computed as a sum, because terms may be in any order
  for (const auto& [number, factor] : sum.terms) terms += mixed(atom(number).hash, factor);
  return mixed(terms, sum.constant);
}

std::string Values::text(const Sum& sum, int depth) const {
  auto atom_text = [&](const Atom& a) -> std::string {
    switch (a.kind) {
      case Atom::Kind::special:
        return a.name;
      case Atom::Kind::address:
        return label(a);
      case Atom::Kind::parameter:
        if (a.name == "parameter") return fmt::format("parameter {}", a.inputs[0].constant);
        break;
      case Atom::Kind::stage:
        return fmt::format("stage({})", a.inputs[1].constant);
      case Atom::Kind::counter:
        return depth > 0 ? fmt::format("counter({}, +{})", text(a.inputs[0], depth - 1), a.inputs[1].constant)
                         : "counter";
      default:
        break;
    }
    if (a.inputs.empty()) return a.name;
    if (depth <= 0) return a.name + "(...)";
    std::vector<std::string> inputs;
    for (const Sum& input : a.inputs) inputs.push_back(text(input, depth - 1));
    if (a.kind == Atom::Kind::meet) std::sort(inputs.begin(), inputs.end());
    return fmt::format("{}({})", a.name, fmt::join(inputs, ", "));
  };
  std::vector<std::string> parts;
  for (const auto& [number, factor] : sum.terms) {
    const std::string a = atom_text(atom(number));
    parts.push_back(factor == 1 ? a : fmt::format("{} {}", factor, a));
  }
  std::sort(parts.begin(), parts.end());
  if (sum.constant != 0 || parts.empty()) parts.push_back(fmt::format("{}", sum.constant));
  return fmt::format("{}", fmt::join(parts, " + "));
}

}  // namespace ptxbuilder::analysis
