#include "ptxbuilder/plan/bank_conflicts.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ptxbuilder/isa/banks.h"

namespace ptxbuilder {
namespace {

int wavefronts_of(const ThreadAccess& access, int bytes, int first_thread, int lanes, int number) {
  std::vector<int64_t> addresses;
  for (int lane = 0; lane < lanes; ++lane) addresses.push_back(access.address(first_thread + lane, number));
  return hopper::wavefronts(addresses, bytes);
}

TransferPlan plan(CopyAtom::Kind matrix, DType type, const Layout& thread_value, const ComposedLayout& memory,
                  std::string_view operation) {
  std::vector<CopyAtom> atoms;
  for (int matrices : {4, 2, 1})
    for (bool transposed : {false, true})
      atoms.push_back(matrix == CopyAtom::Kind::stmatrix ? CopyAtom::stmatrix(matrices, transposed)
                                                         : CopyAtom::ldmatrix(matrices, transposed));
  for (int bytes = 16; bytes >= size_of(type); bytes /= 2) atoms.push_back(CopyAtom::vector(bytes));

  std::optional<TransferPlan> best;
  std::string narrowest;  // why the last candidate does not fit
  for (const CopyAtom& atom : atoms) {
    try {
      TransferPlan candidate{TiledCopy(atom, type, thread_value, memory), {}};
      candidate.cost = access_cost(candidate.copy);
      auto rank_of = [](const TransferPlan& p) { return std::pair(p.cost.wavefronts, p.copy.accesses()); };
      if (!best || rank_of(candidate) < rank_of(*best)) best = std::move(candidate);
    } catch (const Error& e) {
      narrowest = e.what();
    }
  }
  if (!best)
    throw Error(fmt::format("{}: no instruction moves {} {} to {}; {}", operation, name(type),
                            to_string(thread_value), to_string(memory), narrowest));
  return *best;
}

}  // namespace

AccessCost access_cost(const ThreadAccess& access, int bytes, int matrices) {
  const int lanes = hopper::phase_lanes(matrices > 0 ? 16 : bytes);
  const int used = matrices > 0 ? 8 * matrices : hopper::warp_threads;  // lanes that provide addresses
  AccessCost cost;
  for (int warp = 0; warp < access.threads(); warp += hopper::warp_threads)
    for (int i = 0; i < access.accesses(); ++i)
      for (int lane = 0; lane < used && warp + lane < access.threads(); lane += lanes) {
        const int count = std::min(lanes, access.threads() - warp - lane);
        const int wavefronts = wavefronts_of(access, bytes, warp + lane, count, i);
        ++cost.phases;
        cost.wavefronts += wavefronts;
        if (wavefronts <= cost.ways) continue;
        cost.ways = wavefronts;
        if (wavefronts > 1)
          cost.worst = fmt::format("threads {} to {}, access {}: {} wavefronts", warp + lane,
                                   warp + lane + count - 1, i, wavefronts);
      }
  return cost;
}

AccessCost access_cost(const TiledCopy& copy) {
  return access_cost(copy.access(), copy.atom().bytes(),
                     copy.atom().is_matrix() ? copy.atom().matrices() : 0);
}

ThreadAccess with_fewest_conflicts(const ThreadAccess& access, int bytes) {
  ThreadAccess best = access;
  AccessCost least = access_cost(access, bytes);
  for (int access_bit = 1; access_bit < access.accesses(); access_bit *= 2)
    for (int thread_bit = 1; thread_bit < hopper::warp_threads && least.conflicts() > 0; thread_bit *= 2)
      if (auto exchanged = access.exchanged({thread_bit, access_bit}))
        if (AccessCost cost = access_cost(*exchanged, bytes); cost.wavefronts < least.wavefronts) {
          best = std::move(*exchanged);
          least = std::move(cost);
        }
  return best;
}

void check_conflict_free(const TiledCopy& copy, Where where) {
  CallersLine line(where);
  AccessCost cost = access_cost(copy);
  if (cost.conflicts() == 0) return;
  throw Error(
      fmt::format("{}: there are {} bank conflicts in {} phases ({}); {} needs another swizzle or layout",
                  copy.describe(), cost.conflicts(), cost.phases, cost.worst, to_string(copy.memory())));
}

TransferPlan plan_store(DType type, const Layout& thread_value, const ComposedLayout& memory, Where where) {
  CallersLine line(where);
  return plan(CopyAtom::Kind::stmatrix, type, thread_value, memory, "plan_store");
}

TransferPlan plan_load(DType type, const Layout& thread_value, const ComposedLayout& memory, Where where) {
  CallersLine line(where);
  return plan(CopyAtom::Kind::ldmatrix, type, thread_value, memory, "plan_load");
}

}  // namespace ptxbuilder
