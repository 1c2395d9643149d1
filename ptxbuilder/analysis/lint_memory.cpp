// Rules about addresses: addresses must be aligned, the addresses of a warp should not cause bank conflicts,
// and accesses should name their state space.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ptxbuilder/analysis/lint_accesses.h"
#include "ptxbuilder/analysis/lint_kernel.h"
#include "ptxbuilder/isa/banks.h"

namespace ptxbuilder::analysis {
namespace {

bool is_shared(const Operation& o) { return o.in_shared(); }
bool is_matrix_move(const Operation& o) { return o.is("ldmatrix", "stmatrix"); }
bool is_access(const Operation& o) { return o.is("ld", "st"); }

int matrices_of(const Operation& o) { return o.has("x4") ? 4 : o.has("x2") ? 2 : 1; }

// Returns the number of lanes whose addresses are used.
int lanes_of(const Operation& o) { return is_matrix_move(o) ? 8 * matrices_of(o) : hopper::warp_threads; }

// An address that must be a multiple of a number of bytes.
struct Aligned {
  size_t place;  // index of the address among the operands that are addresses
  int64_t bytes;
};

std::vector<Aligned> alignments(LintKernel& kernel, int i) {
  const Operation& o = kernel.operation(i);
  if (is_access(o)) return {{0, access_bytes(o)}};
  if (is_matrix_move(o)) return {{0, matrix_row}};
  if (o.is("mbarrier")) return {{0, 8}};
  if (!o.is("cp") || !o.has("async")) return {};
  if (o.has("tensor")) {
    const bool loads = o.has("mbarrier::complete_tx::bytes");
    if (loads) return {{0, hopper::tensor_shared_alignment}};
    if (o.has("prefetch")) return {};
    return {{1, hopper::tensor_shared_alignment}};
  }
  if (o.has("bulk") && o.has("prefetch")) return {};
  if (o.has("bulk") && o.operands.size() >= 3) return {{0, hopper::bulk_unit}, {1, hopper::bulk_unit}};
  if (const Sum bytes = kernel.operand(i, 2); o.operands.size() >= 3 && bytes.is_constant())
    return {{0, bytes.constant}, {1, bytes.constant}};
  return {};
}

// Returns the greatest power of two that is known to divide an atom's value.
int64_t least_alignment(const Values& values, int number) {
  const Atom& a = values.atom(number);
  const auto of_sum = [&](const Sum& sum) {
    int64_t all = sum.constant;
    for (const auto& [inner, factor] : sum.terms)
      all = std::gcd(all, factor * least_alignment(values, inner));
    return all & -all;
  };
  if (a.name.starts_with("and") && a.inputs.size() == 2 && a.inputs[1].is_constant())
    return a.inputs[1].constant & -a.inputs[1].constant;
  if (a.kind == Atom::Kind::counter)
    return std::gcd(of_sum(a.inputs[0]), a.inputs[1].constant & -a.inputs[1].constant);
  return 1;
}

// Returns the remainder of an address divided by `bytes`, or nothing unless the unknown terms of the address
// are multiples of `bytes`.
std::optional<int64_t> off_by(LintKernel& kernel, const Sum& address, int64_t bytes, ThreadValues& in) {
  const Sum rest = in.rest(address);
  for (const auto& [number, factor] : rest.terms) {
    if (kernel.values.atom(number).kind == Atom::Kind::address) continue;
    if (factor * least_alignment(kernel.values, number) % bytes != 0) return std::nullopt;
  }
  return ((rest.constant % bytes) + bytes) % bytes;
}

// Returns the variable whose address is a term of an address, or null if there is none.
const Variable* base_of(const LintKernel& kernel, const Sum& address) {
  for (const auto& [number, factor] : address.terms)
    if (const Variable* v = factor == 1 ? kernel.variable_of(kernel.values.atom(number)) : nullptr) return v;
  return nullptr;
}

// Returns the alignment of a variable's address in bytes. If a kernel has only one shared variable, it begins
// at the start of shared memory.
int64_t alignment_of(const LintKernel& kernel, const Variable& v) {
  constexpr int64_t kStart = 1024;
  const bool is_alone = v.is_open() && v.space == ".shared" && kernel.shared_variables.size() == 1;
  return is_alone ? std::max<int64_t>(v.align, kStart) : v.align;
}

// Returns the addresses of the lanes relative to the first lane, without terms that are equal in all lanes.
// Returns an empty list if an address is not known.
std::vector<int64_t> lane_addresses(LintKernel& kernel, const Sum& address, int64_t first, int lanes) {
  std::vector<int64_t> all;
  std::vector<std::pair<int, int64_t>> same;
  kernel.spend(at(lanes));
  for (int64_t t = first; t < first + lanes; ++t) {
    const Sum rest = kernel.values_in(t).rest(address);
    if (!kernel.is_uniform(rest) || (t > first && rest.terms != same)) return {};
    same = rest.terms;
    all.push_back(rest.constant);
  }
  const int64_t least = all.empty() ? 0 : *std::min_element(all.begin(), all.end());
  const int64_t bank_row = hopper::banks * hopper::bank_bytes;
  const int64_t base = least - ((least % bank_row) + bank_row) % bank_row;
  for (int64_t& a : all) a -= base;
  return all;
}

// The greatest number of wavefronts of a phase of an access, in the first warp that executes the access with
// all lanes.
struct Conflict {
  int ways = 1;
  int64_t first = 0;
  int lanes = 0;
};
std::optional<Conflict> conflict_of(LintKernel& kernel, int i) {
  const Operation& o = kernel.operation(i);
  const int64_t bytes = is_matrix_move(o) ? matrix_row : access_bytes(o);
  const std::vector<Sum> addresses = kernel.addresses(i);
  if (bytes <= 0 || bytes > matrix_row || addresses.empty()) return std::nullopt;
  const std::map<int64_t, int> lanes_that_run = kernel.lanes_that_run(i);  // number of lanes of each warp
  std::optional<Conflict> worst;
  for (const auto& [warp, lanes] : lanes_that_run) {
    if (lanes < hopper::warp_threads) continue;
    const int step = hopper::phase_lanes(static_cast<int>(bytes));
    const int64_t first = warp * hopper::warp_threads;
    const std::vector<int64_t> all = lane_addresses(kernel, addresses[0], first, lanes_of(o));
    for (int lane = 0; lane < static_cast<int>(all.size()); lane += step) {
      const int count = std::min(step, static_cast<int>(all.size()) - lane);
      const int ways =
          hopper::wavefronts(std::span(all).subspan(at(lane), at(count)), static_cast<int>(bytes));
      if (ways > (worst ? worst->ways : 1)) worst = Conflict{ways, first + lane, count};
    }
    if (worst) return worst;
  }
  return worst;
}

// Returns whether there is a warp in which all lanes execute an access, and in which the addresses are known
// except for terms that are equal in all lanes.
bool knows_lanes(LintKernel& kernel, int i) {
  const Operation& o = kernel.operation(i);
  const std::vector<Sum> addresses = kernel.addresses(i);
  for (const auto& [warp, lanes] : kernel.lanes_that_run(i))
    if (lanes == hopper::warp_threads && !addresses.empty())
      return !lane_addresses(kernel, addresses[0], warp * hopper::warp_threads, lanes_of(o)).empty();
  return kernel.threads > 0;
}

}  // namespace

void check_alignment(LintKernel& kernel, Report& report) {
  for (int i = 0; i < kernel.count(); ++i) {
    const Operation& o = kernel.operation(i);
    const std::vector<Sum> addresses = kernel.addresses(i);
    for (const auto& [place, bytes] : alignments(kernel, i)) {
      if (place >= addresses.size() || bytes <= 1) continue;
      const Sum& address = addresses[place];
      const Variable* base = base_of(kernel, address);
      const size_t in_shared = o.is("cp") && !o.is_bulk_load() && !is_thread_copy(o) ? 1 : 0;
      if (!base && is_shared(o) && place == in_shared) report.undecided(i, "the variable of this address");
      if (!base) continue;
      if (alignment_of(kernel, *base) < bytes) {
        report.add(i,
                   fmt::format("an address must be a multiple of {} bytes, but its variable is aligned to {}",
                               bytes, base->align));
        continue;
      }
      for (const ThreadClass& c : kernel.classes) {
        if (c.runs[at(i)] == Runs::no) continue;
        std::vector<int64_t> some = c.threads;
        if (some.empty()) some = {kNone};
        if (kernel.is_uniform(address)) some.resize(1);
        kernel.spend(some.size());
        for (int64_t t : some)
          if (const auto off = off_by(kernel, address, bytes, kernel.values_in(t)); off && *off != 0)
            report.add(i, fmt::format("{} needs a multiple of {} bytes, but {} is {} bytes past a multiple",
                                      o.text->opcode, bytes, kernel.values.text(address, 2), *off));
      }
    }
  }
}

void check_bank_conflicts(LintKernel& kernel, Report& report) {
  for (int i = 0; i < kernel.count(); ++i) {
    const Operation& o = kernel.operation(i);
    if (!(is_access(o) || is_matrix_move(o)) || !is_shared(o) || !kernel.runs(i)) continue;
    if (report.tells_undecided() && !knows_lanes(kernel, i))
      report.undecided(i, "the addresses of the lanes of a warp");
    if (const auto conflict = conflict_of(kernel, i))
      report.add(i, fmt::format("{}: {} lanes from thread {} on need {} wavefronts instead of 1",
                                o.text->opcode, conflict->lanes, conflict->first, conflict->ways));
  }
}

void check_generic(LintKernel& kernel, Report& report) {
  for (int i = 0; i < kernel.count(); ++i) {
    const Operation& o = kernel.operation(i);
    if (!is_access(o) && !o.is("atom") && !o.is("red")) continue;
    const bool is_said = std::any_of(o.words.begin(), o.words.end(), [](std::string_view word) {
      for (const char* space : {"shared", "global", "local", "param", "const"})
        if (word.starts_with(space)) return true;
      return false;
    });
    const std::vector<Sum> addresses = kernel.addresses(i);
    if (is_said || addresses.empty()) continue;
    for (const auto& [number, factor] : addresses[0].terms)
      if (const Atom& a = kernel.values.atom(number); a.kind == Atom::Kind::address && factor == 1)
        for (const char* space : {"shared", "global", "local", "const"})
          if (a.name == space)
            report.add(i, fmt::format("{} has a generic address of a .{} variable", o.text->opcode, space));
  }
}

}  // namespace ptxbuilder::analysis
