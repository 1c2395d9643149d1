#include "ptxbuilder/tile/bank_conflicts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>

namespace ptxbuilder {
namespace {

constexpr int kBanks = 32, kBankBytes = 4, kPhaseBytes = kBanks * kBankBytes, kWarp = 32;

// Wavefronts of one phase: the most different words of a bank.
int wavefronts_of(const TiledCopy& copy, int first_thread, int lanes, int access) {
  std::array<std::set<int64_t>, kBanks> words;
  for (int lane = 0; lane < lanes; ++lane) {
    const int64_t address = copy.address(first_thread + lane, access);
    for (int64_t byte = 0; byte < copy.atom().bytes(); ++byte) {
      const int64_t word = (address + byte) / kBankBytes;
      words[static_cast<size_t>(word % kBanks)].insert(word);
    }
  }
  size_t most = 0;
  for (const auto& bank : words) most = std::max(most, bank.size());
  return static_cast<int>(most);
}

TransferPlan plan(CopyAtom::Kind matrix, DType type, const Layout& thread_value, const ComposedLayout& memory,
                  std::string_view operation, Where where) {
  std::vector<CopyAtom> atoms;
  for (int matrices : {4, 2, 1})
    for (bool transposed : {false, true})
      atoms.push_back(matrix == CopyAtom::Kind::stmatrix ? CopyAtom::stmatrix(matrices, transposed)
                                                         : CopyAtom::ldmatrix(matrices, transposed));
  for (int bytes = 16; bytes >= size_of(type); bytes /= 2) atoms.push_back(CopyAtom::vector(bytes));

  std::optional<TransferPlan> best;
  std::string narrowest;  // why the last one does not fit
  for (const CopyAtom& atom : atoms) {
    try {
      TransferPlan candidate{TiledCopy(atom, type, thread_value, memory, where), {}};
      candidate.cost = access_cost(candidate.copy);
      auto rank_of = [](const TransferPlan& p) { return std::pair(p.cost.wavefronts, p.copy.accesses()); };
      if (!best || rank_of(candidate) < rank_of(*best)) best = std::move(candidate);
    } catch (const Error& e) {
      narrowest = e.what();
    }
  }
  if (!best)
    throw Error(where, fmt::format("{}: no instruction moves {} {} to {}; {}", operation, name(type),
                                   to_string(thread_value), to_string(memory), narrowest));
  return *best;
}

}  // namespace

AccessCost access_cost(const TiledCopy& copy) {
  const CopyAtom& atom = copy.atom();
  const int lanes = atom.is_matrix() ? 8 : std::min(kWarp, kPhaseBytes / atom.bytes());
  const int used = atom.is_matrix() ? 8 * atom.matrices() : kWarp;  // lanes whose addresses count
  AccessCost cost;
  for (int warp = 0; warp < copy.threads(); warp += kWarp)
    for (int access = 0; access < copy.accesses(); ++access)
      for (int lane = 0; lane < used && warp + lane < copy.threads(); lane += lanes) {
        const int count = std::min(lanes, copy.threads() - warp - lane);
        const int wavefronts = wavefronts_of(copy, warp + lane, count, access);
        ++cost.phases;
        cost.wavefronts += wavefronts;
        if (wavefronts <= cost.ways) continue;
        cost.ways = wavefronts;
        if (wavefronts > 1)
          cost.worst = fmt::format("threads {} to {}, access {}: {} wavefronts", warp + lane,
                                   warp + lane + count - 1, access, wavefronts);
      }
  return cost;
}

void check_conflict_free(const TiledCopy& copy, Where where) {
  AccessCost cost = access_cost(copy);
  if (cost.conflicts() == 0) return;
  throw Error(
      where,
      fmt::format("{}: {} bank conflicts in {} phases ({}); {} needs another swizzle or layout",
                  copy.describe(), cost.conflicts(), cost.phases, cost.worst, to_string(copy.memory())));
}

TransferPlan plan_store(DType type, const Layout& thread_value, const ComposedLayout& memory, Where where) {
  return plan(CopyAtom::Kind::stmatrix, type, thread_value, memory, "plan_store", where);
}

TransferPlan plan_load(DType type, const Layout& thread_value, const ComposedLayout& memory, Where where) {
  return plan(CopyAtom::Kind::ldmatrix, type, thread_value, memory, "plan_load", where);
}

}  // namespace ptxbuilder
